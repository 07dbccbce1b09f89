package spending

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
)

// wouldNode begins the names of nodes that are not ordered: no node of Slurm's has such a name.
const wouldNode = "\x00"

// Asked are books that were opened for questions: of what is asked nothing is kept beyond them.
type Asked struct{ o *opened }

// Ask opens the books to ask of jobs that have no nodes yet, or which Slurm does not know: one that is not
// submitted has an id which none of Slurm's has. own is the jobs' own budget; nil: as for others.
func (k *Keeper) Ask(ctx context.Context, s power.Standing, own *Own, jobs ...slurm.Job) (*Asked, error) {
	asked := *k
	latest := k.Latest()
	if latest == nil {
		return nil, errors.New("slurmctld has not answered yet")
	}
	snap := *latest
	if snap.Jobs = maps.Clone(snap.Jobs); snap.Jobs == nil {
		snap.Jobs = map[uint32]slurm.Job{}
	}
	if s.Nodes = maps.Clone(s.Nodes); s.Nodes == nil {
		s.Nodes = map[string]power.Node{}
	}
	ours := map[uint32]bool{}
	for _, j := range jobs {
		snap.Jobs[j.ID], ours[j.ID] = j, true
		name := wouldNode + fmt.Sprint("job", j.ID) // so that its own budget is read
		s.Nodes[name] = power.Node{Name: name, Phase: power.Wanted, Job: j.ID}
	}
	asked.Latest = func() *slurm.Snapshot { return &snap }
	asked.Own = func(of slurm.Job) (Own, bool) {
		switch {
		case ours[of.ID] && own != nil:
			return *own, true
		case k.Own == nil:
			return Own{}, true
		}
		return k.Own(of)
	}
	o, err := asked.open(ctx, s, true)
	if err != nil {
		return nil, err
	}
	return &Asked{o}, nil
}

// Would says whether the launch could be made now for one of the jobs, whatever its nodes are called.
func (a *Asked) Would(j slurm.Job, l power.Launch) power.Refusal {
	r, _ := a.o.would(j.ID, l)
	return r
}

// WouldInPlaceOf says whether the launch could be made now in place of a node, for the jobs that it has. One that could counts in
// what is asked next.
func (a *Asked) WouldInPlaceOf(node string, l power.Launch) power.Refusal {
	o, k := *a.o, *a.o.Keeper
	k.InPlaceOf = func(string) string { return node }
	o.Keeper = &k
	r, with := o.would(0, l)
	if r.Why == "" {
		a.o.books = with
	}
	return r
}

// would judges the launch in books of its own, which have it then if it fits.
func (o opened) would(job uint32, l power.Launch) (power.Refusal, *budget.Books) {
	o.books, o.Nodes, l.Nodes = o.books.Clone(), map[string]power.Node{}, nil
	for range l.Request.Count {
		name := wouldNode + fmt.Sprint(len(l.Nodes))
		l.Nodes = append(l.Nodes, name)
		o.Nodes[name] = power.Node{Name: name, Pool: l.Request.Pool, Phase: power.Wanted, Job: job}
	}
	return o.afford(l), o.books
}

// OwnRoom says of the jobs which have something of their own budgets that is not really spent, or none any more. One that is not in it
// is still to be read.
func (a *Asked) OwnRoom(jobs ...slurm.Job) map[uint32]bool {
	o := a.o
	spent := map[string]bool{}
	for _, r := range budget.Real(o.caps, o.now, o.spent, o.live) {
		if r.Kind == budget.Job && r.Reached(100) {
			spent[r.Name] = true
		}
	}
	room := map[uint32]bool{}
	for _, j := range jobs {
		if !o.wait[j.ID] {
			room[j.ID] = o.own[j.ID].Wrong == "" && !spent[fmt.Sprint(j.ID)]
		}
	}
	return room
}
