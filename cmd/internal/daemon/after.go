package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/cmd/internal/vacated"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm"
)

const (
	afterLate  = 10 * time.Minute // nodes of a job that ended longer ago are left to SuspendTime
	afterRuns  = 500              // that are looked at in one round
	afterReads = 32               // scripts that are read in one round
	afterRead  = 30 * time.Second // for all of that
	afterGap   = time.Second      // between two rounds, at least
	afterPause = 5 * time.Second  // after a round that failed, more or less
	afterTries = time.Minute      // for which Slurm is told of the same nodes, until it answers
	// A node that is planned for a job is looked at again so often, and so long after
	// the end: four rounds of Slurm's backfill, as it is by default.
	afterLook    = 10 * time.Second
	afterPlanned = 2 * time.Minute
)

// afterJobs carries out after=power_down. A run that is closed is written down as
// settled before Slurm is told, and so it is told once: if burstd dies in between,
// the nodes go after SuspendTime.
//
//	run closed ──asks, and left idle nodes──► settled ──► power_down ──► Slurm suspends
//	     └────────────else────────────► settled
type afterJobs struct {
	*Daemon
	untold  []untold
	tried   map[history.Run]try // runs of which the script could not be read
	scripts map[uint32]string   // by array, while there is something to do
}

// untold is a settled run, the nodes of which Slurm has not been told to power down yet.
type untold struct {
	run   history.Run
	until time.Time
}

// keepAfter powers down what jobs leave behind that ask for it, until ctx ends.
func (d *Daemon) keepAfter(ctx context.Context) error {
	a := afterJobs{Daemon: d}
	told := ""
	for {
		soon, err := a.round(ctx)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != "" && text != told && ctx.Err() == nil {
			d.log.Warn("nodes of jobs with after=power_down may wait for SuspendTime", "error", text)
		}
		told = text
		var again <-chan time.Time
		switch {
		case soon > 0:
			again = time.After(soon)
		case err != nil:
			again = time.After(jitter(afterPause))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(jitter(afterGap * 5 / 4)):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.ends:
		case <-again:
		}
	}
}

// jitter is a time a fifth shorter or longer, or between.
func jitter(d time.Duration) time.Duration { return d*4/5 + rand.N(d*2/5) }

// sooner is the shorter of two times; 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// round looks at the runs that were closed, and says when to look again; 0: when
// others are, or after a pause if there is an error.
func (a *afterJobs) round(ctx context.Context) (soon time.Duration, err error) {
	due, err := a.store.Unsettled(ctx, time.Now().Add(-afterLate), afterRuns)
	if err != nil {
		return 0, err
	}
	a.keepTried(due)
	if len(due)+len(a.untold) == 0 {
		return 0, nil
	}
	snap := a.watcher.Latest() // by which the runs were closed, or later: most jobs need no other
	if snap == nil {
		if snap, err = a.watcher.Fresh(ctx, time.Now()); err != nil {
			return 0, err
		}
	}
	if len(due) == afterRuns {
		soon = afterGap
	}
	seen, reads := vacated.Read(snap, a.rates.pools), 0
	var done, ask []history.Run
	var failed []error
	reading, cancel := context.WithTimeout(ctx, afterRead)
	defer cancel()
	for _, r := range due {
		nodes, planned := seen.Nodes(r)
		if planned && time.Since(r.Ended) < afterPlanned {
			soon = sooner(soon, afterLook)
			continue
		}
		if len(nodes) == 0 {
			done = append(done, r)
			continue
		}
		if wait := time.Until(a.tried[r].again); wait > 0 {
			soon = sooner(soon, wait)
			continue
		}
		j := snap.Jobs[r.Job]
		if a.reads(j) {
			if reads == afterReads || reading.Err() != nil {
				soon = afterGap
				continue
			}
			reads++
		}
		yes, err := a.asks(reading, r, j)
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case err != nil:
			wait := a.failed(r)
			if wait == 0 {
				done = append(done, r)
				a.log.Warn("the nodes of a job wait for SuspendTime: whether it has after=power_down cannot be read", "job", r.Job, "error", err)
				continue
			}
			soon = sooner(soon, wait)
			if len(failed) == 0 { // the others fail as it does
				failed = append(failed, err)
			}
		case yes:
			ask = append(ask, r)
		default:
			done = append(done, r)
		}
	}
	if len(done) > 0 {
		err = a.store.SettleRuns(ctx, done)
	}
	if len(ask)+len(a.untold) > 0 {
		err = errors.Join(err, a.powerDown(ctx, ask))
	}
	if err != nil {
		soon = 0
	}
	return soon, errors.Join(append(failed, err)...)
}

// powerDown settles the runs, and has Slurm power down what they and those before
// have left.
func (a *afterJobs) powerDown(ctx context.Context, runs []history.Run) error {
	left, err := a.left(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	var events []ft.Event
	for _, r := range runs {
		for _, n := range left(r) {
			events = append(events, ft.Event{Time: now, Kind: "power-down", Node: n, Job: r.Job,
				Text: fmt.Sprintf("job %d (%s) has ended, %s, and asked for after=power_down", r.Job, r.Name, r.State)})
		}
	}
	if len(runs) > 0 {
		if err := a.store.SettleRuns(ctx, runs); err != nil {
			return err
		}
	}
	if len(events) > 0 {
		if err := a.journal.CommitFT(ctx, ft.Change{Events: events}); err != nil {
			return err
		}
	}
	for _, r := range runs {
		a.untold = append(a.untold, untold{r, now.Add(afterTries)})
	}
	return a.tell(ctx, left)
}

// left returns what says which nodes a run has left, by a reading that is as new as
// can be. A job that is given one of them in the moment between goes on: Slurm waits
// for its end.
func (a *afterJobs) left(ctx context.Context) (func(history.Run) []string, error) {
	config, err := a.client.ShowConfig(ctx)
	if err != nil {
		return nil, err
	}
	kept, err := vacated.KeptBy(config)
	if err != nil {
		return nil, err
	}
	snap, err := a.watcher.Fresh(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	seen := vacated.Read(snap, a.rates.pools)
	return func(r history.Run) []string {
		nodes, _ := seen.Nodes(r)
		return slices.DeleteFunc(nodes, func(n string) bool { return kept.Has(snap.Nodes[n]) || a.engine.ServesFiles(n) })
	}, nil
}

// tell tells Slurm, in one call. It is told again while it does not answer, and not
// of nodes that it refuses.
func (a *afterJobs) tell(ctx context.Context, left func(history.Run) []string) error {
	var nodes []string
	for _, u := range a.untold {
		if time.Now().Before(u.until) {
			nodes = append(nodes, left(u.run)...)
		}
	}
	slices.Sort(nodes)
	if nodes = slices.Compact(nodes); len(nodes) > 0 {
		err := a.client.UpdateNodes(ctx, slurm.NodeUpdate{Nodes: nodes, State: "power_down"})
		var part *slurm.PartialError
		if err != nil && !errors.As(err, &part) {
			return fmt.Errorf("powering down %d nodes: %w", len(nodes), err)
		}
		if err != nil {
			a.log.Warn("Slurm refuses to power down nodes of jobs with after=power_down", "error", err)
		}
	}
	a.untold = nil
	return nil
}
