package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/slurm"
)

// world is a journal and a Slurm in memory. Nodes that are powered down stay, drained.
type world struct {
	*testing.T
	mu      sync.Mutex
	up      []Node
	states  map[string]slurm.Node
	notes   []string
	updates []string
	reads   int
	err     error  // of Note and UpdateNodes
	refused error  // of UpdateNodes
	during  func() // while Slurm is read
}

func newWorld(t *testing.T, nodes int) *world {
	w := &world{T: t, states: map[string]slurm.Node{}}
	for i := range nodes {
		n := Node{Name: fmt.Sprintf("c%02d", i), Pool: "p", Provider: "east", Instance: fmt.Sprintf("i-%02d", i), Since: time.Now().Add(-time.Hour)}
		w.up = append(w.up, n)
		w.states[n.Name] = slurm.Node{Name: n.Name, State: slurm.NodeState{Base: "ALLOCATED", Flags: []string{"CLOUD"}}}
	}
	return w
}

func (w *world) Up() []Node { return w.nodes() }

func (w *world) nodes() []Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.up)
}

func (w *world) Note(_ context.Context, sick []Sick) error {
	for _, s := range sick {
		w.notes = append(w.notes, s.Instance)
	}
	return w.err
}

func (w *world) Fresh(context.Context, time.Time) (*slurm.Snapshot, error) {
	w.reads++
	if w.during != nil {
		w.mu.Lock()
		w.during()
		w.mu.Unlock()
	}
	nodes := map[string]slurm.Node{}
	for name, n := range w.states {
		nodes[name] = n
	}
	return &slurm.Snapshot{Taken: time.Now(), Nodes: nodes}, nil
}

func (w *world) UpdateNodes(_ context.Context, u slurm.NodeUpdate) error {
	if err := cmp.Or(w.err, w.refused); err != nil {
		return err
	}
	w.updates = append(w.updates, fmt.Sprintf("%s %s: %s", strings.Join(u.Nodes, ","), u.State, u.Reason))
	for _, name := range u.Nodes {
		w.states[name] = slurm.Node{Name: name, Reason: u.Reason, State: slurm.NodeState{Base: "MIXED", Flags: []string{"CLOUD", slurm.Drain, slurm.PowerDown}}}
	}
	return nil
}

// play has a monitor judge for so long while all agents beat; spoil changes beats. They beat half
// a second before it judges, so that no round of theirs is judged in two halves.
func (w *world) play(d time.Duration, spoil func(i int, b *Beat) (silent bool)) *Monitor {
	w.Helper()
	m := New(limits, w, w, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithTimeout(w.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		time.Sleep(limits.Interval() - time.Second/2)
		for ctx.Err() == nil {
			for i, n := range w.nodes() {
				b := Beat{Instance: n.Instance, At: time.Now(), Spool: 10}
				if !spoil(i, &b) {
					m.Hear(b)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(limits.Interval()):
			}
		}
	})
	m.Run(ctx)
	return m
}

func TestSickNodesAreDrainedInFewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 60)
		began := time.Now()
		m := w.play(5*time.Minute, func(i int, b *Beat) bool {
			if i < 3 {
				b.Spool = 99
			}
			return i == 3 && time.Since(began) > time.Minute || i == 4
		})
		want := []string{"c00,c01,c02 power_down_asap: burst: sick: the disk of slurmd's spool is over 95 % full",
			"c03 power_down_asap: burst: sick: its burst-agent is silent for 1m0s, and others are not"}
		if d := diff.Diff(want, w.updates); d != "" {
			t.Error(d)
		}
		if d := diff.Diff([]string{"i-00", "i-01", "i-02", "i-03"}, w.notes); d != "" {
			t.Error(d)
		}
		if w.reads > 15 { // of 60 rounds
			t.Errorf("Slurm is read %d times for nodes that are drained", w.reads)
		}
		if got, want := m.Count(), (Count{Heard: 58, Silent: 1, Never: 1, Sick: 4}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// TestAWrongLimitDrainsATenth of a pool at once, over a restart too, and one of a small pool.
func TestAWrongLimitDrainsATenth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 40)
		w.up[39].Pool = "small"
		full := func(_ int, b *Beat) bool { b.Spool = 99; return false }
		for range 2 {
			w.play(time.Hour, full)
			if len(w.updates) != 1 || !strings.HasPrefix(w.updates[0], "c00,c01,c02,c39 ") {
				t.Fatalf("%q", w.updates)
			}
		}
		// One has been replaced by a node that is well, or so it seems.
		w.up[0].Instance = "i-new"
		w.states["c00"] = w.states["c10"]
		w.play(time.Minute, func(i int, b *Beat) bool { return i == 0 || full(i, b) })
		if len(w.updates) != 2 || !strings.HasPrefix(w.updates[1], "c03 ") {
			t.Errorf("%q", w.updates)
		}
	})
}

