package spending

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
)

// onNodes lists by node the jobs that Slurm shows there, also those that were there last.
func onNodes(snap *slurm.Snapshot) map[string][]slurm.Job {
	all := map[string][]slurm.Job{}
	for _, j := range snap.Jobs {
		if j.Nodes == "" || j.State == "PENDING" {
			continue
		}
		names, err := hostlist.Expand(j.Nodes)
		if err != nil {
			continue // it is counted by the node's own job, if at all
		}
		for _, n := range names {
			all[n] = append(all[n], j)
		}
	}
	return all
}

// has says that the job has its nodes, or is to have them when they are up.
func has(j slurm.Job) bool {
	switch j.State {
	case "CONFIGURING", "RUNNING", "SUSPENDED", "SIGNALING", "STAGE_OUT", "RESIZING", "STOPPED":
		return true
	}
	return false
}

// endless is until when counts what has no time limit: not to the end of this month alone, of which there may be little left.
func (o *opened) endless() time.Time { return o.caps.Month(o.caps.Month(o.now).To).To }

// owner is the job with when it needs the node no more, at the latest, if the node is up at
// begin, and its others so long after it was given them.
func (o *opened) owner(j slurm.Job, begin time.Time, boot time.Duration) budget.Owner {
	w := budget.Owner{Job: j.ID, User: j.User, Account: j.Account, Since: j.Start}
	switch {
	case j.State == "COMPLETING":
		w.Until = o.now
	case !has(j):
		w.Until = sooner(j.End, o.now)
	case j.TimeLimit == 0:
		w.Until = o.endless()
	case j.State == "CONFIGURING": // its limit counts from when all its nodes are up
		w.Until = later(begin, j.Start.Add(boot)).Add(j.TimeLimit)
	default:
		w.Until = later(later(j.Start.Add(j.TimeLimit), j.End), o.now)
	}
	return w
}

// owners are the jobs on a node that is up at begin: those that Slurm shows there, and the
// one that it was raised for, or those in whose node's place it was.
func (o *opened) owners(node string, job uint32, begin time.Time, boot time.Duration) (all []budget.Owner) {
	for _, j := range o.on[node] {
		all = append(all, o.owner(j, begin, boot))
	}
	if job == 0 {
		all = append(all, o.ahead(node, begin, boot)...)
	}
	if job == 0 || slices.ContainsFunc(all, func(w budget.Owner) bool { return w.Job == job }) {
		return all
	}
	j, known := o.jobs[job]
	if !known && o.unread { // in a moment Slurm says how long it runs
		return append(all, budget.Owner{Job: job, Until: begin})
	}
	if made := o.Nodes[node].Made; !known && !made.IsZero() && made.Before(o.taken) { // it had come by then: Slurm has forgotten it
		return append(all, budget.Owner{Job: job, Until: begin})
	}
	if !known { // nobody says how long it runs
		return append(all, budget.Owner{Job: job, Until: o.endless()})
	}
	if j.State == "PENDING" { // requeued meanwhile: it may have it again; when is Slurm's guess, or not before
		j.State, j.Start = "CONFIGURING", time.Time{}
	}
	return append(all, o.owner(j, begin, boot))
}

// ahead are the jobs of the node in whose place this one was raised: there they begin anew, with all of their time limits.
// What they may go on to cost where they are counts beside it, as nobody knows when they go.
func (o *opened) ahead(node string, begin time.Time, boot time.Duration) (all []budget.Owner) {
	if o.InPlaceOf == nil || slices.ContainsFunc(o.on[node], has) {
		return nil
	}
	old := o.InPlaceOf(node)
	if old == "" {
		return nil
	}
	for _, j := range o.on[old] {
		if has(j) {
			j.State, j.Start = "CONFIGURING", time.Time{}
			all = append(all, o.owner(j, begin, boot))
		}
	}
	return all
}

