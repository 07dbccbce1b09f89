package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/crash"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
)

var (
	noon  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	small = cloud.Offering{Type: "small", Zone: "a", Market: cloud.Spot}
)

// counted is what two pools' meters count, before a Slurm that a test sets.
type counted struct {
	*testing.T
	*meters
	snap *slurm.Snapshot
	reg  *prometheus.Registry
}

func newCounted(t *testing.T) *counted {
	t.Helper()
	pool := func(name string) config.Pool {
		return config.Pool{Power: power.Pool{Name: name, Provider: "east",
			Fleet: fleet.Config{Types: []string{"small", "large"}, Zones: []string{"a", "b"}, Market: fleet.SpotThenOnDemand}}}
	}
	c := &counted{T: t, reg: prometheus.NewPedanticRegistry()}
	c.meters = newMeters([]config.Pool{pool("p"), pool("q")}, func() *slurm.Snapshot { return c.snap })
	c.register(c.reg)
	return c
}

// series lists what is not 0, as `name{label="value",…} value`; of a histogram the count.
func (c *counted) series() []string {
	c.Helper()
	families, err := c.reg.Gather()
	if err != nil {
		c.Fatal(err)
	}
	var all []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue()
			if h := m.GetHistogram(); h != nil {
				v = float64(h.GetSampleCount())
			}
			if v != 0 {
				all = append(all, fmt.Sprintf("%s{%s} %g", strings.TrimPrefix(f.GetName(), "burst_"), strings.Join(labels, ","), v))
			}
		}
	}
	return all
}

// want compares the series that begin with one of the names.
func (c *counted) want(names []string, want ...string) {
	c.Helper()
	got := slices.DeleteFunc(c.series(), func(s string) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(s, n+"{") })
	})
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		c.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestLaunchesAreCountedByOffering(t *testing.T) {
	large := cloud.Offering{Type: "large", Zone: "b", Market: cloud.OnDemand}
	l := power.Launch{Provider: "east", Request: cloud.LaunchRequest{Pool: "p", Offering: small, Or: []cloud.Offering{large}}}
	stranger := l
	stranger.Request.Pool = "gone"
	refusal := func(k cloud.Kind, o cloud.Offering) error {
		return &cloud.Error{Kind: k, Op: "launch", Offering: o, Err: errors.New("no")}
	}
	for _, tt := range []struct {
		name   string
		launch power.Launch
		got    []cloud.Offering
		err    error
		want   []string
	}{
		{"all came", l, []cloud.Offering{small, small}, nil, []string{
			"launches_total{market=spot,pool=p,result=ok,type=small,zone=a} 1", "launched_instances_total{market=spot,pool=p,type=small,zone=a} 2"}},
		{"some came, one offering had no room", l, []cloud.Offering{large}, refusal(cloud.Capacity, small), []string{
			"launches_total{market=on-demand,pool=p,result=ok,type=large,zone=b} 1", "launched_instances_total{market=on-demand,pool=p,type=large,zone=b} 1",
			"launches_total{market=spot,pool=p,result=capacity,type=small,zone=a} 1"}},
		{"each offering has its error", l, nil, errors.Join(refusal(cloud.Quota, small), refusal(cloud.Invalid, large)), []string{
			"launches_total{market=spot,pool=p,result=quota,type=small,zone=a} 1", "launches_total{market=on-demand,pool=p,result=invalid,type=large,zone=b} 1"}},
		{"about the whole request", l, nil, refusal(cloud.Throttled, cloud.Offering{}), []string{
			"launches_total{market=spot,pool=p,result=throttled,type=small,zone=a} 1"}},
		{"the same twice", l, nil, errors.Join(refusal(cloud.Auth, small), refusal(cloud.Auth, small)), []string{
			"launches_total{market=spot,pool=p,result=auth,type=small,zone=a} 1"}},
		{"cut off", l, nil, context.DeadlineExceeded, []string{"launches_total{market=spot,pool=p,result=transient,type=small,zone=a} 1"}},
		{"a pool that has left the configuration", stranger, []cloud.Offering{small}, nil, []string{
			"launches_total{market=other,pool=other,result=ok,type=other,zone=other} 1", "launched_instances_total{market=other,pool=other,type=other,zone=other} 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCounted(t)
			var got []cloud.Instance
			for _, o := range tt.got {
				got = append(got, cloud.Instance{Offering: o})
			}
			c.Tried(tt.launch, got, tt.err)
			c.want([]string{"launches_total", "launched_instances_total"}, tt.want...)
		})
	}
}

