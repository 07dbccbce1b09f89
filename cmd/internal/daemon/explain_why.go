package daemon

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow"
	"github.com/burst-hpc/burst/slurm/power"
)

// facts are what is known of one job when it is explained. What is said of them is a pure function.
type facts struct {
	now      time.Time
	job      slurm.Job
	would    bool // it is not submitted
	qos      bool // so its QOS is not known, and rules or partitions ask for one
	all      bool // who asks may see all
	hold     *power.Hold
	nodes    []power.Node             // of ours that it has, or that were ordered for it
	boots    map[string]time.Duration // by pool, how long they take
	decision *overflow.Decision       // nil: no rule is from its partitions
	rule     *overflow.Rule           // of a job that would be: the decision's
	pools    []string                 // those of its own partitions that are pools'
	unknown  []string                 // of its own partitions those that Slurm does not have
	unfit    string                   // why it cannot run in the last of pools; "": it can
	lacks    string                   // which of its folders is not on nodes of pools, as far as is known; "": none
	places   []api.Place
	cold     []string // offerings that are not asked for now
	brief    []string // what is asked for at this moment
	run      *api.Job // of one that has ended, if the history has it
}

// explained says it all.
func (f *facts) explained() api.Explained {
	e := api.Explained{User: f.job.User, State: f.job.State, Where: f.places, Details: []string{}}
	if e.Where == nil {
		e.Where = []api.Place{}
	}
	switch {
	case f.would:
		e.State, e.Line = "SCRIPT", f.wouldLine()
	case f.run != nil:
		e.Line = lineOfRun(*f.run)
	default:
		e.Line = f.line()
	}
	if !f.would {
		e.Job = rowName(f.job)
	}
	e.Details = append(e.Details, f.details(e.Line)...)
	return e
}

// line is one sentence on a job that Slurm has.
func (f *facts) line() string {
	switch state := f.job.State; {
	case state == "PENDING":
		return f.waits()
	case state == "CONFIGURING":
		return f.boot()
	case held(f.job):
		return fmt.Sprintf("is held (%s): it waits to be released (scontrol release %s)", state, rowName(f.job))
	case state == "REQUEUED" || state == "REQUEUE_FED":
		return "has been requeued: it waits for what is left of it on its nodes to end"
	case history.HasSteps(f.job):
		return f.runs()
	case ended(f.job):
		return fmt.Sprintf("has ended: %s%s", state, since(" at ", f.job.End, f.now))
	default:
		return fmt.Sprintf("is %s, as Slurm says", state)
	}
}

// runs is of a job that has its nodes.
func (f *facts) runs() string {
	word := map[string]string{"COMPLETING": "ends", "STAGE_OUT": "ends", "SUSPENDED": "is suspended", "STOPPED": "is suspended"}[f.job.State]
	word = cmp.Or(word, "runs")
	begun := since(", since ", f.job.Start, f.now)
	if len(f.places) == 0 {
		return fmt.Sprintf("%s at the site, on %s%s", word, cmp.Or(f.job.Nodes, "nodes that Slurm does not name"), begun)
	}
	return fmt.Sprintf("%s in the cloud, on %s%s", word, placed(f.places), begun)
}

// boot is of a job that has been given nodes which do not answer yet.
func (f *facts) boot() string {
	coming := slices.DeleteFunc(slices.Clone(f.nodes), func(n power.Node) bool { return n.Phase == power.Up })
	told, isTold := f.told()
	// These say what is seen here, or where it goes: no reason to wait.
	isTold = isTold && !strings.Contains(f.job.AdminComment, "nodes ordered: ") && !strings.HasPrefix(f.job.AdminComment, power.MovedText) && !strings.HasPrefix(f.job.AdminComment, power.KeptText)
	if text, quiet := power.ToldQuiet(f.job.AdminComment); quiet {
		told, isTold = f.hide(text), true
	}
	switch {
	case len(f.nodes) == 0:
		return "waits for its nodes to answer" + since(", since ", f.job.Start, f.now)
	case len(coming) == 0 && isTold:
		return "its nodes are up; it waits all the same: " + told
	case len(coming) == 0:
		return "its nodes are up: it begins"
	}
	phases, first := map[power.Phase]int{}, time.Time{}
	until := time.Time{}
	for _, n := range coming {
		phases[n.Phase]++
		if first.IsZero() || !n.Made.IsZero() && n.Made.Before(first) {
			first = n.Made
		}
		if took := f.boots[n.Pool]; took > 0 && !n.Made.IsZero() && n.Made.Add(took).After(until) {
			until = n.Made.Add(took)
		}
	}
	which := "its " + countNodes(len(f.nodes))
	if len(coming) < len(f.nodes) {
		which = fmt.Sprintf("%d of %s", len(coming), which)
	}
	text := fmt.Sprintf("waits for the boot of %s of pool %s%s", which, coming[0].Pool, since(", ordered ", first, f.now))
	switch {
	case until.After(f.now):
		text += ", until about " + clock(until, f.now) + " as others have lately taken"
	case !until.IsZero():
		text += ", which is longer than others have lately taken"
	}
	if n := phases[power.Wanted]; n > 0 {
		text += fmt.Sprintf("; %d not launched yet", n)
		if isTold {
			text += ": " + told
		}
	}
	return text
}

