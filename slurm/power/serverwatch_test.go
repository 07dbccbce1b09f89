package power

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// clientBoots adds a client of server s1 that boots since an hour after early.
func clientBoots(st State) State {
	st.Nodes = append(st.Nodes, Node{Name: "c1", Pool: "p", Phase: Booting, Instance: "i-c1", Job: 7, Made: time.Date(2000, 1, 1, 0, 59, 0, 0, time.UTC)})
	st.Instances = append(st.Instances, onInstance("i-c1", "c1", early.Add(time.Hour)))
	return st
}

// TestABootWithoutItsServerIsNotCounted: a node's boot fails since the server from which it mounts was away. It
// waits for it, as often as that happens, and its pool is not stopped for it.
func TestABootWithoutItsServerIsNotCounted(t *testing.T) {
	gone := serverUp()
	gone.Nodes[0].Phase, gone.Nodes[0].Instance = Freeing, ""
	newer := serverUp()
	newer.Instances[0].Launched = early.Add(2 * time.Hour)
	for _, tt := range []struct {
		name    string
		st      State
		silent  bool
		counted bool
	}{
		{"the server was there all the time", serverUp(), false, true},
		{"it is gone", gone, false, false},
		{"another has come since", newer, false, false},
		{"it did not answer for a while", serverUp(), true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inServed(t, clientBoots(tt.st), 0, map[string]string{"s1": "IDLE+CLOUD", "c1": "ALLOCATED+CLOUD+POWERING_UP"}, func(t *testing.T, e *Engine, s *scripted) {
				p := e.pools["p"]
				p.MaxBootFailures = 1
				e.pools["p"] = p
				if tt.silent {
					e.slurm.(*scripted).snap.Nodes["s1"] = slurm.Node{State: parseState("IDLE+CLOUD+NOT_RESPONDING")}
					snap, _ := e.slurm.Fresh(t.Context(), time.Now())
					if err := e.observe(t.Context(), snap); err != nil {
						t.Fatal(err)
					}
					s.snap.Nodes["s1"] = slurm.Node{State: parseState("IDLE+CLOUD")}
				}
				e.words = []word{{instance: "i-c1", stage: ReportFailed, text: "step mounts: server s1 is not up any more", at: time.Now()}}
				if _, err := e.takeWords(t.Context()); err != nil {
					t.Fatal(err)
				}
				n, b := e.mem.nodes["c1"], e.mem.breakers["p"]
				if (b.Failures > 0) != tt.counted || b.Stopped.IsZero() == tt.counted || n.Phase != Wanted || (n.Tries > 0) != tt.counted {
					t.Errorf("the node: %+v, the pool: %+v", n, b)
				}
				if i := e.mem.instances["i-c1"]; !i.Failed || i.Doomed == "" {
					t.Errorf("its instance: %+v", i)
				}
			})
		})
	}
}

// TestALostServerIsTold to the admin once and to the jobs that run on nodes which have mounted from it, whose
// comment is taken back when they run elsewhere.
func TestALostServerIsTold(t *testing.T) {
	const lost = "burst: server s1, which node c1 mounted from, is gone with its files: what uses them hangs; requeue or cancel the job"
	st := serverUp()
	st.Nodes = append(st.Nodes, Node{Name: "c1", Pool: "p", Phase: Up, Instance: "i-c1"}, Node{Name: "c2", Pool: "p", Phase: Up, Instance: "i-c2"})
	st.Instances = append(st.Instances, onInstance("i-c1", "c1", early.Add(time.Hour)), onInstance("i-c2", "c2", early.Add(3*time.Hour)))
	inServed(t, st, 0, map[string]string{"s1": "IDLE+CLOUD", "c1": "ALLOCATED+CLOUD", "c2": "ALLOCATED+CLOUD"}, func(t *testing.T, e *Engine, s *scripted) {
		c := &commented{scripted: s}
		e.slurm = c
		s.snap.Jobs = map[uint32]slurm.Job{7: {ID: 7, State: "RUNNING", Nodes: "c1"}, 8: {ID: 8, State: "RUNNING", Nodes: "c2"},
			9: {ID: 9, State: "RUNNING", Nodes: "c1", AdminComment: "the admin's"}, 10: {ID: 10, State: "COMPLETED", Nodes: "c1"}}
		look := func() {
			for range 3 {
				time.Sleep(10 * time.Second)
				snap, _ := e.slurm.Fresh(t.Context(), time.Now())
				if err := e.observe(t.Context(), snap); err != nil {
					t.Fatal(err)
				}
				e.calls.Wait()
				e.drain(t.Context())
			}
		}
		comments := func() string {
			var all []string
			for _, id := range []uint32{7, 8, 9, 10} {
				all = append(all, s.snap.Jobs[id].AdminComment)
			}
			return strings.Join(all, "|")
		}
		events := func() (n int) {
			for _, kind := range kindsOf(e) {
				if kind == "server-lost" {
					n++
				}
			}
			return n
		}
		look()
		if got := comments(); got != "||the admin's|" || events() != 0 {
			t.Errorf("nothing is wrong: %q, %d events", got, events())
		}
		// Another instance is the server: launched after c1, before c2.
		i := e.mem.instances["i-s1"]
		i.Launched = early.Add(2 * time.Hour)
		e.mem.instances["i-s1"] = i
		look()
		if got := comments(); got != lost+"||the admin's|" || events() != 1 {
			t.Errorf("it is lost: %q, %d events", got, events())
		}
		j := s.snap.Jobs[7]
		j.State, j.Nodes = "RUNNING", "c2"
		s.snap.Jobs[7] = j
		look()
		if got := comments(); got != "||the admin's|" || events() != 1 {
			t.Errorf("it runs elsewhere: %q, %d events", got, events())
		}
	})
}

