package daemon

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// listenAgain is the pause before an address that is in use is tried again.
const listenAgain = 2 * time.Second

// serveMetrics serves /metrics on the configured address, if there is one. An
// address that is in use must not keep burstd from watching instances.
func (d *Daemon) serveMetrics(ctx context.Context) error {
	addr := d.cfg.Endpoint.Metrics
	if addr == "" {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(d.registry(), promhttp.HandlerOpts{}))
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

// registry has all that Prometheus is told. A label's values are those of the
// configuration or of constants of ours, never a node, an instance, a job or an
// event: the number of series does not grow with what happens.
func (d *Daemon) registry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), d.stages, &collector{d})
	d.meters.register(reg)
	return reg
}

// labels bounds the values of labels that are read from records.
type labels struct {
	pools     map[string]bool
	offerings map[string]map[offeringLabels]bool // by pool
}

type offeringLabels struct{ instanceType, zone, market string }

// other stands for every value that is not among the known ones, as of a pool
// that has left the configuration.
const other = "other"

func (l labels) pool(name string) string {
	if l.pools[name] {
		return name
	}
	return other
}

// andOther lists the values of the label pool.
func (l labels) andOther() []string {
	return append(slices.Sorted(maps.Keys(l.pools)), other)
}

// offering is what a pool may buy, as it is written; without its zone if the
// pool names none.
func (l labels) offering(pool string, o offeringLabels) offeringLabels {
	known := l.offerings[pool]
	if known[o] {
		return o
	}
	if o.zone = ""; known[o] {
		return o
	}
	return offeringLabels{other, other, other}
}

// among is v if it is one of the known, else other.
func among[T ~string](v T, known ...T) string {
	for _, k := range known {
		if v == k {
			return string(v)
		}
	}
	return other
}
