package daemon

import (
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm/power"
)

// plain is a provider that cannot take an instance back.
type plain struct{ cloud.Provider }

// drilling is a burstd, not running, with instances i-* of a fake that serve
// the nodes a1 (which can be taken back), p1 and p2 (which cannot).
type drilling struct {
	*Daemon
	t         *testing.T
	able, not *cloudtest.Fake
	of        map[string]string // node -> instance
}

func newDrilling(t *testing.T) *drilling {
	t.Helper()
	d := &drilling{t: t, able: cloudtest.NewFake(cloudtest.Options{}), not: cloudtest.NewFake(cloudtest.Options{Boot: time.Nanosecond}), of: map[string]string{}}
	path := newJournal(t)
	d.open(path)
	// Others first: the two clouds' ids are to differ.
	if _, err := d.able.Launch(t.Context(), cloud.LaunchRequest{Token: "t", Cluster: "y", Pool: "p", Count: 5, Offering: cloud.Offering{Type: "m"}}); err != nil {
		t.Fatal(err)
	}
	var c power.Change
	for _, n := range []struct {
		node, provider string
		fake           *cloudtest.Fake
	}{{"a1", "able", d.able}, {"p1", "plain", d.not}, {"p2", "plain", d.not}} {
		got, err := n.fake.Launch(t.Context(), cloud.LaunchRequest{Token: n.node, Cluster: "x", Pool: "p", Count: 1, Offering: cloud.Offering{Type: "m"}})
		if err != nil {
			t.Fatal(err)
		}
		id := got[0].ID
		d.of[n.node] = id
		c.Instances = append(c.Instances, power.Instance{Instance: got[0], Provider: n.provider, Assigned: n.node})
		c.Nodes = append(c.Nodes, power.Node{Name: n.node, Pool: "p", Phase: power.Up, Instance: id})
	}
	if err := d.store.CommitPower(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	d.restart()
	return d
}

func (d *drilling) open(path string) {
	d.t.Helper()
	st, err := store.Open(d.t.Context(), path)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { st.Close() })
	d.Daemon = &Daemon{store: st}
}

