package power

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// askAgain is how long the cloud has to end an instance before it is asked again.
const askAgain = 30 * time.Second

// endInstances asks for the end of doomed instances, repeats it, and looks
// until the cloud says that they are gone.
func (e *Engine) endInstances(ctx context.Context) (time.Duration, error) {
	ending := map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(e.mem.instances)) {
		i := e.mem.instances[id]
		// Of a server that lists lack, which may be wrong, the files are not ended by a call.
		if i.Doomed != "" && !(i.State == cloud.Terminated && e.filesOn(i)) {
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
	for id := range e.stubborn {
		if _, ok := e.mem.instances[id]; !ok {
			delete(e.stubborn, id)
			delete(e.backoff, "end of "+id)
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
	ask, waited := e.dueEnds(name, ids)
	wait := e.until(what)
	if len(ask) == 1 && e.stubborn[ask[0]] > 1 {
		wait = 0 // it has a wait of its own
	}
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
				delete(e.market.unended, name)
				e.batch[name] = 2 * max(len(ask), e.batch[name])
				for _, id := range ask {
					delete(e.stubborn, id)
				}
				return
			}
			e.notEnded(name, ask, err)
		}
	})
	return 0
}

// dueEnds are those of a provider's doomed instances that the next call names,
// and how long ago the youngest call was. One that the cloud has refused to end
// is asked for alone: it must not keep others from their end.
func (e *Engine) dueEnds(name string, ids []string) (ask []string, waited time.Duration) {
	waited = askAgain
	alone := ""
	for _, id := range ids {
		since := time.Since(e.asked[id])
		switch {
		case since < askAgain:
			waited = min(waited, since)
		case e.stubborn[id] == 0:
			ask = append(ask, id)
		case e.until("end of "+id) <= 0 && (alone == "" || e.stubborn[id] < e.stubborn[alone]):
			alone = id
		}
	}
	if most := e.batch[name]; most > 0 && len(ask) > most {
		ask = ask[:most]
	}
	if len(ask) == 0 && alone != "" {
		ask = []string{alone}
	}
	return ask, waited
}

// notEnded has a call repeated that failed, with half of its instances next if
// it may be that the cloud refuses one of them.
func (e *Engine) notEnded(name string, ask []string, err error) {
	for _, id := range ask {
		delete(e.asked, id)
	}
	what := "terminations in " + name
	kind := cloud.KindOf(err)
	if kind == cloud.Auth {
		e.market.unended[name] = time.Now()
	}
	switch {
	case kind == cloud.Auth || kind == cloud.Throttled: // it is not any one's fault
	case len(ask) == 1:
		e.stubborn[ask[0]]++
		if e.stubborn[ask[0]] > 1 {
			what = "end of " + ask[0]
		}
	default:
		e.batch[name] = len(ask) / 2
	}
	wait := e.refused(what, err)
	e.log.Warn("terminating instances failed; it will be repeated", "provider", name, "in", wait.Round(time.Millisecond), "instances", ask, "error", err)
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
