package store

import (
	"database/sql"
	"path/filepath"
	"sync"
	"testing"
)

// TestPanic: a write that panics is undone, and keeps no other from the journal.
func TestPanic(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "journal"))
	panics := func(f func()) (panicked bool) {
		defer func() { panicked = recover() != nil }()
		f()
		return false
	}
	put := func(key string) func(w *writer) {
		return func(w *writer) { w.put("INSERT INTO meta (key, value) VALUES (?, '1')", key) }
	}
	if !panics(func() {
		s.tx(t.Context(), func(tx *sql.Tx) error {
			w := writer{ctx: t.Context(), tx: tx}
			put("a")(&w)
			panic("in a transaction")
		})
	}) {
		t.Error("nobody is told")
	}
	if err := s.small.do(t.Context(), s, put("a")); err != nil {
		t.Fatal(err)
	}
	// The first holds the lead until the others wait, who are then one transaction, led by the second.
	var wg sync.WaitGroup
	wait := func(n int) {
		for have := -1; have != n; {
			s.small.mu.Lock()
			have = len(s.small.waiting)
			s.small.mu.Unlock()
		}
	}
	go1 := make(chan bool)
	wg.Go(func() { s.small.do(t.Context(), s, func(*writer) { <-go1 }) })
	for {
		s.small.mu.Lock()
		leads := s.small.busy && len(s.small.waiting) == 0
		s.small.mu.Unlock()
		if leads {
			break
		}
	}
	wg.Go(func() {
		if err := s.small.do(t.Context(), s, put("b")); err != nil {
			t.Error(err)
		}
	})
	wait(1)
	wg.Go(func() {
		if !panics(func() {
			s.small.do(t.Context(), s, func(w *writer) { put("c")(w); panic("in a group") })
		}) {
			t.Error("nobody is told")
		}
	})
	wait(2)
	close(go1)
	wg.Wait()
	var n int
	if err := s.db.QueryRow("SELECT count(*) FROM meta WHERE key IN ('a', 'b', 'c')").Scan(&n); err != nil || n != 2 {
		t.Errorf("%d are written, %v", n, err)
	}
}
