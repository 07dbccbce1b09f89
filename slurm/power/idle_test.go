package power

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

// TestIdleNodesOfWhoIsRefused: of a job that the budget refuses again the nodes that are up are left, unless somebody has another use of them.
func TestIdleNodesOfWhoIsRefused(t *testing.T) {
	waiting := func(id uint32, change func(j *slurm.Job)) slurm.Job {
		j := slurm.Job{ID: id, State: "PENDING", Reason: "Resources", Partition: "p", NumNodes: 1, Eligible: time.Unix(1, 0)}
		if change != nil {
			change(&j)
		}
		return j
	}
	for _, tt := range []struct {
		name string
		more []slurm.Job
		tune func(e *Engine)
		want string // nodes that go
	}{
		{"nobody else", nil, nil, "c1 c2"},
		{"refused the first time", nil, func(e *Engine) { delete(e.mem.holds, 7) }, ""},
		{"for want of capacity at its last try", nil, func(e *Engine) { e.mem.holds[7] = Hold{Job: 7, Why: "no capacity", Released: true} }, ""},
		{"one has another job", []slurm.Job{{ID: 8, State: "RUNNING", Nodes: "c2"}}, nil, "c1"},
		{"one had another job", []slurm.Job{{ID: 8, State: "COMPLETED", Nodes: "c2"}}, nil, "c1 c2"},
		{"another may have one now", []slurm.Job{waiting(8, nil)}, nil, "c2"},
		{"its tasks may have them all", []slurm.Job{waiting(8, func(j *slurm.Job) { j.ArrayTask = "3-90" })}, nil, ""},
		{"it names one", []slurm.Job{waiting(8, func(j *slurm.Job) { j.Required = "c2" })}, nil, "c1"},
		{"it needs more", []slurm.Job{waiting(8, func(j *slurm.Job) { j.NumNodes = 3 })}, nil, "c1 c2"},
		{"it waits for another", []slurm.Job{waiting(8, func(j *slurm.Job) { j.Reason, j.Eligible = "Dependency", time.Time{} })}, nil, "c1 c2"},
		{"it begins later", []slurm.Job{waiting(8, func(j *slurm.Job) { j.Reason, j.Eligible = "BeginTime", at.AddDate(1, 0, 0) })}, nil, "c1 c2"},
		{"it is of another partition", []slurm.Job{waiting(8, func(j *slurm.Job) { j.Partition = "q" })}, nil, "c1 c2"},
		{"it wants other features", []slurm.Job{waiting(8, func(j *slurm.Job) { j.Features = "gpu" })}, nil, "c1 c2"},
		{"a component of it", []slurm.Job{{ID: 9, HetID: 7, State: "CONFIGURING", Nodes: "c4"}}, nil, "c1 c2 c4"},
		{"an hour of one is paid for", nil, func(e *Engine) { e.cfg.Paid = func(i Instance) bool { return i.ID == "i-c1" } }, "c2"},
		{"slurm.conf keeps one", nil, func(e *Engine) {
			e.cfg.Kept = func(context.Context) (func(slurm.Node) bool, error) {
				return func(n slurm.Node) bool { return n.Name == "c1" }, nil
			}
		}, "c2"},
		{"what it keeps is not known", nil, func(e *Engine) {
			e.cfg.Kept = func(context.Context) (func(slurm.Node) bool, error) { return nil, errors.New("scontrol: timeout") }
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := State{Holds: []Hold{{Job: 7, Why: overBudget + "x", Released: true}},
				Nodes: []Node{{Name: "c3", Pool: "p", Phase: Wanted, Job: 7, Whole: true, Made: at}}}
			for _, name := range []string{"c1", "c2", "c4"} {
				st.Nodes = append(st.Nodes, Node{Name: name, Pool: "p", Phase: Up, Instance: "i-" + name})
				st.Instances = append(st.Instances, Instance{Provider: "east", Assigned: name, Instance: cloud.Instance{ID: "i-" + name, Pool: "p", State: cloud.Running}})
			}
			jobs := append([]slurm.Job{{ID: 7, State: "CONFIGURING", Nodes: "c[1-3]", NumNodes: 3, Batch: true, Requeue: true, Partition: "p"}}, tt.more...)
			if slices.ContainsFunc(tt.more, func(j slurm.Job) bool { return j.HetID != 0 }) {
				jobs[0].HetID = 7
			}
			states := map[string]string{"c1": "ALLOCATED+CLOUD", "c2": "ALLOCATED+CLOUD", "c3": "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "c4": "ALLOCATED+CLOUD"}
			inSlurm(t, st, states, jobs, func(t *testing.T, e *Engine, s *scripted) {
				e.mem.heard[""] = true
				p := e.pools["p"]
				p.Partition = "p"
				e.pools["p"] = p
				e.cfg.Budget = func(context.Context, Standing) (Afford, error) {
					return func(...Launch) Refusal {
						return Refusal{Why: "x", Of: []Refused{{Job: 7, Why: "x"}}, Rest: map[string][]uint32{"c3": nil}}
					}, nil
				}
				if tt.tune != nil {
					tt.tune(e)
				}
				if _, err := e.launchWanted(t.Context()); err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, name := range slices.Sorted(maps.Keys(e.mem.nodes)) {
					if n := e.mem.nodes[name]; n.Phase == Up && n.Reason != "" {
						got = append(got, name)
					}
				}
				if n := e.mem.nodes["c3"]; n.Phase != Freeing {
					t.Errorf("c3 is %s", n.Phase)
				}
				if got := strings.Join(got, " "); got != tt.want {
					t.Errorf("to go are %q, want %q", got, tt.want)
				}
				if _, err := e.leaveNodes(t.Context()); err != nil {
					t.Fatal(err)
				}
				var asked []string
				for _, a := range s.asked {
					asked = append(asked, strings.Split(strings.TrimPrefix(a, "power_down_asap "), ",")...)
				}
				if slices.Sort(asked); strings.Join(asked, " ") != tt.want {
					t.Errorf("Slurm was asked %q", s.asked)
				}
			})
		})
	}
}
