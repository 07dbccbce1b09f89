package power

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

// steps has the engine work for a while, as Run does.
func steps(t *testing.T, e *Engine, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		again := e.step(t.Context())
		e.calls.Wait()
		e.drain(t.Context())
		time.Sleep(max(10*time.Millisecond, min(again, time.Second)))
	}
}

// TestAServerThatIsWellIsLeftAlone: nothing is asked of Slurm, nor of the cloud, as long as nothing happens to it, and
// the journal has on its instance that it serves files.
func TestAServerThatIsWellIsLeftAlone(t *testing.T) {
	st := serverUp()
	st.Heard = []string{""}
	inServed(t, st, 0, map[string]string{"s1": "IDLE+CLOUD", "c1": "IDLE+CLOUD+POWERED_DOWN"}, func(t *testing.T, e *Engine, s *scripted) {
		n := s.snap.Nodes["s1"]
		n.Addr, n.Partitions = "10.0.0.9", []string{"s"}
		s.snap.Nodes["s1"] = n
		var ended []string
		e.providers["east"] = ending{still{lists: []cloud.Instance{st.Instances[0].Instance}}, &ended}
		steps(t, e, 30*time.Minute)
		s.asked = slices.DeleteFunc(s.asked, func(what string) bool { return strings.HasPrefix(what, "unreserve burst-dry-") }) // once, at the start
		if n := e.mem.nodes["s1"]; len(s.asked)+len(ended) > 0 || n.Phase != Up || n.Reason != "" {
			t.Errorf("Slurm is asked %q, the cloud to end %q; %+v", s.asked, ended, n)
		}
		if e.rounds < 10 {
			t.Errorf("%d rounds only", e.rounds)
		}
		marks := 0
		for _, c := range e.journal.(*paper).committed {
			for _, i := range c.Instances {
				if i.ID == "i-s1" && i.Serves {
					marks++
				}
			}
		}
		if marks != 1 {
			t.Errorf("the journal is told %d times that it serves files", marks)
		}
	})
}

// TestAServerIsNotToGoForAJob: a site's partition may have given it to one that cannot have its other nodes.
func TestAServerIsNotToGoForAJob(t *testing.T) {
	st := serverUp()
	st.Nodes[0].Job = 7
	inServed(t, st, 0, map[string]string{"s1": "IDLE+CLOUD"}, func(t *testing.T, e *Engine, _ *scripted) {
		p := e.planningNow()
		p.of = map[uint32][]Node{7: {e.mem.nodes["s1"]}}
		i := e.mem.instances["i-s1"]
		g, k := group{job: 7, pool: "s"}, kindOf(i.Provider, i.Offering)
		var c Change
		if p.leave(&c, g, k) || len(c.Nodes) > 0 {
			t.Errorf("%+v", c.Nodes)
		}
		delete(p.servers.pools, "s1")
		if !p.leave(&c, g, k) || len(c.Nodes) != 1 {
			t.Error("a node that serves nothing stays")
		}
	})
}

// leftServer is serverUp as the journal has it when the pool of s1 has left the configuration.
func leftServer(t *testing.T) (left State) {
	inServed(t, serverUp(), 0, map[string]string{"s1": "IDLE+CLOUD"}, func(t *testing.T, e *Engine, _ *scripted) {
		snap, _ := e.slurm.Fresh(t.Context(), time.Now())
		if err := e.observe(t.Context(), snap); err != nil {
			t.Fatal(err)
		}
		left = State{Nodes: e.Health().Nodes, Instances: e.Health().Instances, Heard: []string{""}}
	})
	return left
}

// inLeft is inServed after the pool of s1 has left the configuration.
func inLeft(t *testing.T, nodes map[string]string, f func(t *testing.T, e *Engine, s *scripted)) {
	t.Helper()
	inServed(t, leftServer(t), 0, nodes, func(t *testing.T, e *Engine, s *scripted) {
		delete(e.pools, "s")
		delete(e.poolOf, "s1")
		e.servers = newServing([]Pool{testPools()[0]})
		f(t, e, s)
	})
}

const leftText = "pool s has left burst.toml: its instance i-s1 and its files are kept until `burst stop-all --pool s` ends them"

