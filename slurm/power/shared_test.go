package power

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm"
)

// TestANodeStaysForTheOthersOfIt: a job that cannot have all its nodes loses them. What others wait for beside it is launched for
// them: given back, it would be lost to them, and one of srun's would be over.
func TestANodeStaysForTheOthersOfIt(t *testing.T) {
	const boots = "ALLOCATED+CLOUD+POWERING_UP"
	waits := func(id uint32, nodes string, num int) slurm.Job {
		return slurm.Job{ID: id, State: "CONFIGURING", Nodes: nodes, NumNodes: num, Batch: true, Requeue: true}
	}
	srun := waits(20, "c1", 1)
	srun.Batch, srun.Requeue = false, false
	leader, part := waits(10, "c1", 1), waits(11, "d1", 1)
	leader.HetID, part.HetID = 10, 10
	node := func(name, pool string, job uint32, whole bool) Node {
		return Node{Name: name, Pool: pool, Phase: Wanted, Job: job, Whole: whole}
	}
	for _, tt := range []struct {
		name  string
		nodes []Node
		jobs  []slurm.Job
		want  map[string]Phase
		held  []uint32
		down  string
	}{
		{"of a heterogeneous job", []Node{node("c1", "p", 10, false), node("d1", "q", 11, false)}, []slurm.Job{leader, part, srun, waits(21, "c1", 1)},
			map[string]Phase{"c1": Launching, "d1": Freeing}, []uint32{10, 11}, "power_down_force d1"},
		{"of one of several nodes, in two pools", []Node{node("c1", "p", 10, true), node("d1", "q", 10, true)}, []slurm.Job{waits(10, "c1,d1", 2), srun},
			map[string]Phase{"c1": Launching, "d1": Freeing}, []uint32{10}, "power_down_force d1"},
		{"nobody else has it", []Node{node("c1", "p", 10, true), node("d1", "q", 10, true)}, []slurm.Job{waits(10, "c1,d1", 2)},
			map[string]Phase{"c1": Freeing, "d1": Freeing}, []uint32{10}, "power_down_force c1,d1"},
		{"the others need what there is none of", []Node{node("d1", "q", 10, true), node("d2", "q", 10, true)}, []slurm.Job{waits(10, "d[1-2]", 2), waits(21, "d1", 1)},
			map[string]Phase{"d1": Freeing, "d2": Freeing}, []uint32{10, 21}, "power_down_force d1,d2"},
		{"the other has both", []Node{node("c1", "p", 10, true), node("d1", "q", 10, true)}, []slurm.Job{waits(10, "c1,d1", 2), waits(12, "c1,d1", 2)},
			map[string]Phase{"c1": Freeing, "d1": Freeing}, []uint32{10, 12}, "power_down_force c1,d1"},
		{"the others lose it, too", []Node{node("c1", "p", 10, true), node("d1", "q", 10, true), node("d2", "q", 12, true)}, []slurm.Job{waits(10, "c1,d1", 2), waits(12, "c1,d2", 2)},
			map[string]Phase{"c1": Freeing, "d1": Freeing, "d2": Freeing}, []uint32{10, 12}, "power_down_force c1,d1,d2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := map[string]string{}
			for _, n := range tt.nodes {
				in[n.Name] = boots
			}
			st := State{Nodes: tt.nodes, Heard: []string{""}}
			inSlurm(t, st, in, tt.jobs, func(t *testing.T, e *Engine, s *scripted) {
				for name, n := range e.mem.nodes {
					n.Made = time.Now()
					e.mem.nodes[name] = n
				}
				e.mem.cool[coolKey{"west", cloud.Offering{Type: "big", Zone: "x", Market: cloud.OnDemand}}] = fleet.Cooldown{Failures: 1, Until: time.Now().Add(time.Minute)}
				e.sawJobs(s.snap)
				for range 4 {
					if _, err := e.launchWanted(t.Context()); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
				}
				s.snap.Taken = time.Now()
				if _, err := e.freeNodes(t.Context()); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, nodePhases(e)); diff != "" {
					t.Errorf("nodes (-want +got):\n%s", diff)
				}
				var held []uint32
				for id, h := range e.mem.holds {
					held = append(held, id)
					if want := "no capacity in pool q"; !strings.Contains(h.Why, want) {
						t.Errorf("job %d waits, as %q; want %q", id, h.Why, want)
					}
				}
				slices.Sort(held)
				if !slices.Equal(held, tt.held) {
					t.Errorf("held are %v, want %v", held, tt.held)
				}
				var down []string
				for _, c := range s.asked {
					if strings.HasPrefix(c, "power_down_force") {
						down = append(down, c)
					}
				}
				if got := strings.Join(down, "; "); got != tt.down {
					t.Errorf("%s, want %s", got, tt.down)
				}
			})
		})
	}
}

