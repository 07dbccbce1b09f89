package ft

import (
	"context"
	"errors"
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
	Release(ctx context.Context, id uint32, restarts int, start time.Time) error
}

// Config is the site's defaults.
type Config struct {
	Signal string        // for jobs whose directive names none, as "USR1" or "B:USR1"; empty: none
	Grace  time.Duration // given with that signal; 20 s if zero
	// Margin is kept before a deadline for the requeue itself; 5 s if zero.
	Margin time.Duration
	// Parallel bounds the jobs that are worked on at once; 32 if zero.
	Parallel int
}

// Guard acts on notices. Every step of it is in the journal before it is
// done, so that a guard that starts on the same journal goes on with it.
type Guard struct {
	cfg     Config
	journal journal
	slurm   controller
	acks    map[string]cloud.Acknowledger // by provider
	log     *slog.Logger
	sem     chan struct{}

	mu     sync.Mutex
	active map[noticeKey]time.Time // its deadline: a nearer one may come while it is acted upon
	heard  int                     // notices for instances that serve no node of ours
	run    sync.WaitGroup
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
	g := &Guard{cfg: cfg, journal: j, slurm: s, acks: map[string]cloud.Acknowledger{}, log: log,
		sem: make(chan struct{}, cfg.Parallel), active: map[noticeKey]time.Time{}}
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
	st, err := g.journal.LoadFT(ctx)
	if err != nil {
		return err
	}
	for _, n := range st.Notices {
		g.start(ctx, n, st.Evictions)
	}
	for name, s := range sources {
		g.run.Go(func() {
			for ctx.Err() == nil {
				err := s.Notices(ctx, func(ctx context.Context, n cloud.Notice) error { return g.Hear(ctx, name, n) })
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

// Hear makes a notice durable and has it acted upon. It returns nil when the
// notice need not be given again.
func (g *Guard) Hear(ctx context.Context, provider string, n cloud.Notice) error {
	fresh, err := g.journal.AddNotice(ctx, provider, n)
	if err != nil || !fresh {
		return err
	}
	g.start(ctx, Notice{Notice: n, Provider: provider, Stage: Heard}, nil)
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

// start works on a notice beside the caller, unless somebody does already.
func (g *Guard) start(ctx context.Context, n Notice, evictions []Eviction) {
	key := noticeKey{n.Instance, n.Kind}
	g.mu.Lock()
	defer g.mu.Unlock()
	_, busy := g.active[key]
	g.active[key] = n.Deadline
	if busy {
		return
	}
	var own []Eviction
	for _, e := range evictions {
		if e.Instance == n.Instance && e.Kind == n.Kind {
			own = append(own, e)
		}
	}
	g.run.Go(func() {
		defer func() {
			g.mu.Lock()
			delete(g.active, key)
			g.mu.Unlock()
		}()
		for wait := 200 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 5*time.Second) {
			err := g.handle(ctx, &n, &own)
			if err == nil || ctx.Err() != nil {
				return
			}
			g.log.Warn("acting on a notice will be tried again", "instance", n.Instance, "node", n.Node, "in", wait, "error", err)
			pause(ctx, wait)
		}
	})
}

// handle takes a notice from where it is to its end. An error leaves it
// where it is in the journal, to be handled again.
func (g *Guard) handle(ctx context.Context, n *Notice, evictions *[]Eviction) error {
	if n.Stage == Heard {
		if err := g.begin(ctx, n); err != nil {
			return err
		}
	}
	if n.Stage == Draining {
		if err := g.drain(ctx, n, evictions); err != nil {
			return err
		}
		if err := g.moveAll(ctx, n, *evictions); err != nil {
			return err
		}
		n.Stage = Done
		if err := g.journal.CommitFT(ctx, Change{Notices: []Notice{*n}}); err != nil {
			return err
		}
	}
	if a, ok := g.acks[n.Provider]; ok && n.Stage == Done {
		if err := a.Acknowledge(ctx, n.Notice); err != nil {
			return fmt.Errorf("acknowledging: %w", err)
		}
	}
	n.Stage = Acked
	return g.journal.CommitFT(ctx, Change{Notices: []Notice{*n}})
}

// begin finds the notice's node. Only a spot interruption is acted upon so
// far; a notice for an instance that serves no node of ours is counted.
func (g *Guard) begin(ctx context.Context, n *Notice) error {
	node, err := g.journal.NodeOf(ctx, n.Instance)
	if err != nil {
		return err
	}
	ev := Event{Time: time.Now(), Kind: "notice", Node: node, Instance: n.Instance}
	switch {
	case node == "":
		n.Stage = Foreign
		g.mu.Lock()
		g.heard++
		g.mu.Unlock()
		ev.Text = fmt.Sprintf("%s for an instance that serves no node: nothing to do", n.Kind)
	case n.Kind != cloud.SpotInterruption:
		n.Stage = Foreign
		ev.Text = fmt.Sprintf("%s (%s): noted", n.Kind, n.Source)
	default:
		n.Stage, n.Node = Draining, node
		ev.Text = fmt.Sprintf("%s (%s): the instance goes at %s", n.Kind, n.Source, n.Deadline.Format(time.TimeOnly))
	}
	g.log.Info(ev.Text, "event", ev.Kind, "node", node, "instance", n.Instance)
	return g.journal.CommitFT(ctx, Change{Notices: []Notice{*n}, Events: []Event{ev}})
}

// current says whether the notice's instance is still the one behind its
// node: a stale notice must not hit the node's next instance.
func (g *Guard) current(ctx context.Context, n *Notice) (bool, error) {
	node, err := g.journal.NodeOf(ctx, n.Instance)
	return node == n.Node, err
}

// drain closes the node to new jobs, has it powered down when the last one
// has left, and plans what becomes of each job on it.
func (g *Guard) drain(ctx context.Context, n *Notice, evictions *[]Eviction) error {
	ok, err := g.current(ctx, n)
	if err != nil || !ok {
		return err
	}
	why := fmt.Sprintf("burst: %s, instance %s goes at %s", n.Kind, n.Instance, n.Deadline.Format(time.TimeOnly))
	if err := g.slurm.UpdateNodes(ctx, slurm.NodeUpdate{Nodes: []string{n.Node}, State: "power_down_asap", Reason: why}); err != nil {
		return fmt.Errorf("draining %s: %w", n.Node, err)
	}
	snap, err := g.slurm.Fresh(ctx, time.Now())
	if err != nil {
		return err
	}
	jobs, err := on(snap, n.Node)
	if err != nil {
		return err
	}
	var c Change
	for _, j := range jobs {
		if planned(*evictions, j) {
			continue
		}
		e := g.plan(ctx, n, j)
		c.Evictions = append(c.Evictions, e)
		c.Events = append(c.Events, Event{Time: e.Began, Kind: "evict", Node: n.Node, Instance: n.Instance, Job: j.ID, Text: describe(e, j)})
	}
	if err := g.journal.CommitFT(ctx, c); err != nil {
		return err
	}
	*evictions = append(*evictions, c.Evictions...)
	return nil
}

// moveAll works on all jobs of a notice at once, as many as there is room for.
func (g *Guard) moveAll(ctx context.Context, n *Notice, evictions []Eviction) error {
	errs := make([]error, len(evictions))
	var wg sync.WaitGroup
	for i := range evictions {
		wg.Go(func() {
			select {
			case g.sem <- struct{}{}:
				defer func() { <-g.sem }()
				errs[i] = g.move(ctx, n, &evictions[i])
			case <-ctx.Done():
				errs[i] = ctx.Err()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
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