// TestAJobIsNotToldForEver that it waits for a server that is up.
func TestAJobIsNotToldForEver(t *testing.T) {
	st := serverUp()
	st.Nodes = append(st.Nodes, Node{Name: "c2", Pool: "p", Phase: Wanted, Job: 8, Order: "o"})
	inServed(t, st, 0, map[string]string{"s1": "IDLE+CLOUD", "c1": "ALLOCATED+CLOUD"}, func(t *testing.T, e *Engine, s *scripted) {
		c := &commented{scripted: s}
		e.slurm = c
		const waits = "burst: its nodes are launched when server s1 is up, which they mount from"
		s.snap.Jobs = map[uint32]slurm.Job{7: {ID: 7, State: "RUNNING", Nodes: "c1", AdminComment: waits}, 8: {ID: 8, State: "CONFIGURING", AdminComment: waits}}
		snap, _ := e.slurm.Fresh(t.Context(), time.Now())
		if err := e.observe(t.Context(), snap); err != nil {
			t.Fatal(err)
		}
		e.calls.Wait()
		if a, b := s.snap.Jobs[7].AdminComment, s.snap.Jobs[8].AdminComment; a != "" || b != waits {
			t.Errorf("told are %q and %q", a, b)
		}
	})
}

// TestASitesPartitionIsTold that gives the server to jobs, and only after a while.
func TestASitesPartitionIsTold(t *testing.T) {
	inServed(t, serverUp(), 0, map[string]string{"s1": "IDLE+CLOUD"}, func(t *testing.T, e *Engine, s *scripted) {
		n := s.snap.Nodes["s1"]
		n.Partitions = []string{"all", "s"}
		s.snap.Nodes["s1"] = n
		var said []string
		for range 12 {
			time.Sleep(10 * time.Second)
			snap, _ := e.slurm.Fresh(t.Context(), time.Now())
			if err := e.observe(t.Context(), snap); err != nil {
				t.Fatal(err)
			}
			said = append(said, e.Health().Servers["s1"])
		}
		if said[4] != "" || !strings.HasPrefix(said[11], "partition all of slurm.conf gives it to jobs") {
			t.Errorf("%q", said)
		}
		n.Partitions = []string{"s"}
		s.snap.Nodes["s1"] = n
		time.Sleep(time.Second)
		snap, _ := e.slurm.Fresh(t.Context(), time.Now())
		if err := e.observe(t.Context(), snap); err != nil {
			t.Fatal(err)
		}
		if kinds := kindsOf(e); !slices.Equal(kinds, []string{"server-trouble", "server-well"}) {
			t.Errorf("%q", kinds)
		}
	})
}

// kindsOf are those of the events in the journal.
func kindsOf(e *Engine) (kinds []string) {
	for _, c := range e.journal.(*paper).committed {
		for _, ev := range c.Events {
			kinds = append(kinds, ev.Kind)
		}
	}
	return kinds
}

// commented is a Slurm that shows what jobs are told.
type commented struct{ *scripted }

// Fresh is a reading of its own, which comments that come later do not change.
func (c *commented) Fresh(ctx context.Context, after time.Time) (*slurm.Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	snap, err := c.scripted.Fresh(ctx, after)
	snap.Jobs = maps.Clone(snap.Jobs)
	return snap, err
}

func (c *commented) UpdateJob(_ context.Context, id uint32, u slurm.JobUpdate) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.snap.Jobs[id]
	j.AdminComment = *u.AdminComment
	c.snap.Jobs[id] = j
	return nil
}