// TestWhatIsPreparedForAWhole: what one launch of a job lacks when all are prepared, keeps the others from being written.
func TestWhatIsPreparedForAWhole(t *testing.T) {
	st := State{Heard: []string{""}}
	for i, name := range []string{"c1", "c2", "c3", "c4"} {
		st.Nodes = append(st.Nodes, Node{Name: name, Pool: "p", Phase: Wanted, Job: uint32(10 + i)})
	}
	jobs := []slurm.Job{{ID: 10, HetID: 10}, {ID: 11, HetID: 10}, {ID: 12}, {ID: 13}}
	inSlurm(t, st, nil, jobs, func(t *testing.T, e *Engine, s *scripted) {
		e.sawJobs(s.snap)
		var drafts []draft
		var requests []cloud.LaunchRequest
		errs := make([]error, 4)
		for i, name := range []string{"c1", "c2", "c3", "c4"} {
			token := fmt.Sprint("t", i)
			n := e.mem.nodes[name]
			l := Launch{Token: token, Provider: "east", Nodes: []string{name}, State: Written, Request: cloud.LaunchRequest{Token: token, Pool: "p", Count: 1,
				Offering: cloud.Offering{Type: "small", Zone: string('a' + rune(i)), Market: cloud.OnDemand}}}
			drafts, requests = append(drafts, draft{Launch: l, nodes: []Node{n}}), append(requests, l.Request)
		}
		errs[1] = &cloud.Error{Kind: cloud.Quota, Op: "prepare", Err: errors.New("none left")}
		errs[3] = &cloud.Error{Kind: cloud.Quota, Op: "prepare", Err: errors.New("none left")}
		e.prepared(t.Context(), "east", drafts, requests, errs)
		if diff := cmp.Diff(map[string]Phase{"c1": Wanted, "c2": Wanted, "c3": Launching, "c4": Wanted}, nodePhases(e)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestANodeThatFailsTakesNoOthers: when a node does not come up, the job's others go with it, but not what somebody else waits for.
func TestANodeThatFailsTakesNoOthers(t *testing.T) {
	st := State{Heard: []string{""}}
	for _, name := range []string{"c1", "c2", "c3"} {
		st.Nodes = append(st.Nodes, Node{Name: name, Pool: "p", Phase: Booting, Job: 10, Whole: true, Instance: "i-" + name})
		st.Instances = append(st.Instances, Instance{Instance: cloud.Instance{ID: "i-" + name, State: cloud.Running}, Provider: "east", Assigned: name})
	}
	jobs := []slurm.Job{{ID: 10, State: "CONFIGURING", Nodes: "c[1-3]", NumNodes: 3}, {ID: 20, State: "CONFIGURING", Nodes: "c2", NumNodes: 1}, {ID: 21, State: "RUNNING", Nodes: "c3", NumNodes: 1}}
	for name, plan := range map[string]func(e *Engine, c *Change, n Node, snap *slurm.Snapshot){
		"it did not come up": func(e *Engine, c *Change, n Node, snap *slurm.Snapshot) { e.giveUp(c, n, "x", snap) },
		"it is too late":     func(e *Engine, c *Change, n Node, snap *slurm.Snapshot) { e.giveWhole(c, []Node{n}, snap, "x", at) },
	} {
		inSlurm(t, st, nil, jobs, func(t *testing.T, e *Engine, s *scripted) {
			var c Change
			plan(e, &c, e.mem.nodes["c1"], s.snap)
			if err := e.commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]Phase{"c1": Freeing, "c2": Booting, "c3": Freeing}, nodePhases(e)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			if n := e.mem.nodes["c2"]; n.Job != 20 || n.Whole || e.mem.instances["i-c2"].Doomed != "" {
				t.Errorf("%s: %+v, %+v", name, n, e.mem.instances["i-c2"])
			}
		})
		both := slices.Clone(jobs)
		both[1].Nodes, both[1].NumNodes = "c[1-2]", 2
		inSlurm(t, st, nil, both, func(t *testing.T, e *Engine, s *scripted) {
			var c Change
			plan(e, &c, e.mem.nodes["c1"], s.snap)
			plan(e, &c, e.mem.nodes["c2"], s.snap) // in the same round
			if err := e.commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]Phase{"c1": Freeing, "c2": Freeing, "c3": Freeing}, nodePhases(e)); diff != "" {
				t.Errorf("%s, and the other has both (-want +got):\n%s", name, diff)
			}
		})
	}
}
