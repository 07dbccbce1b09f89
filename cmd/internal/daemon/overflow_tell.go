package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow"
	"github.com/burst-hpc/burst/slurm/power"
)

const (
	keptFor   = time.Minute      // so long a job has waited that is told what keeps it: others are moved in time
	keptAgain = 10 * time.Minute // between two such words of one job
)

// keptText is what a job is told that its rule would move.
func keptText(kept string, now time.Time) string {
	return fmt.Sprintf("%s%s, since %s", power.KeptText, kept, now.Local().Format(time.DateTime))
}

// toTell says what the job's AdminComment is to be; false: it stays. Others' words stay, and so does what is no news, however long
// it has been so: what was told is known by Slurm, and not told again by the next burstd.
func toTell(dec overflow.Decision, now time.Time) (text string, tell bool) {
	w := dec.Job
	if w == nil || dec.Action != overflow.Leave || dec.Script || w.ArrayTask != "" && !whole(dec) {
		return "", false
	}
	had, told := strings.CutPrefix(w.AdminComment, power.KeptText)
	early := dec.Early && (w.Reason == "Resources" || w.Reason == "Priority") // perhaps: estimates come and go
	switch {
	case !told && w.AdminComment != "" && (!power.TakenBack(w.AdminComment) || strings.HasSuffix(w.AdminComment, requeuedText)):
	case dec.Kept == "" && w.Reason != "" && w.Reason != "None" && !early: // Slurm has looked at it
		return "", told
	case dec.Kept != "" && !strings.HasPrefix(had, dec.Kept+", since ") && now.Sub(w.Eligible) >= keptFor:
		return keptText(dec.Kept, now), true
	}
	return "", false
}

// haveWords says that some are told what keeps them; those that squeue cuts off never are.
func haveWords(waiting []slurm.Waiting) bool {
	return slices.ContainsFunc(waiting, func(w slurm.Waiting) bool {
		return strings.HasPrefix(w.AdminComment, power.KeptText) && !strings.Contains(w.ArrayTask, "...")
	})
}

// whole says that the decision is about all tasks of an array that wait as one: of some of them an update makes jobs of their own.
func whole(dec overflow.Decision) bool {
	return !strings.Contains(dec.Job.ArrayTask, "...") && len(dec.Keys) == len(dec.Job.ArrayTasks())
}

// tellKept tells some jobs what keeps them from being moved, those first that come first, and takes the word back where it is
// not so any more. It is a courtesy: some in each round, however many wait, and what Slurm refuses is tried later and later.
func (o *overflowing) tellKept(ctx context.Context, p overflow.OnPrem, plan []overflow.Decision) {
	now, left := time.Now(), tellAtOnce
	for _, dec := range plan {
		text, tell := toTell(dec, now)
		if !tell {
			continue
		}
		ask := asked{overflow.ScriptOf(dec.Job.Job), tellIt}
		id := ask.ScriptID
		if o.overflows.waits(ask) || o.overflows.waits(asked{id, readIt}) || text != "" && now.Sub(o.overflows.toldAt(id)) < keptAgain {
			continue
		}
		if left--; left < 0 || ctx.Err() != nil {
			return
		}
		if text != "" && !o.overflows.has(id) { // it may say that it stays: the next round knows
			if err := o.overflows.readScript(ctx, o.client, p, dec.Job.Job); err != nil {
				o.log.Debug("a job's script could not be read, and it is not told what keeps it", "job", dec.Job.ID, "error", err)
			}
			continue
		}
		if err := o.tellOne(ctx, dec.Job.Job, text); err != nil {
			o.overflows.refused(ask, err.Error(), store.Overflowed{})
			o.log.Debug("a job could not be told what keeps it", "job", dec.Job.ID, "error", err)
			continue
		}
		o.overflows.done(ask)
		if text != "" {
			o.overflows.tells(id, now)
		}
	}
}

// toldAt is when a job was told what keeps it.
func (r *overflowReads) toldAt(id overflow.ScriptID) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told[id]
}

func (r *overflowReads) tells(id overflow.ScriptID, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told == nil {
		r.told = map[overflow.ScriptID]time.Time{}
	}
	r.told[id] = now
}

// tellOne reads the job again first: what others have said meanwhile stays.
func (o *overflowing) tellOne(ctx context.Context, j slurm.Job, text string) error {
	ctx, cancel := context.WithTimeout(ctx, afterAnswer)
	defer cancel()
	now, err := o.client.Job(ctx, j.ID)
	if err != nil {
		return err
	}
	if now.State != "PENDING" || now.Restarts != j.Restarts || now.AdminComment != j.AdminComment || now.Partition != j.Partition {
		return nil
	}
	return o.client.UpdateJob(ctx, j.ID, slurm.JobUpdate{AdminComment: &text})
}
