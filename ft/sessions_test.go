package ft_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/ft/session/sessiontest"
)

// site is burstd's end of the sessions over a journal in memory, and burst-sruns
// that talk to it. It dies and comes back with the guard.
type site struct {
	w *world
	*sessiontest.Memory
	cfg session.HubConfig

	mu    sync.Mutex
	hub   *session.Hub    // nil: burstd is away
	asks  []session.Order // by guards
	asked []session.Order // each of them once
	done  int             // requests that steps have begun to carry out
	fail  error           // of readings of generations
}

func newSite(w *world) *site { return &site{w: w, Memory: sessiontest.NewMemory()} }

// start begins a hub and a guard on it.
func (s *site) start(cfg ft.Config, at int) *life {
	ctx, stop := context.WithCancel(s.w.ctx)
	hub := session.NewHub(s.cfg, s, slog.New(slog.DiscardHandler))
	if err := hub.Load(ctx); err != nil {
		s.w.Error(err)
	}
	s.mu.Lock()
	s.hub = hub
	s.mu.Unlock()
	s.w.rest.Go(func() { hub.Run(ctx) })
	cfg.Sessions = mortal{ft.SessionsOf(hub, s), s}
	l := s.w.start(cfg, at)
	kill := l.kill
	l.kill = func() {
		s.mu.Lock()
		s.hub = nil
		s.mu.Unlock()
		stop()
		kill()
	}
	return l
}

// mortal are sessions that a guard may die at.
type mortal struct {
	ft.Sessions
	s *site
}

func (m mortal) Ask(ctx context.Context, o session.Order) (ft.Asked, error) {
	if err := m.s.w.life.point("ask"); err != nil {
		return nil, err
	}
	m.s.mu.Lock()
	m.s.asks = append(m.s.asks, o)
	m.s.mu.Unlock()
	a, err := m.Sessions.Ask(ctx, o)
	if err == nil {
		err = m.s.w.life.point("asked")
	}
	return a, err
}

func (s *site) CommitSession(ctx context.Context, c session.Change) error {
	s.mu.Lock()
	for _, o := range c.Orders { // a new hub writes down again what is asked again
		if !slices.ContainsFunc(s.asked, func(a session.Order) bool { return a.Request.ID == o.Request.ID }) {
			s.asked = append(s.asked, o)
		}
	}
	s.mu.Unlock()
	return s.Memory.CommitSession(ctx, c)
}

func (s *site) BlessedOf(ctx context.Context, job uint32) (all []session.Blessed, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return nil, s.fail
	}
	for _, step := range []string{"0", "1", "2"} {
		if b, err := s.Memory.Blessed(ctx, job, step); err == nil && b.Answer.Generation != "" {
			all = append(all, b)
		}
	}
	return all, nil
}

func (s *site) Attempts(_ context.Context, job uint32, after int) (int, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	all := map[int]bool{}
	for k, e := range s.w.evictions {
		if k.job == job && e.Hold {
			after = max(after, e.Restarts)
		}
	}
	for k, e := range s.w.evictions {
		counts := e.Stage == ft.Signalled || e.Stage == ft.Requeued || e.Ending == ft.Moved
		if k.job == job && e.Restarts > after && counts {
			all[e.Restarts] = true
		}
	}
	return len(all), nil
}

// Do is the way from burst-srun to burstd.
func (s *site) Do(ctx context.Context, path string, in, out any) (err error) {
	s.mu.Lock()
	hub := s.hub
	s.mu.Unlock()
	if hub == nil {
		return errors.New("connection refused")
	}
	var w session.Word
	switch in := in.(type) {
	case session.Hello:
		w, err = hub.Open(ctx, 0, in)
	case session.Question:
		w, err = hub.Poll(ctx, 0, in)
	case session.Given:
		return hub.Answer(ctx, 0, in)
	case session.End:
		return hub.Close(ctx, 0, in)
	}
	if out != nil {
		*out.(*session.Word) = w
	}
	return err
}

// step is a burst-srun, until its node goes or its job leaves.
type step struct {
	hello session.Hello
	takes time.Duration // a checkpoint; the step may end before it
	seals bool          // its checkpoint is finished after its time
	fails string        // why none is made
	stays bool          // and it runs on
	every time.Duration // between periodic checkpoints, which take no time; 0: none
	alone time.Duration // the step ends by itself after so long; 0: it does not
}

// run has a job's burst-srun run while its attempt does.
func (s *site) run(id uint32, restarts int, st step) {
	st.hello.Key = session.Key{Job: id, Attempt: restarts, Step: st.hello.Step}
	ctx, cancel := context.WithCancel(s.w.ctx)
	s.w.rest.Go(func() {
		defer cancel()
		for i := s.w.info(id); i.State == "RUNNING" && i.Restarts == restarts && ctx.Err() == nil; i = s.w.info(id) {
			time.Sleep(100 * time.Millisecond)
		}
	})
	c := session.NewClient(session.ClientConfig{Transport: s, Hello: st.hello, Say: func(string) {}, Do: func(ctx context.Context, r session.Request) session.Answer {
		s.mu.Lock()
		s.done++
		s.mu.Unlock()
		return st.do(ctx, r)
	}})
	var wg sync.WaitGroup
	wg.Go(func() { c.Run(ctx) })
	if st.every > 0 {
		wg.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				select {
				case <-time.After(st.every):
					c.Report(session.Answer{Generation: "/ckpt/x/gen", N: n, Took: 1, Iteration: -1})
				case <-ctx.Done():
				}
			}
		})
	}
	if st.alone > 0 {
		time.Sleep(st.alone)
		c.Close(ctx)
		cancel()
	}
	wg.Wait()
}

func (st step) do(ctx context.Context, r session.Request) session.Answer {
	if r.Kind == session.Leave {
		return session.Answer{Stopped: true, Iteration: -1}
	}
	if st.seals {
		ctx = context.WithoutCancel(ctx)
	}
	select {
	case <-time.After(st.takes):
	case <-ctx.Done():
		return session.Answer{Iteration: -1, Error: context.Cause(ctx).Error()}
	}
	stopped := r.Kind == session.Stop
	if st.fails != "" {
		return session.Answer{Stopped: stopped && !st.stays, Iteration: -1, Error: st.fails}
	}
	return session.Answer{Generation: "/ckpt/x/gen", N: 1000, Bytes: 12e6, Took: st.takes, Iteration: 40, Stopped: stopped}
}

// kinds are the requests that were made, in their order.
func (s *site) kinds() (all []session.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.asked {
		all = append(all, o.Request.Kind)
	}
	return all
}
