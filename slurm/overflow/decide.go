package overflow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// Decide says what to do about every pending job that asks for a partition which some rule is from, or is kept from the cloud
// for a budget, and about every record. It is pure: the same snapshot has the same decisions, in the same order.
func Decide(s Snapshot) []Decision {
	d := decider{Snapshot: s, room: map[string]int{}, lists: map[string][]string{}, homes: map[string]kind{}, rows: map[uint32][]int{}, from: map[string]bool{}, has: map[Key]Record{}, asides: map[string][]placeOf{}, dear: map[payer][]Back{}}
	for _, r := range s.Rules {
		for _, p := range r.From {
			d.from[p] = true
		}
	}
	for i, w := range s.Waiting {
		d.rows[arrayOr(w.Job)] = append(d.rows[arrayOr(w.Job)], i)
	}
	for _, id := range slices.Sorted(maps.Keys(s.Back)) {
		if b := s.Back[id]; b.Of != nil && !b.Never { // what never fits may be dear as it goes elsewhere
			d.isDear(b)
		}
	}
	d.records()
	order := make([]int, len(s.Waiting))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { // whom Slurm would start first
		x, y := &s.Waiting[a], &s.Waiting[b]
		return cmp.Or(cmp.Compare(y.Priority, x.Priority), x.Eligible.Compare(y.Eligible), cmp.Compare(x.ID, y.ID))
	})
	for _, i := range order {
		d.newcomer(&s.Waiting[i])
	}
	return d.all
}

type decider struct {
	Snapshot
	all    []Decision
	room   map[string]int // of rules with AtOnce: how many more
	has    map[Key]Record
	asides map[string][]placeOf // of moved jobs, by rule
	rows   map[uint32][]int     // of Waiting, by job or array
	from   map[string]bool
	lists  map[string][]string // of a job's partitions, by how Slurm writes them
	homes  map[string]kind     // what least says of them
	dear   map[payer][]Back    // for which a budget has no room: of each payer's those that ask for the least
}

// payer is whom a budget is for.
type payer struct {
	all           bool
	user, account string
}

func arrayOr(j slurm.Job) uint32 { return cmp.Or(j.ArrayID, j.ID) }

func (d *decider) partitions(text string) []string {
	all, ok := d.lists[text]
	if !ok {
		all = strings.Split(text, ",")
		d.lists[text] = all
	}
	return all
}

func (d *decider) job(w *slurm.Waiting) *job {
	j := newJob(w, d.partitions(w.Partition))
	j.would = w.ID == d.Would && d.Would != 0
	if s, ok := d.Scripts[ScriptOf(w.Job)]; ok {
		if w.Comment != "" {
			s = s.over(w.Comment)
		}
		j.script = &s
	}
	j.limit, j.gets = d.limitOf(j)
	if j.Memory == 0 || j.Whole {
		j.home = d.least(w.Partition)
	}
	return j
}

// rule is the first that is about the job. Unread: that depends on its script.
func (d *decider) rule(j *job) (first *Rule, unread bool) {
	for i := range d.Rules {
		if yes, unread := d.Rules[i].match(j); yes && (d.Rules[i].MaxTime == 0 || d.keepsLimit(j, d.Rules[i].To)) {
			return &d.Rules[i], unread
		}
	}
	return nil, false
}

// newcomer decides about those of a pending row that have no record.
func (d *decider) newcomer(w *slurm.Waiting) {
	parts := d.partitions(w.Partition)
	moves := slices.ContainsFunc(parts, func(p string) bool { return d.from[p] }) || strings.HasPrefix(w.AdminComment, KeptText)
	if _, back := d.Back[w.ID]; !moves && !back {
		return
	}
	keys := []Key{{w.ID, -1}}
	if w.ArrayTask != "" {
		keys = keys[:0]
		for _, t := range w.ArrayTasks() {
			keys = append(keys, Key{w.ArrayID, t})
		}
	}
	if len(d.has) > 0 {
		keys = slices.DeleteFunc(keys, func(k Key) bool { _, has := d.has[k]; return has })
	}
	if len(keys) == 0 || d.away(w, keys) || !moves {
		return
	}
	dec := Decision{Job: w, Keys: keys, Action: Leave, Was: parts}
	j := d.job(w)
	r, to, why := d.judge(j, &dec)
	if why == "" && r.AtOnce > 0 {
		d.makeRoom(r.Name, min(len(keys), mostTasks))
	}
	switch {
	case why != "":
		dec.Why = why
	case r.AtOnce > 0 && d.room[r.Name] <= 0:
		dec.Why = fmt.Sprintf("rule %s: %d of its jobs wait or run in %s already, as many as it lets", r.Name, r.AtOnce, strings.Join(r.To, ","))
		dec.Kept = dec.Why
	default:
		dec.Keys = keys[:min(len(keys), mostTasks)]
		if r.AtOnce > 0 {
			dec.Keys = dec.Keys[:min(len(dec.Keys), d.room[r.Name])]
			d.room[r.Name] -= len(dec.Keys)
		}
		dec.Action, dec.To = Add, to
		dec.Why = fmt.Sprintf("rule %s: %s; goes also to %s", r.Name, d.waits(j, r), strings.Join(to, ","))
	}
	d.all = append(d.all, dec)
}

// mostTasks are split off an array at once: Slurm makes a job of each.
const mostTasks = 200

