package power

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

// TestPauseAndUnpause: no pool launches meanwhile, those who wait are told, and
// start when it ends. It survives a restart, and one that is not there is no error.
func TestPauseAndUnpause(t *testing.T) {
	const boots = "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"
	st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Wanted, Job: 7, Made: time.Now()}}}
	inSlurm(t, st, map[string]string{"c1": boots}, nil, func(t *testing.T, e *Engine, _ *scripted) {
		p := e.journal.(*paper)
		c := Change{Pause: &Pause{Since: time.Now(), By: "uid 0", Why: "storm (by uid 0)"}}
		if err := e.commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if _, err := e.launchWanted(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]Phase{"c1": Freeing}, nodePhases(e)); diff != "" || len(e.mem.launches) > 0 {
			t.Errorf("launches %v, nodes (-want +got):\n%s", e.mem.launches, diff)
		}
		h := e.mem.holds[7]
		if h.Why != "launches are paused: storm (by uid 0)" || time.Until(h.Start) < maxRetry-time.Minute {
			t.Errorf("the job is held for %q until %s", h.Why, h.Start)
		}
		if !slices.Contains(kinds(p.committed), "free") {
			t.Errorf("events %v", kinds(p.committed))
		}
	})
	held := []Hold{
		{Job: 7, Why: "launches are paused: storm (by uid 0)", Start: at.Add(time.Hour), Tries: 3, Released: true},
		{Job: 8, Why: "node c9: launches are paused: storm (by uid 0)", Start: at.Add(time.Hour), Released: true, NoRequeue: true},
		{Job: 9, Why: "no capacity", Start: at.Add(time.Hour), Released: true},
	}
	running(t, State{Holds: held}, map[string]string{"c1": "IDLE"}, nil, nil, func(t *testing.T, e *Engine) {
		if err := e.Unpause(t.Context(), "uid 0"); err != nil {
			t.Errorf("no pause: %v", err)
		}
		if since, _, _ := e.Paused(); !since.IsZero() {
			t.Error("paused")
		}
		if err := e.Pause(t.Context(), "uid 0", "storm"); err != nil {
			t.Fatal(err)
		}
		first, _, _ := e.Paused()
		time.Sleep(time.Minute)
		if err := e.Pause(t.Context(), "uid 5", "worse\nstorm"); err != nil {
			t.Fatal(err)
		}
		if since, by, why := e.Paused(); since.IsZero() || !since.Equal(first) || by != "uid 5" || why != "worse storm (by uid 5)" {
			t.Errorf("paused since %s (first %s) by %s: %q", since, first, by, why)
		}
		if err := e.Unpause(t.Context(), "uid 0"); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		var got []Hold
		for _, c := range written(t, e) {
			if c.Pause != nil && c.Pause.Since.IsZero() {
				got = c.Holds
			}
		}
		const over = "launches are not paused any more"
		want := []Hold{{Job: 7, Start: now, Why: over}, {Job: 8, Start: now, Why: over}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("released (-want +got):\n%s", diff)
		}
	})
	if m := newMemory(State{Pause: Pause{Since: at, By: "uid 0", Why: "w"}}); m.pause.By != "uid 0" {
		t.Error("the pause does not survive a restart")
	}
}

// TestAStartedPoolsJobsStart, and no others.
func TestAStartedPoolsJobsStart(t *testing.T) {
	st := State{Breakers: []Breaker{{Pool: "p", Stopped: at, Why: "w"}}, Holds: []Hold{
		{Job: 7, Why: "pool p is stopped: w", Start: at.Add(time.Hour), Released: true},
		{Job: 8, Why: "pool q is stopped: w", Start: at.Add(time.Hour), Released: true}}}
	running(t, st, map[string]string{"c1": "IDLE"}, nil, nil, func(t *testing.T, e *Engine) {
		if err := e.StartPool(t.Context(), "p", "uid 0"); err != nil {
			t.Fatal(err)
		}
		var got []uint32
		for _, c := range written(t, e) {
			for _, h := range c.Holds {
				if strings.Contains(h.Why, "launches again") && !h.Released {
					got = append(got, h.Job)
				}
			}
		}
		if !slices.Equal(got, []uint32{7}) {
			t.Errorf("released %v", got)
		}
	})
}

// begunAt is a cloud that knows no launch tokens, and has a part of what it was asked for: one more
// Launch would make the rest.
type begunAt struct {
	still
	calls *atomic.Int64
}

func (b begunAt) Launch(context.Context, cloud.LaunchRequest) ([]cloud.Instance, error) {
	b.calls.Add(1)
	return nil, errors.New("not to be asked")
}

