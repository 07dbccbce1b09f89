package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow"
)

const (
	overflowEvery   = 2 * time.Second  // between two rounds; with many jobs, overflowCost times what one takes
	overflowCost    = 20               //
	overflowLate    = 2 * time.Minute  // at most
	overflowScripts = 32               // that are read in one round
	overflowMoves   = 100              // jobs that Slurm is told of in one round
	overflowShown   = time.Minute      // partitions and what their nodes are like are read so often
	overflowAgain   = 5 * time.Minute  // at most, between two tries of what Slurm refuses
	overflowRead    = 30 * time.Second // for the scripts of one round
)

// overflowing carries the rules of overflow out. What is done to a job is written before
// Slurm is told, so that a burstd that dies in between knows whose doing it was; what Slurm
// shows then says whether it was told.
type overflowing struct {
	*Daemon
	rows map[overflow.Key]store.Overflowed // that are open; nil: to be read
	made time.Time                         // the last change: a reading of Slurm must be younger
	fail map[overflow.Key]try
}

// keepOverflow moves jobs by the rules until ctx ends. Without rules, and with no job that was
// moved, it does nothing at all.
func (d *Daemon) keepOverflow(ctx context.Context) error {
	o := overflowing{Daemon: d}
	told := ""
	for {
		began := time.Now()
		err := o.round(ctx)
		if err == nil && len(d.cfg.Overflow.Rules)+len(o.rows) == 0 {
			return nil
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != "" && text != told && ctx.Err() == nil {
			d.log.Warn("jobs that wait may not overflow as the rules say; tried again", "error", text)
		}
		told = text
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(jitter(min(overflowLate, max(overflowEvery, overflowCost*time.Since(began))))):
		}
	}
}

// round looks at all that wait once, and does what is to be done.
func (o *overflowing) round(ctx context.Context) error {
	if o.rows == nil {
		open, err := o.store.OpenOverflows(ctx)
		if err != nil {
			return err
		}
		o.rows, o.fail = map[overflow.Key]store.Overflowed{}, map[overflow.Key]try{}
		for _, r := range open {
			o.rows[r.Key] = r
		}
	}
	if len(o.cfg.Overflow.Rules)+len(o.rows) == 0 {
		return nil
	}
	s, err := o.snapshot(ctx, o.made)
	if err != nil {
		return err
	}
	s.Rules, s.OnPrem = o.cfg.Overflow.Rules, o.cfg.Overflow.OnPrem
	for _, r := range o.rows {
		s.Records = append(s.Records, r.Record)
	}
	plan := overflow.Decide(s)
	reads, err := o.scripts(ctx, s.OnPrem, plan)
	if reads > 0 {
		s.Scripts = o.overflows.kept(s.Waiting)
		plan = overflow.Decide(s)
	}
	return errors.Join(err, o.carryOut(ctx, plan))
}

