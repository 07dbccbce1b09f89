package power

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm"
)

// whose begins a launch of c1 to c4 for job 7, which needs them all.
func whose(e *Engine, o cloud.Offering) {
	l := Launch{Token: "t", Provider: "east", State: Written, Created: time.Now(),
		Request: cloud.LaunchRequest{Token: "t", Pool: "p", Offering: o, Count: 4, AllOrNothing: true}}
	for n := range 4 {
		name := fmt.Sprint("c", n+1)
		l.Nodes = append(l.Nodes, name)
		e.mem.nodes[name] = Node{Name: name, Pool: "p", Phase: Launching, Token: "t", Job: 7, Whole: true}
	}
	e.mem.launches["t"] = l
}

// tooFew is the answer to a launch of which so many came, and were ended again.
func tooFew(n int, s cloud.State, o cloud.Offering) error {
	e := &cloud.Error{Kind: cloud.Capacity, Op: opLaunch, Settled: true, Err: errors.New("sold out")}
	for i := range n {
		one := cloud.Instance{ID: fmt.Sprint("i-", o.Zone, i), Token: "t", Pool: "p", Offering: o, State: s, Launched: time.Now()}
		if s == cloud.Terminated {
			one.Ended = time.Now()
		}
		e.TakenBack = append(e.TakenBack, one)
	}
	return e
}

// TestTooFewCame: what came of a launch that could not be filled is in the journal, as it costs
// a begun hour. Until that is over no job that needs more is tried there, while smaller ones are.
func TestTooFewCame(t *testing.T) {
	a, b := cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}, cloud.Offering{Type: "small", Zone: "b", Market: cloud.OnDemand}
	synctest.Test(t, func(t *testing.T) {
		e, p := testEngine(State{})
		e.cfg.Begun = func(string, cloud.Offering) time.Duration { return time.Hour }
		begin := time.Now()
		// plans is what is launched for a job of the nodes c1 to cN.
		plans := func(n int) string {
			nodes := map[string]Node{}
			for i := range n {
				name := fmt.Sprint("c", i+1)
				nodes[name] = Node{Name: name, Pool: "p", Phase: Wanted, Job: 7, Whole: true}
			}
			e.mem.nodes = nodes
			pl, _ := e.planning()
			pl.shut = nil
			out := pl.plan()
			if len(out.drafts) == 0 && len(out.Holds) == 1 {
				return "until " + out.Holds[0].Start.Sub(begin).String() + ": " + out.Holds[0].Why
			}
			var all []string
			for _, d := range out.drafts {
				all = append(all, fmt.Sprintf("%d × %s", d.Request.Count, d.Request.Offering))
			}
			return strings.Join(all, ", ")
		}
		whose(e, a)
		e.launched(t.Context(), "t", nil, tooFew(2, cloud.Terminating, a))
		whose(e, b)
		e.launched(t.Context(), "t", nil, tooFew(1, cloud.Terminated, b))

		if len(e.mem.launches) != 0 || len(e.mem.instances) != 2 {
			t.Errorf("the journal has the launches %v and the instances %v", e.mem.launches, e.mem.instances)
		}
		for _, i := range e.mem.instances {
			if i.Doomed != cameShort || i.Offering != a || i.Assigned != "" {
				t.Errorf("in the journal is %+v", i)
			}
		}
		var gone []Instance
		var said []string
		for _, c := range p.committed {
			gone = append(gone, slices.DeleteFunc(slices.Clone(c.Instances), func(i Instance) bool { return i.Gone.IsZero() })...)
			for _, ev := range c.Events {
				if ev.Kind == "no-capacity" {
					said = append(said, ev.Text)
				}
			}
		}
		if len(gone) != 1 || gone[0].Offering != b || !gone[0].Ended.Equal(begin) || !gone[0].Launched.Equal(begin) {
			t.Errorf("closed are %+v", gone)
		}
		if len(said) != 2 || !strings.HasPrefix(said[0], "2 of 4 × small/a/on-demand; too few, they end again; they are paid for: more than 2 not asked for before "+
			begin.Add(time.Hour).Format(time.TimeOnly)+"; ") {
			t.Errorf("said is %q", said)
		}

		time.Sleep(11 * time.Minute) // ordinary cooldowns are over
		if got := plans(2); got != "2 × small/a/on-demand" {
			t.Errorf("a job of 2: %s", got)
		}
		if got := plans(3); !strings.HasPrefix(got, "until 1h0m0s: no capacity in pool p (") || !strings.Contains(got, "2 of small/a/on-demand came last and are paid for: more are not asked for before") {
			t.Errorf("a job of 3: %s", got)
		}
		// That two of them have come does not say that there are three.
		var c Change
		e.came(&c, Launch{Provider: "east", Request: cloud.LaunchRequest{Offering: a}}, []cloud.Instance{{Offering: a}, {Offering: a}})
		if err := e.commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if got := plans(3); !strings.HasPrefix(got, "until 1h0m0s") {
			t.Errorf("a job of 3, after one of 2: %s", got)
		}
		st := State{}
		for k, cool := range e.mem.cool {
			st.Coolings = append(st.Coolings, Cooling{k.provider, k.offering, cool})
		}
		e.mem = newMemory(notAfter(st, time.Now())) // a restart
		if got := plans(3); !strings.HasPrefix(got, "until 1h0m0s") {
			t.Errorf("a job of 3, after a restart: %s", got)
		}
		time.Sleep(49*time.Minute + time.Second)
		if got := plans(3); got != "2 × small/a/on-demand, 1 × small/a/on-demand" { // MaxLaunch is 2
			t.Errorf("a job of 3, after the hour: %s", got)
		}
	})
}

