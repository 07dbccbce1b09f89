package power

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

// askAgain is how long the cloud has to end an instance before it is asked again.
const askAgain = 30 * time.Second

// endInstances asks for the end of doomed instances, repeats it, and looks
// until the cloud says that they are gone.
func (e *Engine) endInstances(ctx context.Context) (time.Duration, error) {
	ending := map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(e.mem.instances)) {
		if i := e.mem.instances[id]; i.Doomed != "" {
			ending[i.Provider] = append(ending[i.Provider], id)
		}
	}
	var due time.Duration
	for name, ids := range ending {
		if later := e.keepConsoles(ctx, name, ids); len(later) > 0 {
			ids = slices.DeleteFunc(ids, func(id string) bool { return later[id] })
			due = sooner(due, time.Second)
		}
		due = sooner(due, e.end(ctx, name, ids))
	}
	for id := range e.asked {
		if _, ok := e.mem.instances[id]; !ok {
			delete(e.asked, id)
		}
	}
	for id := range e.consoles {
		if _, ok := e.mem.instances[id]; !ok {
			delete(e.consoles, id)
		}
	}
	return due, nil
}

// end works on one provider's doomed instances and says when it is due again.
func (e *Engine) end(ctx context.Context, name string, ids []string) time.Duration {
	provider, ok := e.providers[name]
	what := "terminations in " + name
	if !ok || e.flying[what] {
		return 0 // its provider has left the configuration: said at the start
	}
	var ask []string
	waited := askAgain
	for _, id := range ids {
		since := time.Since(e.asked[id])
		if since >= askAgain {
			ask = append(ask, id)
		} else {
			waited = min(waited, since)
		}
	}
	wait := e.until(what)
	if len(ask) == 0 || wait > 0 {
		return sooner(max(0, wait), e.look(ctx, "ends in "+name, name, ids, waited))
	}
	for _, id := range ask {
		e.asked[id] = time.Now()
	}
	e.flying[what] = true
	e.beside(ctx, func(ctx context.Context) func(context.Context) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		err := provider.Terminate(ctx, ask)
		return func(context.Context) {
			delete(e.flying, what)
			e.note(name, err)
			if err == nil {
				delete(e.backoff, what)
				return
			}
			for _, id := range ask {
				delete(e.asked, id)
			}
			wait := e.refused(what, err)
			e.log.Warn("terminating instances failed; it will be repeated", "provider", name, "in", wait.Round(time.Millisecond), "instances", ask, "error", err)
		}
	})
	return 0
}

// closeOrders closes what is settled: a resume whose nodes are up or given
// up, another whose nodes' instances are gone.
func (e *Engine) closeOrders(ctx context.Context) (time.Duration, error) {
	open := map[string]bool{}
	for _, n := range e.mem.inPhase(Wanted, Launching, Booting, Freeing) {
		open[n.Order] = true
	}
	ending := map[string]bool{} // nodes
	for _, i := range e.mem.instances {
		if i.Doomed != "" && i.Assigned != "" {
			ending[i.Assigned] = true
		}
	}
	var c Change
	for _, o := range slices.SortedFunc(maps.Values(e.mem.orders), byMade) {
		if o.Taken && !open[o.ID] && (o.Kind == Resume || !names(o, ending)) {
			c.CloseOrders = append(c.CloseOrders, o.ID)
		}
	}
	return 0, e.commit(ctx, c)
}

// names says whether the order names one of the nodes.
func names(o Order, nodes map[string]bool) bool {
	if len(nodes) == 0 {
		return false
	}
	list, err := hostlist.Expand(o.Nodes)
	return err == nil && slices.ContainsFunc(list, func(n string) bool { return nodes[n] })
}
