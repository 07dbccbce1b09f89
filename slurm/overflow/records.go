package overflow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// patience is how long a job whose cloud nodes did not come may wait for the next try: for longer it
// must not lose its place at the site.
const patience = time.Minute

// records decides about those that have a record, and counts what room they leave.
func (d *decider) records() {
	for _, r := range d.Rules {
		if r.AtOnce > 0 {
			d.room[r.Name] = r.AtOnce
		}
	}
	if len(d.Records) == 0 {
		return
	}
	others := map[Key]slurm.Job{} // that do not wait
	for _, j := range d.Jobs {
		if j.State != "PENDING" {
			for _, k := range keysOf(j) {
				others[k] = j
			}
		}
	}
	tasks := map[int]map[int]bool{} // of rows
	var waiting []waitingRecord
	for _, r := range d.Records {
		d.has[r.Key] = r
		if w := d.row(r, tasks); w != nil {
			waiting = append(waiting, waitingRecord{r, w})
			continue
		}
		d.begun(r, others)
	}
	// Those that were added first keep their places.
	slices.SortFunc(waiting, func(a, b waitingRecord) int {
		return cmp.Or(a.r.At.Compare(b.r.At), cmp.Compare(a.r.Job, b.r.Job), cmp.Compare(a.r.Task, b.r.Task))
	})
	for _, w := range waiting {
		d.pending(w.r, w.w)
	}
}

type waitingRecord struct {
	r Record
	w *slurm.Waiting
}

func keysOf(j slurm.Job) []Key {
	if j.ArrayTask == "" {
		return []Key{{j.ID, -1}}
	}
	var all []Key
	for _, t := range j.ArrayTasks() {
		all = append(all, Key{j.ArrayID, t})
	}
	return all
}

// row is the pending row that the record's job is part of; nil: none.
func (d *decider) row(r Record, tasks map[int]map[int]bool) *slurm.Waiting {
	for _, i := range d.rows[r.Job] {
		w := &d.Waiting[i]
		if w.ArrayTask == "" {
			if r.Task < 0 && w.ID == r.Job {
				return w
			}
			continue
		}
		in, ok := tasks[i]
		if !ok {
			in = map[int]bool{}
			for _, t := range w.ArrayTasks() {
				in[t] = true
			}
			tasks[i] = in
		}
		if r.Task >= 0 && in[r.Task] {
			return w
		}
	}
	return nil
}

// same says whether a job of the record's number is the record's.
func (r Record) same(j slurm.Job) bool {
	return j.UID == r.UID && (j.Submitted.Equal(r.Submitted) || j.Restarts > r.Restarts)
}

func (d *decider) say(r Record, a Action, w *slurm.Waiting, why string) {
	leaves := a == Take && !r.ForBudget() || a == Add && r.ForBudget()
	d.all = append(d.all, Decision{Job: w, Keys: []Key{r.Key}, Action: a, Rule: r.Rule, To: r.To, Was: r.Was, Begin: leaves && d.waitsBack(w), Why: why})
}

// waitsBack says whether what the job waits for is the start that it was given with its nodes' want.
// Its user, or an admin, may have set another.
func (d *decider) waitsBack(w *slurm.Waiting) bool {
	b, ok := d.Back[w.ID]
	return ok && b.Until.Sub(w.Eligible).Abs() <= 2*time.Second
}

// begun decides about a record whose job does not wait.
func (d *decider) begun(r Record, others map[Key]slurm.Job) {
	j, shown := others[r.Key]
	switch {
	case !shown && d.shown(r): // it waits in the one reading, and has begun by the other
		d.take1(r)
	case !shown:
		d.say(r, Forget, nil, "the job has ended, and Slurm has forgotten it")
	case !r.same(j):
		d.say(r, Forget, nil, "another job has its number")
	case over(j.State):
		d.say(r, Over, nil, ended(r, j))
	case slices.Contains(r.To, j.Partition):
		d.take1(r)
	}
}

// shown says whether the job is in the snapshot of all jobs, in whatever state.
func (d *decider) shown(r Record) bool {
	for _, j := range d.Jobs {
		if arrayOr(j) == r.Job && (r.Task < 0 || strings.Contains(j.ArrayTask, "...") || slices.Contains(j.ArrayTasks(), r.Task)) {
			return true
		}
	}
	return false
}

// take1 counts one that waits or runs by its rule.
func (d *decider) take1(r Record) {
	if _, counted := d.room[r.Rule]; counted {
		d.room[r.Rule]--
	}
}

func over(state string) bool {
	return slices.Contains([]string{"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED"}, state)
}

func ended(r Record, j slurm.Job) string {
	state := strings.ToLower(j.State)
	if j.Nodes == "" {
		return "ended while it waited: " + state
	}
	where := "at its own place, "
	if slices.Contains(r.To, j.Partition) || r.ForBudget() {
		where = "in "
	}
	return fmt.Sprintf("ran %s%s: %s", where, j.Partition, state)
}

