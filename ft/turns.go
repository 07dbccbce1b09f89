package ft

import (
	"context"
	"slices"
	"sync"
	"time"
)

// turns bounds how many commands of Slurm are under way. Of those that wait,
// the one with the nearest deadline is next: in a storm of notices none loses
// its time to one that has more of it. Those without a deadline leave some turns
// free for those that have one.
type turns struct {
	mu      sync.Mutex
	free    int
	spare   int       // of them, for those with a deadline alone
	waiting []*waiter // nearest deadline first, in order of arrival among equals
}

type waiter struct {
	deadline time.Time     // zero: whenever there is room
	granted  chan struct{} // closed when it is its turn
}

// take waits for a turn, which done gives back.
func (t *turns) take(ctx context.Context, deadline time.Time) (done func(), err error) {
	t.mu.Lock()
	if t.open(deadline) {
		t.free--
		t.mu.Unlock()
		return t.give, nil
	}
	w := &waiter{deadline, make(chan struct{})}
	i, _ := slices.BinarySearchFunc(t.waiting, w, func(a, w *waiter) int {
		if sooner(w.deadline, a.deadline) {
			return 1
		}
		return -1
	})
	t.waiting = slices.Insert(t.waiting, i, w)
	t.mu.Unlock()
	select {
	case <-w.granted:
		return t.give, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, w); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else {
		t.pass() // it was granted this moment
	}
	return nil, ctx.Err()
}

// sooner says whether a comes before b; zero is never.
func sooner(a, b time.Time) bool { return !a.IsZero() && (b.IsZero() || a.Before(b)) }

func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass()
}

// open says whether there is a turn for one with that deadline.
func (t *turns) open(deadline time.Time) bool {
	return t.free > t.spare || t.free > 0 && !deadline.IsZero()
}

func (t *turns) pass() {
	t.free++
	for len(t.waiting) > 0 && t.open(t.waiting[0].deadline) {
		t.free--
		close(t.waiting[0].granted)
		t.waiting = t.waiting[1:]
	}
}
