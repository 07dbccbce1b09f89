package ft

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// look is how often a job is looked at.
const look = 200 * time.Millisecond

// moveAll works on all jobs of a notice at once, those that were planned
// before and those that the node has now, each until it is done.
func (g *Guard) moveAll(ctx context.Context, n *Notice, own *[]*Eviction, jobs []slurm.Job) error {
	found := map[*Eviction]slurm.Job{}
	for _, j := range jobs {
		if slices.ContainsFunc(*own, func(e *Eviction) bool { return e.Job == j.ID }) {
			continue
		}
		e := &Eviction{Instance: n.Instance, Kind: n.Kind, Job: j.ID, Restarts: j.Restarts, Node: n.Node, Began: time.Now()}
		g.join(e)
		found[e] = j
		*own = append(*own, e)
	}
	var wg sync.WaitGroup
	for _, e := range *own {
		wg.Go(func() {
			g.persist(ctx, func() error {
				if e.Stage == "" {
					if err := g.plan(ctx, n, e, found[e]); err != nil {
						return err
					}
				}
				return g.move(ctx, n, e)
			}, "job", e.Job)
		})
	}
	wg.Wait()
	return ctx.Err()
}

// move takes one job from where its eviction is to its end.
//
//	planned -> signalled -> requeued -> done
//
// Every reading of the job is compared with e.Restarts: an attempt that is not
// the evicted one is left alone.
func (g *Guard) move(ctx context.Context, n *Notice, e *Eviction) (err error) {
	var s *sight // the last reading, for the next stage
	if e.Stage == Planned {
		if s, err = g.signal(ctx, n, e); err != nil {
			return err
		}
	}
	if e.Stage == Signalled {
		if s, err = g.awaitEnd(ctx, n, e, s); err != nil {
			return err
		}
	}
	if e.Stage == Signalled {
		if s, err = g.requeue(ctx, n, e, s); err != nil {
			return err
		}
	}
	if e.Stage == Requeued {
		return g.release(ctx, n, e, s)
	}
	return nil
}

// sight is one reading of an eviction's job.
type sight struct {
	slurm.Job
	requeued bool // the next attempt waits in the queue: the requeue has been done
	// over says why there is nothing to do for the job: it is gone, it runs a
	// later attempt, which the notice does not mean, or it has ended for good.
	over string
}

const finishedText = "it finished in the grace time"

