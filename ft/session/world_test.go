package session_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/ft/session/sessiontest"
)

const user = 1000

// world is a burstd, which may die, and what outlives it.
type world struct {
	*testing.T
	ctx     context.Context
	cfg     session.HubConfig
	journal *pointed
	log     logbook

	mu   sync.Mutex
	hub  *session.Hub // nil: burstd is away
	life context.Context
	stop context.CancelFunc
	runs sync.WaitGroup
}

// bubble runs a test on virtual time with a burstd that has just been started.
func bubble(t *testing.T, cfg session.HubConfig, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, cfg: cfg, journal: &pointed{Memory: sessiontest.NewMemory()}}
		var end context.CancelFunc
		w.ctx, end = context.WithCancel(t.Context())
		w.start()
		defer w.runs.Wait()
		defer end()
		test(w)
	})
}

// logbook is what burstd logs.
type logbook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (w *world) start() {
	h := session.NewHub(w.cfg, w.journal, slog.New(slog.NewTextHandler(&w.log, nil)))
	if err := h.Load(w.ctx); err != nil {
		w.Error(err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	w.runs.Go(func() { h.Run(ctx) })
	w.mu.Lock()
	w.hub, w.life, w.stop = h, ctx, cancel
	w.mu.Unlock()
}

// die is a kill -9: answers under way are lost, and nothing is written any more.
func (w *world) die() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hub != nil {
		w.stop()
		w.hub = nil
	}
}

func (w *world) live() *session.Hub {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hub
}

// pointed is a journal that calls a point before and after each commit; an
// error is burstd's death there.
type pointed struct {
	*sessiontest.Memory
	mu    sync.Mutex
	point func(name string) error
}

func (j *pointed) at(name string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.point == nil {
		return nil
	}
	return j.point(name)
}

func (j *pointed) CommitSession(ctx context.Context, c session.Change) error {
	if err := j.at("before " + c.Name()); err != nil {
		return err
	}
	err := j.Memory.CommitSession(ctx, c)
	return errors.Join(err, j.at("after "+c.Name()))
}

// step is a burst-srun.
type step struct {
	*session.Client
	world *world
	hello session.Hello
	takes time.Duration // a checkpoint

	cancel context.CancelFunc
	ended  chan struct{}

	mu    sync.Mutex
	n     int
	did   []session.Request
	begun []time.Time
	cause []error // with which each ended; nil: it was done
	said  []string
	told  []time.Duration // intervals
	busy  func(delta int) // a checkpoint begins or ends
}

func key(job uint32, attempt int, name string) session.Key {
	return session.Key{Job: job, Attempt: attempt, Step: name}
}

// wire leads to the burstd that lives.
func (w *world) wire() sessiontest.Wire { return sessiontest.Wire{UID: user, Hub: w.live} }

// run starts a burst-srun whose checkpoints take 3 s.
func (w *world) run(k session.Key, t session.Transport) *step {
	s := &step{world: w, takes: 3 * time.Second, ended: make(chan struct{}),
		hello: session.Hello{Key: k, Host: "c1", Method: "signal", Strategy: "both", Dir: fmt.Sprintf("/shared/%d", k.Job)}}
	s.Client = session.NewClient(session.ClientConfig{Transport: t, Hello: s.hello, Do: s.do,
		Progress: func() session.Progress { return session.Progress{Done: -1, Iteration: 7} },
		Advise:   func(d time.Duration) { s.mu.Lock(); s.told = append(s.told, d); s.mu.Unlock() },
		Say:      func(text string) { s.mu.Lock(); s.said = append(s.said, text); s.mu.Unlock() }})
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(w.ctx)
	w.runs.Go(func() { s.Run(ctx); close(s.ended) })
	time.Sleep(time.Millisecond) // of two in one test the second begins later
	return s
}

// kill is a kill -9 of burst-srun.
func (s *step) kill() { s.cancel(); <-s.ended }

// end is the step's end: what is under way is finished.
func (s *step) end() {
	ctx, cancel := context.WithTimeout(s.world.ctx, time.Minute)
	defer cancel()
	s.Close(ctx)
	s.kill()
}

func (s *step) do(ctx context.Context, r session.Request) session.Answer {
	s.mu.Lock()
	s.did, s.begun = append(s.did, r), append(s.begun, time.Now())
	busy, takes := s.busy, s.takes
	s.mu.Unlock()
	if busy != nil && r.Kind != session.Leave {
		busy(1)
		defer busy(-1)
	}
	var cause error
	if r.Kind != session.Leave {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			cause = context.Cause(ctx)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cause = append(s.cause, cause)
	if cause != nil {
		return session.Answer{Iteration: -1, Error: cause.Error()}
	}
	if r.Kind == session.Leave {
		return session.Answer{Iteration: -1, Stopped: true}
	}
	return s.made(r.Kind == session.Stop)
}

// made is the step's next generation. The lock is held.
func (s *step) made(stopped bool) session.Answer {
	s.n++
	return session.Answer{Generation: path.Join(s.hello.Dir, fmt.Sprintf("%s/attempt-%d/gen-%d", s.hello.Step, s.hello.Attempt, s.n)), N: s.n,
		Bytes: 100, Took: s.takes, Iteration: int64(10 * s.n), Stopped: stopped}
}

// slow has checkpoints take so long from now on.
func (s *step) slow(takes time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes = takes
}

// first is the first request that the step has done, and firstEnd how that ended.
func (s *step) first() session.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.did[0]
}

func (s *step) firstEnd() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause[0]
}

// doing returns what the step has done, as kinds, and lines it has said.
func (s *step) doing() (kinds, said string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.did {
		kinds += string(r.Kind) + " "
	}
	return strings.TrimSpace(kinds), strings.Join(s.said, "\n")
}

func order(k session.Key, id string, kind session.Kind, in time.Duration) session.Order {
	return session.Order{Job: k.Job, Attempt: k.Attempt, Request: session.Request{ID: id, Kind: kind, By: time.Now().Add(in), Why: "the instance goes"}}
}

// ask asks, and again when burstd dies meanwhile, as ft does; then it waits.
func (w *world) ask(o session.Order) (map[string]session.Answer, error) {
	for {
		w.mu.Lock()
		h, life := w.hub, w.life // burstd's own goroutines die with it
		w.mu.Unlock()
		if h == nil {
			time.Sleep(time.Second)
			continue
		}
		asked, err := h.Ask(life, o)
		var answers map[string]session.Answer
		if err == nil {
			answers, err = asked.Wait(life)
		}
		if w.live() == h {
			return answers, err
		}
	}
}

// want holds what has come of an order against the steps that have made a
// generation, with their numbers.
func (w *world) want(answers map[string]session.Answer, err, wantErr error, steps map[string]int) {
	w.Helper()
	if !errors.Is(err, wantErr) {
		w.Errorf("it ends with %v, want %v", err, wantErr)
	}
	got := map[string]int{}
	for step, a := range answers {
		if a.Generation != "" {
			got[step] = a.N
		}
	}
	if !maps.Equal(got, steps) {
		w.Errorf("generations %v, want %v", got, steps)
	}
}

// blessed holds the journal's blessed generation of a step against one.
func (w *world) blessed(k session.Key, n int) {
	w.Helper()
	b, err := w.journal.Blessed(w.ctx, k.Job, k.Step)
	if err != nil || b.Answer.N != n || n > 0 && b.Attempt != k.Attempt {
		w.Errorf("blessed of step %s is %+v (%v), want %d of attempt %d", k.Step, b, err, n, k.Attempt)
	}
}
