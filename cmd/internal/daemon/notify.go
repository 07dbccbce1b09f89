package daemon

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// hung is how long the engine's loop may take for one turn. Each command that a
// hung slurmctld does not answer takes its 30 s, and a turn may need several:
// that is no reason to be killed.
const hung = 10 * time.Minute

// notify tells systemd that burstd is ready, that it lives (as long as the
// engine's loop turns), and that it stops.
func (d *Daemon) notify(ctx context.Context) error {
	if _, err := sd.SdNotify(false, sd.SdNotifyReady); err != nil {
		d.log.Warn("systemd could not be told that burstd is ready", "error", err)
	}
	interval, err := sd.SdWatchdogEnabled(false)
	if err != nil {
		d.log.Warn("the watchdog's interval cannot be read", "error", err)
	}
	if interval > 0 {
		tick := time.NewTicker(interval / 3)
		defer tick.Stop()
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-tick.C:
				if time.Since(d.engine.Turned()) < max(interval, hung) {
					if _, err := sd.SdNotify(false, sd.SdNotifyWatchdog); err != nil {
						d.log.Warn("systemd's watchdog could not be told", "error", err)
					}
				}
			}
		}
	}
	<-ctx.Done()
	_, err = sd.SdNotify(false, sd.SdNotifyStopping)
	return err
}

// listenAgain is the pause before an address that is in use is tried again.
const listenAgain = 2 * time.Second

// serveMetrics serves /metrics on the configured address, if there is one. An
// address that is in use must not keep burstd from watching instances.
func (d *Daemon) serveMetrics(ctx context.Context) error {
	addr := d.cfg.Endpoint.Metrics
	if addr == "" {
		return nil
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), d.stages, &collector{d})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		d.log.Error("no metrics until their address is free", "error", err)
	}
	for err != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(listenAgain):
			ln, err = net.Listen("tcp", addr)
		}
	}
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// collector reads the daemon's state when Prometheus asks.
type collector struct{ d *Daemon }

var (
	descNodes     = prometheus.NewDesc("burst_nodes", "Nodes of ours by the journal's phase.", []string{"phase"}, nil)
	descInstances = prometheus.NewDesc("burst_instances", "Instances that may cost money, by pool and market.", []string{"pool", "market"}, nil)
	descOrders    = prometheus.NewDesc("burst_orders_open", "Orders of Slurm that are not settled.", nil, nil)
	descNotices   = prometheus.NewDesc("burst_notices_active", "Notices that are being acted upon.", nil, nil)
	descForeign   = prometheus.NewDesc("burst_notices_foreign_total", "Notices for instances that served no node.", nil, nil)
	descRequests  = prometheus.NewDesc("burst_node_requests_total", "Requests of booting nodes, by their outcome.", []string{"outcome"}, nil)
	descSlurm     = prometheus.NewDesc("burst_slurm_up", "1 if the last reading of Slurm succeeded.", nil, nil)
	descStopped   = prometheus.NewDesc("burst_pool_stopped", "1 if the pool is stopped and launches nothing.", []string{"pool"}, nil)
	descFailures  = prometheus.NewDesc("burst_boot_failures", "Instances in a row that did not become nodes.", []string{"pool"}, nil)
	descProvider  = prometheus.NewDesc("burst_provider_up", "1 if the provider's last call succeeded.", []string{"provider"}, nil)
)

// bootStages is the histogram's name.
const bootStages = "burst_boot_stage_seconds"

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descNodes, descInstances, descOrders, descNotices, descForeign, descRequests, descSlurm, descStopped, descFailures, descProvider} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	h := c.d.engine.Health()
	phases := map[string]int{}
	for _, n := range h.Nodes {
		phases[string(n.Phase)]++
	}
	for phase, n := range phases {
		gauge(descNodes, n, phase)
	}
	type key struct{ pool, market string }
	instances := map[key]int{}
	for _, i := range h.Instances {
		instances[key{i.Pool, string(i.Offering.Market)}]++
	}
	for k, n := range instances {
		gauge(descInstances, n, k.pool, k.market)
	}
	for name, bad := range h.Providers {
		gauge(descProvider, boolInt(bad == ""), name)
	}
	for name, b := range h.Breakers {
		gauge(descStopped, boolInt(!b.Stopped.IsZero()), name)
		gauge(descFailures, b.Failures, name)
	}
	gauge(descOrders, h.Orders)
	active, foreign := c.d.guard.Active()
	gauge(descNotices, active)
	ch <- prometheus.MustNewConstMetric(descForeign, prometheus.CounterValue, float64(foreign))
	for outcome, n := range c.d.nodeRequests() {
		ch <- prometheus.MustNewConstMetric(descRequests, prometheus.CounterValue, float64(n), outcome)
	}
	gauge(descSlurm, boolInt(c.d.slurmError() == nil))
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
