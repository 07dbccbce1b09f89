package spending

import (
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/burst-hpc/burst/slurm/hostlist"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
)

// inTheWay are the jobs for which the launches are refused, at least one, each with its own reason: nobody else
// has to wait for what one's, a user's or an account's budget has no room for. If it is the cluster's, those are in the
// way without whom the rest would fit, or all.
func (o *opened) inTheWay(launches []power.Launch, has map[uint32]budget.Owner, wrong []power.Refused, against []budget.Refusal) []power.Refused {
	ids := slices.Sorted(maps.Keys(has))
	named := func(cluster bool) []power.Refused {
		of, already := slices.Clone(wrong), map[uint32]bool{}
		for _, r := range wrong {
			already[r.Job] = true
		}
		for _, r := range against {
			for _, id := range ids {
				if (cluster || r.Kind != budget.Cluster) && !already[id] && r.Counts(has[id]) {
					already[id] = true
					of = append(of, o.refused(id, r, has))
				}
			}
		}
		return of
	}
	of := named(false)
	if n := len(of); n > 0 && n < len(ids) {
		return of
	}
	of = named(true)
	if len(of) == 1 || len(against) == 0 || against[0].Kind != budget.Cluster {
		return of
	}
	crowd := o.crowd(launches, has)
	return slices.DeleteFunc(of, func(r power.Refused) bool { return !crowd[r.Job] })
}

// crowd are those that need the nodes longest, so many that the others fit; or all.
func (o *opened) crowd(launches []power.Launch, has map[uint32]budget.Owner) map[uint32]bool {
	order := slices.SortedFunc(maps.Values(has), func(a, b budget.Owner) int { return b.Until.Compare(a.Until) })
	but := func(n int) map[uint32]bool {
		all := map[uint32]bool{}
		for _, w := range order[:n] {
			all[w.Job] = true
		}
		return all
	}
	return but(1 + sort.Search(len(order)-1, func(n int) bool {
		rest, _ := o.launched(launches, but(n+1))
		return len(o.books.Against(rest...)) == 0
	}))
}

// rest is power.Refusal.Rest. Of a job in the way that does not wait for its nodes nobody can say that it
// would leave them to others: they have none then.
func (o *opened) rest(launches []power.Launch, of []power.Refused) map[string][]uint32 {
	rest, not, stays := map[string][]uint32{}, map[uint32]bool{}, map[string]bool{}
	for _, l := range launches {
		for _, n := range l.Nodes {
			rest[n] = nil
		}
	}
	for _, r := range of {
		not[r.Job] = true
		names, err := hostlist.Expand(o.jobs[r.Job].Nodes)
		if err != nil {
			continue // onNodes does not know it there
		}
		for _, n := range names {
			rest[n], stays[n] = nil, stays[n] || has(o.jobs[r.Job]) && o.jobs[r.Job].State != "CONFIGURING"
		}
	}
	for n := range rest {
		for _, j := range o.on[n] {
			if has(j) && !not[j.ID] && !stays[n] {
				rest[n] = append(rest[n], j.ID)
			}
		}
	}
	return rest
}

// refused is what a cap says to a job.
func (o *opened) refused(job uint32, r budget.Refusal, has map[uint32]budget.Owner) power.Refused {
	// Nodes of the site may be free for a job of a mixed partition long before the cap has room: its start would keep it from them.
	no := power.Refused{Job: job, Why: r.Public(), Sure: r.Gone() && !o.mixed(o.jobs[job])}
	for id, w := range has {
		if r.Counts(w) && o.jobs[id].TimeLimit == 0 {
			no.Why = strings.Replace(no.Why, "by the time limit", "as there is no time limit,", 1)
			break
		}
	}
	switch {
	case r.Unpriced != "": // not by itself
	case r.Never(), r.Kind == budget.Job && r.Spent+r.Needs > r.Cap:
		no.Never = true
	default:
		no.Until = r.Room()
	}
	return no
}
