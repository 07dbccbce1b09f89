package power

import (
	"context"
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
		{"enough are left", func(*slurm.Job) {}, "IDLE+CLOUD+POWERED_DOWN", "IDLE+CLOUD+POWERED_DOWN", []string{"job 7 comment", "unhold 7"}},
		{"one is lacking, and one is idle elsewhere", func(*slurm.Job) {}, "IDLE+CLOUD+POWERED_DOWN", "DOWN+CLOUD", []string{"job 7 comment", "power_down c1"}},
		{"its user has a comment there", func(j *slurm.Job) { j.AdminComment = "see ticket 9" }, "IDLE+CLOUD+POWERED_DOWN", "DOWN+CLOUD", []string{"power_down c1"}},
		{"a partition that the pool is not named for", func(j *slurm.Job) { j.Partition = "long" }, "IDLE+CLOUD+POWERED_DOWN", "DOWN+CLOUD", []string{"job 7 comment", "power_down c1"}},
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
				for name, n := range s.snap.Nodes {
					n.Partitions = []string{"cloud", "long"}
					s.snap.Nodes[name] = n
				}
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

// TestUnbindTakesOnlyWhatIsIdle: what is somebody's stays, and no more goes than is lacking.
func TestUnbindTakesOnlyWhatIsIdle(t *testing.T) {
	n1, i1 := upAt("c1", "east")
	n2, i2 := upAt("c2", "east")
	n3, i3 := upAt("c3", "east")
	st := State{Nodes: []Node{n1, n2, n3}, Instances: []Instance{i1, i2, i3}}
	const idle = "IDLE+CLOUD"
	for _, tt := range []struct {
		name       string
		c1, c2, c3 string
		change     func(e *Engine)
		want       []string // of what is asked of nodes
	}{
		{"one of three", idle, idle, idle, nil, []string{"power_down c1"}},
		{"one is reserved", "IDLE+CLOUD+RESERVED", idle, idle, nil, []string{"power_down c2"}},
		{"one is planned for a job, one drained", "IDLE+CLOUD+PLANNED", "IDLE+CLOUD+DRAIN", idle, nil, []string{"power_down c3"}},
		{"one ends a job", "IDLE+CLOUD+COMPLETING", idle, idle, nil, []string{"power_down c2"}},
		{"one goes already", idle, "IDLE+CLOUD+POWERING_DOWN", idle, nil, nil},
		{"one is to go when its job has ended", idle, "MIXED+CLOUD+DRAIN+POWER_DOWN", idle, nil, nil},
		{"slurm.conf keeps some", idle, idle, idle, func(e *Engine) {
			e.cfg.Kept = func(context.Context) (func(slurm.Node) bool, error) {
				return func(n slurm.Node) bool { return n.Name != "c3" }, nil
			}
		}, []string{"power_down c3"}},
		{"one serves files", idle, idle, idle, func(e *Engine) { e.servers.pools["c1"] = Pool{Serves: true} }, []string{"power_down c2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			job := slurm.Job{ID: 7, State: "PENDING", Reason: badConstraints, Partition: "cloud", Features: "west", NumNodes: 2}
			active := map[string][]string{"c1": {"x", "east"}, "c2": {"x", "east"}, "c3": {"x", "east"}, "c4": {"x", "east", "west"}}
			states := map[string]string{"c1": tt.c1, "c2": tt.c2, "c3": tt.c3, "c4": "IDLE+CLOUD+POWERED_DOWN"}
			inTwoClouds(t, st, active, states, []slurm.Job{job}, func(e *Engine, s *scripted) {
				if tt.change != nil {
					tt.change(e)
				}
				if err := e.unbind(t.Context(), s.snap); err != nil {
					t.Fatal(err)
				}
				if want := append([]string{"job 7 comment"}, tt.want...); !slices.Equal(s.asked, want) {
					t.Errorf("asked %q, want %q", s.asked, want)
				}
			})
		})
	}
}

// TestFeaturesOfASourceThatIsGone: a pool of one source puts back what it took away when it had two; what
// an admin has taken away, and a node of an instance of that source, stay as they are.
func TestFeaturesOfASourceThatIsGone(t *testing.T) {
	n1, i1 := upAt("c1", "east")
	n2, i2 := upAt("c2", "west")
	st := State{Nodes: []Node{n1, n2}, Instances: []Instance{i1, i2}}
	active := map[string][]string{"c1": {"x", "east"}, "c2": {"x", "west"}, "c3": {"x", "west"}, "c4": {"east", "west"}}
	states := map[string]string{"c1": "IDLE+CLOUD", "c2": "IDLE+CLOUD", "c3": "IDLE+CLOUD+POWERED_DOWN", "c4": "IDLE+CLOUD+POWERED_DOWN"}
	inTwoClouds(t, st, active, states, nil, func(e *Engine, s *scripted) {
		p := e.pools["p"]
		p.Then = nil
		e.pools["p"] = p
		if err := e.label(t.Context(), s.snap); err != nil {
			t.Fatal(err)
		}
		if want := []string{"features x+east+west c1,c3"}; !slices.Equal(s.asked, want) {
			t.Errorf("asked %q, want %q", s.asked, want)
		}
	})
}
