package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
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
	// broken is how do has panicked; "": it has not. That is its own caller's, not that of who leads.
	broken string
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
		return own.result()
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
	if len(t.waiting) > 0 {
		t.waiting[0].turn <- true
	} else {
		t.busy, t.waiting = false, nil
	}
	t.mu.Unlock()
	return own.result()
}

func (each *write) result() error {
	if each.broken != "" {
		panic(each.broken)
	}
	return each.err
}

var errBroken = errors.New("a write has panicked")

// run writes, or sets the writer's error.
func (each *write) run(w *writer) {
	defer func() {
		if p := recover(); p != nil {
			each.broken, w.err = fmt.Sprintf("%v\n%s", p, debug.Stack()), errBroken
		}
	}()
	each.broken = ""
	each.do(w)
}

// writeAll sets the error of each.
func (s *Store) writeAll(ctx context.Context, group []*write) {
	err := s.tx(ctx, func(tx *sql.Tx) error {
		w := writer{ctx: ctx, tx: tx}
		for _, each := range group {
			each.run(&w)
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