// TestTooFewCameOfACloudThatBillsSeconds: as its least is a minute, so is the wait.
func TestTooFewCameOfACloudThatBillsSeconds(t *testing.T) {
	a := cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}
	synctest.Test(t, func(t *testing.T) {
		e, _ := testEngine(State{})
		e.cfg.Begun = func(string, cloud.Offering) time.Duration { return time.Minute }
		whose(e, a)
		e.launched(t.Context(), "t", nil, tooFew(2, cloud.Terminating, a))
		if cool := e.mem.cool[coolKey{"east", a}]; cool.Most != 2 || !cool.Paid.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("its memory is %+v", cool)
		}
	})
}

// TestWhatALaunchTookBackIsNobodysNode: it is found when nobody waits for the launch any more, still
// ending or ended, and goes into the books.
func TestWhatALaunchTookBackIsNobodysNode(t *testing.T) {
	a := cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}
	st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Wanted, Made: at.Add(-time.Hour)}}}
	inSlurm(t, st, nil, []slurm.Job{}, func(t *testing.T, e *Engine, _ *scripted) {
		i := cloud.Instance{Token: "t", Pool: "p", Offering: a, Launched: time.Now()}
		ending, ended := i, i
		ending.ID, ending.State = "i-1", cloud.Terminating
		ended.ID, ended.State, ended.Ended = "i-2", cloud.Terminated, time.Now().Add(time.Second)
		l := Launch{Token: "t", Provider: "east", State: Abandoned, Created: time.Now(), Request: cloud.LaunchRequest{Token: "t", Pool: "p", Offering: a}}
		e.mem.launches["t"] = l
		e.resolve(t.Context(), l, still{lists: []cloud.Instance{ending, ended}})
		(<-e.results)(t.Context())
		if n := e.mem.nodes["c1"]; n.Phase != Wanted || len(e.mem.launches) != 0 {
			t.Errorf("the node is %+v, launches are %v", n, e.mem.launches)
		}
		if rec := e.mem.instances["i-1"]; rec.Doomed != unwanted || len(e.mem.instances) != 1 {
			t.Errorf("the journal has %+v", e.mem.instances)
		}
		var closed []Instance
		for _, c := range e.journal.(*paper).committed {
			closed = append(closed, slices.DeleteFunc(slices.Clone(c.Instances), func(i Instance) bool { return i.Gone.IsZero() })...)
		}
		if len(closed) != 1 || closed[0].ID != "i-2" || !closed[0].Ended.Equal(ended.Ended) {
			t.Errorf("closed are %+v", closed)
		}
	})
}