// waits is of a job that is in the queue.
func (f *facts) waits() string {
	reason := reasonOf(f.job, f.now)
	switch h, dec := f.hold, f.decision; {
	case h != nil && (len(f.pools) > 0 || !h.Released):
		return fmt.Sprintf("waits until %s for %s", clock(h.Start, f.now), f.want(h.Why))
	case h != nil:
		return fmt.Sprintf("waits for %s; it is not tried in the cloud before %s: %s", reason, clock(h.Start, f.now), f.want(h.Why))
	case dec != nil && dec.Rule == "" && dec.Action != overflow.Leave:
		return fmt.Sprintf("waits for %s in %s; its budget is looked at anew, and then it may go to %s again", reason, f.job.Partition, strings.Join(dec.To, ","))
	case dec != nil && dec.Action == overflow.Add:
		return fmt.Sprintf("waits for %s; it is about to go to the cloud: %s", reason, f.hide(dec.Why))
	case dec != nil && (dec.Action == overflow.Keep || dec.Action == overflow.Seen):
		return fmt.Sprintf("waits for %s in %s; rule %s has added %s", reason, f.job.Partition, dec.Rule, strings.Join(dec.To, ",")) + f.forbidden("; ")
	case dec != nil && dec.Action == overflow.Take:
		return fmt.Sprintf("waits for %s; it is about to lose %s again: %s", reason, strings.Join(dec.To, ","), f.hide(dec.Why))
	case dec != nil && len(f.pools) == 0:
		return fmt.Sprintf("waits for %s; of the cloud: %s", reason, f.hide(dec.Why))
	case len(f.pools) > 0:
		return fmt.Sprintf("waits for %s in %s", reason, f.job.Partition) + f.forbidden("; ")
	}
	return fmt.Sprintf("waits for %s; no rule of overflow is from its partition %s", reason, f.job.Partition)
}

// wouldLine is of a job that is not submitted.
func (f *facts) wouldLine() string {
	dec := f.decision
	switch {
	case f.job.Partition == "":
		return "its partition is not known: it names none, and Slurm has no default"
	case len(f.unknown) > 0:
		return "Slurm has no partition " + strings.Join(f.unknown, ", ")
	case f.unfit != "" && len(f.pools) == 1:
		return "would not start: " + f.unfit
	case len(f.pools) > 0:
		return fmt.Sprintf("would start in the cloud, as partition %s is a pool's", strings.Join(f.pools, ",")) + f.priceNow() + f.forbidden("; ")
	case dec == nil:
		return fmt.Sprintf("would stay at the site: no rule of overflow is from partition %s", f.job.Partition)
	case dec.Action == overflow.Add:
		return fmt.Sprintf("would also go to the cloud (%s) by rule %s %s", strings.Join(dec.To, ","), dec.Rule, whenMoved(*f.rule)) + f.priceNow() + f.forbidden("; ")
	case strings.HasPrefix(dec.Why, "stays: "):
		return "would stay at the site: " + f.hide(strings.TrimPrefix(dec.Why, "stays: "))
	}
	return "would stay at the site for now: " + f.hide(strings.TrimPrefix(dec.Why, "stays for now: "))
}