func (g *Guard) read(ctx context.Context, e *Eviction) (*sight, error) {
	snap, err := g.slurm.Fresh(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	j, known := snap.Jobs[e.Job]
	s := &sight{Job: j}
	again := j.Restarts == e.Restarts+1
	switch {
	case !known:
		s.over = "the job is gone"
	case j.State == "PENDING" && j.Restarts == e.Restarts, again && (j.State == "PENDING" || j.State == "REQUEUED" || leaving(j)):
		s.requeued = true // by us, by Slurm or by an admin: its hold is ours to clear
	case j.Restarts != e.Restarts:
		s.over = "it has been restarted since"
	case running(j), leaving(j):
	case !movable(j) && j.State == "NODE_FAIL":
		s.over = "it cannot be requeued, and ended with its node"
	case movable(j) && j.State == "COMPLETED":
		s.over = finishedText
	case movable(j) && failed(j) && (e.Signal != "" || e.Ask != ""): // it left to be requeued
	default: // by its user, by a limit, or by itself before it was told anything
		s.over = "it ended meanwhile: " + j.State
	}
	return s, nil
}

// failed says that the job ended by itself, or with its node, and not well.
func failed(j slurm.Job) bool {
	return slices.Contains([]string{"FAILED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY"}, j.State)
}

// signal sends the job its signal. One that cannot take it now, because it is
// suspended, say, is waited for as long as there is time for its grace.
func (g *Guard) signal(ctx context.Context, n *Notice, e *Eviction) (*sight, error) {
	for {
		s, err := g.read(ctx, e)
		switch {
		case err != nil:
			return nil, err
		case s.over != "":
			return s, g.close(ctx, e, s.over)
		case stale(e, s):
			return s, g.leaveStale(ctx, e)
		case leaving(s.Job) && !s.requeued:
		case deaf(s.Job) && e.Signal != "" && time.Now().Add(e.Grace+g.cfg.Margin).Before(g.deadline(n)):
		default:
			return s, g.send(ctx, n, e, s.Job)
		}
		if err := glance(ctx, look); err != nil {
			return nil, err
		}
	}
}

// awaitEnd waits until the job has ended by itself or must be requeued.
func (g *Guard) awaitEnd(ctx context.Context, n *Notice, e *Eviction, s *sight) (_ *sight, err error) {
	for ; ; s = nil {
		if s == nil {
			if s, err = g.read(ctx, e); err != nil {
				return nil, err
			}
		}
		switch {
		case s.over != "":
			return s, g.close(ctx, e, s.over)
		case s.requeued, failed(s.Job):
			return s, nil
		case leaving(s.Job): // with which exit code is not certain yet
		case stale(e, s):
			return s, g.leaveStale(ctx, e)
		case !movable(s.Job):
			if !time.Now().Before(g.deadline(n)) {
				return s, g.close(ctx, e, "left to run to the end of the lead time: it cannot be requeued")
			}
		case e.Ask != "":
			if over, err := g.answered(ctx, n, e); over || err != nil {
				return s, err
			}
		case !time.Now().Before(g.end(n, e)):
			return s, nil
		}
		if err := glance(ctx, look); err != nil {
			return nil, err
		}
	}
}

// end is when the job's grace is over, or its deadline near.
func (g *Guard) end(n *Notice, e *Eviction) time.Time {
	end := e.SignalledAt
	if e.Signal != "" {
		end = end.Add(e.Grace)
	}
	if at := g.deadline(n); !at.IsZero() && at.Add(-g.cfg.Margin).Before(end) {
		end = at.Add(-g.cfg.Margin)
	}
	return end
}

// requeue puts the job back into the queue, once for an attempt.
func (g *Guard) requeue(ctx context.Context, n *Notice, e *Eviction, s *sight) (*sight, error) {
	asked := time.Now()
	a, release, err := g.hold(ctx, e)
	if err != nil {
		return nil, err
	}
	defer release()
	next := *e
	next.Stage = Requeued
	if a.requeued {
		next.Hold = a.hold
		return nil, g.put(ctx, e, next)
	}
	g.account(ctx, n, &next, a.request)
	next.Hold = next.Hold || a.hold
	if time.Since(asked) > time.Second { // another of its nodes was before us, and failed
		if s, err = g.read(ctx, e); err != nil {
			return nil, err
		}
	}
	if s.over == "" && !s.requeued {
		err := g.command(ctx, g.deadline(n), func() error {
			if failed(s.Job) {
				return g.slurm.Requeue(ctx, e.Job)
			}
			return g.slurm.RequeueRunning(ctx, e.Job) // it may have finished this moment
		})
		// The answer may be lost; and what has just ended was passed over.
		var rerr error
		if s, rerr = g.read(ctx, e); rerr != nil {
			return nil, errors.Join(err, rerr)
		}
		if s.over == "" && !s.requeued {
			return nil, errors.Join(fmt.Errorf("job %d is not requeued but %s", e.Job, s.State), err)
		}
	}
	if s.over != "" {
		return s, g.close(ctx, e, s.over)
	}
	err = g.put(ctx, e, next, Event{Time: time.Now(), Kind: "requeue", Node: n.Node, Instance: n.Instance, Job: e.Job,
		Text: fmt.Sprintf("requeued, %s after the notice", time.Since(n.Received).Round(10*time.Millisecond))})
	a.requeued, a.hold = err == nil, next.Hold
	return s, err
}

// comment tells the job's user. It is a courtesy: no error stops an eviction.
func (g *Guard) comment(ctx context.Context, e *Eviction, text string) {
	text = "burst: " + text
	err := g.command(ctx, time.Time{}, func() error {
		return g.slurm.UpdateJob(ctx, e.Job, slurm.JobUpdate{AdminComment: &text})
	})
	if err != nil {
		g.log.Warn("the job's comment could not be set", "job", e.Job, "error", err)
	}
}

func (g *Guard) close(ctx context.Context, e *Eviction, outcome string) error {
	next := *e
	if outcome == finishedText {
		next.Ending = Finished
	}
	return g.closed(ctx, e, next, outcome)
}

func (g *Guard) closed(ctx context.Context, e *Eviction, next Eviction, outcome string) error {
	if e.Outcome != "" {
		outcome += "; " + e.Outcome
	}
	next.Stage, next.Outcome, next.Ended = Done, outcome, time.Now()
	return g.put(ctx, e, next, Event{Time: next.Ended, Kind: "evicted", Node: e.Node, Instance: e.Instance, Job: e.Job, Text: outcome})
}
