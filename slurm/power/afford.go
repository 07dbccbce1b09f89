package power

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// Standing is what of the journal costs, or is about to. It is only to be read.
type Standing struct {
	Nodes     map[string]Node
	Launches  map[string]Launch // whose answer is not known, by token
	Instances map[string]Instance
	Builders  []Instance // that lived when the clouds were listed last, held by who makes images of them: no node's, and not in the journal
}

// Refusal is why launches may not be made; one without Why is none.
type Refusal struct {
	Why   string    // for who waits
	Until time.Time // when that may be otherwise; zero: nobody knows
	// Brief: in a moment it will be known. The nodes keep waiting, and nobody is told unless it takes long.
	Brief bool
	// Of are the jobs that are in the way. Others of the same nodes may be launched for, without them. None: all are.
	Of   []Refused
	Some bool // there are such others
	// Rest are those others by node, of the launches' nodes and of all that the jobs in the way have: none for a
	// node that nobody else has. A node that is not in it has nobody in the way.
	Rest map[string][]uint32
}

// Refused is a job for which nothing may be launched.
type Refused struct {
	Job   uint32
	Why   string
	Until time.Time // as Refusal's
	Sure  bool      // not before Until
	Never bool      // not as the job is
}

// retry is when it is tried again. What never fits is tried rarely: each time it may take others' nodes with it.
func (r Refused) retry(now time.Time) time.Time {
	switch {
	case r.Never:
		return now.Add(maxPaid)
	case r.Sure && r.Until.After(now):
		return r.Until
	case r.Until.After(now):
		return earlier(now.Add(maxRetry), r.Until)
	}
	return now.Add(maxRetry)
}

// Afford says whether launches may be made, all of them or none, beside those that it was
// asked for before. It must not block.
type Afford func(launches ...Launch) Refusal

// Standing may be called at any time.
func (e *Engine) Standing() Standing {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Standing{maps.Clone(e.mem.nodes), maps.Clone(e.mem.launches), maps.Clone(e.mem.instances), slices.Concat(slices.Collect(maps.Values(e.mem.builders))...)}
}

// purse asks Config.Budget, as of the first question. One that does not answer refuses all.
type purse struct {
	open func() (Afford, error)
	ask  Afford
	err  error
}

// newPurse is nil where there is no budget.
func (e *Engine) newPurse(ctx context.Context) *purse {
	if e.cfg.Budget == nil {
		return nil
	}
	return &purse{open: func() (Afford, error) {
		return e.cfg.Budget(ctx, Standing{e.mem.nodes, e.mem.launches, e.mem.instances, slices.Concat(slices.Collect(maps.Values(e.mem.builders))...)})
	}}
}

func (b *purse) refuses(launches ...Launch) Refusal {
	if b.ask == nil && b.err == nil {
		b.ask, b.err = b.open()
	}
	if b.err != nil {
		return Refusal{Why: b.err.Error(), Brief: true}
	}
	return b.ask(launches...)
}

// failed is why no answer was to be had; nil: one was, or nobody asked.
func (b *purse) failed() error {
	if b == nil || b.err == nil {
		return nil
	}
	return fmt.Errorf("launches wait for what is spent: %w", b.err)
}

// overBudget begins what a job is told that the budget keeps waiting.
const overBudget = "budget: "

// ofOthers is what a job is told that was to share a node with one that its own budget keeps waiting.
const ofOthers = "a job that was to share its node waits for its own budget"

// forSome begins what is said of a node that was given back for the cluster's budget, which has room for others of its jobs.
const forSome = "for some of its jobs, "

// ofSome says that a node was given back for the budget of some of its jobs, not all.
func ofSome(reason string) bool {
	return strings.HasPrefix(reason, overBudget) && !strings.HasPrefix(reason, overBudget+"the cluster's ")
}

// withPrice says what a source may launch as it has a price, where the budget needs one: not each zone sells each type,
// and a cloud may tell no price of a market, or none at all. Nil: that does not matter. So it is where nothing has one of
// all that may be bought instead: the budget may have no say, or its refusal tells.
func (m *memory) withPrice(priced func(string, cloud.Offering) bool, source Pool, instead []Pool) func(cloud.Offering) bool {
	if priced == nil || !slices.ContainsFunc(instead, func(s Pool) bool {
		_, stopped := m.stopped(s.Name, s.Provider)
		return !stopped && slices.ContainsFunc(s.Fleet.Offerings(), func(o cloud.Offering) bool { return priced(s.Provider, o) })
	}) {
		return nil
	}
	return func(o cloud.Offering) bool { return priced(source.Provider, o) }
}

