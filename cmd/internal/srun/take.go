package srun

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/session"
)

const (
	// sealTime is for how long beyond its deadline the keeping of a generation is
	// tried again for which the step has been ended; less than session.WaitTime, for
	// which burstd waits for the answer.
	sealTime  = time.Minute
	sealAgain = 5 * time.Second
	// yieldAgain is how often one that is not begun is told to make way.
	yieldAgain = time.Second
	killTime   = 30 * time.Second // from SIGTERM to SIGKILL, as Slurm's KillWait
)

// take makes a generation of the running step, and ends it with stop.
func (r *runner) take(ctx context.Context, stop bool) (g ckpt.Generation, err error) {
	rest := func() error { return nil }
	defer func() { // beside an order that has come meanwhile
		if err := rest(); err != nil && ctx.Err() == nil {
			r.complain(notDeleted, err)
		}
	}()
	if err := r.seize(ctx, stop); err != nil {
		return g, err
	}
	defer func() { <-r.slot }()
	began := time.Now()
	part, err := r.folder.Begin(ctx, 0)
	if err != nil {
		r.superseded(err)
		return g, err
	}
	if stop {
		r.setHalting()
	}
	running, _ := r.current()
	made, err := running.Checkpoint(ctx, part.Dir, stop)
	if stop && (err == nil || !errors.Is(err, ckpt.ErrFinishing) && r.hasEnded(settleTime)) {
		r.setStopped(ctx)
	}
	if err != nil {
		err = part.Explain(err)
		return g, errors.Join(err, part.Abandon())
	}
	about := ckpt.About{Made: made, Method: r.method.Name(), Nodes: r.job.Nodes, Stopped: stop, Together: r.parts != nil, Machine: r.machine}
	g, err = r.keep(ctx, part, about)
	if err != nil {
		r.superseded(err)
		return g, errors.Join(err, part.Abandon())
	}
	r.folder.Release()
	r.mu.Lock()
	r.stats.Checkpoints++
	before := ckpt.ID{}
	if r.saved != nil {
		before = r.saved.ID()
	}
	kept := g
	r.iteration, r.saved = g.Iteration, &kept
	r.stats.Writing += time.Since(began)
	r.took = time.Since(began)
	r.failure, r.failed = "", 0
	delivered := r.delivered
	r.mu.Unlock()
	if !stop {
		rest = r.prune(ctx, delivered, before)
	}
	return g, nil
}

// seize takes the slot. A checkpoint that the application has not begun makes way for what
// ends the step: it may wait for half an hour.
func (r *runner) seize(ctx context.Context, stop bool) error {
	again := time.NewTicker(yieldAgain)
	defer again.Stop()
	for {
		running, _ := r.current()
		if y, ok := running.(ckpt.Yielder); ok && stop {
			y.Yield()
		}
		select {
		case r.slot <- struct{}{}:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("another checkpoint was under way: %w", context.Cause(ctx))
		case <-again.C: // one that had not asked yet may have
		}
	}
}

// keep makes a generation of what has been written. Of a step that has ended for it,
// it is all that there is: then it takes what time it takes, and what fails is tried
// again, until a minute after it was to be over.
func (r *runner) keep(ctx context.Context, part *ckpt.Part, about ckpt.About) (ckpt.Generation, error) {
	if !about.Stopped {
		return part.Commit(ctx, about)
	}
	whole := context.WithoutCancel(ctx)
	for end := time.Now().Add(max(0, untilDeadline(ctx)) + sealTime); ; {
		g, err := part.Commit(whole, about)
		if err == nil || errors.Is(err, ckpt.ErrSuperseded) || time.Now().After(end) {
			return g, err
		}
		r.complain("checkpoint", err)
		pause(whole, sealAgain)
	}
}

const notDeleted = "old checkpoints are not deleted"

// settleTime is how long a step that a checkpoint may have ended is looked at.
const settleTime = time.Second

func untilDeadline(ctx context.Context) time.Duration {
	if at, ok := ctx.Deadline(); ok {
		return time.Until(at)
	}
	return 0
}

// hasEnded says whether the step has, or does so soon.
func (r *runner) hasEnded(within time.Duration) bool {
	_, ended := r.current()
	select {
	case <-ended:
		return true
	default:
	}
	select {
	case <-ended:
		return true
	case <-time.After(within):
		return false
	}
}

