package power

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

// TestAbsentInstances: each is missing from its own cloud's list, which tells
// something only if it shows others that the journal has.
func TestAbsentInstances(t *testing.T) {
	ages := -100 * 365 * 24 * time.Hour // of all but the new ones
	i := func(id, provider, doomed string) Instance {
		return Instance{Provider: provider, Assigned: id, Doomed: doomed, Instance: cloud.Instance{ID: id, State: cloud.Running, Launched: at.Add(ages)}}
	}
	shown := func(id string) cloud.Instance { return i(id, "", "").Instance }
	for _, tt := range []struct {
		name   string
		lists  map[string][]cloud.Instance
		newer  bool // c4 was launched after the others were missed
		want   map[string]time.Duration
		warned []string // providers
	}{
		{"both lists show others", map[string][]cloud.Instance{"east": {shown("c4")}, "west": {shown("d4")}}, false,
			map[string]time.Duration{"c1": absentFor, "c2": absentFor, "d1": absentFor, "d2": absentFor}, nil},
		{"empty lists: an outage", map[string][]cloud.Instance{"east": {}, "west": {}}, false, map[string]time.Duration{}, []string{"east", "west"}},
		{"one shows strangers only: another account", map[string][]cloud.Instance{"east": {shown("i-strange")}, "west": {shown("d4")}}, false,
			map[string]time.Duration{"d1": absentFor, "d2": absentFor}, []string{"east"}},
		{"one shows only what is newer: an exchanged account, for an hour", map[string][]cloud.Instance{"east": {shown("c4")}, "west": {shown("d4")}}, true,
			map[string]time.Duration{"c1": forgetAccount + 30*time.Second, "c2": forgetAccount + 30*time.Second, "d1": absentFor, "d2": absentFor}, []string{"east"}},
		{"another cloud's instance is no witness", map[string][]cloud.Instance{"east": {shown("d4")}, "west": {shown("d4")}}, false,
			map[string]time.Duration{"d1": absentFor, "d2": absentFor}, []string{"east"}},
		{"no answer", map[string][]cloud.Instance{}, false, map[string]time.Duration{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := State{Nodes: []Node{{Name: "c1", Phase: Up, Instance: "c1"}, {Name: "c4", Phase: Up, Instance: "c4"}, {Name: "d1", Phase: Up, Instance: "d1"}, {Name: "d4", Phase: Up, Instance: "d4"}},
					Instances: []Instance{i("c1", "east", ""), i("d1", "west", ""), i("c2", "east", "x"), i("d2", "west", "x"), i("c3", "silent", "x"), i("c4", "east", ""), i("d4", "west", "")}}
				if tt.newer {
					st.Instances[5].Launched = time.Now().Add(time.Minute)
				}
				e, p := testEngine(st)
				ended := map[string]time.Duration{}
				for begin := time.Now(); time.Since(begin) < 70*time.Minute; time.Sleep(30 * time.Second) {
					l := newListing(time.Now())
					l.lists = tt.lists
					var c Change
					e.takeLists(&c, l, reading(nil))
					if err := e.commit(t.Context(), c); err != nil {
						t.Fatal(err)
					}
					for _, i := range c.Instances {
						if _, ok := ended[i.ID]; !ok && i.State == cloud.Terminated {
							ended[i.ID] = time.Since(begin)
						}
					}
				}
				if c4, ok := ended["c4"]; ok && len(tt.lists["east"]) == 1 && tt.lists["east"][0].ID == "c4" {
					t.Errorf("what is shown ended after %s", c4)
				}
				delete(ended, "c4")
				if diff := cmp.Diff(tt.want, ended); diff != "" {
					t.Errorf("ended (-want +got):\n%s", diff)
				}
				var warned []string
				for _, c := range p.committed {
					for _, ev := range c.Events {
						if ev.Kind == "list-doubted" {
							warned = append(warned, strings.Fields(ev.Text)[1])
						}
					}
				}
				slices.Sort(warned)
				for n, name := range warned {
					warned[n] = strings.TrimSuffix(name, ":")
				}
				if !slices.Equal(warned, tt.warned) {
					t.Errorf("warned of %v, want %v", warned, tt.warned)
				}
			})
		})
	}
}

