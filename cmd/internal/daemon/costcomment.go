package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm"
)

const (
	costBooked = 45 * time.Second // after its end all of a job is booked: a round of the ledger, and some
	costEvery  = time.Minute
	costBack   = 24 * time.Hour        // jobs that ended longer ago are left as they are
	costAtOnce = 200                   // jobs that sacct is asked for
	costFresh  = 10                    // of these again, before theirs are written: a second or two
	costLong   = 2 * time.Hour         // the longest pause between two tries of one job
	costPriced = costBack - 2*costLong // for so long a line waits for all of it to be booked, and for the price
	costSaid   = 6 * time.Hour         // until a warning is given again
	costFailed = 3                     // jobs that slurmdbd refuses a comment of, until the next round
)

// costComments writes into slurmdbd's records of jobs that have ended what they have cost. Slurm takes no
// comment of a job that has ended, sacctmgr does, from the moment on when slurmdbd has heard of the end.
// What was written is not noted: after a restart the records of the last day are read again, and those
// that have their line are left.
type costComments struct {
	store interface {
		RunsEnded(ctx context.Context, from, to time.Time) ([]history.Run, error)
		RunCost(ctx context.Context, r history.Run) (store.JobCost, error)
	}
	slurm interface {
		Accounted(ctx context.Context, jobs []uint32) (map[uint32]slurm.Accounted, error)
		CommentAccounted(ctx context.Context, job, text string) error
	}
	runs map[endedRun]tries
}

// endedRun is a run, and an end of it: it may be opened again.
type endedRun struct {
	job              uint32
	submitted, ended int64 // microseconds
}

// tries are those at one run.
type tries struct {
	done  bool
	wait  time.Duration
	again time.Time
}

// keepCostComments does so until ctx ends, if the site asks for it.
func (d *Daemon) keepCostComments(ctx context.Context) error {
	if !d.cfg.Cost.Comment {
		return nil
	}
	c := costComments{store: d.store, slurm: d.client, runs: map[endedRun]tries{}}
	told := complaints{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(jitter(costEvery)):
		}
		if err := c.round(ctx, time.Now()); err != nil && told.fresh(err, time.Now()) && ctx.Err() == nil {
			d.log.Warn("what jobs have cost is not written into their records for sacct now; it is tried again for a day", "error", err)
		}
	}
}

// complaints are the words of Slurm's that were warned of, without the ids of jobs, and when.
type complaints map[string]time.Time

// fresh says that an error has words that were not warned of for a while: others are refused for the same each minute.
func (c complaints) fresh(err error, now time.Time) (fresh bool) {
	maps.DeleteFunc(c, func(_ string, at time.Time) bool { return now.Sub(at) >= costSaid })
	for line := range strings.Lines(err.Error()) {
		words := strings.Trim(idOfJob.ReplaceAllString(line, "N"), "\n")
		if _, told := c[words]; !told {
			c[words], fresh = now, true
		}
	}
	return fresh
}

// idOfJob is "7", "4_3", "9+1".
var idOfJob = regexp.MustCompile(`[0-9]+([_+][0-9]+)?`)

// round looks at the runs of the last day that are due. An error is of all of them.
func (c *costComments) round(ctx context.Context, now time.Time) error {
	runs, err := c.store.RunsEnded(ctx, now.Add(-costBack), now.Add(-costBooked))
	if err != nil {
		return err
	}
	seen := map[endedRun]bool{}
	var due []history.Run
	for _, r := range runs {
		k := endOf(r)
		seen[k] = true
		if t := c.runs[k]; !t.done && !now.Before(t.again) {
			due = append(due, r)
		}
	}
	maps.DeleteFunc(c.runs, func(k endedRun, _ tries) bool { return !seen[k] })
	var failed []error
	for many := range slices.Chunk(due, costAtOnce) {
		if many, err = c.lacking(ctx, many, now); err != nil {
			return errors.Join(append(failed, err)...)
		}
		for few := range slices.Chunk(many, costFresh) {
			refused, err := c.comment(ctx, few, now)
			if failed = append(failed, refused...); err != nil || len(failed) >= costFailed {
				return errors.Join(append(failed, err)...)
			}
		}
	}
	return errors.Join(failed...)
}

func endOf(r history.Run) endedRun {
	return endedRun{r.Job, r.Submitted.UnixMicro(), r.Ended.UnixMicro()}
}

// lacking leaves out those of many runs of which nothing is to be written: their records may be read by the
// hundred. What others write while the rest are written is to stay: those are read again, few at a time.
func (c *costComments) lacking(ctx context.Context, runs []history.Run, now time.Time) (some []history.Run, err error) {
	if len(runs) <= costFresh {
		return runs, nil
	}
	have, err := c.accounted(ctx, runs)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		if a, known := have[r.Job]; !known || !ofRun(a, r) || said(a, r) {
			c.tried(r, known && ofRun(a, r), now)
			continue
		}
		some = append(some, r)
	}
	return some, nil
}

func (c *costComments) accounted(ctx context.Context, runs []history.Run) (map[uint32]slurm.Accounted, error) {
	ids := make([]uint32, len(runs))
	for i, r := range runs {
		ids[i] = r.Job
	}
	return c.slurm.Accounted(ctx, ids)
}

// comment writes the lines of a few runs. Refused are the errors of single ones.
func (c *costComments) comment(ctx context.Context, runs []history.Run, now time.Time) (refused []error, err error) {
	have, err := c.accounted(ctx, runs)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		done := false
		if a, known := have[r.Job]; known && ofRun(a, r) {
			if done, err = c.one(ctx, r, a, now); err != nil {
				refused = append(refused, err)
			}
		}
		if c.tried(r, done, now); len(refused) == costFailed {
			break
		}
	}
	return refused, nil
}

// tried notes a try at a run, and when the next one is.
func (c *costComments) tried(r history.Run, done bool, now time.Time) {
	t := c.runs[endOf(r)]
	t.done, t.wait = done, min(costLong, max(costEvery, 2*t.wait))
	t.again = now.Add(t.wait)
	c.runs[endOf(r)] = t
}

// ofRun says that the record is of the run, and not of a job that had its id before or after. Slurmdbd may hear of
// an end late, or the job runs again.
func ofRun(a slurm.Accounted, r history.Run) bool {
	return !a.Ended.IsZero() && !a.Submitted.After(r.Ended) && !a.Ended.Before(r.Started.Truncate(time.Second))
}

// said says that there is nothing more to be said of the run: somebody else has commented on its job, or it
// has its line.
func said(a slurm.Accounted, r history.Run) bool {
	return a.AdminComment != "" && !strings.HasPrefix(a.AdminComment, "burst: ") || strings.Contains(a.AdminComment, fmt.Sprintf("burst: job %d ran ", r.Job))
}

// one writes a run's line behind what Burst has said of the job before, unless it has it, or somebody else has
// commented on it. It says whether that is all; false: the ledger has more to come of it.
func (c *costComments) one(ctx context.Context, r history.Run, a slurm.Accounted, now time.Time) (done bool, err error) {
	had := a.AdminComment
	if said(a, r) {
		return true, nil
	}
	cost, err := c.store.RunCost(ctx, r)
	if err != nil {
		return false, err
	}
	line, late := costLine(cost), now.Sub(r.Ended) >= costPriced
	if cost.Going || !late && (line == "" || cost.Unpriced > 0) {
		return false, nil
	}
	if line == "" {
		return true, nil // nothing was booked of it
	}
	if had != "" {
		had += "; "
	}
	err = c.slurm.CommentAccounted(ctx, a.ID, had+"burst: "+line)
	return err == nil, err
}
