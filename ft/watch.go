package ft

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

const (
	// watchTime is for how long a job is looked at again that waits after its requeue:
	// Slurm may find only with a later round of its scheduler that no node suits it.
	watchTime  = 15 * time.Minute
	watchEvery = time.Minute
	// soonTime is for how long a job that is to be held is looked at all the time: it
	// must not start before.
	soonTime = 3 * time.Minute
)

// watch looks after jobs that were requeued, until they run or watchTime is over. What
// it has to know is in the journal.
func (g *Guard) watch(ctx context.Context) {
	told, seen := "", map[attemptKey]bool{}
	for ctx.Err() == nil {
		soon, err := g.lookAfter(ctx, seen)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != "" && text != told && ctx.Err() == nil {
			g.log.Warn("requeued jobs are looked after later", "error", text)
		}
		told = text
		wait := watchEvery*4/5 + rand.N(watchEvery*2/5)
		if soon {
			wait = look
		}
		select {
		case <-ctx.Done():
		case <-g.wake:
		case <-time.After(wait):
		}
	}
}

// lookAfter holds those that are to be held; soon: one is not in the queue yet. Seen
// are those that need no other look.
func (g *Guard) lookAfter(ctx context.Context, seen map[attemptKey]bool) (soon bool, err error) {
	now := time.Now()
	all, err := g.journal.Moved(ctx, now.Add(-watchTime))
	if err != nil {
		return false, err
	}
	meant := map[attemptKey]*Eviction{} // several evictions may mean one attempt
	for i := range all {
		e := &all[i]
		if key := (attemptKey{e.Job, e.Restarts}); meant[key] == nil || e.Hold {
			meant[key] = e
		}
	}
	maps.DeleteFunc(seen, func(key attemptKey, _ bool) bool { return meant[key] == nil })
	if len(seen) == len(meant) {
		return false, nil
	}
	snap, err := g.slurm.Fresh(ctx, now)
	if err != nil {
		return false, err
	}
	var errs []error
	for key, e := range meant {
		j, ok := snap.Jobs[e.Job]
		waits := j.State == "PENDING" && j.Restarts == e.Restarts+1
		text := ""
		switch {
		case seen[key]:
			continue
		case !ok || e.Held || !waits && !underWay(e, j):
			seen[key] = true
			continue
		case e.Hold && e.Kind == Died && waits:
			text = e.Outcome // it says so
		case e.Hold && e.Kind == Died:
			soon = soon || now.Sub(e.Ended) < soonTime
			continue
		case waits && j.Reason == "BadConstraints" && g.cfg.Scarce != nil && g.cfg.Scarce(snap, j):
			continue
		case waits && j.Reason == "BadConstraints": // Slurm has set its priority to 0, or will try in vain
			text = fmt.Sprintf("%s; no node suits it, says Slurm (BadConstraints), and it is held: mend the nodes, or what it asks for (\"scontrol update jobid=%d\"), then \"scontrol release %d\" lets it start from its checkpoints",
				e.Outcome, e.Job, e.Job)
		default:
			continue
		}
		if err := g.holdBack(ctx, e, text); err != nil {
			errs = append(errs, err)
			continue
		}
		seen[key] = true
	}
	return soon, errors.Join(errs...)
}

// underWay says that the job is on its way into the queue, or Slurm has not heard yet
// that its node is dead, or has failed it for that.
func underWay(e *Eviction, j slurm.Job) bool {
	back := j.Restarts == e.Restarts || j.Restarts == e.Restarts+1
	return back && (leaving(j) || j.State == "REQUEUED") || j.Restarts == e.Restarts && (running(j) || failed(j))
}

// holdBack holds a job in the queue, once, and tells its user. Its comment is first: of
// a burstd that dies the next does all of it again.
func (g *Guard) holdBack(ctx context.Context, e *Eviction, outcome string) error {
	became := e.became()
	if e.Kind == Died {
		became = fmt.Sprintf("node %s is gone", e.Node)
	}
	g.comment(ctx, e, fmt.Sprintf("%s; %s", became, outcome))
	err := g.command(ctx, time.Time{}, func() error { return g.slurm.Hold(ctx, e.Job) })
	if errors.Is(err, slurm.ErrNotPending) || errors.Is(err, slurm.ErrNoJob) {
		return nil // it runs after all, or is gone
	}
	if err != nil {
		return err
	}
	next := *e
	next.Hold, next.Held, next.Outcome = true, true, outcome
	return g.put(ctx, e, next, Event{Time: time.Now(), Kind: "held", Node: e.Node, Instance: e.Instance, Job: e.Job, Text: outcome})
}