// heedBudget gives back what must not be launched. A job that needs all its nodes is judged
// as a whole, and so are the components of a heterogeneous one; others node by node, in their order, beside what
// heterogeneous jobs wait for that have begun to be launched.
func (p planning) heedBudget(out *planned, groups []group, picks []pick, passed map[uint32]bool) {
	var order []int
	for i, g := range groups {
		if picks[i].Offering != (cloud.Offering{}) && !passed[g.job] {
			order = append(order, i)
		}
	}
	if p.purse == nil || len(order) == 0 {
		return
	}
	begun := p.begun()
	first := func(i int) bool {
		return slices.ContainsFunc(groups[i].nodes, func(n Node) bool { return begun[p.market.jobs[n.Job].HetID] })
	}
	slices.SortStableFunc(order, func(a, b int) int { return before(first(a), first(b)) })
	asked, room := map[uint32]bool{}, map[uint32]bool{}
	now, waits := p.wholes(groups, picks)
	reserved := false
	for _, i := range order {
		if !first(i) && !reserved {
			p.reserve(begun, asked, out)
			reserved = true
		}
		g := groups[i]
		groups[i].nodes = slices.DeleteFunc(slices.Clone(g.nodes), func(n Node) bool {
			whole := p.market.wholeOf(g.job, n)
			if whole == 0 {
				one := []Node{n}
				return !p.affords(out, group{pool: g.pool, nodes: one}, p.draft(g, picks[i], one).Launch)
			}
			if !asked[whole] {
				asked[whole] = true
				room[whole] = p.affordsWhole(out, now[whole], waits[whole], groups, picks)
			}
			return !room[whole]
		})
	}
}

func (p planning) affords(out *planned, g group, launches ...Launch) bool {
	switch r := p.purse.refuses(launches...); {
	case r.Why == "":
		out.briefly(g, "") // it has answered: what keeps the launch now is another thing
		return true
	case r.Brief:
		out.briefly(g, r.Why)
		if p.long(g) {
			out.tell(g, budgetText+r.Why)
		}
		if at := p.now.Add(time.Second); out.wait.IsZero() || at.Before(out.wait) {
			out.wait = at
		}
	default:
		r = p.together(r)
		p.refuse(&out.Change, g, r)
		p.refusedAgain(out, g, r)
	}
	return false
}

// refuse has those wait for a budget who are in its way. Nodes that others have stay theirs, and are judged for them
// alone when those have left (see clearNodes); the rest are given back.
func (p planning) refuse(c *Change, g group, r Refusal) {
	for _, of := range r.Of {
		why := overBudget + of.Why
		if of.Never {
			why += neverFits
		}
		hold(c, p.mem, of.Job, of.retry(p.now), why)
	}
	if len(r.Of) == 0 {
		p.free(c, g, overBudget+r.Why, Refused{Until: r.Until}.retry(p.now))
		return
	}
	why := overBudget + r.Why
	if r.Some && !ofSome(why) {
		why = overBudget + forSome + r.Why
	}
	back := p.clear(c, g, r, why)
	give(c, p.mem, back, why, p.now)
	for _, n := range back {
		if n.Job != 0 {
			hold(c, p.mem, n.Job, p.now, ofOthers) // the node's further ones are seen to in freeNodes
		}
	}
}

// tooDear lists those of the launches that are prepared, but for some, which the budget does not
// allow any more: others may have been written meanwhile. They are planned again, and then given back.
func (e *Engine) tooDear(ctx context.Context, drafts []draft, but func(i int) bool) (dear []int) {
	b := e.newPurse(ctx)
	if b == nil {
		return nil
	}
	asked := make([]bool, len(drafts))
	for i, d := range drafts {
		if but(i) || asked[i] {
			continue
		}
		launches, which := []Launch{d.Launch}, []int{i}
		wholes := e.wholesOf(d)
		for k := i + 1; k < len(drafts); k++ {
			if !but(k) && slices.ContainsFunc(e.wholesOf(drafts[k]), func(id uint32) bool { return slices.Contains(wholes, id) }) {
				launches, which, asked[k] = append(launches, drafts[k].Launch), append(which, k), true
			}
		}
		if b.refuses(launches...).Why != "" {
			dear = append(dear, which...)
		}
	}
	return dear
}

const anewLook = "burstd was started, and looks at the budget anew"

// anewBudget has jobs start at once that waited for the budget: an admin may have raised it,
// and burstd was started for that. Those that still are too dear wait again. Who was put off waits on if there is a budget still, until
// it is known whether there is something to spend: see LetGo.
func anewBudget(st State, now time.Time, budget bool) State {
	st.Holds = slices.Clone(st.Holds)
	for i, h := range st.Holds {
		switch {
		case h.putOff() && budget:
		case h.Never() && !h.Start.After(now): // its start is over: it waits on
			h.Why = anewLook
			st.Holds[i] = h
		case strings.Contains(h.Why, overBudget) && h.Start.After(now):
			h.Start, h.Released, h.Why = now, false, anewLook
			st.Holds[i] = h
		}
	}
	return st
}
