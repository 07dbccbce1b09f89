package daemon

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
)

// meters are what is counted as it happens. What it remembers beside the
// counters is what is open, and goes when that is closed.
type meters struct {
	labels labels
	latest func() *slurm.Snapshot // the last reading of Slurm; nil: none yet

	orders                    *prometheus.CounterVec
	launches                  *prometheus.CounterVec
	launched                  *prometheus.CounterVec
	boots                     *prometheus.CounterVec
	bootSeconds               *prometheus.HistogramVec
	notices                   *prometheus.CounterVec
	lead                      *prometheus.HistogramVec
	checkpoints               *prometheus.CounterVec
	requeues                  *prometheus.CounterVec
	lost                      *prometheus.CounterVec
	iterations                *prometheus.CounterVec
	actions                   *prometheus.CounterVec
	events                    *prometheus.CounterVec
	capped, capSpent, capHeld *prometheus.GaugeVec
	spent                     *prometheus.CounterVec
	rate                      *prometheus.GaugeVec
	unpriced                  *prometheus.GaugeVec

	mu         sync.Mutex
	openOrders map[string]power.OrderKind
	ending     map[string]time.Time // instance -> since when it is being ended, as far as this burstd knows
	open       map[noticeKey]openNotice
	moving     map[uint32]*attempt
	died       map[uint32]int // job -> restarts of the attempt whose node died
	kinds      map[string]bool
	booked     map[string]float64 // pool -> USD, may fall when a booking is corrected
	told       map[string]float64 // pool -> USD in spent
	cost       cost
}

type noticeKey struct {
	instance string
	kind     cloud.NoticeKind
}

type openNotice struct {
	stage    ft.Stage
	source   string
	deadline time.Time
}

// What a counter's label can be, so that each has its series from the start:
// Prometheus sees no increase from nothing.
var (
	orderKinds    = []power.OrderKind{power.Resume, power.Suspend, power.ResumeFail}
	orderOutcomes = []string{"accepted", "repeated", "failed", "settled"}
	noticeKinds   = []cloud.NoticeKind{cloud.SpotInterruption, cloud.Rebalance, cloud.Maintenance}
	noticeSources = []string{"local", "imds", "sqs", "drill"}
	launchResults = []string{"ok", string(cloud.Capacity), string(cloud.Quota), string(cloud.Throttled), string(cloud.Invalid), string(cloud.Auth), string(cloud.Transient)}
	checkpointEnd = []string{"asked", "left", "saved", "unsaved", "grace-over", "finished", "ended"}
	requeueCauses = []string{"notice", "died"}
	lostCauses    = []string{"no-signal", "grace-over", "since-checkpoint", "died"}
	moments       = []string{"signalled", "free"}
)

// noticeKind and noticeSource are labels: those of clouds, and the site's own.
func noticeKind(k cloud.NoticeKind) string {
	if k == ft.Spent {
		return string(k)
	}
	return among(k, noticeKinds...)
}

func noticeSource(n cloud.Notice) string {
	if n.Kind == ft.Spent {
		return sourceAtCap
	}
	return among(n.Source, noticeSources...)
}

func newMeters(pools []config.Pool, latest func() *slurm.Snapshot) *meters {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	m := &meters{latest: latest, labels: labels{map[string]bool{}, map[string]map[offeringLabels]bool{}},
		orders:   counter("burst_orders_total", "Orders of Slurm, by kind and what became of them.", "kind", "outcome"),
		launches: counter("burst_launches_total", "Answers to launches, by what was asked for and the result.", "pool", "type", "zone", "market", "result"),
		launched: counter("burst_launched_instances_total", "Instances that launches have brought.", "pool", "type", "zone", "market"),
		boots:    counter("burst_boots_total", "Nodes' ways up that have ended, by outcome.", "pool", "outcome"),
		bootSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "burst_boot_seconds",
			Help: "Seconds from Slurm's order until the node was registered.", Buckets: bootBuckets}, []string{"pool"}),
		notices: counter("burst_notices_total", "Notices of clouds, by kind, source and what became of them.", "kind", "source", "outcome"),
		lead: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "burst_notice_lead_seconds",
			Help:    "Seconds left of a notice's lead time when a job had its signal, and when the node was free of jobs; 0 if it was over.",
			Buckets: []float64{0, 1, 5, 10, 20, 30, 45, 60, 90, 110, 120, 300, 3600, 86400}}, []string{"kind", "moment"}),
		checkpoints: counter("burst_checkpoints_total", "Attempts of jobs that were asked to save their work, by a signal or through burst-srun, and how they ended.", "outcome"),
		requeues:    counter("burst_requeues_total", "Attempts of jobs that were requeued because their node went.", "cause"),
		lost:        counter("burst_work_lost_seconds_total", "Run time of attempts that were requeued without a sign that they had saved their work.", "cause"),
		iterations:  counter("burst_iterations_lost_total", "Iterations of applications that count them, that were computed again after their job was requeued.", "cause"),
		actions:     counter("burst_reconcile_actions_total", "What rounds of reconciliation have mended, by kind.", "action"),
		events:      counter("burst_events_total", "Events of the history, by kind.", "kind"),
		spent:       counter("burst_spend_usd_total", "What the ledger has booked since burstd started, in USD, of instances with a known price.", "pool"),
		rate:        gauge("burst_spend_usd_per_hour", "What the live instances with a known price cost, in USD per hour.", "pool", "market"),
		capped:      gauge("burst_budget_cap_usd", "The cluster's caps in USD, by the length of their period.", "kind"),
		capSpent:    gauge("burst_budget_spent_usd", "What the ledger has booked in the present period of each cap of the cluster.", "kind"),
		capHeld:     gauge("burst_budget_committed_usd", "What the instances and launches of now can still cost in the present period of each cap of the cluster, by the time limits of their jobs.", "kind"),
		unpriced:    gauge("burst_instances_unpriced", "Live instances of which the price is not known.", "pool"),
		openOrders:  map[string]power.OrderKind{}, ending: map[string]time.Time{}, open: map[noticeKey]openNotice{},
		moving: map[uint32]*attempt{}, died: map[uint32]int{}, kinds: map[string]bool{}, booked: map[string]float64{}, told: map[string]float64{},
	}
	for _, p := range pools {
		m.labels.pools[p.Power.Name] = true
		if m.labels.offerings[p.Power.Name] == nil {
			m.labels.offerings[p.Power.Name] = map[offeringLabels]bool{}
		}
		for _, o := range p.Power.Fleet.Offerings() {
			m.labels.offerings[p.Power.Name][offeringLabels{o.Type, o.Zone, string(o.Market)}] = true
		}
	}
	m.prepare()
	return m
}