// TestIdleNodesGoNoFaster: they are gone in a second.
func TestIdleNodesGoNoFaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 30)
		idle := w.states["c00"]
		w.during = func() {
			for name := range w.states {
				w.states[name] = idle // Slurm has powered it down and up again
			}
		}
		w.play(29*time.Minute, func(_ int, b *Beat) bool { b.Spool = 99; return false })
		if len(w.updates) != 3 {
			t.Errorf("%q", w.updates)
		}
	})
}

func TestWhoIsLeftAlone(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(w *world)
		want  int
	}{
		{"a sick node", func(*world) {}, 1},
		{"drained by an admin", func(w *world) { w.flags("MIXED", slurm.Drain) }, 0},
		{"powering down", func(w *world) { w.flags("IDLE", slurm.PoweringDown) }, 0},
		{"down", func(w *world) { w.flags("DOWN") }, 0},
		{"not responding to Slurm either", func(w *world) { w.flags("MIXED", slurm.NotResponding) }, 0},
		{"unknown to Slurm", func(w *world) { delete(w.states, "c00") }, 0},
		{"another instance by now", func(w *world) { w.during = func() { w.up[0].Instance = "i-new" } }, 0},
		{"not up any more", func(w *world) { w.during = func() { w.up = w.up[1:] } }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 3)
				tt.spoil(w)
				w.play(time.Minute, func(i int, b *Beat) bool {
					if b.Instance == "i-00" {
						b.Spool = 99
					}
					return false
				})
				if len(w.updates) != tt.want || len(w.notes) != tt.want {
					t.Errorf("%q, noted %q", w.updates, w.notes)
				}
			})
		})
	}
}

func (w *world) flags(base string, flags ...string) {
	w.states["c00"] = slurm.Node{Name: "c00", State: slurm.NodeState{Base: base, Flags: flags}}
}

// TestNothingIsDrainedUnnoted: the journal comes first, and Slurm is asked until it does it.
func TestNothingIsDrainedUnnoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		m := New(limits, w, w, slog.New(slog.DiscardHandler))
		for _, tt := range []struct {
			err     error // of the journal, and of Slurm
			updates int
		}{{errors.New("disk full"), 0}, {errors.New("disk full"), 0}, {nil, 1}, {nil, 1}} {
			w.err = tt.err
			for range 2 {
				m.Hear(Beat{Instance: "i-00", At: time.Now(), Spool: 99})
			}
			if err := m.round(t.Context(), time.Now()); (err == nil) != (tt.err == nil) || len(w.updates) != tt.updates {
				t.Errorf("%v: %q", err, w.updates)
			}
			time.Sleep(pace)
		}
	})
}

// TestSlurmIsAskedAgain at once, and the journal is not told twice.
func TestSlurmIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		refuse := 3
		w.during = func() {
			if w.refused = nil; refuse > 0 {
				w.refused = &slurm.PartialError{Failed: map[string]string{"c00": "no"}}
			}
			refuse--
		}
		w.play(2*time.Minute, func(i int, b *Beat) bool {
			if i == 0 {
				b.Spool = 99
			}
			return false
		})
		if len(w.updates) != 1 || refuse > -1 || len(w.notes) != 1 {
			t.Errorf("%q, noted %q, %d refusals left", w.updates, w.notes, refuse)
		}
	})
}

// TestAfterAPauseNobodyIsSilent: burstd has been stopped, or its host asleep,
// and most agents are heard again before it judges.
func TestAfterAPauseNobodyIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 5)
		m := New(limits, w, w, slog.New(slog.DiscardHandler))
		hear := func(nodes []Node) {
			for _, n := range nodes {
				m.Hear(Beat{Instance: n.Instance, At: time.Now(), Spool: 10})
			}
			if err := m.round(t.Context(), time.Now()); err != nil {
				t.Error(err)
			}
		}
		for range 60 {
			hear(w.up)
			time.Sleep(pace)
		}
		time.Sleep(5 * time.Minute)
		for range 11 { // for 50 s the last one is not heard
			hear(w.up[:4])
			time.Sleep(pace)
		}
		if len(w.updates) > 0 {
			t.Fatalf("%q", w.updates)
		}
		for range 3 {
			hear(w.up[:4])
			time.Sleep(pace)
		}
		if len(w.updates) != 1 || !strings.HasPrefix(w.updates[0], "c04 ") {
			t.Errorf("after a whole limit: %q", w.updates)
		}
	})
}
