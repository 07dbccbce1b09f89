package daemon

import (
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm/power"
)

// collector reads the daemon's state when Prometheus asks. It reads memory
// and the size of files: neither the journal nor Slurm nor a cloud.
type collector struct{ d *Daemon }

var (
	descBuild     = prometheus.NewDesc("burst_build_info", "1, with the version of burstd.", []string{"version"}, nil)
	descNodes     = prometheus.NewDesc("burst_nodes", "Nodes of ours by the journal's phase.", []string{"phase"}, nil)
	descInstances = prometheus.NewDesc("burst_instances", "Instances that may cost money, by pool and market.", []string{"pool", "market"}, nil)
	descEnding    = prometheus.NewDesc("burst_instances_ending", "Instances that are being ended, by pool.", []string{"pool"}, nil)
	descStrays    = prometheus.NewDesc("burst_instances_without_node", "Instances that serve no node and are not being ended, by pool.", []string{"pool"}, nil)
	descOldest    = prometheus.NewDesc("burst_ending_oldest_seconds", "For how long the oldest of the instances that are being ended has been; 0 without one.", nil, nil)
	descOrders    = prometheus.NewDesc("burst_orders_open", "Orders of Slurm that are not settled.", nil, nil)
	descNotices   = prometheus.NewDesc("burst_notices_active", "Notices that are being acted upon.", nil, nil)
	descOverdue   = prometheus.NewDesc("burst_notice_overdue_seconds", "For how long the deadline of a spot interruption has been over that is still being acted upon: the longest; 0 without one.", nil, nil)
	descAgents    = prometheus.NewDesc("burst_agents", "Nodes that are up, by what is known of them: their agent is heard, it was and is silent, it has never been heard since burstd started, or they are sick.", []string{"state"}, nil)
	descFences    = prometheus.NewDesc("burst_fences", "Attempts of jobs that may still run on an instance that Slurm has given up: their next attempts wait for its end.", nil, nil)
	descSessions  = prometheus.NewDesc("burst_sessions", "Steps of jobs whose burst-srun has a session open.", nil, nil)
	descAsked     = prometheus.NewDesc("burst_requests_open", "Jobs that were asked for a checkpoint, or to end, and have not done so.", nil, nil)
	descForeign   = prometheus.NewDesc("burst_notices_foreign_total", "Notices for instances that served no node.", nil, nil)
	descRequests  = prometheus.NewDesc("burst_node_requests_total", "Requests of nodes and of burst-sruns, by their outcome.", []string{"outcome"}, nil)
	descSlurm     = prometheus.NewDesc("burst_slurm_up", "1 if the last reading of Slurm succeeded.", nil, nil)
	descStopped   = prometheus.NewDesc("burst_pool_stopped", "1 if the pool is stopped and launches nothing.", []string{"pool"}, nil)
	descFailures  = prometheus.NewDesc("burst_boot_failures", "Instances in a row that did not become nodes.", []string{"pool"}, nil)
	descPaused    = prometheus.NewDesc("burst_paused", "1 if an admin has paused all launches.", nil, nil)
	descWaiting   = prometheus.NewDesc("burst_jobs_waiting", "Jobs whose nodes could not be had, and that are tried again later.", nil, nil)
	descProvider  = prometheus.NewDesc("burst_provider_up", "1 if the provider's last call succeeded.", []string{"provider"}, nil)
	descCalls     = prometheus.NewDesc("burst_cloud_calls_total", "Calls of a cloud's API, by operation and result.", []string{"provider", "operation", "result"}, nil)
	descMessages  = prometheus.NewDesc("burst_cloud_messages_total", "Messages that a cloud has sent, by source and what they were.", []string{"provider", "source", "result"}, nil)
	descFree      = prometheus.NewDesc("burst_state_free_bytes", "Free bytes of the file system that has the journal.", nil, nil)
	descSize      = prometheus.NewDesc("burst_state_size_bytes", "Size of the file system that has the journal.", nil, nil)
	descJournal   = prometheus.NewDesc("burst_journal_size_bytes", "Size of the journal and its write-ahead log.", nil, nil)
)

