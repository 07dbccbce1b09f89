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
	Hold(ctx context.Context, id uint32) error
	RequeueRunning(ctx context.Context, id uint32) error
	Release(ctx context.Context, id uint32, restarts int, start time.Time) error
	Reserve(ctx context.Context, r slurm.Reservation) error
	Unreserve(ctx context.Context, name string) error
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

	hearing sync.Mutex // held while what is heard of a maintenance is read and begun

	mu       sync.Mutex
	life     context.Context // Run's; nil before it has taken up the journal
	loading  chan struct{}   // closed when it has, or could not; nil before Run
	active   map[noticeKey]*live
	attempts map[attemptKey]*attempt
	heard    int               // notices for instances that serve no node of ours
	ahead    map[string]raised // nodes that were raised ahead not long ago
	index    index
	run      sync.WaitGroup

	fallen map[uint32]int // jobs that died with their nodes, by the attempt
	wake   chan struct{}  // there is a job to be looked at again soon

	drains crew[*nodeTask]
	raises crew[*Notice]
}

// live is what has been heard of a notice while it is acted upon.
type live struct {
	cloud.Notice
	news chan struct{} // closed and replaced with each
	late bool          // there was some since the journal began to close it
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
	g := &Guard{cfg: cfg, journal: j, slurm: s, acks: map[string]cloud.Acknowledger{}, log: log, turns: turns{free: cfg.Parallel, spare: cfg.Parallel / 4},
		active: map[noticeKey]*live{}, attempts: map[attemptKey]*attempt{}, ahead: map[string]raised{},
		fallen: map[uint32]int{}, wake: make(chan struct{}, 1)}
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
	if err := g.load(ctx); err != nil {
		return err
	}
	g.run.Go(func() { g.watch(ctx) })
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

// load takes up what the journal holds open, with its evictions, before anything
// that is heard meanwhile.
func (g *Guard) load(ctx context.Context) error {
	loading := make(chan struct{})
	defer close(loading)
	g.mu.Lock()
	g.loading = loading
	g.mu.Unlock()
	st, err := g.journal.LoadFT(ctx)
	if err != nil {
		return err
	}
	g.joinAll(st)
	for _, n := range st.Notices {
		var own []*Eviction
		for i := range st.Evictions {
			if e := &st.Evictions[i]; e.Instance == n.Instance && e.Kind == n.Kind {
				own = append(own, e)
			}
		}
		if n.Ahead != "" {
			g.mu.Lock()
			g.ahead[n.Ahead] = raised{n.Node, time.Now()}
			g.mu.Unlock()
		}
		g.start(ctx, n, own)
	}
	g.mu.Lock()
	g.life = ctx
	g.mu.Unlock()
	return nil
}

// Active is the number of notices that are being acted upon, and Foreign of
// those so far that were for no node of ours.
func (g *Guard) Active() (active, foreign int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.active), g.heard
}

// now is the latest that has been heard of the notice.
func (g *Guard) now(n *Notice) live {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.active[noticeKey{n.Instance, n.Kind}]; l != nil {
		return *l
	}
	return live{Notice: n.Notice}
}

// deadline is the nearest that has been heard for the notice; zero: none.
func (g *Guard) deadline(n *Notice) time.Time { return g.now(n).Deadline }

// start works on a notice beside the caller; one that is worked on already
// hears the news.
func (g *Guard) start(ctx context.Context, n Notice, own []*Eviction) {
	key := noticeKey{n.Instance, n.Kind}
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.active[key]; l != nil {
		l.hear(n.Notice)
		return
	}
	g.active[key] = &live{Notice: n.Notice, news: make(chan struct{})}
	g.run.Go(func() {
		for {
			g.persist(ctx, func() error { return g.handle(ctx, &n, &own) }, "instance", n.Instance)
			for _, e := range own {
				g.leave(e)
			}
			now, more := g.more(ctx, &n)
			if !more {
				return
			}
			n, own = Notice{Notice: now, Provider: n.Provider, Stage: Heard}, nil
		}
	})
}

// hear takes what is new: of a maintenance all that the journal has, of
// others what was said last.
func (l *live) hear(n cloud.Notice) {
	if n.Kind == cloud.Maintenance || n.Cancelled != l.Cancelled || sooner(n.Deadline, l.Deadline) {
		l.Notice = n
	}
	l.late = true
	close(l.news)
	l.news = make(chan struct{})
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
		if err := g.begin(ctx, n); err != nil || n.Stage == Acked {
			return err
		}
	}
	if n.Stage == Draining {
		if err := g.act(ctx, n, own); err != nil {
			return err
		}
		n.Stage = Done
		if err := g.journal.CommitFT(ctx, Change{Notices: []Notice{*n}}); err != nil {
			return err
		}
	}
	// Of other kinds jobs may still run there.
	if a, ok := g.acks[n.Provider]; ok && n.Stage == Done && n.Kind == cloud.SpotInterruption {
		err := a.Acknowledge(ctx, n.Notice)
		if err != nil && cloud.KindOf(err) != cloud.Invalid {
			return fmt.Errorf("acknowledging: %w", err)
		}
		if err != nil { // and never will be
			g.log.Warn("the notice cannot be acknowledged", "instance", n.Instance, "error", err)
		}
	}
	n.Stage = Acked
	g.closing(n)
	return g.journal.CommitFT(ctx, Change{Notices: []Notice{*n}})
}

// act does what the notice's kind asks for.
func (g *Guard) act(ctx context.Context, n *Notice, own *[]*Eviction) error {
	switch n.Kind {
	case cloud.Rebalance:
		return g.rebalance(ctx, n, own)
	case cloud.Maintenance:
		return g.maintain(ctx, n, own)
	case Spent:
		return g.spent(ctx, n, own)
	}
	jobs, err := g.drain(ctx, n)
	if err != nil {
		return err
	}
	return g.moveAll(ctx, n, own, jobs)
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
