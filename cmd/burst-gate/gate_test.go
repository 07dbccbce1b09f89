package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/slurm"
)

// world is burstd and Slurm over time since its start.
type world struct {
	start      time.Time
	burstd     func(t time.Duration) (api.GateAnswer, error) // nil: away
	hangs      bool                                          // burstd takes questions and never answers
	job        func(t time.Duration) (string, error)         // state
	node       func(t time.Duration) string                  // state of the one node
	config     map[string]string                             // nil: Slurm does not say
	partitions []string                                      // their ResumeTimeout; nil: Slurm does not say
	parent     func(t time.Duration) int
	before     int // earlier attempts of the job
	asked      int
	looked     int
}

func (w *world) now() time.Duration { return time.Since(w.start) }

func (w *world) Gate(ctx context.Context, job uint32, nodes string, wait time.Duration) (api.GateAnswer, error) {
	w.asked++
	if w.hangs {
		<-ctx.Done()
		return api.GateAnswer{}, ctx.Err()
	}
	for end := w.now() + wait; ; {
		if w.burstd == nil {
			return api.GateAnswer{}, api.ErrAway
		}
		a, err := w.burstd(w.now())
		if err != nil || a.Go || w.now() >= end {
			return a, err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return api.GateAnswer{}, err
		}
	}
}

func (w *world) Job(context.Context, uint32) (slurm.Job, error) {
	w.looked++
	state, err := w.job(w.now())
	return slurm.Job{ID: 7, State: state, Restarts: w.before}, err
}

func (w *world) Nodes(_ context.Context, names ...string) ([]slurm.Node, error) {
	state := strings.Split(w.node(w.now()), "+")
	return []slurm.Node{{Name: names[0], State: slurm.NodeState{Base: state[0], Flags: state[1:]}}}, nil
}

func (w *world) ShowConfig(context.Context) (map[string]string, error) {
	if w.config == nil {
		return nil, errors.New("no answer")
	}
	return w.config, nil
}

func (w *world) ShowPartitions(context.Context) (all []map[string]string, err error) {
	if w.partitions == nil {
		return nil, errors.New("no answer")
	}
	for _, timeout := range w.partitions {
		all = append(all, map[string]string{"ResumeTimeout": timeout})
	}
	return all, nil
}

const (
	booting = "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"
	up      = "ALLOCATED+CLOUD"
)

func at[T any](when time.Duration, before, after T) func(time.Duration) T {
	return func(t time.Duration) T {
		if t < when {
			return before
		}
		return after
	}
}