// TestALaunchOfUnknownOutcomeIsResolvedInAPause: it is not asked for again, as that may make what
// has not begun. What came of it is found, and ends; a pool's other source has its nodes, if it may launch.
func TestALaunchOfUnknownOutcomeIsResolvedInAPause(t *testing.T) {
	came := []cloud.Instance{{ID: "i-1", Token: "t", Pool: "p", State: cloud.Running}}
	for _, tt := range []struct {
		name    string
		st      State
		doubt   bool
		several bool
		age     time.Duration
		want    Phase
		ended   bool
	}{
		{"never begun", State{Pause: Pause{Since: at, Why: "w"}}, false, false, 0, Freeing, true},
		{"in a pause", State{Pause: Pause{Since: at, Why: "w"}}, true, false, 0, Freeing, true},
		{"its pool is stopped", State{Breakers: []Breaker{{Pool: "p", Stopped: at, Why: "w"}}}, true, false, 0, Freeing, true},
		{"too late for Slurm", State{}, true, false, 14 * time.Minute, Freeing, true},
		{"its source is stopped", State{Breakers: []Breaker{{Pool: "p", Provider: "east", Stopped: at, Why: "w"}}}, true, true, 0, Wanted, true},
		{"it may be asked for", State{}, true, false, 0, Launching, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.st.Nodes = []Node{{Name: "c1", Pool: "p", Phase: Launching, Token: "t", Job: 7}}
			inTwoClouds(t, tt.st, nil, nil, nil, func(e *Engine, _ *scripted) {
				var calls atomic.Int64
				e.providers["east"] = begunAt{still{lists: came}, &calls}
				if p := e.pools["p"]; !tt.several {
					p.Then = nil
					e.pools["p"] = p
				}
				n := e.mem.nodes["c1"]
				n.Made = time.Now().Add(-tt.age)
				e.mem.nodes["c1"] = n
				e.mem.launches["t"] = Launch{Token: "t", Provider: "east", Nodes: []string{"c1"}, State: Written, Created: n.Made,
					Request: cloud.LaunchRequest{Token: "t", Pool: "p", Count: 40}}
				e.doubt["t"] = tt.doubt
				ctx, cancel := context.WithCancel(context.Background()) // of the bubble
				defer cancel()
				for range 2 {
					if _, err := e.callWritten(ctx); err != nil {
						t.Fatal(err)
					}
					e.calls.Wait()
					e.drain(ctx)
				}
				if diff := cmp.Diff(map[string]Phase{"c1": tt.want}, nodePhases(e)); diff != "" {
					t.Errorf("nodes (-want +got):\n%s", diff)
				}
				_, open := e.mem.launches["t"]
				if n := calls.Load(); n > 0 == tt.ended || open == tt.ended || (e.mem.instances["i-1"].Doomed != "") != tt.ended {
					t.Errorf("asked for %d times, open %v, instances %+v", n, open, e.mem.instances)
				}
			})
		})
	}
}

// TestBootFailuresDoNotCountInAPause: what is ended by hand stops no pool.
func TestBootFailuresDoNotCountInAPause(t *testing.T) {
	for _, paused := range []bool{true, false} {
		st := State{}
		if paused {
			st.Pause = Pause{Since: at}
		}
		e, _ := testEngine(st)
		i := Instance{Instance: cloud.Instance{ID: "i-1", Pool: "p"}}.failed("it is gone")
		if err := e.commit(t.Context(), Change{Instances: []Instance{i}}); err != nil {
			t.Fatal(err)
		}
		if n := e.mem.breakers["p"].Failures; (n == 0) != paused {
			t.Errorf("paused %v: %d failures", paused, n)
		}
	}
}

// written is what an engine that runs has committed so far.
func written(t *testing.T, e *Engine) (all []Change) {
	t.Helper()
	err := e.do(t.Context(), func(context.Context) error {
		all = slices.Clone(e.journal.(*paper).committed)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestAUsersOwnStartIsLeft when a pause, or a pool's stop, ends: of the jobs
// that wait, those start now whose start is the one that was set.
func TestAUsersOwnStartIsLeft(t *testing.T) {
	at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // as synctest has it
	held := func(id uint32, released bool) Hold {
		return Hold{Job: id, Why: pausedText + stoppedText("p", ""), Start: at.Add(time.Hour), Released: released}
	}
	waits := func(id uint32, eligible time.Time) slurm.Job {
		return slurm.Job{ID: id, State: "PENDING", Reason: "BeginTime", Eligible: eligible}
	}
	st := State{Pause: Pause{Since: at}, Breakers: []Breaker{{Pool: "p", Stopped: at}},
		Holds: []Hold{held(1, true), held(2, true), held(3, true), held(4, false), held(5, true)}}
	jobs := []slurm.Job{waits(1, at.Add(time.Hour+time.Second)), waits(2, at.Add(24*time.Hour)), waits(3, at.Add(-time.Hour)), waits(4, at.Add(2*time.Minute))}
	for name, resume := range map[string]func(*testing.T, *Engine) error{
		"pause": func(t *testing.T, e *Engine) error { return e.Unpause(t.Context(), "uid 0") },
		"pool":  func(t *testing.T, e *Engine) error { return e.StartPool(t.Context(), "p", "uid 0") },
	} {
		t.Run(name, func(t *testing.T) {
			running(t, st, map[string]string{"c1": "IDLE"}, jobs, nil, func(t *testing.T, e *Engine) {
				if err := resume(t, e); err != nil {
					t.Fatal(err)
				}
				var got []uint32
				for _, c := range written(t, e) {
					for _, h := range c.Holds {
						if (c.Pause != nil || len(c.Breakers) > 0) && !h.Released {
							got = append(got, h.Job)
						}
					}
				}
				if want := []uint32{1, 3, 4, 5}; !slices.Equal(got, want) {
					t.Errorf("started %v, want %v", got, want)
				}
			})
		})
	}
}
