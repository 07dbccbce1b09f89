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
}

// Refusal is why launches may not be made; the zero one is none.
type Refusal struct {
	Why   string    // for who waits
	Until time.Time // when that may be otherwise; zero: nobody knows
	// Brief: in a moment it will be known. The nodes keep waiting, and nobody is told.
	Brief bool
}

// Afford says whether launches may be made, all of them or none, beside those that it was
// asked for before. It must not block.
type Afford func(launches ...Launch) Refusal

// Standing may be called at any time.
func (e *Engine) Standing() Standing {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Standing{maps.Clone(e.mem.nodes), maps.Clone(e.mem.launches), maps.Clone(e.mem.instances)}
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
		return e.cfg.Budget(ctx, Standing{e.mem.nodes, e.mem.launches, e.mem.instances})
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

// heedBudget gives back what must not be launched. A job that needs all its nodes is judged
// as a whole, others node by node, in their order.
func (p planning) heedBudget(out *planned, groups []group, picks []pick, passed map[uint32]bool) {
	if p.purse == nil {
		return
	}
	asked := map[uint32]bool{}
	for i, g := range groups {
		if picks[i].Offering == (cloud.Offering{}) || passed[g.job] || asked[g.job] {
			continue
		}
		if g.job == 0 {
			groups[i].nodes = slices.DeleteFunc(slices.Clone(g.nodes), func(n Node) bool {
				one := []Node{n}
				return !p.affords(out, group{pool: g.pool, nodes: one}, p.draft(g, picks[i], one).Launch)
			})
			continue
		}
		asked[g.job] = true
		var all []Launch
		for k, part := range groups {
			if part.job == g.job && picks[k].Offering != (cloud.Offering{}) {
				all = append(all, p.draft(part, picks[k], part.nodes).Launch)
			}
		}
		passed[g.job] = !p.affords(out, g, all...)
	}
}

func (p planning) affords(out *planned, g group, launches ...Launch) bool {
	switch r := p.purse.refuses(launches...); {
	case r == (Refusal{}):
		return true
	case r.Brief:
		if at := p.now.Add(time.Second); out.wait.IsZero() || at.Before(out.wait) {
			out.wait = at
		}
	default:
		retry := p.now.Add(maxRetry)
		if r.Until.After(p.now) {
			retry = earlier(retry, r.Until)
		}
		p.free(&out.Change, g, overBudget+r.Why, retry)
	}
	return false
}

// tooDear lists those of the launches that are prepared, but for some, which the budget does not
// allow any more: others may have been written meanwhile. They are planned again, and then given back.
func (e *Engine) tooDear(ctx context.Context, drafts []draft, but func(i int) bool) (dear []int) {
	b := e.newPurse(ctx)
	if b == nil {
		return nil
	}
	asked := map[uint32]bool{}
	for i, d := range drafts {
		if but(i) || asked[d.job] {
			continue
		}
		launches := []Launch{d.Launch}
		if d.job != 0 {
			asked[d.job] = true
			for _, other := range drafts[i+1:] {
				if other.job == d.job {
					launches = append(launches, other.Launch)
				}
			}
		}
		if b.refuses(launches...) != (Refusal{}) {
			dear = append(dear, i)
		}
	}
	return dear
}

// anewBudget has jobs start at once that waited for the budget: an admin may have raised it,
// and burstd was started for that. Those that still are too dear wait again.
func anewBudget(st State, now time.Time) State {
	st.Holds = slices.Clone(st.Holds)
	for i, h := range st.Holds {
		if strings.Contains(h.Why, overBudget) && h.Start.After(now) {
			h.Start, h.Released, h.Why = now, false, "burstd was started, and looks at the budget anew"
			st.Holds[i] = h
		}
	}
	return st
}
