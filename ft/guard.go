package ft

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

// controller is what the guard needs of Slurm.
type controller interface {
	// Fresh returns a reading that was begun at since or later.
	Fresh(ctx context.Context, since time.Time) (*slurm.Snapshot, error)
	BatchScript(ctx context.Context, id uint32) (string, error)
	UpdateNodes(ctx context.Context, u slurm.NodeUpdate) error
	UpdateJob(ctx context.Context, id uint32, u slurm.JobUpdate) error
	Signal(ctx context.Context, id uint32, s slurm.Signal) error
	Requeue(ctx context.Context, id uint32) error
	RequeueRunning(ctx context.Context, id uint32) error
	Release(ctx context.Context, id uint32, restarts int, start time.Time) error
}

// Config is the site's defaults.
type Config struct {
	Signal string        // for jobs whose directive names none, as "USR1" or "B:USR1"; empty: none
	Grace  time.Duration // given with that signal; 20 s if zero
	// Margin is kept before a deadline for the requeue itself; 5 s if zero.
	Margin time.Duration
	// Parallel bounds the commands of Slurm that are under way at once; 32 if zero.
	Parallel int
	// Ask is told of an instance whose state is said to have changed: its provider
	// is to be asked soon. It returns at once; nil: nobody is.
	Ask func(instance string)
}

// Guard acts on notices. Every step of it is in the journal before it is
// done, so that a guard that starts on the same journal goes on with it.
type Guard struct {
	cfg     Config
	journal journal
	slurm   controller
	acks    map[string]cloud.Acknowledger // by provider
	log     *slog.Logger
	turns   turns

	mu       sync.Mutex
	life     context.Context         // Run's; nil before
	active   map[noticeKey]time.Time // its deadline: a nearer one may come while it is acted upon
	attempts map[attemptKey]*attempt
	heard    int // notices for instances that serve no node of ours
	run      sync.WaitGroup
}

type noticeKey struct {
	instance string
	kind     cloud.NoticeKind
}

// New makes a guard for the given providers; those that can be told of a
// notice's end are.
func New(cfg Config, j journal, s controller, providers map[string]cloud.Provider, log *slog.Logger) *Guard {
	if cfg.Grace == 0 {
		cfg.Grace = 20 * time.Second
	}
	if cfg.Margin == 0 {
		cfg.Margin = 5 * time.Second
	}
	if cfg.Parallel == 0 {
		cfg.Parallel = 32
	}
	g := &Guard{cfg: cfg, journal: j, slurm: s, acks: map[string]cloud.Acknowledger{}, log: log, turns: turns{free: cfg.Parallel},
		active: map[noticeKey]time.Time{}, attempts: map[attemptKey]*attempt{}}
	for name, p := range providers {
		if a, ok := p.(cloud.Acknowledger); ok {
			g.acks[name] = a
		}
	}
	return g
}

// Run takes up what the journal holds open, listens to the sources, by
// provider, and returns when ctx has ended and all work has stopped.
func (g *Guard) Run(ctx context.Context, sources map[string]cloud.NoticeSource) error {
	defer g.run.Wait()
	g.mu.Lock()
	g.life = ctx
	g.mu.Unlock()
	st, err := g.journal.LoadFT(ctx)
	if err != nil {
		return err
	}
	for i := range st.Evictions {
		g.join(&st.Evictions[i]) // all, before the first of them acts
	}
	for _, n := range st.Notices {
		var own []*Eviction
		for i := range st.Evictions {
			if e := &st.Evictions[i]; e.Instance == n.Instance && e.Kind == n.Kind {
				own = append(own, e)
			}
		}
		g.start(ctx, n, own)
	}
	for name, s := range sources {
		g.run.Go(func() {
			hear := func(ctx context.Context, n cloud.Notice) error { return g.Hear(ctx, name, n) }
			for ctx.Err() == nil {
				err := s.Notices(ctx, hear)
				if ctx.Err() == nil {
					g.log.Warn("listening for notices again", "provider", name, "error", err)
					pause(ctx, time.Second)
				}
			}
		})
	}
	<-ctx.Done()
	return nil
}

// Active is the number of notices that are being acted upon, and Foreign of
// those so far that were for no node of ours.
func (g *Guard) Active() (active, foreign int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.active), g.heard
}

// deadline is the nearest that has been heard for the notice; zero: none.
func (g *Guard) deadline(n *Notice) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.active[noticeKey{n.Instance, n.Kind}]
}

// start works on a notice beside the caller. Of one that is worked on already
// only a nearer deadline is taken.
func (g *Guard) start(ctx context.Context, n Notice, own []*Eviction) {
	key := noticeKey{n.Instance, n.Kind}
	g.mu.Lock()
	defer g.mu.Unlock()
	at, busy := g.active[key]
	if !busy || sooner(n.Deadline, at) {
		g.active[key] = n.Deadline
	}
	if busy {
		return
	}
	g.run.Go(func() {
		g.persist(ctx, func() error { return g.handle(ctx, &n, &own) }, "instance", n.Instance)
		for _, e := range own {
			g.leave(e)
		}
		g.mu.Lock()
		delete(g.active, key)
		g.mu.Unlock()
	})
}

// persist does something again and again until it succeeds or ctx ends.
func (g *Guard) persist(ctx context.Context, do func() error, what string, which any) {
	for wait := 200 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 5*time.Second) {
		err := do()
		if err == nil || ctx.Err() != nil {
			return
		}
		g.log.Warn("acting on a notice will be tried again", what, which, "in", wait, "error", err)
		pause(ctx, wait)
	}
}

// command runs commands of Slurm when it is the notice's turn.
func (g *Guard) command(ctx context.Context, deadline time.Time, do func() error) error {
	done, err := g.turns.take(ctx, deadline)
	if err != nil {
		return err
	}
	defer done()
	return do()
}

// handle takes a notice from where it is to its end. An error leaves it
// where it is in the journal, to be handled again.
func (g *Guard) handle(ctx context.Context, n *Notice, own *[]*Eviction) error {
	if n.Stage == Heard {
		if err := g.begin(ctx, n); err != nil {
			return err
		}
	}
	if n.Stage == Draining {
		jobs, err := g.drain(ctx, n)
		if err != nil {
			return err
		}
		if err := g.moveAll(ctx, n, own, jobs); err != nil {
			return err
		}
		n.Stage = Done
		if err := g.journal.CommitFT(ctx, Change{Notices: []Notice{*n}}); err != nil {
			return err
		}
	}
	if a, ok := g.acks[n.Provider]; ok && n.Stage == Done {
		err := a.Acknowledge(ctx, n.Notice)
		if err != nil && cloud.KindOf(err) != cloud.Invalid {
			return fmt.Errorf("acknowledging: %w", err)
		}
		if err != nil { // and never will be
			g.log.Warn("the notice cannot be acknowledged", "instance", n.Instance, "error", err)
		}
	}
	n.Stage = Acked
	return g.journal.CommitFT(ctx, Change{Notices: []Notice{*n}})
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
