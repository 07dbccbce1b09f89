package power

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm"
)

// inTwoClouds is inSlurm with a pool p that buys of east and then of west; the
// nodes have these active features, and those of both, and x, in slurm.conf.
func inTwoClouds(t *testing.T, st State, active map[string][]string, states map[string]string, jobs []slurm.Job, f func(e *Engine, s *scripted)) {
	t.Helper()
	inSlurm(t, st, states, jobs, func(t *testing.T, e *Engine, s *scripted) {
		p := e.pools["p"]
		p.Partition, p.Then = "cloud", []Source{{Provider: "west", Fleet: fleet.Config{Types: []string{"big"}}}}
		e.pools["p"] = p
		for name, features := range active {
			n := s.snap.Nodes[name]
			n.Features, n.Available = features, []string{"x", "east", "west"}
			s.snap.Nodes[name] = n
		}
		f(e, s)
		synctest.Wait()
	})
}

func upAt(node, provider string) (Node, Instance) {
	i := onInstance("i-"+node, node, time.Now())
	i.Provider, i.State = provider, cloud.Running
	return Node{Name: node, Pool: "p", Phase: Up, Instance: i.ID}, i
}

// TestLabels: which active features nodes are given, and that nothing is asked of
// Slurm about those that have them.
func TestLabels(t *testing.T) {
	all := []string{"x", "east", "west"}
	n1, i1 := upAt("c1", "east")
	n2, i2 := upAt("c2", "west")
	n3, i3 := upAt("c3", "gone") // a source that has left the pool
	st := State{Nodes: []Node{n1, n2, n3}, Instances: []Instance{i1, i2, i3}}
	for _, tt := range []struct {
		name   string
		active map[string][]string
		want   []string
	}{
		{"as slurmctld has them after its start", map[string][]string{"c1": all, "c2": all, "c3": all, "c4": all},
			[]string{"features x c3", "features x+east c1", "features x+west c2"}},
		{"as they should be", map[string][]string{"c1": {"east", "x"}, "c2": {"x", "west"}, "c3": {"x"}, "c4": all}, nil},
		{"another instance, and none", map[string][]string{"c1": {"x", "west"}, "c2": {"x", "west"}, "c3": {"x"}, "c4": {"x", "west"}},
			[]string{"features x+east c1", "features x+east+west c4"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			states := map[string]string{"c1": "IDLE+CLOUD", "c2": "IDLE+CLOUD", "c3": "IDLE+CLOUD", "c4": "IDLE+CLOUD+POWERED_DOWN", "d1": "IDLE+CLOUD"}
			inTwoClouds(t, st, tt.active, states, nil, func(e *Engine, s *scripted) {
				e.relabel = true
				if _, err := e.labelNodes(t.Context()); err != nil {
					t.Fatal(err)
				}
				if slices.Sort(s.asked); !slices.Equal(s.asked, tt.want) || e.relabel {
					t.Errorf("asked %q, want %q", s.asked, tt.want)
				}
				if _, err := e.labelNodes(t.Context()); err != nil || len(s.asked) != len(tt.want) {
					t.Errorf("asked again: %q, %v", s.asked, err)
				}
			})
		})
	}
}

// TestUnbind: a job that Slurm has given up since its provider's nodes are too few.
func TestUnbind(t *testing.T) {
	n1, i1 := upAt("c1", "east")
	n2, i2 := upAt("c2", "east")
	st := State{Nodes: []Node{n1, n2}, Instances: []Instance{i1, i2}}
	job := slurm.Job{ID: 7, State: "PENDING", Reason: badConstraints, Partition: "cloud,onprem", Features: "west", NumNodes: 2}
	for _, tt := range []struct {
		name   string
		change func(*slurm.Job)
		c3, c4 string
		want   []string
	}{
		{"enough are left", func(*slurm.Job) {}, "IDLE+CLOUD+POWERED_DOWN", "IDLE+CLOUD+POWERED_DOWN", []string{"unhold 7"}},
		{"one is lacking, and one is idle elsewhere", func(*slurm.Job) {}, "IDLE+CLOUD+POWERED_DOWN", "DOWN+CLOUD", []string{"power_down c1"}},
		{"it keeps to none", func(j *slurm.Job) { j.Features = "x" }, "IDLE+CLOUD+POWERED_DOWN", "DOWN+CLOUD", nil},
		{"it waits for something else", func(j *slurm.Job) { j.Reason = "Resources" }, "IDLE+CLOUD", "IDLE+CLOUD", nil},
		{"an admin holds it", func(j *slurm.Job) { j.Reason = "JobHeldAdmin" }, "IDLE+CLOUD", "IDLE+CLOUD", nil},
		{"another partition's", func(j *slurm.Job) { j.Partition = "onprem" }, "IDLE+CLOUD", "IDLE+CLOUD", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := job
			tt.change(&j)
			all := []string{"x", "east", "west"}
			active := map[string][]string{"c1": {"x", "east"}, "c2": {"x", "east"}, "c3": all, "c4": all}
			states := map[string]string{"c1": "IDLE+CLOUD", "c2": "ALLOCATED+CLOUD", "c3": tt.c3, "c4": tt.c4}
			inTwoClouds(t, st, active, states, []slurm.Job{j}, func(e *Engine, s *scripted) {
				for range 3 { // the third time is none: it is seen to at the 1st, 2nd, 4th, …
					if err := e.unbind(t.Context(), s.snap); err != nil {
						t.Fatal(err)
					}
				}
				if want := append(slices.Clone(tt.want), tt.want...); !slices.Equal(s.asked, want) {
					t.Errorf("asked %q, want %q", s.asked, want)
				}
			})
		})
	}
}
