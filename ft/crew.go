package ft

import (
	"context"
	"sync"
	"time"
)

// gather is how long the first of a storm waits for the rest of it.
const gather = 20 * time.Millisecond

// crew does what many ask for at once in one go: the first to come does it for
// all that wait then, and those who come meanwhile are next.
type crew[T any] struct {
	mu      sync.Mutex
	busy    bool
	waiting []*task[T]
}

type task[T any] struct {
	item T
	turn chan bool // true: it leads; false: err is set
	err  error
}

// do has work done for item, perhaps by another caller together with its own.
// Work's error is that of all items that it was given.
func (c *crew[T]) do(ctx context.Context, item T, work func(context.Context, []T) error) error {
	own := &task[T]{item: item, turn: make(chan bool, 1)}
	c.mu.Lock()
	c.waiting = append(c.waiting, own)
	if !c.busy {
		c.busy = true
		own.turn <- true
	}
	c.mu.Unlock()
	if !<-own.turn { // all have the life of Run: whoever leads ends with it
		return own.err
	}
	pause(ctx, gather) // its end is work's to see
	c.mu.Lock()
	group := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	items := make([]T, len(group))
	for i, t := range group {
		items[i] = t.item
	}
	err := work(ctx, items)
	for _, t := range group {
		t.err = err
		if t != own {
			t.turn <- false
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) > 0 {
		c.waiting[0].turn <- true
	} else {
		c.busy = false
	}
	return err
}
