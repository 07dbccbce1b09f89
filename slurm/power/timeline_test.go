package power

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

func sec(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }

func TestTimeline(t *testing.T) {
	node := func(p Phase, since int, instance string) Node {
		return Node{Name: "c1", Pool: "p", Phase: p, Since: sec(since), Order: "o1", Made: at, Job: 7, Instance: instance}
	}
	runs := func(id string, s cloud.State) Instance {
		return Instance{Assigned: "c1", Instance: cloud.Instance{ID: id, State: s}}
	}
	put := func(n Node) Change { return Change{Nodes: []Node{n}} }
	freed := node(Freeing, 9, "")
	freed.Reason = "no capacity"
	newer, alone := node(Booting, 3, "i-1"), node(Up, 40, "i-1")
	newer.Order, newer.Made = "o2", sec(2)
	alone.Job = 0
	nobody := node(Launching, 1, "")
	nobody.Job = 0
	stranger := node(Booting, 3, "i-1")
	stranger.Order = ""
	for _, tt := range []struct {
		name    string
		changes []Change // one a second
		want    []Boot   // what the last of them writes
	}{
		{"wanted", []Change{put(node(Wanted, 0, ""))}, []Boot{{Ordered: at}}},
		{"launching", []Change{put(node(Wanted, 0, "")), put(node(Launching, 1, ""))}, []Boot{{Ordered: at, Called: sec(1)}}},
		{"an instance that runs", []Change{put(node(Launching, 1, "")), {Nodes: []Node{node(Booting, 3, "i-1")}, Instances: []Instance{runs("i-1", cloud.Running)}}},
			[]Boot{{Ordered: at, Called: sec(1), Launched: sec(3), Running: sec(1), Instance: "i-1"}}},
		{"one that does not yet", []Change{put(node(Launching, 1, "")), {Nodes: []Node{node(Booting, 3, "i-1")}, Instances: []Instance{runs("i-1", cloud.Pending)}}},
			[]Boot{{Ordered: at, Called: sec(1), Launched: sec(3), Instance: "i-1"}}},
		{"it runs later", []Change{put(node(Booting, 3, "i-1")), {Instances: []Instance{runs("i-1", cloud.Running)}}},
			[]Boot{{Ordered: at, Launched: sec(3), Running: sec(1), Instance: "i-1"}}},
		{"another of its instances runs", []Change{put(node(Booting, 3, "i-1")), {Instances: []Instance{runs("i-0", cloud.Running)}}}, nil},
		{"it runs, as is heard after it has registered", []Change{put(node(Booting, 3, "i-1")), put(node(Up, 40, "i-1")), {Instances: []Instance{runs("i-1", cloud.Running)}}}, nil},
		{"registered, for a job", []Change{put(node(Booting, 3, "i-1")), put(node(Up, 40, "i-1"))},
			[]Boot{{Ordered: at, Launched: sec(3), Registered: sec(40), Instance: "i-1"}}},
		{"registered, for nobody", []Change{put(nobody), put(alone)}, []Boot{{Ordered: at, Called: sec(1), Registered: sec(40), Ended: sec(1), Outcome: BootUp}}},
		{"its address is set: no news", []Change{put(node(Booting, 3, "i-1")), put(node(Booting, 3, "i-1"))}, nil},
		{"no capacity", []Change{put(node(Launching, 1, "")), put(node(Wanted, 3, ""))}, []Boot{{Ordered: at}}},
		{"given back", []Change{put(node(Launching, 1, "")), put(freed)}, []Boot{{Ordered: at, Called: sec(1), Ended: sec(1), Outcome: "no capacity"}}},
		{"given back long after", []Change{put(freed)}, nil},
		{"dropped", []Change{put(node(Wanted, 0, "")), {DropNodes: []string{"c1"}}}, []Boot{{Ordered: at, Ended: sec(1), Outcome: "not wanted any more"}}},
		{"dropped and wanted anew in one", []Change{put(node(Booting, 3, "i-1")), {DropNodes: []string{"c1"}, Nodes: []Node{node(Wanted, 1, "")}}},
			[]Boot{{Ordered: at}}},
		{"a newer order takes it over", []Change{put(node(Booting, 3, "i-1")), put(newer)},
			[]Boot{{Ordered: at, Launched: sec(3), Instance: "i-1", Ended: sec(1), Outcome: "a newer order has the node"},
				{Order: "o2", Ordered: sec(2), Launched: sec(3), Instance: "i-1"}}},
		{"adopted", []Change{put(stranger)}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMemory(State{})
			var last Change
			for i, c := range tt.changes {
				m.timeline(&c, sec(i))
				m.apply(c)
				last = c
			}
			for i := range last.Boots {
				b := &last.Boots[i]
				if b.Node != "c1" || b.Pool != "p" || b.Order == "" {
					t.Errorf("whose is %+v?", b)
				}
				b.Node, b.Pool, b.Job = "", "", 0
				if b.Order == "o1" {
					b.Order = ""
				}
			}
			if diff := cmp.Diff(tt.want, last.Boots); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTook(t *testing.T) {
	b := Boot{Ordered: at, Called: sec(1), Launched: sec(3), Reachable: sec(20), Registered: sec(50), Started: sec(52)}
	want := map[Stage]time.Duration{StageQueued: time.Second, StageLaunched: 2 * time.Second, StageReachable: 17 * time.Second,
		StageRegistered: 30 * time.Second, StageStarted: 2 * time.Second}
	if diff := cmp.Diff(want, b.Took()); diff != "" || b.Total() != 52*time.Second {
		t.Errorf("in all %s (-want +got):\n%s", b.Total(), diff)
	}
	if b := (Boot{Ordered: sec(5), Launched: sec(3)}); b.Total() != 0 {
		t.Errorf("an instance from before the order: %s", b.Total())
	}
}

func TestStarted(t *testing.T) {
	const wait = -1
	for _, tt := range []struct {
		name       string
		job        *slurm.Job
		registered int
		want       int // seconds after the order; 0: it is not known; wait: open still
	}{
		{"runs", &slurm.Job{State: "RUNNING", Start: sec(45), Nodes: "c[1-2]"}, 40, 45},
		{"is over already", &slurm.Job{State: "COMPLETED", Start: sec(45), Nodes: "c[1-2]"}, 40, 45},
		{"ran before its node was seen registered", &slurm.Job{State: "RUNNING", Start: sec(35), Nodes: "c[1-2]"}, 40, 40},
		{"is being configured", &slurm.Job{State: "CONFIGURING", Start: sec(1), Nodes: "c[1-2]"}, 40, wait},
		{"waits again", &slurm.Job{State: "PENDING", Start: sec(90)}, 40, 0},
		{"runs again, elsewhere", &slurm.Job{State: "RUNNING", Start: sec(55), Nodes: "c[2-3]"}, 40, 0},
		{"was cancelled before it began", &slurm.Job{State: "CANCELLED", Start: sec(1), Nodes: "c[1-2]"}, 40, 0},
		{"was cancelled while it ran", &slurm.Job{State: "CANCELLED", Start: sec(41), Nodes: "c[1-2]"}, 40, 41},
		{"is gone", nil, 40, 0},
		{"the node has registered since the reading", &slurm.Job{State: "RUNNING", Start: sec(45), Nodes: "c[1-2]"}, 60, wait},
		{"the node has not registered", &slurm.Job{State: "RUNNING", Start: sec(45), Nodes: "c[1-2]"}, 0, wait},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := Boot{Node: "c1", Order: "o", Job: 7, Ordered: at}
			if tt.registered > 0 {
				b.Registered = sec(tt.registered)
			}
			snap := reading(nil)
			snap.Taken = sec(60)
			if tt.job != nil {
				tt.job.ID = 7
				snap.Jobs[7] = *tt.job
			}
			var c Change
			newMemory(State{Boots: []Boot{b}}).started(&c, snap)
			got := wait
			if len(c.Boots) == 1 && c.Boots[0].Outcome == BootUp {
				got = 0
				if s := c.Boots[0].Started; !s.IsZero() {
					got = int(s.Sub(at).Seconds())
				}
			}
			if got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}

// TestTheStartOfAShortJob: its node is suspended before the next round of reconcile.
func TestTheStartOfAShortJob(t *testing.T) {
	snap := reading(map[string]string{"c1": "IDLE+CLOUD+POWERING_DOWN"}, slurm.Job{ID: 7, State: "COMPLETED", Start: sec(45), Nodes: "c1"})
	snap.Taken = sec(60)
	m := newMemory(State{Boots: []Boot{{Node: "c1", Order: "o", Job: 7, Ordered: at, Registered: sec(40)}},
		Nodes: []Node{{Name: "c1", Pool: "p", Phase: Up, Made: at, Order: "o", Job: 7}}})
	c := taking{mem: m, snap: snap, pools: map[string]string{"c1": "p"}, now: sec(60)}.take(Order{Kind: Suspend, Nodes: "c1", Made: sec(58)})
	m.timeline(&c, sec(60))
	if len(c.DropNodes) != 1 || len(c.Boots) != 1 || !c.Boots[0].Started.Equal(sec(45)) || c.Boots[0].Outcome != BootUp {
		t.Errorf("planned: %+v", c)
	}
}