func TestWait(t *testing.T) {
	open := api.GateAnswer{Go: true, Why: "registered"}
	closed := api.GateAnswer{Why: "c1 is booting"}
	configuring := func(time.Duration) (string, error) { return "CONFIGURING", nil }
	for _, test := range []struct {
		name     string
		w        world
		min, max time.Duration // how long it may take
		err      string        // part of the error
		asked    int           // questions to burstd at most, 0: any
		looked   int           // at Slurm, at most
	}{
		{name: "burstd opens", w: world{burstd: func(t time.Duration) (api.GateAnswer, error) {
			return at(42*time.Second, closed, open)(t), nil
		}}, min: 42 * time.Second, max: 42*time.Second + 60*time.Millisecond, asked: 11},
		{name: "no cloud nodes", w: world{burstd: func(time.Duration) (api.GateAnswer, error) { return open, nil }}, asked: 1},
		{name: "burstd is away", w: world{job: configuring, node: at(20*time.Second, booting, up)},
			min: 20 * time.Second, max: 20*time.Second + 250*time.Millisecond, looked: 202},
		{name: "the job has run before: burstd has to come back", w: world{before: 1, job: configuring, node: at(0, "", up),
			burstd: func(t time.Duration) (api.GateAnswer, error) {
				if t < 40*time.Second {
					return api.GateAnswer{}, api.ErrAway
				}
				return open, nil
			}}, min: 40 * time.Second, max: 40*time.Second + 250*time.Millisecond},
		{name: "the job has run before, and burstd never comes", w: world{before: 1, job: configuring, node: at(0, "", up),
			config: map[string]string{"PrologEpilogTimeout": "100"}},
			min: 90 * time.Second, max: 91 * time.Second, err: "only burstd, which is away, knows whether that attempt has ended"},
		{name: "the job has run before, and runs on-prem", w: world{before: 1, job: configuring, node: at(0, "", "ALLOCATED")}, looked: 1},
		{name: "the job has run before, and is requeued", w: world{before: 1, node: at(0, "", up), job: func(t time.Duration) (string, error) {
			return at(5*time.Second, "CONFIGURING", "PENDING")(t), nil
		}}, min: 5 * time.Second, max: 5*time.Second + 250*time.Millisecond},
		{name: "burstd is away, on-prem nodes", w: world{job: configuring, node: at(0, "", "ALLOCATED")}, looked: 1},
		{name: "burstd restarts", w: world{job: configuring, node: at(time.Hour, booting, up),
			burstd: func(t time.Duration) (api.GateAnswer, error) {
				if t > 3*time.Second && t < 8*time.Second {
					return api.GateAnswer{}, api.ErrAway
				}
				return at(12*time.Second, closed, open)(t), nil
			}}, min: 12 * time.Second, max: 12*time.Second + 60*time.Millisecond, looked: 60},
		{name: "burstd hangs", w: world{hangs: true, job: configuring, node: at(time.Second, booting, up)},
			min: 3 * time.Second, max: 12 * time.Second, looked: 2},
		{name: "burstd errs", w: world{job: configuring, node: at(time.Second, booting, up),
			burstd: func(time.Duration) (api.GateAnswer, error) {
				return api.GateAnswer{}, &api.Error{Status: 500, Message: "Slurm does not answer"}
			}}, min: time.Second, max: 1250 * time.Millisecond},
		{name: "job is requeued", w: world{job: func(t time.Duration) (string, error) {
			return at(5*time.Second, "CONFIGURING", "PENDING")(t), nil
		}, node: at(0, "", booting)}, min: 5 * time.Second, max: 5*time.Second + 250*time.Millisecond},
		{name: "job is forgotten", w: world{job: func(t time.Duration) (string, error) {
			if t < 5*time.Second {
				return "CONFIGURING", nil
			}
			return "", slurm.ErrNoJob
		}, node: at(0, "", booting)}, min: 5 * time.Second, max: 5*time.Second + 250*time.Millisecond},
		{name: "slurmctld goes", w: world{job: configuring, node: at(0, "", booting), parent: at(9*time.Second, 100, 1)},
			min: 9 * time.Second, max: 10 * time.Second, err: "slurmctld is gone"},
		{name: "slurmctld goes while burstd is asked", w: world{parent: at(9*time.Second, 100, 1),
			burstd: func(time.Duration) (api.GateAnswer, error) { return closed, nil }},
			min: 9 * time.Second, max: 10 * time.Second, err: "slurmctld is gone"},
		{name: "below PrologEpilogTimeout", w: world{config: map[string]string{"PrologEpilogTimeout": "100"},
			burstd: func(time.Duration) (api.GateAnswer, error) { return closed, nil }},
			min: 90 * time.Second, max: 91 * time.Second, err: "job 7 goes on after 1m30s, the longest wait"},
		{name: "below PrologTimeout, which then counts", w: world{config: map[string]string{"PrologEpilogTimeout": "", "PrologTimeout": "200"},
			burstd: func(time.Duration) (api.GateAnswer, error) { return closed, nil }},
			min: 180 * time.Second, max: 181 * time.Second, err: "job 7 goes on after 3m0s, the longest wait"},
		{name: "nobody answers", w: world{job: func(time.Duration) (string, error) { return "", errors.New("connection refused") }},
			min: time.Hour, max: time.Hour + time.Second, err: "connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := test.w
				w.start = time.Now()
				parent := func() int { return 100 }
				if w.parent != nil {
					parent = func() int { return w.parent(w.now()) }
				}
				err := gate{job: 7, nodes: "c1", log: slog.New(slog.DiscardHandler), burstd: &w, slurm: &w, parent: parent}.wait(t.Context())
				if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
					t.Errorf("wait: %v, want %q", err, test.err)
				}
				if took := w.now(); took < test.min || took > test.max {
					t.Errorf("took %s, want %s to %s", took, test.min, test.max)
				}
				if test.asked > 0 && w.asked > test.asked {
					t.Errorf("burstd was asked %d times", w.asked)
				}
				if test.looked > 0 && w.looked > test.looked {
					t.Errorf("Slurm was asked %d times", w.looked)
				}
			})
		})
	}
}

func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w := &world{start: time.Now(), burstd: func(time.Duration) (api.GateAnswer, error) { return api.GateAnswer{}, nil }}
		err := gate{job: 7, nodes: "c1", max: time.Hour, log: slog.New(slog.DiscardHandler), burstd: w, slurm: w, parent: func() int { return 1 }}.wait(ctx)
		if ctx.Err() == nil || err == nil || w.now() != time.Minute {
			t.Errorf("wait = %v after %s", err, w.now())
		}
	})
}

// TestLimit: where slurmctld has no limit, the gate waits for as long as a node may boot.
func TestLimit(t *testing.T) {
	for _, tt := range []struct {
		name       string
		config     map[string]string
		partitions []string // their ResumeTimeout
		want       time.Duration
	}{
		{"Slurm does not answer", nil, nil, time.Hour},
		{"none", map[string]string{}, nil, time.Hour},
		{"none, by its number", map[string]string{"PrologEpilogTimeout": "65534"}, []string{"900"}, time.Hour},
		{"none, by 0", map[string]string{"PrologEpilogTimeout": "0"}, nil, time.Hour},
		{"no number", map[string]string{"PrologEpilogTimeout": "x"}, nil, time.Hour},
		{"one", map[string]string{"PrologEpilogTimeout": "1000"}, []string{"7200"}, 15 * time.Minute},
		{"one with a unit", map[string]string{"PrologEpilogTimeout": "1000 sec"}, nil, 15 * time.Minute},
		{"of prologs alone", map[string]string{"PrologTimeout": "1000", "EpilogTimeout": "60"}, nil, 15 * time.Minute},
		{"a long boot", map[string]string{"PrologEpilogTimeout": "65534", "ResumeTimeout": "60 sec"}, []string{"900", "7200", "GLOBAL", "INFINITE"}, 2*time.Hour + 5*time.Minute},
		{"a long boot everywhere", map[string]string{"ResumeTimeout": "7200 sec"}, []string{"GLOBAL"}, 2*time.Hour + 5*time.Minute},
		{"the partitions are not told", map[string]string{"ResumeTimeout": "7200 sec"}, nil, 2*time.Hour + 5*time.Minute},
	} {
		w := &world{config: tt.config, partitions: tt.partitions}
		if got := (gate{log: slog.New(slog.DiscardHandler), slurm: w}).limit(t.Context()); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
