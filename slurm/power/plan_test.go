package power

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
)

func TestPlan(t *testing.T) {
	a, b := cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}, cloud.Offering{Type: "small", Zone: "b", Market: cloud.OnDemand}
	spot := cloud.Offering{Type: "small", Zone: "a", Market: cloud.Spot}
	node := func(name string, p Phase, job uint32) Node {
		return Node{Name: name, Pool: "p", Phase: p, Job: job, Whole: job > 0 && job < 100}
	}
	wanted := func(names string, job uint32) (all []Node) {
		for n := range strings.SplitSeq(names, ",") {
			all = append(all, node(n, Wanted, job))
		}
		return all
	}
	has := func(n Node, instance string) Node { n.Instance = instance; return n }
	in := func(pool string, n Node) Node { n.Pool = pool; return n }
	instance := func(id, node string, o cloud.Offering) Instance {
		return Instance{Provider: "east", Assigned: node, Instance: cloud.Instance{ID: id, Offering: o, State: cloud.Running}}
	}
	cooling := func(all ...cloud.Offering) (c []Cooling) {
		for _, o := range all {
			c = append(c, Cooling{"east", o, fleet.Cooldown{Failures: 1, Until: at.Add(time.Minute)}})
		}
		return c
	}
	held := []Hold{{Job: 7, Tries: 1, Released: true, Why: "no capacity in pool p (small/a/on-demand)"}}
	for _, tt := range []struct {
		name string
		st   State
		want []string // launches first: "small/a/on-demand: c1,c2 all"
	}{
		{"nothing", State{}, nil},
		{"nodes on their own are one launch for as many as one may hold", State{Nodes: wanted("c1,c2,c3", 0)},
			[]string{"small/a/on-demand: c1,c2", "small/a/on-demand: c3"}},
		{"a job's nodes are all or nothing, in parts", State{Nodes: wanted("c1,c2,c3", 7)},
			[]string{"small/a/on-demand: c1,c2 all", "small/a/on-demand: c3 all"}},
		{"each job is a launch", State{Nodes: slices.Concat(wanted("c1,c2", 8), wanted("c3,c4", 7))},
			[]string{"small/a/on-demand: c3,c4 all", "small/a/on-demand: c1,c2 all"}},
		{"the next offering", State{Nodes: wanted("c1", 0), Coolings: cooling(a)}, []string{"small/b/on-demand: c1"}},
		{"no offering: freed, and their jobs wait", State{Nodes: []Node{node("c1", Wanted, 107), node("c2", Wanted, 108)}, Coolings: cooling(a, b)},
			[]string{"c1 freeing job 107", "c2 freeing job 108", "hold 107", "hold 108"}},
		{"no offering: the job's other nodes are freed too", State{Nodes: []Node{node("c1", Wanted, 7), has(node("c2", Booting, 7), "i-2"), node("c3", Launching, 7), node("c4", Booting, 8)},
			Instances: []Instance{instance("i-2", "c2", a)}, Coolings: cooling(a, b)},
			[]string{"c1 freeing job 7 whole", "c2 freeing job 7 whole", "c3 freeing job 7 whole", "hold 7", "i-2 doomed"}},
		{"an instance of it still lives", State{Nodes: wanted("c1,c2", 0), Instances: []Instance{{Assigned: "c1", Doomed: "x", Instance: cloud.Instance{ID: "i-1"}}}},
			[]string{"small/a/on-demand: c2"}},
		{"a launch of it is unresolved", State{Nodes: wanted("c1,c2", 0), Launches: []Launch{{Token: "t", Provider: "east", State: Abandoned, Nodes: []string{"c1"}}}},
			[]string{"small/a/on-demand: c2"}},
		{"a job waits for the one node that cannot be launched yet", State{Nodes: wanted("c1,c2", 7), Launches: []Launch{{Token: "t", Provider: "east", State: Abandoned, Nodes: []string{"c1"}}}}, nil},
		{"as the job's node that is up", State{Nodes: []Node{node("c1", Wanted, 7), has(node("c2", Up, 7), "i-2")}, Instances: []Instance{instance("i-2", "c2", b)}},
			[]string{"small/b/on-demand: c1 all"}},
		{"as the job's node that is launching", State{Nodes: []Node{node("c1", Wanted, 7), {Name: "c2", Pool: "p", Phase: Launching, Job: 7, Whole: true, Token: "t"}},
			Launches: []Launch{{Token: "t", Provider: "east", Request: cloud.LaunchRequest{Offering: b}, Nodes: []string{"c2"}}}},
			[]string{"small/b/on-demand: c1 all"}},
		{"in the zone of the job's spot node, though the pool buys none", State{Nodes: []Node{node("c1", Wanted, 7), has(node("c2", Up, 7), "i-2")},
			Instances: []Instance{instance("i-2", "c2", spot)}}, []string{"small/a/on-demand: c1 all"}},
		{"no room where the job's node is up", State{Nodes: []Node{node("c1", Wanted, 7), has(node("c2", Up, 7), "i-2")},
			Instances: []Instance{instance("i-2", "c2", a)}, Coolings: cooling(a)}, []string{"c1 freeing job 7 whole", "hold 7"}},
		{"nor the second time", State{Nodes: []Node{node("c1", Wanted, 7), has(node("c2", Up, 7), "i-2")}, Holds: held,
			Instances: []Instance{instance("i-2", "c2", a)}, Coolings: cooling(a)}, []string{"c1 freeing job 7 whole", "c2 up job 7 whole", "hold 7"}},
		{"nor anywhere else", State{Nodes: []Node{node("c1", Wanted, 7), has(node("c2", Up, 7), "i-2")},
			Instances: []Instance{instance("i-2", "c2", a)}, Coolings: cooling(a, b), Holds: held}, []string{"c1 freeing job 7 whole", "hold 7"}},
		{"no room where a part of the job boots: all of it elsewhere", State{Nodes: []Node{node("c1", Wanted, 7), has(node("c2", Booting, 7), "i-2")},
			Instances: []Instance{instance("i-2", "c2", a)}, Coolings: cooling(a)}, []string{"c2 wanted job 7 whole", "i-2 doomed"}},
		{"a job with nodes of two pools", State{Nodes: []Node{node("c1", Wanted, 7), in("q", node("d1", Wanted, 7))}},
			[]string{"small/a/on-demand: c1 all", "big/x/on-demand: d1 all"}},
		{"a job with nodes of two pools, one up", State{Nodes: []Node{has(node("c1", Up, 7), "i-1"), in("q", node("d1", Wanted, 7))},
			Instances: []Instance{instance("i-1", "c1", a)}}, []string{"big/x/on-demand: d1 all"}},
		{"a job with nodes of two pools, no room in the first", State{Nodes: []Node{node("c1", Wanted, 7), in("q", node("d1", Wanted, 7))}, Coolings: cooling(a, b)},
			[]string{"c1 freeing job 7 whole", "d1 freeing job 7 whole", "hold 7"}},
		{"a job with nodes of two pools, no room in the second", State{Nodes: []Node{node("c1", Wanted, 7), in("q", node("d1", Wanted, 7))},
			Coolings: []Cooling{{"west", cloud.Offering{Type: "big", Zone: "x", Market: cloud.OnDemand}, fleet.Cooldown{Failures: 1, Until: at.Add(time.Minute)}}}},
			[]string{"c1 freeing job 7 whole", "d1 freeing job 7 whole", "hold 7"}},
		{"a pool that left the configuration", State{Nodes: []Node{in("old", node("c1", Wanted, 107))}}, []string{"c1 freeing job 107", "hold 107"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := planning{mem: newMemory(tt.st), pools: map[string]Pool{}, limits: map[string]cloud.Limits{"east": {MaxLaunch: 2}, "west": {MaxLaunch: 2}}, cluster: "x", now: at}
			for _, pool := range testPools() {
				p.pools[pool.Name] = pool
			}
			c := whole(p.plan())
			var got []string
			for _, l := range c.Launches {
				text := fmt.Sprintf("%s: %s", l.Request.Offering, strings.Join(l.Nodes, ","))
				if l.Request.AllOrNothing {
					text += " all"
				}
				if l.Request.Token != l.Token || l.Request.Count != len(l.Nodes) || l.Provider == "" || l.State != Uncalled {
					t.Errorf("a launch that is not whole: %+v", l)
				}
				got = append(got, text)
			}
			c.Nodes = slices.DeleteFunc(c.Nodes, func(n Node) bool { return n.Phase == Launching })
			if diff := cmp.Diff(tt.want, append(got, sum(c)...)); diff != "" {
				t.Errorf("planned (-want +got):\n%s", diff)
			}
			if again := whole(p.plan()); again.Empty() != (len(tt.want) == 0) {
				t.Error("the same plan twice differs")
			}
		})
	}
}