// fakeJournal answers as a test says.
type fakeJournal struct {
	crash.Journal
	fresh bool
	err   error
	power power.State
	ft    ft.State
}

func (f fakeJournal) AddOrder(context.Context, power.Order) (bool, error) { return f.fresh, f.err }
func (f fakeJournal) LoadPower(context.Context) (power.State, error)      { return f.power, f.err }
func (f fakeJournal) CommitPower(context.Context, power.Change) error     { return f.err }
func (f fakeJournal) LoadFT(context.Context) (ft.State, error)            { return f.ft, f.err }
func (f fakeJournal) CommitFT(context.Context, ft.Change) error           { return f.err }
func (f fakeJournal) AddNotice(context.Context, string, cloud.Notice) (bool, error) {
	return f.fresh, f.err
}

func TestOrdersAreCountedFromTheJournal(t *testing.T) {
	c := newCounted(t)
	ctx := t.Context()
	full := errors.New("disk full")
	order := func(id string, k power.OrderKind) power.Order { return power.Order{ID: id, Kind: k} }
	metered{fakeJournal{power: power.State{Orders: []power.Order{order("0", power.Suspend)},
		Instances: []power.Instance{{Instance: cloud.Instance{ID: "i-0"}, Doomed: "x"}}}}, c.meters}.LoadPower(ctx)
	good, again, bad := metered{fakeJournal{fresh: true}, c.meters}, metered{fakeJournal{}, c.meters}, metered{fakeJournal{err: full}, c.meters}
	good.AddOrder(ctx, order("1", power.Resume))
	again.AddOrder(ctx, order("1", power.Resume))
	if _, err := bad.AddOrder(ctx, order("2", power.Resume)); !errors.Is(err, full) {
		t.Errorf("the journal's error is lost: %v", err)
	}
	change := power.Change{CloseOrders: []string{"0", "1"}, Actions: []string{"register"}, Events: []power.Event{{Kind: "up"}}}
	if err := bad.CommitPower(ctx, change); !errors.Is(err, full) {
		t.Errorf("the journal's error is lost: %v", err)
	}
	good.CommitPower(ctx, change)
	good.CommitPower(ctx, power.Change{CloseOrders: []string{"0", "1"}}) // closed already
	c.want([]string{"orders_total", "reconcile_actions_total", "events_total"},
		"orders_total{kind=resume,outcome=accepted} 1", "orders_total{kind=resume,outcome=repeated} 1", "orders_total{kind=resume,outcome=failed} 1",
		"orders_total{kind=resume,outcome=settled} 1", "orders_total{kind=suspend,outcome=settled} 1",
		"reconcile_actions_total{action=register} 1", "events_total{kind=up} 1")
	if d := c.oldestEnding(time.Now().Add(time.Hour)); d < time.Hour {
		t.Errorf("i-0 has been ending for %s", d)
	}
	good.CommitPower(ctx, power.Change{Instances: []power.Instance{{Instance: cloud.Instance{ID: "i-0"}, Doomed: "x", Gone: noon}}})
	if d := c.oldestEnding(time.Now().Add(time.Hour)); d != 0 {
		t.Errorf("nothing is ending, yet for %s", d)
	}
}

// TestSpend: the ledger's rows are counted by what they add.
func TestSpend(t *testing.T) {
	c := newCounted(t)
	row := func(hours, price float64) ledger.Row {
		return ledger.Row{Instance: "i-1", Pool: "p", From: noon, To: noon.Add(time.Duration(hours * float64(time.Hour))), Share: .5, Price: ledger.Price{USDPerHour: price}}
	}
	c.spend(nil, []ledger.Row{row(1, 2)})
	c.want([]string{"spend_usd_total"}, "spend_usd_total{pool=p} 1")
	c.spend([]ledger.Row{row(1, 2)}, []ledger.Row{row(3, 2)})
	c.want([]string{"spend_usd_total"}, "spend_usd_total{pool=p} 3")
	c.spend([]ledger.Row{row(3, 2)}, []ledger.Row{row(2, 2)}) // cut back
	c.want([]string{"spend_usd_total"}, "spend_usd_total{pool=p} 3")
	c.spend([]ledger.Row{row(2, 2)}, []ledger.Row{row(4, 2)})
	c.want([]string{"spend_usd_total"}, "spend_usd_total{pool=p} 4")
	c.spend(nil, []ledger.Row{{Instance: "i-2", Pool: "p", From: noon, To: noon.Add(time.Hour), Share: 1}}) // without a price
	c.want([]string{"spend_usd_total"}, "spend_usd_total{pool=p} 4")

	live := power.Instance{Instance: cloud.Instance{Pool: "p", Offering: small}}
	gone, dear := live, live
	gone.Gone = noon
	dear.Offering.Type = "unknown"
	price := func(_ string, o cloud.Offering) ledger.Price {
		if o == small {
			return ledger.Price{USDPerHour: .25}
		}
		return ledger.Price{}
	}
	c.costs(ledger.Input{Instances: []power.Instance{live, live, gone, dear}, Price: price})
	c.want([]string{"spend_usd_per_hour", "instances_unpriced"}, "spend_usd_per_hour{market=spot,pool=p} 0.5", "instances_unpriced{pool=p} 1")
	if got := c.now(); got.usdPerHour != .5 || got.unpriced != 1 {
		t.Errorf("it costs %+v", got)
	}
	c.costs(ledger.Input{})
	c.want([]string{"spend_usd_per_hour", "instances_unpriced"})
}