// restart makes another burstd on the same journal.
func (d *drilling) restart() {
	d.t.Helper()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	providers := map[string]cloud.Provider{"able": d.able, "plain": plain{d.not}}
	d.Daemon = &Daemon{store: d.store, journal: d.store, log: log, providers: providers, drills: make(chan struct{}, 1)}
	d.engine = power.New(power.Config{Cluster: "x"}, d.store, nil, providers, log)
	d.guard = ft.New(ft.Config{}, d.store, nil, providers, log)
	if err := d.engine.Load(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

func (d *drilling) state(f *cloudtest.Fake, id string) cloud.State {
	for _, i := range f.Instances() {
		if i.ID == id {
			return i.State
		}
	}
	return ""
}

// due runs endDue once.
func (d *drilling) due(asked map[string]time.Time) (time.Duration, error) {
	d.t.Helper()
	return d.endDue(d.t.Context(), asked)
}

// TestADrillEndsAtItsDeadline where the provider cannot do it: also after a
// restart, and asked for again until the instance is gone.
func TestADrillEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	d := newDrilling(t)
	if wait, err := d.due(map[string]time.Time{}); wait != 0 || err != nil {
		t.Errorf("without a drill: %s, %v", wait, err)
	}
	const lead = 500 * time.Millisecond
	began := time.Now()
	all, err := d.Evict(t.Context(), api.EvictRequest{Names: "p1", Lead: lead, By: "uid 0"})
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	want := api.Evicted{Node: "p1", Instance: d.of["p1"], Pool: "p", Provider: "plain", Deadline: all[0].Deadline, Way: "burstd"}
	if all[0] != want || all[0].Deadline.Before(began.Add(lead)) {
		t.Errorf("%+v", all[0])
	}
	st, err := d.store.LoadFT(t.Context())
	if err != nil || len(st.Notices) != 1 || st.Notices[0].Source != "drill" || st.Notices[0].Instance != d.of["p1"] {
		t.Errorf("the guard has %+v, %v", st.Notices, err)
	}
	if len(d.drills) != 1 {
		t.Error("endDrills was not woken")
	}
	d.restart()
	asked := map[string]time.Time{}
	if wait, err := d.due(asked); err != nil || wait <= 0 || wait > lead || d.state(d.not, d.of["p1"]) != cloud.Running {
		t.Errorf("before its deadline: again in %s, %v, it is %s", wait, err, d.state(d.not, d.of["p1"]))
	}
	time.Sleep(time.Until(all[0].Deadline))
	d.not.Fail(cloudtest.Terminate, cloud.Throttled)
	if wait, err := d.due(asked); err == nil || wait <= 0 || wait > 5*time.Second {
		t.Errorf("refused: again in %s, %v", wait, err)
	}
	if wait, err := d.due(asked); err != nil || wait != drillAgain || d.state(d.not, d.of["p1"]) != cloud.Terminated || d.state(d.not, d.of["p2"]) != cloud.Running {
		t.Errorf("at its deadline: again in %s, %v", wait, err)
	}
	calls := d.not.Calls(cloudtest.Terminate)
	if wait, err := d.due(asked); err != nil || wait <= 0 || d.not.Calls(cloudtest.Terminate) != calls {
		t.Errorf("asked again at once: %s, %v", wait, err)
	}
	asked[d.of["p1"]] = time.Now().Add(-drillAgain)
	if _, err := d.due(asked); err != nil || d.not.Calls(cloudtest.Terminate) != calls+1 {
		t.Errorf("not asked again: %v", err)
	}
	i := d.engine.Health().Instances[slices.IndexFunc(d.engine.Health().Instances, func(i power.Instance) bool { return i.ID == d.of["p1"] })]
	i.Gone = time.Now()
	if err := d.store.CommitPower(t.Context(), power.Change{Instances: []power.Instance{i}}); err != nil {
		t.Fatal(err)
	}
	if wait, err := d.due(asked); wait != 0 || err != nil || len(asked) != 0 {
		t.Errorf("when it is gone: %s, %v, %v", wait, err, asked)
	}
}

func TestEvictWays(t *testing.T) {
	t.Run("by the cloud", func(t *testing.T) {
		d := newDrilling(t)
		d.able.Fail(cloudtest.Evict, cloud.Throttled)
		all, err := d.Evict(t.Context(), api.EvictRequest{Names: "a1,p2", Lead: time.Minute})
		if err == nil || !strings.Contains(err.Error(), "(a1)") || len(all) != 1 || all[0].Node != "p2" || all[0].Way != "burstd" {
			t.Errorf("%+v, %v", all, err)
		}
		all, err = d.Evict(t.Context(), api.EvictRequest{Names: "a1", Lead: 0})
		if err != nil || len(all) != 1 || all[0].Way != "cloud" || d.state(d.able, d.of["a1"]) != cloud.Terminated {
			t.Errorf("%+v, %v: it is %s", all, err, d.state(d.able, d.of["a1"]))
		}
		if open, err := d.store.Drills(t.Context()); err != nil || len(open) != 1 || open[0].Node != "p2" {
			t.Errorf("burstd ends %+v, %v", open, err)
		}
	})
	t.Run("without a notice", func(t *testing.T) {
		d := newDrilling(t)
		all, err := d.Evict(t.Context(), api.EvictRequest{Names: "p[1-2]," + d.of["p1"], NoNotice: true, By: "uid 0"})
		if err != nil || len(all) != 2 || all[0].Way != "at once" || d.state(d.not, d.of["p1"]) != cloud.Terminated || d.state(d.not, d.of["p2"]) != cloud.Terminated {
			t.Errorf("%+v, %v", all, err)
		}
		if st, err := d.store.LoadFT(t.Context()); err != nil || len(st.Notices) != 0 {
			t.Errorf("a notice was heard: %+v, %v", st.Notices, err)
		}
		for _, i := range d.engine.Health().Instances {
			if i.Doomed != "" {
				t.Errorf("the engine was told: %+v", i)
			}
		}
		events, err := d.store.Events(t.Context(), 0, 0)
		if err != nil || len(events) != 2 || events[0].Kind != "drill" || !strings.Contains(events[0].Text, "without a notice, by uid 0") {
			t.Errorf("%+v, %v", events, err)
		}
	})
	t.Run("names", func(t *testing.T) {
		d := newDrilling(t)
		for names, want := range map[string]int{"p1,z[1-2]": 404, "p[1": 400, "z1": 404, "i-0": 404} {
			_, err := d.Evict(t.Context(), api.EvictRequest{Names: names, NoNotice: true})
			var refused *api.Error
			if !errors.As(err, &refused) || refused.Status != want {
				t.Errorf("%s: %v", names, err)
			}
		}
		if n := d.not.Calls(cloudtest.Terminate); n != 0 {
			t.Errorf("%d were ended although others were not known", n)
		}
	})
}

// TestADrillOfWhatHasANotice: the answer says what comes true.
func TestADrillOfWhatHasANotice(t *testing.T) {
	d := newDrilling(t)
	drill := func(node string, lead time.Duration) (api.Evicted, error) {
		all, err := d.Evict(t.Context(), api.EvictRequest{Names: node, Lead: lead})
		return append(all, api.Evicted{})[0], err
	}
	first, err := drill("p1", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := drill("p1", time.Hour); err != nil || !again.Deadline.Equal(first.Deadline.Truncate(time.Microsecond)) || again.Way != "burstd" {
		t.Errorf("a later one: %+v, %v", again, err)
	}
	if sooner, err := drill("p1", 0); err != nil || !sooner.Deadline.Before(first.Deadline) {
		t.Errorf("a sooner one: %+v, %v", sooner, err)
	}
	real := cloud.Notice{Instance: d.of["p2"], Kind: cloud.SpotInterruption, Deadline: time.Now().Add(90 * time.Second), Source: "sqs"}
	if err := d.guard.Hear(t.Context(), "plain", real); err != nil {
		t.Fatal(err)
	}
	if e, err := drill("p2", time.Hour); err != nil || e.Way != "cloud" || e.Deadline.Sub(real.Deadline).Abs() > time.Millisecond {
		t.Errorf("after the cloud's own: %+v, %v", e, err)
	}
	real.Received, real.Deadline = time.Now().Add(-time.Hour), time.Now().Add(-time.Hour)
	if err := d.guard.Hear(t.Context(), "plain", real); err != nil {
		t.Fatal(err)
	}
	if _, err := drill("p2", time.Hour); err == nil || !strings.Contains(err.Error(), "has not come true") {
		t.Errorf("after one that came to nothing: %v", err)
	}
}

func TestDrilled(t *testing.T) {
	of := func(id, node, doomed string) power.Instance {
		return power.Instance{Instance: cloud.Instance{ID: id}, Assigned: node, Doomed: doomed}
	}
	all := []power.Instance{of("i-1", "c1", ""), of("i-2", "c2", "suspended"), of("i-3", "c2", ""), of("i-4", "", "")}
	for names, want := range map[string]string{"c1": "i-1", "c2": "i-3", "c[1-2],i-1": "i-1 i-3", "i-4": "i-4", "i-2": "", "c1,c9": ""} {
		found, err := drilled(names, all)
		var got []string
		for _, i := range found {
			got = append(got, i.ID)
		}
		if got := strings.Join(got, " "); got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %v; %q, want %q", names, err, got, want)
		}
	}
}

// TestADrillOfAServer ends its own instance, and not one beside it that says that it is the server.
func TestADrillOfAServer(t *testing.T) {
	h := power.Health{Nodes: []power.Node{{Name: "s1", Instance: "i-2"}}}
	for _, id := range []string{"i-1", "i-2", "i-3"} {
		h.Instances = append(h.Instances, power.Instance{Instance: cloud.Instance{ID: id}, Assigned: "s1"})
	}
	for names, want := range map[string]string{"s1": "i-2", "i-1": "i-1"} {
		if found, err := drilled(names, ownFirst(h)); err != nil || len(found) != 1 || found[0].ID != want {
			t.Errorf("%s: %+v, %v", names, found, err)
		}
	}
}
