package spending

import (
	"cmp"
	"context"
	"slices"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
)

// Real are the caps with what is really spent by now. A launch whose answer is not known counts nothing
// yet, nor what has no known price.
func (k *Keeper) Real(ctx context.Context, s power.Standing) ([]budget.Row, error) {
	s.Builders = nil // what is not booked, and soon may not be there, is no reason to put off or end jobs
	o, err := k.open(ctx, s, true)
	if err != nil {
		return nil, err
	}
	return budget.Real(o.caps, o.now, o.spent, o.live), nil
}

// Counted is a job that has nodes of a cloud and counts to a cap.
type Counted struct {
	slurm.Job            // of a heterogeneous job its leader
	Cap       budget.Row // of several the one that has no room for longest
	Nodes     []string   // of the cloud, of all parts
}

// Counting are the jobs that count to the caps, by their numbers. Those that are ending are none, nor those
// that have nodes at the site alone.
func Counting(caps []budget.Row, jobs map[uint32]slurm.Job, cloud func(node string) bool) []Counted {
	if len(caps) == 0 {
		return nil
	}
	by := map[uint32]*Counted{}
	for _, j := range jobs {
		if !Runs(j) {
			continue
		}
		names, err := hostlist.Expand(j.Nodes)
		if err != nil {
			continue // as the books do
		}
		names = slices.DeleteFunc(names, func(n string) bool { return !cloud(n) })
		if len(names) == 0 {
			continue
		}
		counts := false
		var worst budget.Row
		for _, r := range caps {
			if r.Counts(budget.Owner{Job: j.ID, User: j.User, Account: j.Account}) && (!counts || r.Longer(worst)) {
				counts, worst = true, r
			}
		}
		if !counts {
			continue
		}
		id := cmp.Or(j.HetID, j.ID)
		c := by[id]
		if c == nil {
			c = &Counted{Job: j, Cap: worst}
			if leader, ok := jobs[id]; ok {
				c.Job = leader
			}
			by[id] = c
		} else if worst.Longer(c.Cap) {
			c.Cap = worst
		}
		c.Nodes = append(c.Nodes, names...)
	}
	var all []Counted
	for _, c := range by {
		slices.Sort(c.Nodes)
		c.Nodes = slices.Compact(c.Nodes)
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b Counted) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Runs says that the job has nodes and has not begun to leave them.
func Runs(j slurm.Job) bool {
	return slices.Contains([]string{"RUNNING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING"}, j.State)
}
