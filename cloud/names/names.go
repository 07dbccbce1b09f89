// Package names has providers write the names of nodes into the tags of their
// instances. Each is a request of its own, which a cloud may limit, refuse or leave
// without an answer, and no job needs it: they are written beside everything else.
package names

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	tries = 5
	pause = 5 * time.Second
)

// Writer writes a provider's names in the background.
type Writer struct {
	// Write names one instance.
	Write func(ctx context.Context, id, node string) error
	// Hopeless says of an error that no other request will do better now; nil: none tells that.
	Hopeless func(error) bool
	Workers  int           // requests that are under way at once
	Pause    time.Duration // before what has failed is tried again, doubled each time [5 s]
	Log      *slog.Logger  // says which provider it is

	mu      sync.Mutex
	waiting map[string]name // by instance id
	busy    bool            // work runs
}

type name struct {
	node  string
	tries int
}

// Add has instances named after nodes, and returns at once. One that fails is tried again
// some times and then left out. The end of ctx does not end the work.
func (w *Writer) Add(ctx context.Context, nodes map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == nil {
		w.waiting = map[string]name{}
	}
	for id, node := range nodes {
		w.waiting[id] = name{node: node}
	}
	if !w.busy && len(w.waiting) > 0 {
		w.busy = true
		go w.work(context.WithoutCancel(ctx))
	}
}

// work goes on until nobody waits.
func (w *Writer) work(ctx context.Context) {
	first := cmp.Or(w.Pause, pause)
	wait := first
	for batch := w.take(); len(batch) > 0; batch = w.take() {
		failed, err := w.batch(ctx, batch)
		if err == nil {
			wait = first
			continue
		}
		lost := w.putBack(failed)
		w.Log.Debug("instances could not be named", "failed", len(failed), "given_up", len(lost), "error", err)
		if len(lost) > 0 {
			w.Log.Warn("instances keep no node's name in their tags; their jobs are not affected", "instances", lost, "error", err)
		}
		<-time.After(wait)
		wait *= 2
	}
}

// batch names instances, some at a time, and returns those that have no name yet,
// and why. After an error that is hopeless the rest is not tried.
func (w *Writer) batch(ctx context.Context, batch map[string]name) (map[string]name, error) {
	ids := slices.Sorted(maps.Keys(batch))
	failed := map[string]name{}
	var mu sync.Mutex
	var all error
	var next, hopeless atomic.Int32
	var wg sync.WaitGroup
	for range min(w.Workers, len(ids)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(ids); i = int(next.Add(1)) - 1 {
				skip := hopeless.Load() > 0
				var err error
				if !skip {
					err = w.Write(ctx, ids[i], batch[ids[i]].node)
				}
				if !skip && err == nil {
					continue
				}
				mu.Lock()
				failed[ids[i]] = batch[ids[i]]
				all = errors.Join(all, err)
				mu.Unlock()
				if err != nil && w.Hopeless != nil && w.Hopeless(err) {
					hopeless.Store(1)
				}
			}
		})
	}
	wg.Wait()
	return failed, all
}

// take takes all that wait; none is the end of the work.
func (w *Writer) take() map[string]name {
	w.mu.Lock()
	defer w.mu.Unlock()
	batch := w.waiting
	w.waiting, w.busy = map[string]name{}, len(batch) > 0
	return batch
}

// putBack lets instances wait again, unless they have been given another node
// since, and returns those that have been tried often enough.
func (w *Writer) putBack(failed map[string]name) (lost []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, n := range failed {
		n.tries++
		if _, newer := w.waiting[id]; newer {
			continue
		}
		if n.tries >= tries {
			lost = append(lost, id)
			continue
		}
		w.waiting[id] = n
	}
	slices.Sort(lost)
	return lost
}