// TestSeriesAreBounded: neither nodes nor instances, jobs, events or a cloud's
// or a site's words grow the number of series, and what is closed is forgotten.
func TestSeriesAreBounded(t *testing.T) {
	c := newCounted(t)
	j := metered{fakeJournal{fresh: true}, c.meters}
	ctx := t.Context()
	var before int
	for i := range 10_000 {
		id, node, job := fmt.Sprint("i-", i), fmt.Sprint("n", i), uint32(i+1)
		c.snap = &slurm.Snapshot{Jobs: map[uint32]slurm.Job{job: {ID: job, State: "RUNNING", Nodes: node, Start: noon, Batch: true, Requeue: true}}}
		o := power.Order{ID: id, Kind: power.Resume}
		j.AddOrder(ctx, o)
		inst := power.Instance{Instance: cloud.Instance{ID: id, Pool: "p", Offering: cloud.Offering{Type: "t" + id, Zone: "z" + id, Market: cloud.Market("m" + id)}}, Doomed: "x"}
		c.Tried(power.Launch{Request: cloud.LaunchRequest{Pool: "pool" + id, Offering: inst.Offering}}, []cloud.Instance{inst.Instance}, nil)
		j.CommitPower(ctx, power.Change{Instances: []power.Instance{inst}, Boots: []power.Boot{{Node: node, Pool: "p" + id, Outcome: "no room for " + id}},
			Events: []power.Event{{Kind: "died", Node: node, Instance: id, Job: job}}})
		inst.Gone = noon
		j.CommitPower(ctx, power.Change{CloseOrders: []string{id}, Instances: []power.Instance{inst}, Events: []power.Event{{Kind: "kind" + fmt.Sprint(i%200)}}})
		n := cloud.Notice{Instance: id, Kind: cloud.NoticeKind("k" + id), Source: "s" + id, Deadline: noon, Event: "e" + id}
		j.AddNotice(ctx, "east", n)
		e := ft.Eviction{Instance: id, Kind: n.Kind, Job: job, Stage: ft.Signalled, Signal: "USR1", SignalledAt: noon}
		j.CommitFT(ctx, ft.Change{Notices: []ft.Notice{{Notice: n, Stage: ft.Draining}}, Evictions: []ft.Eviction{e}})
		e.Stage, e.Ending, e.Ended = ft.Done, ft.Moved, noon
		j.CommitFT(ctx, ft.Change{Notices: []ft.Notice{{Notice: n, Stage: ft.Acked}}, Evictions: []ft.Eviction{e}})
		c.spend(nil, []ledger.Row{{Instance: id, Pool: "pool" + id, From: noon, To: noon.Add(time.Hour), Share: 1}})
		if i == 500 {
			before = seriesOf(t, c.reg)
		}
	}
	if after := seriesOf(t, c.reg); after != before || after > 1000 {
		t.Errorf("%d series after 500 instances, %d after 10,000", before, after)
	}
	if n := len(c.openOrders) + len(c.ending) + len(c.open) + len(c.moving); n != 0 || len(c.died) > 1 {
		t.Errorf("nothing is open, but this is remembered: %v %v %v %v %v", c.openOrders, c.ending, c.open, slices.Collect(maps.Keys(c.moving)), c.died)
	}
}

func seriesOf(t *testing.T, reg *prometheus.Registry) int {
	t.Helper()
	n, err := testutil.GatherAndCount(reg)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