func (f *facts) priceNow() string {
	if i := slices.IndexFunc(f.places, func(p api.Place) bool { return p.Forbidden == "" && p.Offering != "" }); i >= 0 {
		on, when := placed(f.places[i:i+1]), f.places[i].When
		if when != "" {
			return fmt.Sprintf(": on %s, %s", on, when)
		}
		return ": now on " + on
	}
	return ""
}

// forbidden says why none of the places launches anything now; "": one does, or there is none.
func (f *facts) forbidden(before string) string {
	if len(f.places) == 0 || f.places[0].Forbidden == "" {
		return ""
	}
	return before + "nothing is launched for it now: " + f.places[0].Forbidden
}

// details are what else is known, but for what the line says.
func (f *facts) details(line string) []string {
	var all []string
	add := func(text string) {
		if text != "" && !strings.Contains(line, text) {
			all = append(all, text)
		}
	}
	// What keeps it from being moved is in the line, as it is now.
	if text, told := f.told(); told && !strings.HasPrefix(f.job.AdminComment, power.KeptText) && (f.job.State == "PENDING" || f.job.State == "CONFIGURING" || held(f.job)) {
		add("it was told: " + text)
	}
	for _, p := range f.places {
		switch {
		case p.Forbidden != "":
			add(fmt.Sprintf("pool %s, %s: %s", p.Pool, p.Provider, p.Forbidden))
		case p.When != "":
			add(fmt.Sprintf("pool %s, %s: %s is asked for %s", p.Pool, p.Provider, p.Offering, p.When))
		}
	}
	if i := slices.IndexFunc(f.places, func(p api.Place) bool { return p.Forbidden == "" && p.USDPerHour != nil }); i >= 0 && f.job.TimeLimit > 0 && (f.would || f.job.State == "PENDING") {
		add(fmt.Sprintf("%.2f USD on pool %s by its time limit of %s, boot and idle time beside", *f.places[i].USDPerHour*f.job.TimeLimit.Hours(), f.places[i].Pool, short(f.job.TimeLimit)))
	}
	if f.lacks != "" {
		add(f.lacks + overflow.AtOnce)
	}
	for _, text := range slices.Concat(f.cold, f.brief) {
		add(text)
	}
	if f.would && f.decision != nil && f.job.Account == "" {
		add("its account is not known here, and rules and caps of accounts are judged as if it had none: add #SBATCH --account")
	}
	if f.qos {
		add("its QOS is not known here, and is taken for one that the partitions take, and that no rule names: add #SBATCH --qos")
	}
	return all
}

// told is what Burst has told the job.
func (f *facts) told() (text string, ours bool) {
	text, ours = strings.CutPrefix(f.job.AdminComment, "burst: ")
	return f.hide(text), ours
}

// want says for what of a cloud's the job waits.
func (f *facts) want(why string) string {
	if text := f.hide(why); strings.Contains(why, overBudget) {
		return text
	}
	return "nodes: " + why
}

// overBudget is in the words for which a hold, or a decision, is a budget's.
const overBudget = "budget: "

// refused says why a budget has no room for the job now.
func (f *facts) refused(r power.Refusal) string {
	switch {
	case r.Brief:
		if !slices.Contains(f.brief, r.Why) {
			f.brief = append(f.brief, r.Why)
		}
		return ""
	case r.Why == "":
		return ""
	}
	text := strings.ReplaceAll(f.hide(overBudget+r.Why), fmt.Sprintf("job %d", f.job.ID), "the job")
	if r.Until.After(f.now) {
		text += "; it counts anew from " + clock(r.Until, f.now) + " on"
	}
	return text
}

// hide leaves out how much a cap of others than the user is, unless all may be seen: "budget: the
// cluster's budget of 50.00 USD a day: …" is "budget: the cluster's has no room".
func (f *facts) hide(text string) string {
	before, cap, found := strings.Cut(text, overBudget)
	if f.all || !found {
		return text
	}
	whose, _, found := strings.Cut(cap, " budget of ")
	if !found || whose != "the cluster's" && !strings.HasPrefix(whose, "account ") {
		return text
	}
	if i := strings.Index(cap, ": the price of "); i >= 0 {
		return before + overBudget + whose + cap[i:]
	}
	after := ""
	for _, next := range []string{"; starts again from ", "; back to "} { // what is said behind it
		if i := strings.Index(cap, next); i >= 0 && after == "" {
			after = cap[i:]
		}
	}
	return before + overBudget + whose + " has no room" + after
}