// judge says by which rule the job goes to which partitions, or why it does not.
func (d *decider) judge(j *job, dec *Decision) (r *Rule, to []string, why string) {
	switch {
	case j.HetID != 0:
		return nil, nil, "stays: the parts of a heterogeneous job are not moved"
	case !j.Batch:
		return nil, nil, "stays: a job of salloc or srun is not moved"
	case held(j.Waiting):
		return nil, nil, "stays: it is held"
	}
	r, unread := d.rule(j)
	if r == nil {
		return nil, nil, "stays: no rule is about it"
	}
	dec.Rule = r.Name
	if unread {
		dec.Script = true
		return r, nil, d.unread(j)
	}
	if asks := without(r.To, without(r.To, j.partitions)); len(asks) > 0 {
		return r, nil, "stays: it asks for " + strings.Join(asks, ",") + " itself"
	}
	if why := d.never(j); why != "" {
		return r, nil, "stays: " + why
	}
	if to, why = d.fitting(j, r, r.To); len(to) == 0 {
		if mayChange(why) {
			if dec.Early = d.early(j, r) != ""; !dec.Early {
				dec.Kept = why
			}
		}
		return r, nil, "stays: " + why
	}
	if b, ok := d.Back[j.ID]; ok {
		return r, nil, fmt.Sprintf("stays%s: it was given back: %s", b.until(), b.Why)
	}
	if rest, ok := d.Rests[ScriptOf(j.Job)]; ok && d.Now.Before(rest.Until) {
		return r, nil, fmt.Sprintf("stays until %s: %s", rest.Until.Local().Format(time.TimeOnly), rest.Why)
	}
	for _, of := range []payer{{all: true}, {user: j.User, account: j.Account}} {
		for _, b := range d.dear[of] {
			if asksAsMuch(j.Waiting, b.Of) {
				if dec.Early = d.early(j, r) != ""; !dec.Early {
					dec.Kept = "a budget has no room for its nodes and time"
				}
				return r, nil, fmt.Sprintf("stays%s: job %d, which asks for no more, was given back: %s", b.until(), b.Of.ID, b.Why)
			}
		}
	}
	if why := d.early(j, r); why != "" {
		dec.Early = true
		return r, nil, why
	}
	if j.script == nil {
		dec.Script = true
		return r, nil, d.unread(j)
	}
	if why := d.Refused[ScriptOf(j.Job)]; why != "" {
		return r, nil, "stays for now: " + why
	}
	return r, to, ""
}

func (d *decider) unread(j *job) string {
	return "stays for now: " + cmp.Or(d.Refused[ScriptOf(j.Job)], "its script is not read yet")
}

// until is how long the job stays, for people.
func (b Back) until() string {
	if b.Never {
		return ""
	}
	return " until " + b.Until.Local().Format(time.TimeOnly)
}

// isDear keeps it unless another of the same payer asks for no more, and forgets those that ask for as much as it does:
// who has to wait for one of these waits for it.
func (d *decider) isDear(b Back) {
	of := payer{user: b.Of.User, account: b.Of.Account}
	if b.Cluster {
		of = payer{all: true}
	}
	if slices.ContainsFunc(d.dear[of], func(o Back) bool { return asksAsMuch(b.Of, o.Of) }) {
		return
	}
	d.dear[of] = append(slices.DeleteFunc(d.dear[of], func(o Back) bool { return asksAsMuch(o.Of, b.Of) }), b)
}

// asksAsMuch says that the job asks for at least as much of a budget as the other.
func asksAsMuch(w, than *slurm.Waiting) bool {
	shorter := w.TimeLimit != 0 && (than.TimeLimit == 0 || w.TimeLimit < than.TimeLimit)
	return !shorter && w.NumNodes >= than.NumNodes
}

func held(w *slurm.Waiting) bool { return w.Priority == 0 || heldBySomebody(w) }

// heldBySomebody leaves out jobs whose priority is 0 for another reason.
func heldBySomebody(w *slurm.Waiting) bool {
	return strings.Contains(strings.ToLower(w.Reason), "held")
}

// never says what keeps the job on-prem, whatever the rules.
func (d *decider) never(j *job) string {
	if why := d.OnPrem.uses(j); why != "" {
		return why
	}
	switch {
	case j.Reservation != "":
		return "asks for reservation " + j.Reservation
	case j.script == nil:
		return ""
	case j.script.Said["stay"] == "yes":
		return "says #BURST stay"
	case j.script.Uses != "":
		return "its script names a path below " + j.script.Uses + ", which is on-prem only"
	case j.script.Wrong != "":
		return j.script.Wrong
	}
	return ""
}

// fitting are those of to in which the job can run, and may by the rule; if there are none, why not the first.
func (d *decider) fitting(j *job, r *Rule, to []string) (fit []string, why string) {
	for _, name := range to {
		p, known := d.Partitions[name]
		no := "Slurm has no partition " + name
		if known {
			no = p.fits(j)
		}
		if no == "" && d.Spot[name] && !j.Requeue && !r.NoRequeue {
			no = noRequeue + "and partition " + name + " has nodes that the cloud may take back: add #SBATCH --requeue"
		}
		if no == "" {
			no = Lacks(d.Shared[name], j.Waiting)
		}
		if why := d.Closed[name]; no == "" && why != "" {
			no = noLaunches + name + " now: " + why
		}
		if no == "" {
			fit = append(fit, name)
		}
		why = cmp.Or(why, no)
	}
	return fit, why
}

func without(list, less []string) (all []string) {
	for _, s := range list {
		if !slices.Contains(less, s) {
			all = append(all, s)
		}
	}
	return all
}
