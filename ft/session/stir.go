package session

import (
	"slices"
	"time"
)

const (
	// fewOrders are so few that turns are given at every change.
	fewOrders = 500
	// stirEvery is between two times that more are gone through, which takes some
	// milliseconds under the hub's lock.
	stirEvery = 50 * time.Millisecond
)

// turns has turns given, and fresh orders told: now, or if there are many, with
// what else comes within a moment. The lock is held.
func (h *Hub) turns() {
	wait := stirEvery - time.Since(h.given)
	switch {
	case h.stirred: // it will be
	case len(h.asked) <= fewOrders || wait <= 0:
		h.tell()
	default:
		h.stirred = true
		time.AfterFunc(wait, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.tell()
		})
	}
}

func (h *Hub) tell() {
	h.give()
	slices.SortFunc(h.fresh, func(a, b *order) int { return a.Request.By.Compare(b.Request.By) })
	for _, o := range h.fresh {
		h.wake(o) // those that must be ready first are told first
	}
	h.fresh, h.stirred, h.given = nil, false, time.Now()
}
