package power

import (
	"context"
	"time"
)

// Run works until ctx ends. It returns when the calls under way have ended too.
func (e *Engine) Run(ctx context.Context) {
	defer e.calls.Wait()
	for {
		again := e.step(ctx)
		timer := time.NewTimer(again)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-e.wake:
		case f := <-e.results:
			f(ctx)
			e.drain(ctx)
		case <-timer.C:
		}
		timer.Stop()
	}
}

// drain takes what else has come, so that one step serves all of it.
func (e *Engine) drain(ctx context.Context) {
	for {
		select {
		case f := <-e.results:
			f(ctx)
		default:
			return
		}
	}
}

// step does what is due and says when to look again: at once, if what it has
// changed may make more of it due.
func (e *Engine) step(ctx context.Context) time.Duration {
	again := e.cfg.Reconcile
	e.changed = false
	for _, s := range []struct {
		name string
		do   func(context.Context) (time.Duration, error)
	}{
		{"orders", e.takeOrders},
		{"servers", e.seeToServers},
		{"names", e.keepNames},
		{"clearing", e.clearNodes},
		{"launches", e.launchWanted},
		{"features", e.labelNodes},
		{"leaving", e.leaveNodes},
		{"words", e.takeWords},
		{"addresses", e.setAddresses},
		{"boots", e.watchBoots},
		{"watch", e.watchSlurm},
		{"questions", e.askClouds},
		{"freeing", e.freeNodes},
		{"ending", e.endInstances},
		{"dry pools", e.failOver},
		{"holds", e.tellJobs},
		{"closing", e.closeOrders},
		{"reconcile", e.reconcile},
	} {
		if ctx.Err() != nil {
			return again
		}
		if wait := e.until(step + s.name); wait > 0 {
			again = min(again, wait)
			continue
		}
		e.turn()
		due, err := s.do(ctx)
		if err != nil {
			due = e.failed(step + s.name)
			if ctx.Err() == nil {
				e.log.Warn("will try again", "step", s.name, "in", due.Round(time.Millisecond), "error", err)
			}
		} else {
			delete(e.backoff, step+s.name)
		}
		if due > 0 {
			again = min(again, due)
		}
	}
	if e.changed {
		return 0
	}
	return again
}

func (e *Engine) turn() {
	e.mu.Lock()
	e.turned = time.Now()
	e.mu.Unlock()
}

// commit writes a change to the journal, then to memory, with what it says of
// boots and breakers. With an error nothing has changed, and the step is tried again.
func (e *Engine) commit(ctx context.Context, c Change) error {
	for n, i := range c.Instances {
		c.Instances[n].Pool = e.poolNow(i.Instance, i.Assigned) // its tag may have a former name
	}
	e.heedServers(&c)
	e.mem.timeline(&c, time.Now())
	e.count(&c, time.Now())
	if c.Empty() {
		return nil
	}
	if err := e.journal.CommitPower(ctx, c); err != nil {
		return err
	}
	for _, ev := range c.Events {
		e.log.Info(ev.Text, "event", ev.Kind, "node", ev.Node, "instance", ev.Instance, "pool", ev.Pool, "job", ev.Job)
	}
	e.apply(c)
	e.changed, e.relabel = true, e.relabel || e.moves(c)
	return nil
}

func (e *Engine) apply(c Change) {
	e.mu.Lock()
	e.mem.apply(c)
	e.mu.Unlock()
}

// post hands f to Run. It gives up when ctx ends: what f would have noted is
// learnt again from the journal, Slurm or the cloud.
func (e *Engine) post(ctx context.Context, f func(context.Context)) {
	select {
	case e.results <- f:
	case <-ctx.Done():
	}
}

// beside runs a call of the outside world in a goroutine; what it returns runs in Run's.
func (e *Engine) beside(ctx context.Context, call func(context.Context) func(context.Context)) {
	e.calls.Go(func() { e.post(ctx, call(ctx)) })
}

// Wake has Run look again now.
func (e *Engine) Wake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}
