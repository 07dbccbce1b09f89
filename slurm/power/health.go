package power

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Health is the engine's state in numbers and names.
type Health struct {
	Nodes     []Node
	Instances []Instance
	Orders    int
	Providers map[string]string  // name -> its last error, or ""
	Accounts  map[string]string  // name -> the account that its credentials showed last; lacks those of which it is not known
	Breakers  map[string]Breaker // of the configured pools, and of their sources, by Key
	Holds     []Hold             // of jobs that wait, the next to be tried first
	Servers   map[string]string  // of files, by node: what is wrong with those with which something is
	Left      map[string]Left    // by provider: what there is of those that are not configured
	Fences    int                // attempts that may still run where Slurm has given up
}

// Health may be called at any time.
func (e *Engine) Health() Health {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	h := Health{Orders: len(e.mem.orders) + len(e.inbox), Providers: map[string]string{}, Breakers: map[string]Breaker{}, Servers: e.troubles}
	for name := range e.pools {
		h.Breakers[name] = Breaker{Pool: name}
	}
	for key, b := range e.mem.breakers {
		if _, ok := e.pools[b.Pool]; ok {
			h.Breakers[key] = b
		}
	}
	for _, hold := range e.mem.holds {
		if !hold.Released || now.Before(hold.Start) {
			h.Holds = append(h.Holds, hold)
		}
	}
	slices.SortFunc(h.Holds, func(a, b Hold) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Job, b.Job)) })
	for _, jobs := range e.mem.fences {
		h.Fences += len(jobs)
	}
	h.Left = e.left(Change{})
	for name := range e.providers {
		h.Providers[name] = e.bad[name]
	}
	h.Accounts = maps.Clone(e.accounts)
	for _, n := range slices.Sorted(maps.Keys(e.mem.nodes)) {
		h.Nodes = append(h.Nodes, e.mem.nodes[n])
	}
	for _, i := range slices.Sorted(maps.Keys(e.mem.instances)) {
		h.Instances = append(h.Instances, e.mem.instances[i])
	}
	return h
}

// note remembers how a provider's last call went.
func (e *Engine) note(provider string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bad[provider] = ""
	if err != nil {
		e.bad[provider] = fmt.Sprint(err)
	}
}

// Turned is when Run last began a part of a step; zero before the first. Run
// begins one at least every Config.Reconcile unless it hangs; a part may wait
// for some of Slurm's commands, however many pools there are.
func (e *Engine) Turned() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.turned
}
