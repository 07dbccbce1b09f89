package store

import (
	"context"
	"database/sql"
	"sync"
)

// together makes small writes that come at once durable in one transaction: a
// sync to disk costs the same for one as for hundreds.
type together struct {
	mu      sync.Mutex
	busy    bool
	waiting []*write
}

// write is one caller's part of a transaction. It may be run again, alone.
type write struct {
	do   func(w *writer)
	turn chan bool // true: it leads the next transaction; false: err is set
	err  error
}

// most bounds one transaction: those who come later should not wait for long.
const most = 512

// do runs one write, in the same transaction as others that wait. When it
// returns without an error the write is durable. A write that fails spoils no other.
func (t *together) do(ctx context.Context, s *Store, do func(w *writer)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	own := &write{do: do, turn: make(chan bool, 1)}
	t.mu.Lock()
	t.waiting = append(t.waiting, own)
	if !t.busy {
		t.busy = true
		own.turn <- true
	}
	t.mu.Unlock()
	if !<-own.turn {
		return own.err
	}
	t.mu.Lock() // own is the first of those that wait
	n := min(most, len(t.waiting))
	group := t.waiting[:n:n]
	t.waiting = t.waiting[n:]
	t.mu.Unlock()
	s.writeAll(context.WithoutCancel(ctx), group)
	for _, w := range group[1:] {
		w.turn <- false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) > 0 {
		t.waiting[0].turn <- true
	} else {
		t.busy, t.waiting = false, nil
	}
	return own.err
}

// writeAll sets the error of each.
func (s *Store) writeAll(ctx context.Context, group []*write) {
	err := s.tx(ctx, func(tx *sql.Tx) error {
		w := writer{ctx: ctx, tx: tx}
		for _, each := range group {
			each.do(&w)
		}
		return w.err
	})
	for _, each := range group {
		each.err = err
		if err != nil && len(group) > 1 { // whose fault it is shows alone
			s.writeAll(ctx, []*write{each})
		}
	}
}
