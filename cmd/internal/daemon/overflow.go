package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow"
)

const (
	overflowEvery   = 2 * time.Second  // between two rounds; with many jobs, overflowCost times what it takes to look
	overflowCost    = 20               // at them, and as long as it takes to move them: half of the time is Slurm's
	overflowLate    = 2 * time.Minute  // at most
	overflowScripts = 100              // that are read in one round
	overflowMoves   = 100              // jobs that Slurm is told of in one round
	overflowShown   = time.Minute      // partitions and what their nodes are like are read so often
	overflowRead    = 30 * time.Second // for the scripts of one round
)

// overflowing carries the rules of overflow out. What is done to a job is written before
// Slurm is told, so that a burstd that dies in between knows whose doing it was; what Slurm
// shows then says whether it was told.
type overflowing struct {
	*Daemon
	rows   map[overflow.Key]store.Overflowed // that are open; nil: to be read
	made   time.Time                         // the last change: a reading of Slurm must be younger
	ends   map[overflow.Key]string           // of those whose jobs have ended, how
	quiet  bool                              // none of those that wait is told what keeps it
	looked time.Duration                     // what reading and deciding took in the last round
}

// keepOverflow moves jobs by the rules, and keeps some from the cloud for a budget, until ctx ends. Without rules and a budget,
// and with no job that was moved, it only takes back what jobs were told by rules that are gone.
func (d *Daemon) keepOverflow(ctx context.Context) error {
	o := overflowing{Daemon: d}
	told := ""
	for _, r := range d.cfg.Overflow.Rules {
		for _, p := range d.cfg.Overflow.Nowhere(r) {
			d.log.Warn("a rule of overflow moves no job that uses a folder: the pool names none that its nodes have; write mounts or file_systems", "rule", r.Name, "pool", p)
		}
	}
	for {
		began := time.Now()
		err := o.round(ctx)
		idle := o.rows != nil && len(d.cfg.Overflow.Rules)+len(o.rows) == 0
		if err == nil && d.cfg.Budget == nil && idle && o.quiet {
			return nil
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != "" && text != told && ctx.Err() == nil && !idle {
			d.log.Warn("jobs that wait may not overflow as the rules say; tried again", "error", text)
		}
		told = text
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(jitter(min(overflowLate, max(overflowEvery, overflowCost*o.looked, time.Since(began))))):
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
		o.rows, o.ends = map[overflow.Key]store.Overflowed{}, map[overflow.Key]string{}
		for _, r := range open {
			o.rows[r.Key] = r
		}
	}
	began := time.Now()
	if len(o.cfg.Overflow.Rules)+len(o.rows) == 0 && !o.budgetKeeps() {
		if o.quiet {
			return nil
		}
		waiting, err := o.client.Waiting(ctx)
		if o.looked = time.Since(began); err == nil {
			o.quiet = !haveWords(waiting)
			o.tellKept(ctx, o.cfg.Overflow.OnPrem, overflow.Decide(overflow.Snapshot{Now: began, Waiting: waiting}))
		}
		return err
	}
	s, err := o.snapshot(ctx, o.made)
	if err != nil {
		return err
	}
	s.Rules, s.OnPrem, s.Shared = o.cfg.Overflow.Rules, o.cfg.Overflow.OnPrem, o.cfg.Overflow.Shared
	for _, r := range o.rows {
		s.Records = append(s.Records, r.Record)
	}
	o.overflows.watchAside(&s)
	plan := overflow.Decide(s)
	o.looked = time.Since(began)
	reads, err := o.scripts(ctx, s.OnPrem, plan)
	if reads > 0 {
		s.Scripts, s.Refused = o.overflows.kept(s.Waiting), o.overflows.refusedNow(time.Now())
		plan = overflow.Decide(s)
	}
	err = errors.Join(err, o.carryOut(ctx, plan))
	o.quiet = !haveWords(s.Waiting)
	o.tellKept(ctx, s.OnPrem, plan)
	return err
}

// budgetKeeps says that some job waits for a budget.
func (o *overflowing) budgetKeeps() bool {
	if o.cfg.Budget == nil {
		return false
	}
	for _, h := range o.engine.Back(time.Now()) {
		if h.OverBudget() {
			return true
		}
	}
	return false
}

// carryOut does what was decided: first what makes room. What fails is tried again later and later,
// and is no move of the round's.
func (o *overflowing) carryOut(ctx context.Context, plan []overflow.Decision) error {
	var errs []error
	moves := 0
	plan = grouped(plan)
	for _, adding := range []bool{false, true} {
		for _, dec := range plan {
			if (dec.Action == overflow.Add) != adding || dec.Action == overflow.Keep || dec.Action == overflow.Leave {
				continue
			}
			move := dec.Action == overflow.Add || dec.Action == overflow.Take
			if move && (moves == overflowMoves || o.overflows.waits(askedOf(dec)) || len(errs) >= o.overflows.mayFail(askedOf(dec))) {
				continue // in another round
			}
			err := o.do(ctx, dec)
			switch {
			case err != nil && (ctx.Err() != nil || o.rows == nil): // without the journal nothing is done
				return err
			case err != nil:
				errs = append(errs, err)
			case move:
				moves++
				o.overflows.done(askedOf(dec))
			}
		}
	}
	return errors.Join(errs[:min(len(errs), 3)]...) // the others fail as these
}

func (o *overflowing) do(ctx context.Context, dec overflow.Decision) error {
	switch dec.Action {
	case overflow.Add:
		return o.add(ctx, dec)
	case overflow.Take:
		return o.take(ctx, dec)
	case overflow.Seen:
		o.overflows.done(asked{overflow.ScriptOf(dec.Job.Job), overflow.Add})
		return o.write(ctx, dec, change{state: overflow.InPlace, kind: "overflow"})
	case overflow.Theirs:
		return o.write(ctx, dec, change{state: overflow.LeftAlone, kind: "overflow-left"})
	case overflow.Gone:
		return o.write(ctx, dec, change{end: dec.Why, kind: "overflow-back"})
	}
	key := dec.Keys[0]
	if dec.Action == overflow.Over {
		o.ends[key] = dec.Why
		return nil
	}
	return o.write(ctx, dec, change{end: cmp.Or(o.ends[key], dec.Why)})
}

// add gives a job partitions of a cloud, or for a budget takes them away, unless it is another than it was when that was decided.
// One that Slurm refuses is no record: it takes no place, and is as it was.
func (o *overflowing) add(ctx context.Context, dec overflow.Decision) error {
	row := o.overflows.last(askedOf(dec)).row
	done, doing := "added", "adding"
	if dec.Rule == "" {
		done, doing = "taken away", "taking away"
	}
	fail := func(err error) error {
		o.overflows.refused(askedOf(dec), fmt.Sprintf("%s %s failed: %v", doing, strings.Join(dec.To, ","), err), row)
		return err
	}
	had, same, err := o.unchanged(ctx, dec)
	switch {
	case err != nil:
		return fail(err)
	case !same:
		return nil
	}
	if err := o.write(ctx, dec, change{state: overflow.Adding}); err != nil {
		return err
	}
	row = o.rows[dec.Keys[0]]
	err = o.client.SetPartitions(ctx, dec.Job.Job, slurm.Move{Tasks: tasksOf(dec), Partitions: overflow.Changed(dec.Rule, dec.Was, dec.To), Begin: dec.Begin, Told: addedText(dec, had, time.Now())})
	switch {
	case errors.Is(err, slurm.ErrNotPending) && dec.Job.ArrayTask == "":
		return o.write(ctx, dec, change{end: "it began before it was " + done})
	case errors.Is(err, slurm.ErrNotPending):
		return nil // of some tasks: the next round sees of which
	case slurm.Refused(err):
		if _, same, readErr := o.unchanged(ctx, dec); readErr != nil || !same { // of some tasks, perhaps: the next round sees of which
			return fail(err)
		}
		if err := o.write(ctx, dec, change{end: "not " + done + ": " + err.Error()}); err != nil {
			return err
		}
		if dec.Rule == "" {
			if told := o.engine.NotPlaced(ctx, dec.Job.ID); told != nil {
				return told
			}
		}
		return fail(err)
	case err != nil:
		return fail(err)
	}
	return o.write(ctx, dec, change{state: overflow.InPlace, kind: "overflow"})
}

// take undoes what was added, or taken away.
func (o *overflowing) take(ctx context.Context, dec overflow.Decision) error {
	fail := func(err error) error {
		o.overflows.refused(askedOf(dec), err.Error(), store.Overflowed{})
		return err
	}
	had, same, err := o.unchanged(ctx, dec)
	switch {
	case err != nil:
		return fail(err)
	case !same:
		return nil
	}
	if err := o.write(ctx, dec, change{state: overflow.Taking}); err != nil {
		return err
	}
	if dec.Aside != "" {
		o.overflows.rest(dec, time.Now())
	}
	err = o.client.SetPartitions(ctx, dec.Job.Job, slurm.Move{Tasks: tasksOf(dec), Partitions: dec.Was, Begin: dec.Begin, Told: takenText(dec, had)})
	switch {
	case errors.Is(err, slurm.ErrNotPending):
		return nil // it has begun: if it waits again, so
	case err != nil:
		return fail(err)
	}
	return o.write(ctx, dec, change{end: dec.Why, kind: "overflow-back"})
}

// unchanged says whether the job, or each of the tasks, still waits in the partitions that the decision
// saw: rounds are of many jobs, and its user may have been quicker. had is its AdminComment; of tasks that of one
// that is not burstd's, if there is such.
func (o *overflowing) unchanged(ctx context.Context, dec overflow.Decision) (had string, same bool, err error) {
	jobs, err := o.client.JobsOf(ctx, dec.Keys[0].Job)
	if err != nil {
		return "", false, err
	}
	still := map[int]bool{} // tasks
	for _, j := range jobs {
		if j.State != "PENDING" || j.Partition != dec.Job.Partition || j.UID != dec.Job.UID {
			continue
		}
		if had == "" || tellable(had) {
			had = j.AdminComment
		}
		if j.ArrayTask == "" {
			still[-1] = still[-1] || j.ID == dec.Job.ID
		}
		for _, t := range j.ArrayTasks() {
			still[t] = true
		}
	}
	return had, !slices.ContainsFunc(dec.Keys, func(k overflow.Key) bool { return !still[k.Task] }), nil
}
