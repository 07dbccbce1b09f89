package power

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

// early is before the clock of a bubble begins.
var early = time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC)

// serverUp is a journal in which server s1 is up on i-s1.
func serverUp() State {
	i := onInstance("i-s1", "s1", early)
	i.Node, i.Addr, i.Pool, i.State = "s1", "10.0.0.9", "s", cloud.Running
	return State{Nodes: []Node{{Name: "s1", Pool: "s", Phase: Up, Instance: "i-s1", AddrSet: true, Made: early}}, Instances: []Instance{i}}
}

// TestTheTableKeepsServers: of a server that is up nothing but the cloud's word of its end is acted upon.
func TestTheTableKeepsServers(t *testing.T) {
	for _, s := range powers {
		for _, i := range instances {
			for n := range 2 {
				c := cell{slurm: s, journal: Up, instance: i, serves: true, addrWrong: n > 0}
				plain := c
				plain.serves = false
				switch a := decide(c); {
				case i == noInstance || i == cloud.Terminated:
					if want := decide(plain); a != want {
						t.Errorf("%+v: %s, want %s as for any node", c, a, want)
					}
				case a != wait && a != address:
					t.Errorf("%+v: %s", c, a)
				}
			}
		}
	}
	for _, j := range phases {
		for _, s := range powers {
			for _, i := range instances {
				if c := (cell{slurm: s, journal: j, instance: i, serves: true}); j != Up && decide(c) != decide(cell{slurm: s, journal: j, instance: i}) {
					t.Errorf("%+v: %s: it has not served so far", c, decide(c))
				}
			}
		}
	}
}