// prepare gives every counter that alerts look at its series.
func (m *meters) prepare() {
	m.costs(ledger.Input{})
	m.cost = cost{} // nobody has looked yet
	for _, k := range orderKinds {
		for _, o := range orderOutcomes {
			m.orders.WithLabelValues(string(k), o)
		}
	}
	for _, k := range noticeKinds {
		for _, s := range noticeSources {
			for _, o := range noticeOutcomes {
				m.notices.WithLabelValues(string(k), s, o)
			}
		}
		for _, at := range moments {
			m.lead.WithLabelValues(string(k), at)
		}
	}
	for pool := range m.labels.pools {
		for _, o := range []string{"up", "failed"} {
			m.boots.WithLabelValues(pool, o)
		}
		m.bootSeconds.WithLabelValues(pool)
		m.spent.WithLabelValues(pool)
		for o := range m.labels.offerings[pool] {
			m.launched.WithLabelValues(pool, o.instanceType, o.zone, o.market)
			for _, r := range launchResults {
				m.launches.WithLabelValues(pool, o.instanceType, o.zone, o.market, r)
			}
		}
	}
	for _, o := range checkpointEnd {
		m.checkpoints.WithLabelValues(o)
	}
	for _, c := range requeueCauses {
		m.requeues.WithLabelValues(c)
	}
	for _, c := range lostCauses {
		m.lost.WithLabelValues(c)
	}
	for _, c := range []string{"since-checkpoint", "died"} {
		m.iterations.WithLabelValues(c)
	}
	for _, k := range []string{"died", "gone", "boot-failed", "terminate", "evicted", "requeue", "pool-stopped", "job-waits"} {
		m.event(k)
	}
}

func (m *meters) register(reg prometheus.Registerer) {
	reg.MustRegister(m.orders, m.launches, m.launched, m.boots, m.bootSeconds, m.notices, m.lead, m.checkpoints,
		m.requeues, m.lost, m.iterations, m.actions, m.events, m.spent, m.rate, m.unpriced, m.capped, m.capSpent, m.capHeld)
}

// maxKinds bounds the kinds of events: they are constants of ours, and fewer.
const maxKinds = 100

// event is the counter of a kind of events.
func (m *meters) event(kind string) prometheus.Counter {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.kinds[kind] {
		if len(m.kinds) >= maxKinds {
			kind = other
		}
		m.kinds[kind] = true
	}
	return m.events.WithLabelValues(kind)
}

// oldestEnding is for how long the oldest of the instances that are being
// ended has been.
func (m *meters) oldestEnding(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	var oldest time.Duration
	for _, since := range m.ending {
		oldest = max(oldest, now.Sub(since))
	}
	return oldest
}

// Tried counts a launch's answer: what came of each offering, and what the
// errors say of those they are about.
func (m *meters) Tried(l power.Launch, got []cloud.Instance, err error) {
	pool := l.Request.Pool
	labelsOf := func(o cloud.Offering) offeringLabels {
		return m.labels.offering(pool, offeringLabels{o.Type, o.Zone, string(o.Market)})
	}
	name := m.labels.pool(pool)
	came := map[offeringLabels]bool{}
	for _, i := range got {
		o := labelsOf(i.Offering)
		m.launched.WithLabelValues(name, o.instanceType, o.zone, o.market).Inc()
		if !came[o] {
			came[o] = true
			m.launches.WithLabelValues(name, o.instanceType, o.zone, o.market, "ok").Inc()
		}
	}
	if err == nil {
		return
	}
	type refusal struct {
		offeringLabels
		result string
	}
	said := map[refusal]bool{}
	refused := func(o cloud.Offering, kind cloud.Kind) {
		if o == (cloud.Offering{}) {
			o = l.Request.Offering // of several, the one that was preferred stands for all
		}
		r := refusal{labelsOf(o), among(string(kind), launchResults...)}
		if !said[r] {
			said[r] = true
			m.launches.WithLabelValues(name, r.instanceType, r.zone, r.market, r.result).Inc()
		}
	}
	all := cloud.Errors(err)
	for _, e := range all {
		refused(e.Offering, e.Kind)
	}
	if len(all) == 0 {
		refused(cloud.Offering{}, cloud.KindOf(err))
	}
}
