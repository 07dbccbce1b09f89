package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/spending"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
)

const (
	// atCapLook is when a job is looked at again that would have lost its work, or was asked for the first time.
	atCapLook = 15 * time.Minute
	// atCapAgain is when a job is asked again that did not go twice, doubled each time up to atCapOwn: what it tries in vain
	// for a quarter of an hour takes its time and the store's.
	atCapAgain = time.Hour
	// atCapOwn is for how long a job waits whose own budget is spent: no period ends for it.
	atCapOwn = 24 * time.Hour
	// atCapBooked is how much may not be booked yet when it is looked at who has spent a cap. It is far more
	// than that between two rounds of the ledger.
	atCapBooked = 5 * time.Minute
	// atCapUnbooked is the time between two looks while more is not.
	atCapUnbooked = 2 * time.Second
	// atCapTogether bounds the commands of Slurm and the notices that are under way at once.
	atCapTogether = 8
)

// atCap does with the jobs that run in the cloud what [budget] at_cap says, when a cap is really
// spent, and has those wait that would begin there. What it knows it reads anew with each look: Slurm says who still runs, and the guard's
// journal who has begun to leave, so that a burstd that was killed goes on where it was.
type atCap struct {
	*Daemon
	cloud map[string]bool       // nodes of pools
	next  map[jobRun]time.Time  // before which a job is not looked at again
	asked map[jobRun]int        // how often a job was, but when none of its steps had a turn to write
	of    map[jobRun]budget.Key // for which cap and period
	said  map[saidOf]bool
	since map[string]time.Time // caps that are spent, by their names with the period; nil: to be read

	looked bool                 // those that were put off before have been looked at
	own    map[uint32]bool      // of them, those for their own budgets of which it is not known yet what their scripts say
	room   map[uint32]time.Time // since when there is something to spend for jobs that are put off

	known chan struct{} // closed after the first look
	mu    sync.Mutex
	caps  []budget.Row      // that are reached
	going map[uint32]leaver // jobs that have been told to go
}

type jobRun struct {
	job      uint32
	restarts int
}

type leaver struct {
	restarts int
	cap      budget.Row
}

// saidOf is what has been said of an attempt.
type saidOf struct {
	jobRun
	text string
}

// newAtCap is nil where there is no budget.
func newAtCap(d *Daemon) *atCap {
	if d.cfg.Budget == nil {
		return nil
	}
	return &atCap{Daemon: d, cloud: d.poolNodes(), next: map[jobRun]time.Time{}, asked: map[jobRun]int{}, of: map[jobRun]budget.Key{}, said: map[saidOf]bool{}, own: map[uint32]bool{}, known: make(chan struct{}), going: map[uint32]leaver{}}
}

// keepAtCap looks at the caps until ctx ends.
func (d *Daemon) keepAtCap(ctx context.Context) error {
	a := d.atCap
	if a == nil {
		return nil
	}
	for told := ""; ; {
		text, began, wait := "", time.Now(), jitter(budgetEvery)
		if err := a.look(ctx); errors.Is(err, errUnbooked) {
			wait = atCapUnbooked // the ledger warns itself if it cannot be booked
		} else if err != nil {
			text = err.Error()
		}
		if text != "" && text != told && ctx.Err() == nil {
			d.log.Warn("not all jobs that run at a budget's cap are seen to; tried again", "error", text)
		}
		told = text
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(wait, budgetPart*time.Since(began))):
		}
	}
}

// errUnbooked: whose the latest use of the nodes was is not known. After a break of burstd's, or of slurmctld's,
// nodes may have been others' than theirs who have them now.
var errUnbooked = errors.New("the ledger is not booked up to now yet")

// look sees to the jobs that count to a cap which is spent, and tells those that count to one which
// nearly is.
func (a *atCap) look(ctx context.Context) error {
	snap, err := a.watcher.Fresh(ctx, time.Now())
	if err != nil {
		return err
	}
	a.Daemon.mu.Lock()
	late := snap.Taken.Sub(a.bookedTo) > atCapBooked
	a.Daemon.mu.Unlock()
	if late {
		return errUnbooked
	}
	caps, err := a.keeper.Real(ctx, a.engine.Standing())
	if err != nil {
		return err
	}
	var reached, near []budget.Row
	for _, r := range caps {
		switch {
		case r.Reached(100):
			reached = append(reached, r)
		case r.Reached(a.cfg.Budget.Warn):
			near = append(near, r)
		}
	}
	a.note(snap, reached)
	if err := a.spentSince(ctx, snap.Taken, caps); err != nil {
		return err
	}
	counting := func(caps []budget.Row) []spending.Counted {
		return spending.Counting(caps, snap.Jobs, func(n string) bool { return a.cloud[n] })
	}
	jobs := counting(reached)
	var back, ran []spending.Counted
	for _, c := range jobs {
		if a.newcomer(c) {
			back = append(back, c)
		} else {
			ran = append(ran, c)
		}
	}
	goes := jobs // those whose nodes take no others
	if a.cfg.Budget.AtCap == config.RequeueJobs {
		goes = back // the guard sees to the others'
	}
	err = errors.Join(a.putOffWaiting(ctx, snap, reached), a.close(ctx, snap, goes), a.sendBack(ctx, snap, back))
	switch a.cfg.Budget.AtCap {
	case config.CancelJobs:
		err = errors.Join(err, a.cancel(ctx, ran))
	case config.RequeueJobs:
		err = errors.Join(err, a.requeue(ctx, ran))
	default:
		return err // what runs goes on to its end
	}
	if ctx.Err() != nil {
		return err
	}
	at := map[uint32]bool{}
	for _, c := range jobs {
		at[c.ID] = true
	}
	return errors.Join(err, a.warn(ctx, slices.DeleteFunc(counting(near), func(c spending.Counted) bool { return at[c.ID] })))
}

// note keeps what the look has found, and forgets jobs that Slurm has forgotten.
func (a *atCap) note(snap *slurm.Snapshot, reached []budget.Row) {
	gone := func(t jobRun) bool { j, known := snap.Jobs[t.job]; return !known || j.Restarts != t.restarts }
	maps.DeleteFunc(a.next, func(t jobRun, _ time.Time) bool { return gone(t) })
	maps.DeleteFunc(a.asked, func(t jobRun, _ int) bool { return gone(t) })
	maps.DeleteFunc(a.of, func(t jobRun, _ budget.Key) bool { return gone(t) })
	maps.DeleteFunc(a.said, func(s saidOf, _ bool) bool { return gone(s.jobRun) })
	a.mu.Lock()
	defer a.mu.Unlock()
	a.caps = reached
	maps.DeleteFunc(a.going, func(id uint32, _ leaver) bool { _, known := snap.Jobs[id]; return !known })
	select {
	case <-a.known:
	default:
		close(a.known)
	}
}

// warn tells the jobs what becomes of them at a cap that is near. Of amounts it says nothing: all users can
// read it.
func (a *atCap) warn(ctx context.Context, jobs []spending.Counted) error {
	what := "is checkpointed and requeued, if it can be"
	if a.cfg.Budget.AtCap == config.CancelJobs {
		what = "is cancelled"
	}
	return together(jobs, func(c spending.Counted) error {
		return a.say(ctx, c, saying{text: fmt.Sprintf("%s is nearly spent: at the cap this job %s", c.Cap.Short(), what)})
	})
}

// together does something for many, some at once, and returns the first errors.
func together[T any](all []T, do func(T) error) error {
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	turn := make(chan struct{}, atCapTogether)
	for _, one := range all {
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			if err := do(one); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs[:min(len(errs), 3)]...)
}
