// Package stopall ends all instances of a cluster by their tags alone: neither
// burstd, nor Slurm, nor the journal is asked.
package stopall

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// Options say what is ended. Zero values take the defaults in brackets.
type Options struct {
	Cluster string                    // the cluster's id, never empty
	Wanted  func(cloud.Instance) bool // narrows to some of its instances [all]
	// Busy says that launches may still be under way, so that a cloud without
	// instances is looked at on. It may be called concurrently. [none are]
	Busy func(ctx context.Context) bool
	// Report hears of each provider's progress, from one goroutine at a time.
	Report   func(Progress)
	Batch    int           // instances of one Terminate [100]
	Patience time.Duration // without any progress [10 min]
}

// Progress is how far one provider is.
type Progress struct {
	Provider    string
	Found, Gone int   // instances that lived, and of them those that do not live any more
	Err         error // of the last call; nil: it went well
}

// Result is what became of one provider's instances.
type Result struct {
	Provider string
	Ended    int              // instances that lived and are gone by the cloud's word
	Left     []cloud.Instance // that still live, as far as is known
	// Err is why some are left, or why that is not known; nil: none is.
	Err error
}

const (
	empties     = 3                // lists without an instance, over the provider's Lag, prove that none is left
	askAgain    = 30 * time.Second // after which one that still lives is asked to end again
	callTimeout = time.Minute
	noAnswer    = 3 * time.Minute // of lists that fail, until the provider is given up
	refusals    = 3               // of one id, or of lists for want of permission, until it is given up
)

// List returns the cluster's live instances that are wanted, and for the
// providers that could not be asked the reason.
func List(ctx context.Context, providers map[string]cloud.Provider, o Options) (map[string][]cloud.Instance, map[string]error) {
	found, failed := map[string][]cloud.Instance{}, map[string]error{}
	each(providers, func(name string, p cloud.Provider) func() {
		live, err := list(ctx, p, o)
		return func() {
			if err != nil {
				failed[name] = err
				return
			}
			found[name] = live
		}
	})
	return found, failed
}

// Run ends the instances of all providers at once, and those that appear
// meanwhile, until the clouds say that none is left, or nothing helps. It
// returns a result for each provider, by name, also when ctx ends.
func Run(ctx context.Context, providers map[string]cloud.Provider, o Options) []Result {
	if o.Batch == 0 {
		o.Batch = 100
	}
	if o.Patience == 0 {
		o.Patience = 10 * time.Minute
	}
	if tell := o.Report; tell != nil {
		var mu sync.Mutex
		o.Report = func(p Progress) {
			mu.Lock()
			defer mu.Unlock()
			tell(p)
		}
	}
	var all []Result
	each(providers, func(name string, p cloud.Provider) func() {
		e := &ending{name: name, provider: p, o: o, batch: o.Batch, seen: map[string]bool{},
			asked: map[string]time.Time{}, refused: map[string]refusal{}}
		r := e.run(ctx)
		return func() { all = append(all, r) }
	})
	slices.SortFunc(all, func(a, b Result) int { return strings.Compare(a.Provider, b.Provider) })
	return all
}

// each works on all providers at once, and notes the outcomes one at a time.
func each(providers map[string]cloud.Provider, do func(string, cloud.Provider) (note func())) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for name, p := range providers {
		wg.Go(func() {
			note := do(name, p)
			mu.Lock()
			defer mu.Unlock()
			note()
		})
	}
	wg.Wait()
}

