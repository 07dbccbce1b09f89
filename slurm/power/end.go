package power

import (
	"context"
	"maps"
	"slices"
	"time"
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
		due = sooner(due, e.end(ctx, name, ids))
	}
	for id := range e.asked {
		if _, ok := e.mem.instances[id]; !ok {
			delete(e.asked, id)
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