// setHalting notes that the step is about to be ended.
func (r *runner) setHalting() {
	r.mu.Lock()
	r.halting = time.Now()
	r.mu.Unlock()
}

// setStopped notes that the step's end is ours, not its own.
func (r *runner) setStopped(ctx context.Context) {
	by, ok := ctx.Deadline()
	if !ok {
		by = time.Now()
	}
	r.mu.Lock()
	r.stopped = by
	r.mu.Unlock()
}

// prune deletes old generations. While burstd has not said that it has the one on
// record that was made before the newest, a later attempt may begin without a word to
// this node: then more of them stay for a while. They lose their names, and rest deletes
// their files, which may take long.
func (r *runner) prune(ctx context.Context, delivered, before ckpt.ID) (rest func() error) {
	prune := r.folder.Prune
	if delivered != (ckpt.ID{}) {
		r.folder.Bless(delivered)
	}
	if r.burstd != nil && (delivered == (ckpt.ID{}) || delivered.Before(before)) {
		prune = r.folder.PruneAlone
	}
	r.folder.Later()
	if _, err := prune(ctx); err != nil && ctx.Err() == nil {
		r.complain(notDeleted, err)
	}
	return r.folder.Rest()
}

// superseded ends the step if a later attempt runs.
func (r *runner) superseded(err error) {
	if !errors.Is(err, ckpt.ErrSuperseded) {
		return
	}
	r.mu.Lock()
	r.cut = true
	r.mu.Unlock()
	go r.kill(context.Background())
}

// kill ends the step: SIGTERM, and SIGKILL when ctx is over or after killTime.
func (r *runner) kill(ctx context.Context) {
	running, ended := r.current()
	_ = running.Signal(syscall.SIGTERM) // it may have ended
	ctx, cancel := context.WithTimeout(ctx, killTime)
	defer cancel()
	select {
	case <-ended:
	case <-ctx.Done():
		_ = running.Signal(syscall.SIGKILL)
	}
}

// complain says what failed, unless it has failed so before.
func (r *runner) complain(what string, err error) {
	text := fmt.Sprintf("%s: %v", what, err)
	r.mu.Lock()
	same := text == r.failure
	r.failure = text
	r.mu.Unlock()
	if !same {
		r.say("%s", text)
	}
}

// order does what burstd asks.
func (r *runner) order(ctx context.Context, q session.Request) session.Answer {
	r.say("burstd asks for %s within %s: %s", q.Kind, shortly(time.Until(q.By)), q.Why)
	switch q.Kind {
	case session.Checkpoint, session.Stop:
		var g ckpt.Generation
		err := r.parts.whole(q.Kind)
		if err == nil {
			err = r.young(ctx)
		}
		if err == nil {
			g, err = r.take(ctx, q.Kind == session.Stop)
		}
		a := session.Answer{Iteration: -1}
		if err == nil {
			a = answerOf(g)
			r.say("%v: %s in %s", g.ID(), bytesText(g.Bytes()), shortly(g.Took))
		} else {
			a.Error = err.Error()
			r.say("checkpoint: %v", err)
		}
		r.mu.Lock()
		a.Stopped = !r.stopped.IsZero()
		r.mu.Unlock()
		return a
	case session.Leave:
		return r.leave(ctx)
	}
	return session.Answer{Iteration: -1, Error: fmt.Sprintf("%q is not known to this burst-srun", q.Kind)}
}

// leave ends the step without a checkpoint.
func (r *runner) leave(ctx context.Context) session.Answer {
	if r.seize(ctx, true) == nil { // else what is being written is not worth more than the rest of the time
		defer func() { <-r.slot }()
	}
	if !r.hasEnded(0) {
		r.setHalting()
		r.setStopped(ctx)
		r.kill(ctx)
	}
	if !r.hasEnded(settleTime) {
		return session.Answer{Iteration: -1, Error: "the step does not end"}
	}
	return session.Answer{Iteration: -1, Stopped: !r.over().IsZero()}
}

func answerOf(g ckpt.Generation) session.Answer {
	return session.Answer{Generation: g.Dir, N: g.N, Bytes: g.Bytes(), Took: g.Took, Iteration: g.Iteration}
}

func bytesText(n int64) string {
	if n < 10_000 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}