// whole is a plan with its launches written.
func whole(out planned) Change {
	for _, d := range out.drafts {
		d.write(&out.Change, at)
	}
	return out.Change
}

// TestAJobStaysTogetherInAPoolWithoutZones: an instance has a zone also where
// its pool names none, and the job's other nodes follow it.
func TestAJobStaysTogetherInAPoolWithoutZones(t *testing.T) {
	pool := testPools()[0]
	pool.Fleet = fleet.Config{Types: []string{"other", "small"}}
	there := cloud.Offering{Type: "small", Zone: "b", Market: cloud.OnDemand}
	st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Wanted, Job: 7, Whole: true}, {Name: "c2", Pool: "p", Phase: Up, Job: 7, Whole: true, Instance: "i-2"}},
		Instances: []Instance{{Provider: "east", Assigned: "c2", Instance: cloud.Instance{ID: "i-2", Offering: there}}}}
	p := planning{mem: newMemory(st), pools: map[string]Pool{"p": pool}, limits: map[string]cloud.Limits{"east": {MaxLaunch: 2}}, now: at}
	out := p.plan()
	if len(out.drafts) != 1 || out.drafts[0].Request.Offering != there {
		t.Fatalf("planned %+v, want %s", out.drafts, there)
	}
	// What it is refused there is remembered as such: it is not asked again at once, and its node is left for another type alone.
	p.mem.apply(Change{Coolings: []Cooling{{"east", there, fleet.Cooldown{Failures: 1, Until: at.Add(time.Minute)}}},
		Holds: []Hold{{Job: 7, Tries: 1, Why: "no capacity in pool p (small/b/on-demand)"}}})
	if diff := cmp.Diff([]string{"c1 freeing job 7 whole", "c2 up job 7 whole", "hold 7"}, sum(whole(p.plan()))); diff != "" {
		t.Errorf("planned (-want +got):\n%s", diff)
	}
	pool.Fleet.Types = []string{"small"}
	p.pools["p"] = pool
	if diff := cmp.Diff([]string{"c1 freeing job 7 whole", "hold 7"}, sum(whole(p.plan()))); diff != "" {
		t.Errorf("of one type: planned (-want +got):\n%s", diff)
	}
}