// TestTakeStray: instances of ours that the journal does not have.
func TestTakeStray(t *testing.T) {
	const boots, up, off, lost = "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "ALLOCATED+CLOUD", "IDLE+CLOUD+POWERED_DOWN", "ALLOCATED+CLOUD+NOT_RESPONDING"
	former := Instance{Provider: "east", Assigned: "c1", Instance: cloud.Instance{ID: "i-former", State: cloud.Running}}
	for _, tt := range []struct {
		name   string
		node   string // that it says it is
		at     string // address of c1 in Slurm, and of the instance
		twin   string // Slurm's state of c2, at the same address
		slurm  string // of that node, or of c1
		record *Node  // of that node
		listed bool   // the record's instance lives
		first  bool
		west   string // the node that an instance of the other cloud, at the same address, says it is
		token  string
		held   bool // the instance, by somebody who is no node
		want   []string
	}{
		{name: "a builder at work", token: cloud.BuilderToken(at), held: true},
		{name: "a builder at work, at a node's address", token: cloud.BuilderToken(at), held: true, at: "10.0.0.1", slurm: up},
		{name: "a builder that nobody holds", token: cloud.BuilderToken(at), want: []string{"i-1 doomed"}},
		{name: "a builder that nobody holds, at a node's address", token: cloud.BuilderToken(at), at: "10.0.0.1", slurm: up, want: []string{"i-1 doomed"}},
		{name: "a builder that nobody holds, first round", token: cloud.BuilderToken(at), first: true},
		{name: "no builder, held", held: true, want: []string{"i-1 doomed"}},
		{name: "says no node", want: []string{"i-1 doomed"}},
		{name: "says no node, first round", first: true},
		{name: "a node that is up", node: "c1", slurm: up, want: []string{"c1 booting"}},
		{name: "a node that is up, first round", node: "c1", slurm: up, first: true, want: []string{"c1 booting"}},
		{name: "a node that boots", node: "c1", slurm: boots, want: []string{"c1 booting"}},
		{name: "a node that does not respond", node: "c1", slurm: lost, want: []string{"c1 up"}},
		{name: "a node that is off", node: "c1", slurm: off, want: []string{"i-1 doomed"}},
		{name: "a node that Slurm does not show", node: "c1", want: []string{"i-1 doomed"}},
		{name: "a node of nobody's", node: "x1", slurm: up, want: []string{"i-1 doomed"}},
		{name: "the node's instance in the journal lives", node: "c1", slurm: up, record: &Node{Phase: Up, Instance: "i-former"}, listed: true, want: []string{"i-1 doomed"}},
		{name: "the node's instance in the journal is gone", node: "c1", slurm: up, record: &Node{Phase: Up, Instance: "i-former"}, want: []string{"c1 booting"}},
		{name: "the journal wants the node", node: "c1", slurm: up, record: &Node{Phase: Wanted}, want: []string{"c1 booting"}},
		{name: "the journal launches the node, which boots", node: "c1", slurm: boots, record: &Node{Phase: Launching}, want: []string{"i-1 doomed"}},
		{name: "the journal frees the node", node: "c1", slurm: up, record: &Node{Phase: Freeing}, want: []string{"c1 booting"}},
		{name: "says no node, and is where one is up", at: "10.0.0.1", slurm: up, want: []string{"c1 booting"}},
		{name: "says no node, and is where one is up, first round", at: "10.0.0.1", slurm: up, first: true, want: []string{"c1 booting"}},
		{name: "says no node, and is where one does not respond", at: "10.0.0.1", slurm: lost, want: []string{"c1 up"}},
		{name: "says no node, and is where one was", at: "10.0.0.1", slurm: off, want: []string{"i-1 doomed"}},
		{name: "says no node, and is where one boots that may have been there before", at: "10.0.0.1", slurm: boots, want: []string{"i-1 doomed"}},
		{name: "says no node, and is where two are up", at: "10.0.0.1", slurm: up, twin: up, want: []string{"i-1 doomed"}},
		{name: "says no node, and is where one is up and another was", at: "10.0.0.1", slurm: up, twin: off, want: []string{"c1 booting"}},
		{name: "says no node, and another cloud's at its address does", at: "10.0.0.1", slurm: up, west: "c1", want: []string{"c1 booting", "i-1 doomed"}},
		{name: "says no node, and another cloud's at its address is another", at: "10.0.0.1", slurm: up, west: "x1", want: []string{"c1 booting", "i-west doomed"}},
		{name: "says no node, and the journal's instance at its address lives", at: "10.0.0.1", slurm: up, record: &Node{Phase: Up, Instance: "i-former"}, listed: true, want: []string{"i-1 doomed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := State{Instances: []Instance{former}}
			of := "c1"
			if tt.node != "" {
				of = tt.node
			}
			if tt.record != nil {
				tt.record.Name = of
				st.Nodes = []Node{*tt.record}
			}
			e, _ := testEngine(st)
			e.heard["east"] = !tt.first
			e.cfg.Held = func(i cloud.Instance) bool { return tt.held && i.ID == "i-1" }
			list := []cloud.Instance{{ID: "i-1", Token: tt.token, Pool: "p", Node: tt.node, Addr: tt.at, State: cloud.Running}}
			if tt.listed {
				list = append(list, former.Instance)
			}
			nodes := map[string]string{}
			if tt.slurm != "" {
				nodes[of] = tt.slurm
			}
			if tt.twin != "" {
				nodes["c2"] = tt.twin
			}
			snap := reading(nodes)
			for name, n := range snap.Nodes {
				n.Addr = tt.at
				snap.Nodes[name] = n
			}
			var c Change
			l := newListing(at)
			l.lists["east"] = list
			if tt.west != "" {
				e.heard["west"] = true
				l.lists["west"] = []cloud.Instance{{ID: "i-west", Pool: "p", Node: tt.west, Addr: tt.at, State: cloud.Running}}
			}
			e.takeLists(&c, l, snap)
			if _, builder := cloud.BuilderUntil(tt.token); (len(e.Standing().Builders) > 0) != (builder && tt.held) {
				t.Errorf("builders at work: %v", e.Standing().Builders)
			}
			if got := sum(c); !slices.Equal(got, tt.want) {
				t.Errorf("planned %v, want %v", got, tt.want)
			}
		})
	}
}

