package power

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
)

func TestWhoAmI(t *testing.T) {
	const addr = "10.0.0.1"
	for _, tt := range []struct {
		name     string
		edit     func(n *Node, i *Instance)
		instance string
		addr     string
		want     error // nil: c1
		spoke    bool  // its being reachable is noted
	}{
		{"it boots", nil, "i-1", addr, nil, true},
		{"its address is written as IPv6", nil, "i-1", "::ffff:10.0.0.1", nil, true},
		{"it is up, and started again", func(n *Node, _ *Instance) { n.Phase = Up }, "i-1", addr, nil, false},
		{"another address", nil, "i-1", "10.0.0.2", ErrNotYours, false},
		{"no address", nil, "i-1", "", ErrNotYours, false},
		{"not known", nil, "i-2", addr, ErrNotYet, false},
		{"the cloud has not told its address", func(n *Node, i *Instance) { i.Addr, n.AddrSet = "", false }, "i-1", addr, ErrNotYet, true},
		{"Slurm has not been told its address", func(n *Node, _ *Instance) { n.AddrSet = false }, "i-1", addr, ErrNotYet, true},
		{"doomed", func(_ *Node, i *Instance) { i.Doomed = "suspended" }, "i-1", addr, ErrNotYours, false},
		{"no node", func(_ *Node, i *Instance) { i.Assigned = "" }, "i-1", addr, ErrNotYet, false},
		{"its node has another", func(n *Node, _ *Instance) { n.Instance = "i-3" }, "i-1", addr, ErrNotYet, false},
		{"its node is given back", func(n *Node, _ *Instance) { n.Phase = Freeing }, "i-1", addr, ErrNotYet, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := Node{Name: "c1", Pool: "p", Phase: Booting, Instance: "i-1", AddrSet: true, Order: "o"}
			i := onInstance("i-1", "c1", at)
			i.Addr = addr
			if tt.edit != nil {
				tt.edit(&n, &i)
			}
			e, _ := testEngine(State{Nodes: []Node{n}, Instances: []Instance{i}, Boots: []Boot{{Node: "c1", Order: "o", Instance: "i-1", Ordered: at}}})
			for range 2 {
				id, err := e.WhoAmI(t.Context(), tt.instance, tt.addr)
				if !errors.Is(err, tt.want) || err == nil && id != (Identity{"c1", "x"}) {
					t.Errorf("%+v, %v, want %v", id, err, tt.want)
				}
			}
			if spoke := len(e.words) == 1; spoke != tt.spoke {
				t.Errorf("%d words are noted", len(e.words))
			}
			if err := e.Report(t.Context(), "i-1", addr, "rebooting", ""); err == nil {
				t.Error("a stage that there is not was taken")
			}
		})
	}
}

// booting is an engine's state: c1 and c2 boot, for nobody in particular.
func booting() (State, map[string]string) {
	st, nodes := State{}, map[string]string{}
	for _, name := range []string{"c1", "c2"} {
		i := onInstance("i-"+name, name, at)
		i.Addr, i.Pool = "10.0.0.1", "p"
		st.Instances = append(st.Instances, i)
		st.Nodes = append(st.Nodes, Node{Name: name, Pool: "p", Phase: Booting, Instance: i.ID, AddrSet: true, Order: "o", Made: time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)})
		st.Boots = append(st.Boots, Boot{Node: name, Order: "o", Pool: "p", Instance: i.ID, Ordered: time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)})
		nodes[name] = "IDLE+CLOUD+NOT_RESPONDING+POWERING_UP"
	}
	return st, nodes
}

func TestReportsAreWrittenBeforeTheyAreAnswered(t *testing.T) {
	st, nodes := booting()
	running(t, st, nodes, nil, still{}, func(t *testing.T, e *Engine) {
		for _, stage := range []string{ReportReachable, ReportSetup, ReportReady} {
			time.Sleep(time.Second)
			if err := e.Report(t.Context(), "i-c1", "10.0.0.1", stage, ""); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Report(t.Context(), "i-c2", "10.0.0.9", ReportReady, ""); !errors.Is(err, ErrNotYours) {
			t.Errorf("from elsewhere: %v", err)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		want := map[Stage]time.Duration{StageReachable: time.Second, StageSetup: time.Second, StageReady: time.Second}
		got := e.mem.boots["c1"].Took()
		delete(got, StageRunning)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestAReportedFailure is a boot failure at once, unless the node has come up all the same.
func TestAReportedFailure(t *testing.T) {
	for _, registered := range []bool{false, true} {
		st, nodes := booting()
		if registered {
			nodes["c1"] = "IDLE+CLOUD"
		}
		running(t, st, nodes, nil, consoled{calls: make(chan string, 100)}, func(t *testing.T, e *Engine) {
			if err := e.Report(t.Context(), "i-c1", "10.0.0.1", ReportFailed, "mount /home: timed out"); err != nil {
				t.Fatal(err)
			}
			if err := e.Report(t.Context(), "i-c2", "10.0.0.1", ReportReady, "long ago"); err != nil {
				t.Fatal(err)
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			i, n := e.mem.instances["i-c1"], e.mem.nodes["c1"]
			if i.Failed == registered || !registered && i.Doomed != "its boot failed: mount /home: timed out" {
				t.Errorf("registered %v: its instance is %+v", registered, i)
			}
			if registered != (n.Phase == Up) || e.mem.instances["i-c2"].Doomed != "" {
				t.Errorf("registered %v: node %+v", registered, n)
			}
		})
	}
}

// TestManyNodesSpeakAtOnce: they cost the journal few commits.
func TestManyNodesSpeakAtOnce(t *testing.T) {
	st := State{}
	for n := range 500 {
		name := fmt.Sprint("n", n)
		i := Instance{Provider: "east", Assigned: name, Instance: cloud.Instance{ID: "i-" + name, Addr: "10.0.0.1", State: cloud.Pending, Launched: at}}
		st.Instances = append(st.Instances, i)
		st.Nodes = append(st.Nodes, Node{Name: name, Pool: "p", Phase: Booting, Instance: i.ID, AddrSet: true})
		st.Boots = append(st.Boots, Boot{Node: name, Order: "o", Instance: i.ID})
	}
	running(t, st, map[string]string{"c1": "IDLE"}, nil, still{}, func(t *testing.T, e *Engine) {
		time.Sleep(time.Second)
		synctest.Wait()
		before := len(e.journal.(*paper).committed)
		e.journal.(*paper).takes.Store(int64(time.Millisecond)) // in which the others come to speak
		var wg sync.WaitGroup
		for _, i := range st.Instances {
			wg.Go(func() {
				if _, err := e.WhoAmI(t.Context(), i.ID, "10.0.0.1"); err != nil {
					t.Error(err)
				}
				if err := e.Report(t.Context(), i.ID, "10.0.0.1", ReportReady, ""); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		e.mu.Lock()
		defer e.mu.Unlock()
		for name, b := range e.mem.boots {
			if b.Reachable.IsZero() || b.Ready.IsZero() {
				t.Errorf("%s: %+v", name, b)
			}
		}
		if n := len(e.journal.(*paper).committed) - before; n > 250 {
			t.Errorf("%d commits for 1,000 words", n)
		}
	})
}