// TestPlanDoesNotSpin: what a plan has written is not planned again.
func TestPlanDoesNotSpin(t *testing.T) {
	a := cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}
	st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Wanted, Job: 7, Whole: true}, {Name: "c2", Pool: "p", Phase: Booting, Job: 7, Whole: true, Instance: "i-2"},
		{Name: "c3", Pool: "p", Phase: Wanted, Job: 8}},
		Instances: []Instance{{Provider: "east", Assigned: "c2", Instance: cloud.Instance{ID: "i-2", Offering: a}}},
		Coolings:  []Cooling{{"east", a, fleet.Cooldown{Failures: 1, Until: at.Add(time.Minute)}}}}
	p := planning{mem: newMemory(st), pools: map[string]Pool{"p": testPools()[0]}, limits: map[string]cloud.Limits{"east": {MaxLaunch: 2}}, now: at}
	for n := 0; ; n++ {
		c := whole(p.plan())
		if c.Empty() {
			return
		}
		if n > 1 {
			t.Fatalf("plan %d: %v", n, sum(c))
		}
		p.mem.apply(c)
	}
}

func TestHoldKeepsWhatItMustUndo(t *testing.T) {
	for _, released := range []bool{false, true} {
		var c Change
		hold(&c, newMemory(State{Holds: []Hold{{Job: 7, Tries: 2, NoRequeue: true, Released: released}}}), 7, at, "why")
		if h := c.Holds[0]; h.Tries != 3 || h.NoRequeue == released {
			t.Errorf("released %v: %+v", released, h)
		}
	}
}