// TestServersOutliveSlurmsBooks: rounds of reconciliation with all that Slurm may have of a server whose
// instance lives, after its state or its NodeName line was lost. The node c1 is up, so that Slurm shows some.
func TestServersOutliveSlurmsBooks(t *testing.T) {
	for _, tt := range []struct {
		state string
		want  string // of the trouble
	}{
		{"IDLE+CLOUD+POWERED_DOWN", "Slurm has it off while its instance i-s1 runs"},
		{"IDLE+CLOUD+POWERING_DOWN", "Slurm has it powering-down while"},
		{"DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING", "Slurm has it failed while"},
		{"IDLE+CLOUD+NOT_RESPONDING+POWERING_UP", "Slurm powers it up while its instance i-s1 runs"},
		{"DOWN+CLOUD+NOT_RESPONDING", "it does not answer Slurm"},
		{"DOWN+CLOUD", "Slurm has it DOWN: `scontrol update nodename=s1 state=resume`"},
		{"IDLE+CLOUD+DRAIN", "Slurm has it drained: `scontrol update nodename=s1 state=resume`"},
		{"", "Slurm does not know it"},
	} {
		t.Run(tt.state, func(t *testing.T) {
			nodes := map[string]string{"c1": "IDLE+CLOUD"}
			if tt.state != "" {
				nodes["s1"] = tt.state
			}
			st := serverUp()
			inServed(t, st, 0, nodes, func(t *testing.T, e *Engine, s *scripted) {
				list := st.Instances[0].Instance
				e.providers["east"] = still{lists: []cloud.Instance{list}}
				for end := time.Now().Add(30 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Second) {
					e.listed = e.listAll(t.Context())
					if _, err := e.reconcile(t.Context()); err != nil {
						t.Fatal(err)
					}
					if _, err := e.setAddresses(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if i := e.mem.instances["i-s1"]; i.Doomed != "" || e.mem.nodes["s1"].Phase != Up || len(e.mem.orders) != 0 {
					t.Errorf("its instance: %q, its node %+v, orders %v", i.Doomed, e.mem.nodes["s1"], e.mem.orders)
				}
				if got := e.Health().Servers["s1"]; !strings.Contains(got, tt.want) || !strings.Contains(got, "its files are kept") {
					t.Errorf("told is %q", got)
				}
				if e.Servers("c1")["s1"] != "10.0.0.9" {
					t.Error("nodes are not told its address any more")
				}
				if why := e.planningNow().unserved(e.pools["p"]); (why == "s1") != (tt.state == "DOWN+CLOUD+NOT_RESPONDING") {
					t.Errorf("nodes wait for %q", why)
				}
			})
		})
	}
}

func (e *Engine) planningNow() planning { p, _ := e.planning(); return p }

// TestAStoppedServerIsNotEnded: somebody has stopped it in the cloud's console; its disk is still there.
// When it is terminated it is given up, without a call that would end what a list has only left out.
func TestAStoppedServerIsNotEnded(t *testing.T) {
	st := serverUp()
	inServed(t, st, 0, map[string]string{"c1": "IDLE+CLOUD", "s1": "DOWN+CLOUD+NOT_RESPONDING"}, func(t *testing.T, e *Engine, _ *scripted) {
		list := st.Instances[0].Instance
		rounds := func(n int) {
			e.providers["east"] = still{lists: []cloud.Instance{list}}
			for range n {
				e.listed = e.listAll(t.Context())
				if _, err := e.reconcile(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(15 * time.Second)
			}
		}
		list.State = cloud.Terminating
		rounds(20)
		if e.mem.instances["i-s1"].Doomed != "" || !strings.Contains(e.Health().Servers["s1"], "start it in the cloud's console") {
			t.Errorf("a stopped one: %+v, %q", e.mem.instances["i-s1"], e.Health().Servers["s1"])
		}
		list.State = cloud.Terminated
		rounds(3)
		if i, there := e.mem.instances["i-s1"]; there || e.mem.nodes["s1"].Phase != Freeing {
			t.Errorf("one that is gone: %+v, %+v", i, e.mem.nodes["s1"])
		}
	})
}

// TestAServerThatListsLackIsNotEnded by a call: somebody may have taken its tags away.
func TestAServerThatListsLackIsNotEnded(t *testing.T) {
	for _, state := range []string{"DOWN+CLOUD+NOT_RESPONDING", "IDLE+CLOUD+POWERED_DOWN", "DOWN+CLOUD+POWERED_DOWN"} {
		st := serverUp()
		older := onInstance("i-c1", "c1", early.Add(-time.Hour))
		st.Nodes, st.Instances = append(st.Nodes, Node{Name: "c1", Pool: "p", Phase: Up, Instance: "i-c1", AddrSet: true}), append(st.Instances, older)
		inServed(t, st, 0, map[string]string{"c1": "IDLE+CLOUD", "s1": state}, func(t *testing.T, e *Engine, _ *scripted) {
			var ended []string
			e.providers["east"] = ending{still{lists: []cloud.Instance{older.Instance}}, &ended}
			for end := time.Now().Add(15 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Second) {
				e.listed = e.listAll(t.Context())
				if _, err := e.reconcile(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, err := e.endInstances(t.Context()); err != nil {
					t.Fatal(err)
				}
				e.calls.Wait()
				e.drain(t.Context())
			}
			if i, there := e.mem.instances["i-s1"]; there || e.mem.nodes["s1"].Phase == Up || len(ended) > 0 {
				t.Errorf("Slurm has it %s: %+v, %+v, ended are %q", state, i, e.mem.nodes["s1"], ended)
			}
		})
	}
}

// ending is a cloud that remembers what it is asked to end.
type ending struct {
	still
	ids *[]string
}

func (c ending) Terminate(_ context.Context, ids []string) error {
	*c.ids = append(*c.ids, ids...)
	return nil
}

// TestOrdersForAServer: which of Slurm's orders end a server that is up.
func TestOrdersForAServer(t *testing.T) {
	const isOff, boots, failed = "IDLE+CLOUD+POWERED_DOWN", "IDLE+CLOUD+NOT_RESPONDING+POWERING_UP", "DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING"
	own, other := map[string]string{"PartitionName": "s", "SuspendTime": "INFINITE"}, map[string]string{"PartitionName": "all", "SuspendTime": "GLOBAL"}
	for _, tt := range []struct {
		name, state string
		kind        OrderKind
		parts       []map[string]string
		in          []string // the server's partitions
		ends        bool
	}{
		{"an admin's power_down", isOff, Suspend, []map[string]string{own, other}, []string{"s", "all"}, true},
		{"it may be idle", isOff, Suspend, []map[string]string{own, other}, []string{"all"}, false},
		{"its partition lets it", isOff, Suspend, []map[string]string{{"PartitionName": "s", "SuspendTime": "600"}}, []string{"s"}, false},
		{"an order from the spool, for a node that Slurm has forgotten", "", Suspend, []map[string]string{own}, nil, false},
		{"Slurm has it up", "IDLE+CLOUD", Suspend, []map[string]string{own}, []string{"s"}, false},
		{"it is powered up anew", boots, Resume, nil, nil, false},
		{"its power-up fails", failed, ResumeFail, nil, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes := map[string]string{"c1": "IDLE+CLOUD"}
			if tt.state != "" {
				nodes["s1"] = tt.state
			}
			inServed(t, serverUp(), 0, nodes, func(t *testing.T, e *Engine, s *scripted) {
				if n, ok := s.snap.Nodes["s1"]; ok {
					n.Partitions = tt.in
					s.snap.Nodes["s1"] = n
				}
				e.slurm = shown{s, tt.parts}
				e.mem.orders["o"] = Order{ID: "o", Kind: tt.kind, Nodes: "s1", Made: time.Now()}
				if _, err := e.takeOrders(t.Context()); err != nil {
					t.Fatal(err)
				}
				n, i := e.mem.nodes["s1"], e.mem.instances["i-s1"]
				if (i.Doomed != "") != tt.ends || (n.Phase != Up) != tt.ends {
					t.Errorf("instance %+v, node %+v", i, n)
				}
				if n.AddrSet == (tt.kind == Resume) && !tt.ends {
					t.Errorf("the address is told again: %v", !n.AddrSet)
				}
			})
		})
	}
}

// shown is a Slurm that shows its partitions.
type shown struct {
	*scripted
	parts []map[string]string
}

func (s shown) ShowPartitions(context.Context) ([]map[string]string, error) { return s.parts, nil }

// TestAServerThatTheJournalLacks: burst.db was lost, or restored from before the server came. Its instance
// says which node it is, and is never an orphan.
func TestAServerThatTheJournalLacks(t *testing.T) {
	instance := func(id string) cloud.Instance {
		return cloud.Instance{ID: id, Cluster: "x", Pool: "s", Node: "s1", Addr: "10.0.0.9", State: cloud.Running, Launched: early}
	}
	older := serverUp() // of which the instance has ended since
	older.Nodes[0].Instance, older.Instances[0].ID = "i-old", "i-old"
	wanted := State{Nodes: []Node{{Name: "s1", Pool: "s", Phase: Wanted, Order: "o"}}}
	boots := State{Nodes: []Node{{Name: "s1", Pool: "s", Phase: Booting, Instance: "i-new", Since: early}}, Instances: []Instance{onInstance("i-new", "s1", early)}}
	const isOff, boot = "IDLE+CLOUD+POWERED_DOWN", "IDLE+CLOUD+NOT_RESPONDING+POWERING_UP"
	for _, tt := range []struct {
		name, state string
		st          State
		list        []string
		want        string // the instance of the node, and its phase
	}{
		{"Slurm has it up", "IDLE+CLOUD", State{}, []string{"i-s1"}, "i-s1 up"},
		{"Slurm has it off", isOff, State{}, []string{"i-s1"}, "i-s1 up"},
		{"Slurm does not know it", "", State{}, []string{"i-s1"}, "i-s1 up"},
		{"Slurm has given it up", "DOWN+CLOUD+POWERED_DOWN", State{}, []string{"i-s1"}, "i-s1 up"},
		{"Slurm powers it up", boot, State{}, []string{"i-s1"}, "i-s1 up"},
		{"it is wanted", boot, wanted, []string{"i-s1"}, "i-s1 up"},
		{"an older one is in the journal", isOff, older, []string{"i-s1"}, "i-s1 up"},
		{"another boots", boot, boots, []string{"i-new", "i-s1"}, "i-new booting"},
		{"two say so", "IDLE+CLOUD", State{}, []string{"i-s1", "i-s2"}, "i-s1 up"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes := map[string]string{"c1": "IDLE+CLOUD"}
			if tt.state != "" {
				nodes["s1"] = tt.state
			}
			inServed(t, tt.st, 0, nodes, func(t *testing.T, e *Engine, _ *scripted) {
				var list []cloud.Instance
				for _, id := range tt.list {
					list = append(list, instance(id))
				}
				e.providers["east"], e.mem.heard[""] = still{lists: list}, true
				for end := time.Now().Add(12 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Second) {
					e.listed = e.listAll(t.Context())
					if _, err := e.reconcile(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				n := e.mem.nodes["s1"]
				if got := n.Instance + " " + string(n.Phase); got != tt.want {
					t.Errorf("the server is %s, want %s", got, tt.want)
				}
				for _, id := range tt.list {
					if i := e.mem.instances[id]; i.Doomed != "" {
						t.Errorf("%s: %s", id, i.Doomed)
					}
				}
				if len(tt.list) > 1 && !strings.Contains(e.Health().Servers["s1"], "beside its own instance says that it is this server") {
					t.Errorf("told is %q", e.Health().Servers["s1"])
				}
			})
		})
	}
}

// TestAnOrderFindsTheServersInstance that was never adopted: it is not ended for a new one.
func TestAnOrderFindsTheServersInstance(t *testing.T) {
	st := serverUp()
	st.Nodes = nil
	inServed(t, st, 0, map[string]string{"s1": "IDLE+CLOUD+POWERING_UP"}, func(t *testing.T, e *Engine, s *scripted) {
		e.mem.orders["o"] = Order{ID: "o", Kind: Resume, Nodes: "s1", Made: time.Now()}
		if _, err := e.takeOrders(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := e.mem.nodes["s1"]; n.Phase != Up || n.Instance != "i-s1" || e.mem.instances["i-s1"].Doomed != "" {
			t.Errorf("%+v, %+v", n, e.mem.instances["i-s1"])
		}
	})
}

// TestPartitionsAreAskedForServersAlone: other nodes' orders need no more of Slurm than before.
func TestPartitionsAreAskedForServersAlone(t *testing.T) {
	inServed(t, State{}, 0, map[string]string{"c1": "IDLE+CLOUD"}, func(t *testing.T, e *Engine, s *scripted) {
		idles, err := e.idlers(t.Context(), []Order{{Kind: Suspend, Nodes: "c[1-4]"}, {Kind: Resume, Nodes: "s1"}}, s.snap)
		if err != nil || idles != nil {
			t.Errorf("%v, %v", idles, err)
		}
	})
}

// TestJobsThatWaitKeepAServer: a job that waits for nodes which mount from it will want its files.
func TestJobsThatWaitKeepAServer(t *testing.T) {
	for partition, want := range map[string][]string{"cloud": nil, "x,cloud": nil, "site": {"power_down s1"}} {
		st := serverUp()
		st.Nodes[0].Since = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		nodes := map[string]string{"s1": "IDLE+CLOUD"}
		for _, c := range []string{"c1", "c2", "c3", "c4"} {
			nodes[c] = "IDLE+CLOUD+POWERED_DOWN"
		}
		inServed(t, st, 30*time.Minute, nodes, func(t *testing.T, e *Engine, s *scripted) {
			p := e.pools["p"]
			p.Partition = "cloud"
			e.pools["p"] = p
			s.snap.Jobs = map[uint32]slurm.Job{9: {ID: 9, State: "PENDING", Partition: partition, Reason: "BeginTime"}, 8: {ID: 8, State: "COMPLETED", Partition: "cloud"}}
			for range 40 {
				if _, err := e.seeToServers(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			if diff := cmp.Diff(want, s.asked); diff != "" {
				t.Errorf("of a job in %s (-want +got):\n%s", partition, diff)
			}
		})
	}
}
