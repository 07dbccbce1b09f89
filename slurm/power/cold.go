package power

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
)

// Cold is an offering of a source that is not asked for before a time, since it failed.
type Cold struct {
	Offering cloud.Offering
	Until    time.Time
	Why      string // "no capacity", …; after a start of burstd it says no more than that it failed
}

// Outlook is what a source has for nodes that are ordered now.
type Outlook struct {
	First    cloud.Offering   // it is asked for this first; the zero one: nothing is left of it
	After    time.Duration    // so long after the order, as spot alone is waited for until then; 0: at once
	Cold     []Cold           // in the pool's order
	Unpriced []cloud.Offering // would come before, but has no price, where a budget needs one
}

// Now is what a source has for so many nodes, all or nothing.
func (e *Engine) Now(source Pool, nodes int, now time.Time) Outlook {
	var out Outlook
	e.mu.Lock()
	cool := map[cloud.Offering]fleet.Cooldown{}
	for _, o := range source.Fleet.Offerings() {
		key := coolKey{source.Provider, o}
		c := e.mem.cool[key].Whole(nodes, now)
		if c.Failures == 0 || !now.Before(c.Until) {
			continue
		}
		cool[o] = c
		why := "it has failed"
		if r, known := e.market.why[key]; known {
			why = phrase(cmp.Or(r.kind, cloud.Capacity))
		}
		out.Cold = append(out.Cold, Cold{o, c.Until, why})
	}
	q := fleet.Query{Cool: cool, Now: now, Priced: e.mem.withPrice(e.cfg.Priced, source, e.pools[source.Name].Sources())}
	e.mu.Unlock()
	if e.cfg.Price != nil {
		q.Price = func(o cloud.Offering) (float64, bool) { return e.cfg.Price(source.Provider, o) }
	}
	if e.cfg.Cores != nil {
		q.Cores = func(t string) (int, bool) { return e.cfg.Cores(source.Provider, t) }
	}
	f := planning{pools: e.pools, bootTimeout: e.cfg.BootTimeout, resume: e.cfg.ResumeTimeout, now: now}.fleetFor(source, nil)
	ch := f.Choose(q)
	out.First, out.Unpriced = ch.Offering, ch.Unpriced
	if ch.Wait.IsZero() {
		return out
	}
	q.Now, q.Waited = ch.Wait, ch.Wait.Sub(now)
	if then := f.Choose(q); then.Offering != (cloud.Offering{}) {
		out.First, out.After = then.Offering, q.Waited
	} else {
		out.Unpriced = then.Unpriced
	}
	return out
}

// unpriced says of which offerings no price is known, where a budget needs one.
func (p planning) unpriced(pool Pool, all []cloud.Offering) string {
	return fmt.Sprintf("no price is known in %s (%s)", p.place(pool), listed(all))
}

func listed(all []cloud.Offering) string {
	names := make([]string, len(all))
	for i, o := range all {
		names[i] = o.String()
	}
	return strings.Join(names, ", ")
}

// because notes why an offering failed; the zero refusal: it has not. Others than Run read it.
func (e *Engine) because(key coolKey, r refusal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.market.why[key] = r; r == (refusal{}) {
		delete(e.market.why, key)
	}
}

// Coming are the nodes that were ordered and are not up.
func (e *Engine) Coming() []Node {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []Node
	for _, n := range e.mem.nodes {
		if n.Phase == Wanted || n.Phase == Launching || n.Phase == Booting {
			all = append(all, n)
		}
	}
	return all
}