// list asks for the live instances. What a provider returns of another cluster
// is dropped, whatever it was asked.
func list(ctx context.Context, p cloud.Provider, o Options) ([]cloud.Instance, error) {
	if o.Cluster == "" {
		return nil, errors.New("no cluster is named")
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	all, err := p.List(ctx, cloud.Filter{Cluster: o.Cluster})
	if err != nil {
		return nil, err
	}
	live := slices.DeleteFunc(all, func(i cloud.Instance) bool {
		return i.Cluster != o.Cluster || !i.State.Live() || o.Wanted != nil && !o.Wanted(i)
	})
	slices.SortFunc(live, func(a, b cloud.Instance) int { return strings.Compare(a.ID, b.ID) })
	return live, nil
}

// ending is the work on one provider.
type ending struct {
	name     string
	provider cloud.Provider
	o        Options
	batch    int // of the next Terminate: smaller after one that failed, so that one bad id is found

	seen    map[string]bool // ids that lived once
	live    []cloud.Instance
	asked   map[string]time.Time // when the cloud took the wish to end it
	refused map[string]refusal
}

type refusal struct {
	times, alone int // alone: in a call that named no other
	err          error
}

func (e *ending) run(ctx context.Context) Result {
	began := time.Now()
	progress, answered, quiet := began, began, began
	empty, denied := 0, 0
	pace := min(5*time.Second, max(100*time.Millisecond, e.provider.Limits().Lag/10))
	for {
		live, err := list(ctx, e.provider, e.o)
		now := time.Now()
		switch {
		case ctx.Err() != nil:
			return e.result(context.Cause(ctx))
		case err != nil:
			empty = 0
			if kind := cloud.KindOf(err); kind == cloud.Auth || kind == cloud.Invalid {
				denied++
			}
			if denied >= refusals || now.Sub(answered) >= noAnswer {
				return e.result(err)
			}
		case len(live) == 0:
			answered, denied, e.live = now, 0, nil
			if empty++; empty == 1 || e.o.Busy != nil && now.Sub(progress) < e.o.Patience && e.o.Busy(ctx) {
				quiet, empty = now, 1
			}
			if empty >= empties && now.Sub(quiet) >= e.provider.Limits().Lag {
				return e.result(nil)
			}
		default:
			answered, denied, empty = now, 0, 0
			if !slices.EqualFunc(live, e.live, func(a, b cloud.Instance) bool { return a.ID == b.ID && a.State == b.State }) {
				progress = now
			}
			e.live = live
			for _, i := range live {
				e.seen[i.ID] = true
			}
			if err = e.ask(ctx); err != nil && e.hopeless() {
				return e.result(nil)
			}
			if now.Sub(progress) >= e.o.Patience {
				return e.result(fmt.Errorf("nothing has changed for %s", e.o.Patience))
			}
		}
		if e.o.Report != nil && ctx.Err() == nil {
			e.o.Report(Progress{e.name, len(e.seen), len(e.seen) - len(e.live), err})
		}
		select {
		case <-time.After(pace + rand.N(pace/4)):
		case <-ctx.Done():
			return e.result(context.Cause(ctx))
		}
	}
}

// ask has the provider end what it has not been asked to lately: in batches,
// last the ids that were refused before. It returns the first error of them.
func (e *ending) ask(ctx context.Context) (first error) {
	var due []string
	for _, i := range e.live {
		if time.Since(e.asked[i.ID]) >= askAgain {
			due = append(due, i.ID)
		}
	}
	slices.SortStableFunc(due, func(a, b string) int { return e.refused[a].times - e.refused[b].times })
	for ids := range slices.Chunk(due, e.batch) {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := e.provider.Terminate(call, ids)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, id := range ids {
			if err == nil {
				e.asked[id] = time.Now()
				delete(e.refused, id)
				continue
			}
			r := e.refused[id]
			r.times, r.err = r.times+1, err
			if len(ids) == 1 {
				r.alone++
			}
			e.refused[id] = r
		}
		if err != nil && first == nil {
			first = err
		}
		if cloud.KindOf(err) == cloud.Throttled && err != nil {
			return first // the others would be too many as well; it is no batch's fault
		}
	}
	if first != nil {
		e.batch = max(1, e.batch/2)
	} else {
		e.batch = min(e.o.Batch, 2*e.batch)
	}
	return first
}

// hopeless says that all that is left has been refused again and again, for a
// reason that waiting does not change.
func (e *ending) hopeless() bool {
	return !slices.ContainsFunc(e.live, func(i cloud.Instance) bool {
		r := e.refused[i.ID]
		kind := cloud.KindOf(r.err)
		return r.err == nil || r.alone < refusals || kind != cloud.Auth && kind != cloud.Invalid && r.alone < 10*refusals
	})
}

// result sums up. What is left has a reason: the one given, and those for
// which the cloud has refused to end it.
func (e *ending) result(why error) Result {
	r := Result{Provider: e.name, Ended: len(e.seen) - len(e.live), Left: e.live, Err: why}
	texts := map[string]bool{}
	for _, i := range e.live {
		if f := e.refused[i.ID]; f.err != nil {
			texts[f.err.Error()] = true
		}
	}
	for _, text := range slices.Sorted(maps.Keys(texts)) {
		if r.Err == nil {
			r.Err = errors.New(text)
		} else {
			r.Err = fmt.Errorf("%w; %s", r.Err, text)
		}
	}
	return r
}