// carryOut does what was decided: first what makes room.
func (o *overflowing) carryOut(ctx context.Context, plan []overflow.Decision) error {
	var errs []error
	moves := 0
	fail := map[overflow.Key]try{} // of jobs that are still there
	for _, dec := range plan {
		if f, ok := o.fail[dec.Keys[0]]; ok {
			fail[dec.Keys[0]] = f
		}
	}
	o.fail = fail
	for _, adding := range []bool{false, true} {
		for _, dec := range plan {
			if (dec.Action == overflow.Add) != adding || dec.Action == overflow.Keep || dec.Action == overflow.Leave {
				continue
			}
			if dec.Action == overflow.Add || dec.Action == overflow.Take {
				if time.Now().Before(o.fail[dec.Keys[0]].again) {
					continue
				}
				if moves++; moves > overflowMoves {
					continue // in the next round
				}
			}
			if err := o.do(ctx, dec); err != nil {
				if ctx.Err() != nil || o.rows == nil { // without the journal nothing is done
					return err
				}
				o.failed(dec)
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs[:min(len(errs), 3)]...) // the others fail as these
}

func (o *overflowing) failed(dec overflow.Decision) {
	n := o.fail[dec.Keys[0]].times + 1
	o.fail[dec.Keys[0]] = try{n, time.Now().Add(jitter(min(overflowAgain, overflowEvery<<min(n, 10))))}
}

func (o *overflowing) do(ctx context.Context, dec overflow.Decision) error {
	switch dec.Action {
	case overflow.Add:
		return o.add(ctx, dec)
	case overflow.Take:
		return o.take(ctx, dec)
	case overflow.Seen:
		return o.write(ctx, dec, change{state: overflow.InPlace, kind: "overflow"})
	case overflow.Theirs:
		return o.write(ctx, dec, change{state: overflow.LeftAlone, kind: "overflow-left"})
	case overflow.Gone:
		return o.write(ctx, dec, change{end: dec.Why, kind: "overflow-back"})
	}
	return o.write(ctx, dec, change{end: dec.Why})
}

// add gives a job partitions of a cloud, unless it is another than it was when that was decided.
func (o *overflowing) add(ctx context.Context, dec overflow.Decision) error {
	if same, err := o.unchanged(ctx, dec); err != nil || !same {
		return err
	}
	if err := o.write(ctx, dec, change{state: overflow.Adding}); err != nil {
		return err
	}
	err := o.client.SetPartitions(ctx, dec.Job.Job, tasksOf(dec), append(slices.Clone(dec.Was), dec.To...))
	switch {
	case errors.Is(err, slurm.ErrNotPending) && dec.Job.ArrayTask == "":
		return o.write(ctx, dec, change{end: "it began before it was added"})
	case errors.Is(err, slurm.ErrNotPending):
		return nil // of some tasks: the next round sees of which
	case err != nil:
		return err
	}
	return o.write(ctx, dec, change{state: overflow.InPlace, kind: "overflow"})
}

// take takes away what was added.
func (o *overflowing) take(ctx context.Context, dec overflow.Decision) error {
	if same, err := o.unchanged(ctx, dec); err != nil || !same {
		return err
	}
	if err := o.write(ctx, dec, change{state: overflow.Taking}); err != nil {
		return err
	}
	err := o.client.SetPartitions(ctx, dec.Job.Job, tasksOf(dec), dec.Was)
	switch {
	case errors.Is(err, slurm.ErrNotPending):
		return nil // it has begun: if it waits again, so
	case err != nil:
		return err
	}
	return o.write(ctx, dec, change{end: dec.Why, kind: "overflow-back"})
}

// unchanged says whether the job still waits in the partitions that the decision saw: rounds
// are of many jobs, and its user may have been quicker.
func (o *overflowing) unchanged(ctx context.Context, dec overflow.Decision) (bool, error) {
	jobs, err := o.client.JobsOf(ctx, dec.Job.ID)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(jobs, func(j slurm.Job) bool {
		return j.ID == dec.Job.ID && j.State == "PENDING" && j.Partition == dec.Job.Partition && j.UID == dec.Job.UID
	}), nil
}

func tasksOf(dec overflow.Decision) []int {
	tasks := make([]int, len(dec.Keys))
	for i, k := range dec.Keys {
		tasks[i] = k.Task
	}
	return tasks
}

// change is what becomes of rows.
type change struct {
	state string // "": as it is
	end   string // why it ends; "": it does not
	kind  string // of the event that tells of it; "": none
}

// write writes the rows of a decision, and then tells of them.
func (o *overflowing) write(ctx context.Context, dec overflow.Decision, c change) error {
	now := time.Now()
	var rows []store.Overflowed
	for _, k := range dec.Keys {
		row, have := o.rows[k]
		if !have {
			w := dec.Job
			row = store.Overflowed{Record: overflow.Record{Key: k, UID: w.UID, Submitted: w.Submitted, Restarts: w.Restarts, Rule: dec.Rule, Was: dec.Was, To: dec.To, At: now}, User: w.User, Why: dec.Why}
		}
		if c.state != "" {
			row.State = c.state
		}
		if c.end != "" {
			row.Ended, row.EndedWhy = now, c.end
		}
		rows = append(rows, row)
	}
	if err := o.store.PutOverflows(ctx, rows); err != nil {
		o.rows = nil // they may be written
		return err
	}
	for _, row := range rows {
		o.rows[row.Key] = row
		if c.end != "" {
			delete(o.rows, row.Key)
		}
		delete(o.fail, row.Key)
	}
	o.made = time.Now()
	if c.kind == "" {
		return nil
	}
	why := dec.Why
	if c.kind == "overflow" {
		why = rows[0].Why
	}
	return o.journal.CommitFT(ctx, ft.Change{Events: []ft.Event{o.event(dec, c.kind, why)}})
}

// event tells of a job, or of tasks of an array.
func (o *overflowing) event(dec overflow.Decision, kind, why string) ft.Event {
	now, id := time.Now(), dec.Keys[0].Job
	text := fmt.Sprintf("job %s: %s", jobName(dec.Keys), why)
	switch kind {
	case "overflow":
		return ft.Event{Time: now, Kind: "overflow", Job: id, Text: text}
	case "overflow-back":
		return ft.Event{Time: now, Kind: "overflow-back", Job: id, Text: text}
	}
	return ft.Event{Time: now, Kind: "overflow-left", Job: id, Text: text}
}

// jobName is "7", "7_3" or "7_[3,4]".
func jobName(keys []overflow.Key) string {
	if len(keys) == 1 {
		return keys[0].String()
	}
	words := make([]string, len(keys))
	for i, k := range keys {
		words[i] = fmt.Sprint(k.Task)
	}
	return fmt.Sprintf("%d_[%s]", keys[0].Job, strings.Join(words, ","))
}