// instance is what an instance can still cost; false: it is at its end in the ledger.
func (o *opened) instance(i power.Instance, rows []ledger.Row) (c budget.Commitment, ok bool) {
	if i.Launched.IsZero() {
		i.Launched = o.now // its cloud does not say since when it costs
	}
	c = budget.Commitment{What: fmt.Sprintf("%s (%s)", i.ID, i.Offering), Launched: i.Launched, From: i.Launched, Increment: o.Increment(i.Provider, i.Offering)}
	usd, asked := o.Price(i.Provider, i.Offering)
	c.USDPerHour = usd
	mine := of(rows, i.ID)
	if len(mine) > 0 && !slices.ContainsFunc(mine, func(r ledger.Row) bool { return r.Open }) {
		return c, false
	}
	var had []budget.Owner // of what is not booked yet
	end := o.now
	if !i.Gone.IsZero() {
		if end = i.Ended; end.IsZero() {
			end = i.Gone
		}
	}
	for _, r := range mine {
		c.From = later(c.From, r.To)
		if r.Open {
			c.USDPerHour = max(c.USDPerHour, r.Price.USDPerHour)
			if r.Job != 0 {
				had = append(had, budget.Owner{Job: r.Job, User: r.User, Account: r.Account, Until: end})
			}
		}
	}
	o.asking = o.asking || c.USDPerHour == 0 && !asked
	if !i.Gone.IsZero() {
		c.Until, c.Owners = end, had
		return c, true
	}
	times, n := o.Pools[i.Pool], o.Nodes[i.Assigned]
	switch doomed := o.Instances[i.ID].Doomed != ""; {
	case doomed, n.Instance != i.ID:
		c.Until = o.now.Add(times.End)
	case times.Stays:
		c.Until = o.endless()
	default:
		begin := o.now
		if n.Phase == power.Booting {
			begin = later(i.Launched.Add(times.Boot), o.now)
		}
		c.Owners = o.owners(n.Name, raisedFor(n), begin, times.Boot)
		o.idle(&c, begin, times)
	}
	c.Owners = append(c.Owners, had...)
	return c, true
}

// raisedFor is the job for which a node is raised; 0 when it is up: by then Slurm shows it there.
func raisedFor(n power.Node) uint32 {
	if n.Phase == power.Up {
		return 0
	}
	return n.Job
}

// idle has an instance end when it has been idle after its last job, or if it has none since
// begin, when it is up. Those who had it are charged for that too: it is for them that it was raised. When none
// goes on it is who had it last, as in what is booked.
func (o *opened) idle(c *budget.Commitment, begin time.Time, t Times) {
	last, latest := begin, -1
	for n, w := range c.Owners {
		last = later(last, w.Until)
		if w.Until.After(c.Launched) && (latest < 0 || w.Until.After(c.Owners[latest].Until)) {
			latest = n
		}
	}
	c.Until = last.Add(t.Suspend + t.End)
	if latest >= 0 && !c.Owners[latest].Until.After(o.now) {
		c.Owners[latest].Until = c.Until
		return
	}
	for n, w := range c.Owners {
		if w.Until.After(o.now) {
			c.Owners[n].Until = w.Until.Add(t.Suspend + t.End)
		}
	}
}

// raised says for whom the instances were raised that may not have had a job yet.
func (o *opened) raised() map[string]store.Owner {
	all := map[string]store.Owner{}
	for _, n := range o.Nodes {
		if n.Instance != "" && n.Job != 0 {
			j := o.jobs[n.Job]
			all[n.Instance] = store.Owner{Job: n.Job, User: j.User, Account: j.Account}
		}
	}
	return all
}

// launch is what a launch can cost whose instances are not known, one commitment for each, without some jobs.
func (o *opened) launch(l power.Launch, but map[uint32]bool) []budget.Commitment {
	c := budget.Commitment{Launched: l.Created, From: l.Created}
	dear := 0.0
	for _, offering := range l.Request.Offerings() { // the dearest
		usd, _ := o.Price(l.Provider, offering)
		if c.What == "" || usd == 0 || dear > 0 && usd > dear {
			c.What, c.Increment, dear = offering.String(), o.Increment(l.Provider, offering), usd
		}
		if usd == 0 {
			break // it may be any price
		}
	}
	c.USDPerHour = dear
	times := o.Pools[l.Request.Pool]
	begin := later(l.Created.Add(times.Boot), o.now)
	var all []budget.Commitment
	for _, name := range l.Nodes {
		one := c
		switch n := o.Nodes[name]; {
		case l.State == power.Abandoned: // what comes of it ends
			one.Until = o.now.Add(times.End)
		case times.Stays:
			one.Until = o.endless()
		default:
			one.Owners = slices.DeleteFunc(o.owners(name, n.Job, begin, times.Boot), func(w budget.Owner) bool { return but[w.Job] })
			o.idle(&one, begin, times)
		}
		all = append(all, one)
	}
	return all
}

func of(rows []ledger.Row, instance string) []ledger.Row {
	// They are sorted by instance.
	from, _ := slices.BinarySearchFunc(rows, instance, func(r ledger.Row, id string) int { return strings.Compare(r.Instance, id) })
	to := from
	for to < len(rows) && rows[to].Instance == instance {
		to++
	}
	return rows[from:to]
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func sooner(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