// pending decides about a record whose job waits.
func (d *decider) pending(r Record, w *slurm.Waiting) {
	if !r.same(w.Job) {
		d.say(r, Forget, w, "another job has its number")
		delete(d.has, r.Key) // it is looked at like any other
		return
	}
	if r.State == LeftAlone {
		d.say(r, Leave, w, fmt.Sprintf("stays: its partitions were changed by its user or an admin after Burst had decided to %s %s", r.word("add", "take away"), strings.Join(r.To, ",")))
		return
	}
	have := d.partitions(w.Partition)
	added := equal(have, Changed(r.Rule, r.Was, r.To))
	own := equal(have, r.Was)
	switch {
	case !added && !own, own && r.State == InPlace:
		d.say(r, Theirs, w, fmt.Sprintf("its user or an admin made its partitions %s: Burst leaves it alone", w.Partition))
		return
	case own && r.State == Taking:
		d.say(r, Gone, w, fmt.Sprintf("back to %s%s", w.Partition, r.word(" alone", "")))
		return
	case r.State == Taking:
		d.say(r, Take, w, r.word(cmp.Or(r.TakenFor, fmt.Sprintf("rule %s no longer holds", r.Rule)), anew+"; back to "+strings.Join(r.Was, ",")))
		return
	}
	why := d.ends(r, w)
	switch {
	case why != "" && own:
		d.say(r, Gone, w, why+r.word(" before it was added", " before its partitions were changed"))
	case why != "":
		d.say(r, Take, w, fmt.Sprintf("%s; back to %s", why, strings.Join(r.Was, ",")))
	default:
		d.take1(r)
		a, text := Keep, "goes also to "
		if r.State == Adding {
			if a = Seen; own {
				a = Add
			}
		}
		if r.ForBudget() {
			d.say(r, a, w, d.Back[w.ID].keeps(r.Was, r.To))
			return
		}
		d.say(r, a, w, fmt.Sprintf("rule %s: %s%s", r.Rule, text, strings.Join(r.To, ",")))
		if since, yes := d.aside(r, w); yes && added {
			d.asides[r.Rule] = append(d.asides[r.Rule], placeOf{len(d.all) - 1, since})
		}
	}
}

// placeOf is whose place others may have.
type placeOf struct {
	decision int // of all
	since    time.Time
}

// asideFor is how long a moved job may wait for what a cloud does not give before it gives up its place; a rule's After, if
// that is longer. One that was requeued waits a while for its time, and others until Slurm looks at them.
const asideFor = 10 * time.Minute

// Aside says that a pending job would not start if it were given nodes, as far as Slurm says. Of a job of several partitions Slurm
// has one reason: that one of them is down, or too small for it, does not speak of the others.
func Aside(w *slurm.Waiting) bool {
	return !slices.Contains([]string{"", "None", "Resources", "Priority"}, w.Reason) && !strings.HasPrefix(w.Reason, "Partition") && !forNodes(w)
}

// aside says since when a moved job has not wanted to start; yes: for so long that others may have its place.
func (d *decider) aside(r Record, w *slurm.Waiting) (since time.Time, yes bool) {
	i := slices.IndexFunc(d.Rules, func(o Rule) bool { return o.Name == r.Rule })
	since, seen := d.Aside[w.ID]
	return since, seen && Aside(w) && !d.waitsBack(w) && d.Now.Sub(since) >= max(d.Rules[i].After, asideFor)
}

// makeRoom has moved jobs that do not want to start give up their places by the rule, until n that would be moved now have one;
// those first that have not wanted to for the longest.
func (d *decider) makeRoom(rule string, n int) {
	all := d.asides[rule]
	slices.SortStableFunc(all, func(a, b placeOf) int { return a.since.Compare(b.since) })
	for len(all) > 0 && d.room[rule] < n {
		dec := &d.all[all[0].decision]
		dec.Action, dec.Aside = Take, dec.Job.Reason
		dec.Why = fmt.Sprintf("it waits for %s now, not for Resources or Priority; back to %s", dec.Job.Reason, strings.Join(dec.Was, ","))
		d.room[rule]++
		all = all[1:]
	}
	d.asides[rule] = all
}

// ends says why what was added is taken away; "": it stays. How long the job waits is not asked again.
func (d *decider) ends(r Record, w *slurm.Waiting) string {
	if r.ForBudget() {
		if b, ok := d.Back[w.ID]; ok && b.Budget {
			return ""
		}
		return anew
	}
	i := slices.IndexFunc(d.Rules, func(o Rule) bool { return o.Name == r.Rule })
	if i < 0 {
		return "rule " + r.Rule + " is gone"
	}
	if b, ok := d.Back[w.ID]; ok && !b.Untold && (b.Never || b.Until.Sub(d.Now) > patience) {
		return "it was given back: " + b.Why
	}
	if heldBySomebody(w) {
		return "it is held"
	}
	own := *w
	own.Partition = strings.Join(r.Was, ",") // by which it was matched
	j := d.job(&own)
	j.limit = d.movedLimit(j, r.To)
	if j.script == nil { // read again after a restart; until then it stays as it is
		return d.over(r, i)
	}
	switch first, _ := d.rule(j); {
	case first == nil:
		return "rule " + r.Rule + " is not about it any more"
	case first.Name != r.Rule:
		return "rule " + first.Name + " is about it now, not " + r.Rule
	case len(without(r.To, first.To)) > 0:
		return "rule " + r.Rule + " is not to " + strings.Join(without(r.To, first.To), ",") + " any more"
	}
	if why := d.never(j); why != "" {
		return why
	}
	if fit, why := d.fitting(j, &d.Rules[i], r.To); len(fit) < len(r.To) {
		return why
	}
	return d.over(r, i)
}

// over says that the rule has more jobs than it lets.
func (d *decider) over(r Record, rule int) string {
	if n := d.Rules[rule].AtOnce; n > 0 && d.room[r.Rule] <= 0 {
		return fmt.Sprintf("rule %s lets %d of its jobs at once wait or run in %s", r.Rule, n, strings.Join(r.To, ","))
	}
	return ""
}

// word is one of two, of a rule's record or of one for a budget.
func (r Record) word(rule, budget string) string {
	if r.ForBudget() {
		return budget
	}
	return rule
}

func equal(a, b []string) bool {
	return len(without(a, b)) == 0 && len(without(b, a)) == 0
}