// TestAServersPoolLeavesTheConfiguration, and then its node slurm.conf: burstd knows by its journal what it is.
func TestAServersPoolLeavesTheConfiguration(t *testing.T) {
	inLeft(t, map[string]string{"c1": "IDLE+CLOUD"}, func(t *testing.T, e *Engine, _ *scripted) {
		e.providers["east"] = still{lists: []cloud.Instance{serverUp().Instances[0].Instance}}
		steps(t, e, 30*time.Minute)
		if i, n := e.mem.instances["i-s1"], e.mem.nodes["s1"]; i.Doomed != "" || n.Phase != Up {
			t.Errorf("%+v, %+v", i, n)
		}
		if got := e.Health().Servers["s1"]; !strings.HasPrefix(got, leftText) {
			t.Errorf("told is %q", got)
		}
		if !e.ServesFiles("s1") || e.ServesFiles("c1") {
			t.Error("what watches nodes may power it down")
		}
	})
	for _, tt := range []struct {
		name, state string
		kind        OrderKind
		suspendTime string // of its partition
		ends        bool
	}{
		{"it may be idle", "IDLE+CLOUD+POWERED_DOWN", Suspend, "600", false},
		{"an admin's power_down", "IDLE+CLOUD+POWERED_DOWN", Suspend, "INFINITE", true},
		{"an order from the spool, for a node that Slurm has forgotten", "", Suspend, "INFINITE", false},
		{"its power-up fails", "DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING", ResumeFail, "INFINITE", false},
		{"it is powered up anew", "IDLE+CLOUD+NOT_RESPONDING+POWERING_UP", Resume, "INFINITE", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes := map[string]string{"c1": "IDLE+CLOUD"}
			if tt.state != "" {
				nodes["s1"] = tt.state
			}
			inLeft(t, nodes, func(t *testing.T, e *Engine, s *scripted) {
				if n, ok := s.snap.Nodes["s1"]; ok {
					n.Partitions = []string{"s"}
					s.snap.Nodes["s1"] = n
				}
				e.slurm = shown{s, []map[string]string{{"PartitionName": "s", "SuspendTime": tt.suspendTime}}}
				e.mem.orders["o"] = Order{ID: "o", Kind: tt.kind, Nodes: "s1", Made: time.Now()}
				if _, err := e.takeOrders(t.Context()); err != nil {
					t.Fatal(err)
				}
				if n, i := e.mem.nodes["s1"], e.mem.instances["i-s1"]; (i.Doomed != "") != tt.ends || (n.Phase != Up) != tt.ends {
					t.Errorf("instance %+v, node %+v", i, n)
				}
			})
		})
	}
}

// TestListsLackAServerForAWhile, whose pool is there or has left: it is given up, without a call that ends it, also
// when they show it again at any moment, and is known for what it is then.
func TestListsLackAServerForAWhile(t *testing.T) {
	older := onInstance("i-c1", "c1", early.Add(-time.Hour))
	apart := 5 * time.Second
	if testing.Short() {
		apart = 35 * time.Second
	}
	for _, state := range []string{"DOWN+CLOUD+NOT_RESPONDING", "IDLE+CLOUD+POWERED_DOWN", "DOWN+CLOUD+POWERED_DOWN", ""} {
		for _, left := range []bool{false, true} {
			for away := 5 * time.Minute; away < 7*time.Minute; away += apart {
				nodes := map[string]string{"c1": "IDLE+CLOUD"}
				if state != "" {
					nodes["s1"] = state
				}
				play := func(t *testing.T, e *Engine, _ *scripted) {
					var ended []string
					e.mem.nodes["c1"], e.mem.heard[""] = Node{Name: "c1", Pool: "p", Phase: Up, Instance: "i-c1", AddrSet: true}, true
					e.mem.instances["i-c1"] = older
					e.providers["east"] = ending{still{lists: []cloud.Instance{older.Instance}}, &ended}
					steps(t, e, away)
					e.providers["east"] = ending{still{lists: []cloud.Instance{older.Instance, serverUp().Instances[0].Instance}}, &ended}
					steps(t, e, 10*time.Minute)
					i, there := e.mem.instances["i-s1"]
					if n := e.mem.nodes["s1"]; len(ended) > 0 || !there || i.Doomed != "" || !i.Serves || !left && n.Instance != "i-s1" {
						t.Errorf("away for %s, left %v, Slurm has it %q: ended are %q; %+v, %+v", away, left, state, ended, i, n)
					}
					if got := e.Health().Servers["s1"]; left && !strings.HasPrefix(got, leftText) {
						t.Errorf("away for %s: told is %q", away, got)
					}
				}
				if left {
					inLeft(t, nodes, play)
				} else {
					inServed(t, serverUp(), 0, nodes, play)
				}
			}
		}
	}
}

