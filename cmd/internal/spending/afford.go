package spending

import (
	"fmt"
	"maps"
	"slices"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
)

// owned reads the own budgets of the jobs that have nodes, or are to have them.
func (o *opened) owned() map[uint32]float64 {
	caps := map[uint32]float64{}
	ask := func(j slurm.Job) {
		if o.Own == nil || j.ID == 0 {
			return
		}
		if _, asked := o.own[j.ID]; asked {
			return
		}
		own, read := o.Own(j)
		o.own[j.ID], o.wait[j.ID] = own, !read
		if own.USD > 0 {
			caps[j.ID] = own.USD
		}
	}
	for _, waits := range []bool{false, true} { // what is asked for last is read first: launches wait for those
		for _, n := range o.Nodes {
			if waits != (n.Phase == power.Wanted) {
				continue
			}
			ask(o.jobs[n.Job])
			for _, j := range o.on[n.Name] {
				if has(j) {
					ask(j)
				}
			}
		}
	}
	return caps
}

// Priced is power.Config.Priced. A price that is being asked for is waited for.
func (k *Keeper) Priced(provider string, o cloud.Offering) bool {
	usd, asked := k.Price(provider, o)
	return k.Caps.Unknown > 0 || usd > 0 || !asked
}

// afford is power.Afford.
func (o *opened) afford(launches ...power.Launch) power.Refusal {
	for _, l := range launches {
		for _, offering := range l.Request.Offerings() {
			if usd, asked := o.Price(l.Provider, offering); usd == 0 && !asked {
				return power.Refusal{Why: fmt.Sprintf("the price of %s is asked for", offering), Brief: true}
			}
		}
	}
	all, has := o.launched(launches, nil)
	for _, id := range slices.Sorted(maps.Keys(has)) {
		if o.wait[id] {
			return power.Refusal{Why: fmt.Sprintf("the script of job %d is being read, which may name a budget of its own", id), Brief: true}
		}
	}
	o.stay(launches, has)
	var wrong []power.Refused
	for _, id := range slices.Sorted(maps.Keys(has)) {
		if why := o.wrong(id); why != "" {
			wrong = append(wrong, power.Refused{Job: id, Why: why, Never: true})
		}
	}
	if len(wrong) == 0 {
		if _, ok := o.books.Try(all...); ok {
			return power.Refusal{}
		}
	}
	against := o.books.Against(all...)
	for _, r := range against {
		o.Log.Debug("the budget refuses a launch", "why", r.String())
	}
	if len(wrong) == 0 && against[0].Unpriced != "" && o.asking {
		return power.Refusal{Why: against[0].Public(), Brief: true}
	}
	if len(has) == 0 {
		r := o.refused(0, against[0], has)
		return power.Refusal{Why: r.Why, Until: r.Until}
	}
	of := o.inTheWay(launches, has, wrong, against)
	return power.Refusal{Why: of[0].Why, Until: of[0].Until, Of: of, Some: len(of) < len(has), Rest: o.rest(launches, of)}
}

// stay takes those out of who is to have the launches' nodes for whom they are only raised ahead: they run elsewhere, and
// nobody has to wait for a budget that has no room for that.
func (o *opened) stay(launches []power.Launch, has map[uint32]budget.Owner) {
	for _, l := range launches {
		for _, name := range l.Nodes {
			if o.Nodes[name].Job == 0 {
				for _, w := range o.ahead(name, o.now, 0) {
					delete(has, w.Job)
				}
			}
		}
	}
}

// wrong says why a job's own budget cannot be kept; "": it can, or there is none.
func (o *opened) wrong(job uint32) string {
	switch own := o.own[job]; {
	case own.Wrong != "":
		return fmt.Sprintf("job %d: %s", job, own.Wrong)
	case own.USD > 0 && o.jobs[job].TimeLimit == 0:
		return fmt.Sprintf("job %d has a budget= and no time limit: what it could cost is not known; give it one (--time)", job)
	}
	return ""
}

// launched is what launches can cost without some jobs, and who is to have their nodes, each with when it needs none any more.
func (o *opened) launched(launches []power.Launch, but map[uint32]bool) (all []budget.Commitment, has map[uint32]budget.Owner) {
	has = map[uint32]budget.Owner{}
	for _, l := range launches {
		for _, c := range o.launch(l, but) {
			c.Owners = slices.DeleteFunc(c.Owners, func(w budget.Owner) bool { return !w.Until.After(o.now) }) // they had the node before
			for _, w := range c.Owners {
				if !w.Until.Before(has[w.Job].Until) {
					has[w.Job] = w
				}
			}
			all = append(all, c)
		}
	}
	return all, has
}