// phases are all a node can have: each has a series, also with no node in it.
var phases = []power.Phase{power.Wanted, power.Launching, power.Booting, power.Up, power.Freeing}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descBuild, descNodes, descInstances, descEnding, descStrays, descOldest, descOrders, descNotices, descOverdue, descAgents, descFences, descForeign, descRequests, descSessions, descAsked,
		descSlurm, descPaused, descWaiting, descStopped, descFailures, descProvider, descCalls, descMessages, descFree, descSize, descJournal} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := sink(ch)
	h := c.d.engine.Health()
	s.gauge(descBuild, 1, c.d.version)
	s.nodes(h, c.d.meters.labels)
	s.gauge(descOrders, float64(h.Orders))
	s.gauge(descOldest, c.d.meters.oldestEnding(time.Now()).Seconds())
	for name, bad := range h.Providers {
		s.gauge(descProvider, boolFloat(bad == ""), name)
	}
	for name, b := range h.Breakers {
		s.gauge(descStopped, boolFloat(!b.Stopped.IsZero()), name)
		s.gauge(descFailures, float64(b.Failures), name)
	}
	since, _, _ := c.d.engine.Paused()
	s.gauge(descPaused, boolFloat(!since.IsZero()))
	s.gauge(descWaiting, float64(len(h.Holds)))
	s.gauge(descOverdue, c.d.meters.overdue(time.Now()).Seconds())
	s.gauge(descFences, float64(h.Fences))
	sessions, asked := c.d.hub.Count()
	s.gauge(descSessions, float64(sessions))
	s.gauge(descAsked, float64(asked))
	agents := c.d.health.Count()
	s.gauge(descAgents, float64(agents.Heard), "heard")
	s.gauge(descAgents, float64(agents.Silent), "silent")
	s.gauge(descAgents, float64(agents.Never), "never")
	s.gauge(descAgents, float64(agents.Sick), "sick")
	active, foreign := c.d.guard.Active()
	s.gauge(descNotices, float64(active))
	s.counter(descForeign, uint64(foreign))
	for outcome, n := range c.d.nodeRequests() {
		s.counter(descRequests, n, outcome)
	}
	s.gauge(descSlurm, boolFloat(c.d.slurmError() == nil))
	for name, p := range c.d.providers {
		if m, ok := p.(cloud.Meter); ok {
			s.counts(name, m.Counts())
		}
	}
	s.disk(c.d.cfg.Endpoint.State, c.d.cfg.Endpoint.DB())
}

// sink takes the metrics of one scrape.
type sink chan<- prometheus.Metric

func (s sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s sink) counter(d *prometheus.Desc, n uint64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

// nodes tells of nodes and instances, also of what there is none of.
func (s sink) nodes(h power.Health, known labels) {
	of, byPhase := map[string]string{}, map[string]int{}
	for _, n := range h.Nodes {
		of[n.Name] = n.Instance
		byPhase[among(n.Phase, phases...)]++
	}
	for _, p := range phases {
		s.gauge(descNodes, float64(byPhase[string(p)]), string(p))
	}
	live, ending, strays := map[poolMarket]int{}, map[string]int{}, map[string]int{}
	for _, name := range known.andOther() {
		ending[name], strays[name] = 0, 0
		for _, market := range markets {
			live[poolMarket{name, market}] = 0
		}
	}
	for _, i := range h.Instances {
		pool := known.pool(i.Pool)
		live[poolMarket{pool, cloud.Market(among(i.Offering.Market, markets...))}]++
		switch {
		case i.Doomed != "":
			ending[pool]++
		case i.Assigned == "" || of[i.Assigned] != i.ID:
			strays[pool]++
		}
	}
	for k, n := range live {
		s.gauge(descInstances, float64(n), k.pool, string(k.market))
	}
	for pool, n := range ending {
		s.gauge(descEnding, float64(n), pool)
	}
	for pool, n := range strays {
		s.gauge(descStrays, float64(n), pool)
	}
}

// counts tells what a provider has counted, each thing once.
func (s sink) counts(provider string, all []cloud.Count) {
	sums := map[cloud.Count]uint64{}
	for _, c := range all {
		n := c.N
		c.N = 0
		sums[c] += n
	}
	for c, n := range sums {
		switch c.What {
		case "api":
			s.counter(descCalls, n, provider, c.Which, c.Result)
		case "message":
			s.counter(descMessages, n, provider, c.Which, c.Result)
		}
	}
}

// disk tells how full the journal's disk is; what cannot be read is left out.
func (s sink) disk(state, journal string) {
	var fs unix.Statfs_t
	if err := unix.Statfs(state, &fs); err == nil {
		s.gauge(descFree, float64(fs.Bavail)*float64(fs.Bsize))
		s.gauge(descSize, float64(fs.Blocks)*float64(fs.Bsize))
	}
	size := int64(0)
	for _, path := range []string{journal, journal + "-wal"} {
		if info, err := os.Stat(path); err == nil {
			size += info.Size()
		}
	}
	s.gauge(descJournal, float64(size))
}

func boolFloat(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