// TestAnOrderFromBeforeAnAdoption is about what seemed to be gone: Slurm may have given it since burstd itself had the
// node powered down.
func TestAnOrderFromBeforeAnAdoption(t *testing.T) {
	inServed(t, State{Heard: []string{""}}, 0, map[string]string{"c1": "IDLE+CLOUD", "s1": "IDLE+CLOUD+POWERED_DOWN"}, func(t *testing.T, e *Engine, s *scripted) {
		s.snap.Nodes["s1"] = slurm.Node{Name: "s1", State: parseState("IDLE+CLOUD+POWERED_DOWN"), Partitions: []string{"s"}}
		e.slurm = shown{s, []map[string]string{{"PartitionName": "s", "SuspendTime": "INFINITE"}}}
		before := time.Now()
		e.providers["east"] = still{lists: []cloud.Instance{serverUp().Instances[0].Instance}}
		steps(t, e, time.Minute)
		for made, ends := range map[time.Time]bool{before: false, time.Now(): true} {
			saved, i := e.mem.nodes["s1"], e.mem.instances["i-s1"]
			e.mem.orders["o"] = Order{ID: "o", Kind: Suspend, Nodes: "s1", Made: made}
			if _, err := e.takeOrders(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := e.mem.instances["i-s1"]; got.ID == "" || (got.Doomed != "") != ends {
				t.Errorf("an order made %s after the first list: %+v", made.Sub(before), got)
			}
			e.mem.nodes["s1"], e.mem.instances["i-s1"] = saved, i
		}
	})
}

// TestOrdersBesideAnotherServer: an older instance that says that it is the server is kept beside the one that boots.
// What ends that one does not end the older, which then is the server.
func TestOrdersBesideAnotherServer(t *testing.T) {
	const isOff, boots, failed = "IDLE+CLOUD+POWERED_DOWN", "IDLE+CLOUD+NOT_RESPONDING+POWERING_UP", "DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING"
	for _, tt := range []struct {
		kind  OrderKind
		state string
	}{{ResumeFail, failed}, {Suspend, isOff}, {Resume, boots}, {"", isOff}} {
		t.Run(string(tt.kind), func(t *testing.T) {
			st := State{Nodes: []Node{{Name: "s1", Pool: "s", Phase: Booting, Instance: "i-new", Since: early}}, Instances: []Instance{onInstance("i-new", "s1", early.Add(time.Minute))}}
			inServed(t, st, 0, map[string]string{"c1": "IDLE+CLOUD", "s1": boots}, func(t *testing.T, e *Engine, s *scripted) {
				old, fresh := serverUp().Instances[0].Instance, st.Instances[0].Instance
				old.Cluster, e.mem.heard[""] = "x", true
				var ended []string
				e.providers["east"] = ending{still{lists: []cloud.Instance{old, fresh}}, &ended}
				steps(t, e, time.Minute)
				if i, ok := e.mem.instances["i-s1"]; !ok || i.Doomed != "" || e.mem.nodes["s1"].Instance != "i-new" {
					t.Fatalf("it is not there beside the new one: %+v, %+v", i, e.mem.nodes["s1"])
				}
				s.snap.Nodes["s1"] = slurm.Node{Name: "s1", State: parseState(tt.state), Partitions: []string{"s"}}
				e.slurm = shown{s, []map[string]string{{"PartitionName": "s", "SuspendTime": "INFINITE"}}}
				if tt.kind != "" { // else the order is lost
					if err := e.AddOrder(t.Context(), Order{ID: "o", Kind: tt.kind, Nodes: "s1", Made: time.Now()}); err != nil {
						t.Fatal(err)
					}
				}
				steps(t, e, 5*time.Minute)
				if i := e.mem.instances["i-s1"]; i.Doomed != "" || slices.Contains(ended, "i-s1") || e.mem.nodes["s1"].Instance != "i-s1" {
					t.Errorf("ended are %q; %+v, %+v", ended, i, e.mem.nodes["s1"])
				}
				if tt.kind != Resume && !slices.Contains(ended, "i-new") {
					t.Errorf("the new one is not ended: %q", ended)
				}
			})
		})
	}
}
