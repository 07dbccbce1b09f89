package crash_test

import (
	"context"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// machines boots what runs: the slurmd of an instance registers when the
// instance knows its node, and is lost when the instance ends. It looks whenever
// an instance changes.
func (w *world) machines(ctx context.Context) {
	for ctx.Err() == nil {
		next, moved := w.fake.Next()
		at, others := w.other.Next()
		if next.IsZero() || !at.IsZero() && at.Before(next) {
			next = at
		}
		if w.look() {
			if soon := time.Now().Add(50 * time.Millisecond); next.IsZero() || soon.Before(next) {
				next = soon
			}
		}
		var due <-chan time.Time
		if !next.IsZero() {
			due = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
		case <-moved:
		case <-others:
		case <-due:
		}
	}
}

// look takes all instances as they are now; again says that one of them
// complains, which it does until burstd lives and has heard it.
func (w *world) look() (again bool) {
	live := map[string]int{}
	for _, i := range append(w.fake.Instances(), w.other.Instances()...) {
		if i.Node == "" {
			continue
		}
		if i.State.Live() {
			live[i.Node]++
		}
		if i.State == cloud.Running && w.complains != nil && w.complains(i) {
			again = true
			continue
		}
		if i.State == cloud.Running && !w.booted[i.ID] {
			w.booted[i.ID] = true
			w.ctl.RegisterBooted(i.Node, i.Launched)
		}
		if !i.State.Live() && w.booted[i.ID] {
			w.booted[i.ID] = false
			if live[i.Node] == 0 {
				w.ctl.Lost(i.Node)
			}
		}
	}
	for node, n := range live {
		if n > 1 {
			w.mu.Lock()
			w.twice[node] = true
			w.mu.Unlock()
		}
	}
	return again
}
