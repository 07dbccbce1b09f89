package spending

import (
	"fmt"
	"strings"

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
	for _, n := range o.Nodes {
		ask(o.jobs[n.Job])
		for _, j := range o.on[n.Name] {
			if has(j) {
				ask(j)
			}
		}
	}
	return caps
}

// afford is power.Afford.
func (o *opened) afford(launches ...power.Launch) power.Refusal {
	var all []budget.Commitment
	endless := 0
	for _, l := range launches {
		for _, offering := range l.Request.Offerings() {
			if usd, asked := o.Price(l.Provider, offering); usd == 0 && !asked {
				return power.Refusal{Why: fmt.Sprintf("the price of %s is asked for", offering), Brief: true}
			}
		}
		for _, c := range o.launch(l) {
			for _, w := range c.Owners {
				own, limit := o.own[w.Job], o.jobs[w.Job].TimeLimit
				switch {
				case !w.Until.After(o.now): // it had the node before
				case o.wait[w.Job]:
					return power.Refusal{Why: fmt.Sprintf("job %d is asked for its budget", w.Job), Brief: true}
				case own.Wrong != "":
					return power.Refusal{Why: fmt.Sprintf("job %d: %s", w.Job, own.Wrong)}
				case own.USD > 0 && limit == 0:
					return power.Refusal{Why: fmt.Sprintf("job %d has budget=%g and no time limit: what it could cost is not known; give it one (--time)", w.Job, own.USD)}
				case limit == 0:
					endless++
				}
			}
			all = append(all, c)
		}
	}
	r, ok := o.books.Try(all...)
	if ok {
		return power.Refusal{}
	}
	why := r.String()
	if endless > 0 && r.Unpriced == "" {
		why = strings.Replace(why, "by the time limit", "to the month's end, as there is no time limit,", 1)
	}
	if r.Unpriced != "" && o.asking {
		return power.Refusal{Why: why, Brief: true}
	}
	if r.Unpriced != "" || r.Never() { // not by itself
		return power.Refusal{Why: why}
	}
	return power.Refusal{Why: why, Until: r.Room()}
}