// TestAbsentEndedWhenItWasMissed: lists are believed minutes after they first lack an instance, which is
// when it ended: a cloud that bills hours may have begun another one meanwhile.
func TestAbsentEndedWhenItWasMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := func(id, doomed string) Instance {
			return Instance{Provider: "east", Assigned: id, Doomed: doomed, Instance: cloud.Instance{ID: id, State: cloud.Running, Launched: time.Now().Add(-time.Hour)}}
		}
		e, p := testEngine(State{Nodes: []Node{{Name: "c1", Phase: Up, Instance: "c1"}, {Name: "c4", Phase: Up, Instance: "c4"}},
			Instances: []Instance{i("c1", ""), i("c2", "suspended"), i("c4", "")}})
		mine := i("c3", "suspended")
		mine.Account = "ours"
		e.mem.instances["c3"] = mine
		begin := time.Now()
		const foreign = 4 * time.Minute // the account of the lists is another one than c3's
		for time.Since(begin) < 2*absentFor {
			l := newListing(time.Now())
			l.lists["east"] = []cloud.Instance{i("c4", "").Instance}
			l.accounts["east"] = "ours"
			if time.Since(begin) < foreign {
				l.accounts["east"] = "another"
			}
			var c Change
			e.takeLists(&c, l, reading(nil))
			if err := e.commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second)
		}
		ended := map[string]time.Duration{}
		for _, c := range p.committed {
			for _, i := range c.Instances {
				if i.State == cloud.Terminated {
					ended[i.ID] = i.Ended.Sub(begin)
				}
			}
		}
		if len(ended) != 3 || ended["c1"] != 0 || ended["c2"] != 0 || ended["c3"] != foreign {
			t.Errorf("ended so long after they were first missed: %v, want c1 and c2 at once, and c3 %s later", ended, foreign)
		}
	})
}

// TestPaid: what came beside others that came short counts with them; what was asked for within the limit is the limit.
func TestPaid(t *testing.T) {
	running := fleet.Cooldown{Most: 4, Paid: at.Add(time.Minute)}
	for _, tt := range []struct {
		name         string
		old          fleet.Cooldown
		wanted, back int
		most         int
	}{
		{"the first", fleet.Cooldown{}, 40, 7, 7},
		{"asked for before that was known", running, 40, 3, 7},
		{"another part of the same job", running, 5, 3, 7},
		{"one that the limit let through", running, 4, 3, 3},
		{"after the hour", fleet.Cooldown{Most: 4, Paid: at}, 40, 3, 3},
		{"none came", running, 40, 0, 4},
	} {
		back := make([]cloud.Instance, tt.back)
		if got := paid(tt.old, back, tt.wanted, time.Hour, at); got.Most != tt.most || tt.back > 0 && !got.Paid.Equal(at.Add(time.Hour)) {
			t.Errorf("%s: %+v, want %d", tt.name, got, tt.most)
		}
	}
}

// TestOfSeveralLaunches: of a job's two launches one came, and the other did not. What came is ended,
// and not bought again for as long as it is paid for.
func TestOfSeveralLaunches(t *testing.T) {
	a := cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}
	st := State{Coolings: []Cooling{{"east", a, fleet.Cooldown{Failures: 1, Until: at.Add(time.Minute)}}}}
	for _, name := range []string{"c1", "c2"} {
		st.Nodes = append(st.Nodes, Node{Name: name, Pool: "p", Phase: Booting, Job: 7, Whole: true, Instance: "i-" + name})
		st.Instances = append(st.Instances, Instance{Provider: "east", Assigned: name, Instance: cloud.Instance{ID: "i-" + name, Offering: a, State: cloud.Running, Launched: at}})
	}
	st.Nodes = append(st.Nodes, Node{Name: "c3", Pool: "p", Phase: Wanted, Job: 7, Whole: true})
	pool := testPools()[0]
	pool.Fleet.Zones = []string{"a"}
	p := planning{mem: newMemory(st), pools: map[string]Pool{"p": pool}, limits: map[string]cloud.Limits{"east": {MaxLaunch: 2}}, now: at.Add(time.Minute / 2),
		least: func(string, cloud.Offering) time.Duration { return time.Hour }}
	for range 2 {
		p.mem.apply(p.plan().Change)
		p.mem.apply(Change{DropNodes: []string{"c1", "c2", "c3"}})
		for n := range p.mem.instances {
			delete(p.mem.instances, n) // they have ended
		}
	}
	for n, want := range map[int]bool{2: true, 3: false} {
		p.now = at.Add(59 * time.Minute)
		p.mem.nodes = map[string]Node{}
		for i := range n {
			name := fmt.Sprint("c", i+1)
			p.mem.nodes[name] = Node{Name: name, Pool: "p", Phase: Wanted, Job: 7, Whole: true}
		}
		if out := p.plan(); (len(out.drafts) > 0) != want {
			t.Errorf("for %d nodes planned are %+v and %+v", n, out.drafts, out.Holds)
		}
	}
	p.now = at.Add(time.Hour)
	if out := p.plan(); len(out.drafts) == 0 {
		t.Error("it is not tried after the hour")
	}
}