// TestSettleNodes plays a round, and another after settle, on nodes that all sides show the same.
func TestSettleNodes(t *testing.T) {
	const boots, asked, off, lost = "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "ALLOCATED+CLOUD+POWERED_DOWN+POWER_UP", "IDLE+CLOUD+POWERED_DOWN", "DOWN+CLOUD+POWERED_DOWN"
	booting := func(name string) Node {
		return Node{Name: name, Pool: "p", Phase: Booting, Job: 7, Whole: true, Instance: "i-" + name}
	}
	is := func(node string, state cloud.State) Instance {
		i := onInstance("i-"+node, node, at)
		i.State = state
		return i
	}
	for _, tt := range []struct {
		name  string
		st    State
		slurm map[string]string
		made  string // nodes of a resume order that was made again
		want  map[string]Phase
	}{
		{name: "powered up without an order", slurm: map[string]string{"c1": boots}, made: "c1"},
		{name: "to be powered up: the order is yet to come", slurm: map[string]string{"c1": asked}},
		{name: "powered up, and nobody's", st: State{Nodes: []Node{{Name: "x1", Phase: Up, Instance: "i-x1"}}, Instances: []Instance{is("x1", cloud.Running)}},
			slurm: map[string]string{"x1": boots}, want: map[string]Phase{"x1": Up}},
		{name: "off, and nobody's", st: State{Nodes: []Node{{Name: "x1", Phase: Up, Instance: "i-x1"}}, Instances: []Instance{is("x1", cloud.Running)}},
			slurm: map[string]string{"x1": off}},
		{name: "one of a job failed, another's instance died", st: State{Nodes: []Node{booting("c1"), booting("c2")}, Instances: []Instance{is("c1", cloud.Running), is("c2", cloud.Terminated)}},
			slurm: map[string]string{"c1": lost, "c2": boots}, want: map[string]Phase{"c1": Freeing, "c2": Freeing}},
		{name: "one of a job failed, another is up", st: State{Nodes: []Node{booting("c1"), booting("c2")}, Instances: []Instance{is("c1", cloud.Running), is("c2", cloud.Running)}},
			slurm: map[string]string{"c1": lost, "c2": "ALLOCATED+CLOUD"}, want: map[string]Phase{"c1": Freeing, "c2": Up}},
		{name: "one of a job failed, another boots", st: State{Nodes: []Node{booting("c1"), booting("c2")}, Instances: []Instance{is("c1", cloud.Running), is("c2", cloud.Running)}},
			slurm: map[string]string{"c1": lost, "c2": boots}, want: map[string]Phase{"c1": Freeing, "c2": Freeing}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inSlurm(t, tt.st, tt.slurm, nil, func(t *testing.T, e *Engine, s *scripted) {
				e.rounds = 2
				for range 2 {
					list := slices.Collect(func(yield func(cloud.Instance) bool) {
						for _, i := range tt.st.Instances {
							if !yield(i.Instance) {
								return
							}
						}
					})
					l := &listing{began: time.Now(), lists: map[string][]cloud.Instance{"east": list}}
					if err := e.settleNodes(t.Context(), s.snap, l); err != nil {
						t.Fatal(err)
					}
					time.Sleep(settle)
				}
				var made []string
				for _, o := range e.mem.orders {
					made = append(made, o.Nodes)
				}
				if got := strings.Join(made, " "); got != tt.made {
					t.Errorf("orders made again for %q, want %q", got, tt.made)
				}
				if diff := cmp.Diff(tt.want, nodePhases(e)); diff != "" && len(tt.want)+len(e.mem.nodes) > 0 {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestADeadNodesJobs: all of them are held until the node is given back.
func TestADeadNodesJobs(t *testing.T) {
	job := func(id uint32) slurm.Job {
		return slurm.Job{ID: id, State: "RUNNING", Nodes: "c1", Requeue: true, Batch: true}
	}
	st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Up, Instance: "i-1", Job: 3}}, Instances: []Instance{{Provider: "east", Assigned: "c1", Instance: cloud.Instance{ID: "i-1", State: cloud.Terminated}}}}
	inSlurm(t, st, map[string]string{"c1": "MIXED+CLOUD"}, []slurm.Job{job(7), job(8)}, func(t *testing.T, e *Engine, s *scripted) {
		e.rounds = 2
		if err := e.settleNodes(t.Context(), s.snap, &listing{began: time.Now(), lists: map[string][]cloud.Instance{"east": {}}}); err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(e.mem.holds)); !slices.Equal(got, []uint32{7, 8}) {
			t.Errorf("held are %v", got)
		}
		if !e.freeing(7) || !e.freeing(8) {
			t.Error("a job is told before it is requeued")
		}
		time.Sleep(2 * time.Minute)
		if e.freeing(7) {
			t.Error("a node that cannot be freed keeps jobs from being told")
		}
	})
}

// TestAnOlderListRevivesNothing: it was begun before the instance was gone.
func TestAnOlderListRevivesNothing(t *testing.T) {
	i := onInstance("i-1", "c1", time.Now().Add(-time.Hour))
	i.Doomed = "why"
	e, _ := testEngine(State{Instances: []Instance{i}})
	e.heard["east"] = true
	older := &listing{began: time.Now(), lists: map[string][]cloud.Instance{"east": {i.Instance}}}
	ended := i.Instance
	ended.State = cloud.Terminated
	if err := e.commit(t.Context(), e.learn([]cloud.Instance{ended})); err != nil {
		t.Fatal(err)
	}
	var c Change
	e.takeLists(&c, older, reading(nil))
	if !c.Empty() {
		t.Errorf("an older list: %v", sum(c))
	}
	e.takeLists(&c, &listing{began: time.Now(), lists: older.lists}, reading(nil))
	if got := sum(c); !slices.Equal(got, []string{"i-1 doomed"}) {
		t.Errorf("a newer list that shows it again: %v", got)
	}
}
