package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/notice"
)

// TestNoticesAreMergedAsTheRuleSays: the journal has what package notice makes
// of the same notices, in whatever order they come.
func TestNoticesAreMergedAsTheRuleSays(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	run := 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		id := fmt.Sprint("i-", run)
		var rule notice.Record
		for range rapid.IntRange(1, 6).Draw(r, "notices") {
			n := cloud.Notice{Instance: id, Kind: cloud.Maintenance, Received: at.Add(time.Duration(rapid.IntRange(0, 3).Draw(r, "received")) * time.Second),
				Source: rapid.SampledFrom([]string{"imds", "sqs"}).Draw(r, "source"), Event: rapid.SampledFrom([]string{"", "e1", "e2"}).Draw(r, "event"),
				Action: rapid.SampledFrom([]string{"", "system-reboot"}).Draw(r, "action"), Cancelled: rapid.Bool().Draw(r, "cancelled")}
			if d := rapid.IntRange(0, 3).Draw(r, "deadline"); d > 0 {
				n.Deadline = at.Add(time.Duration(d) * time.Hour)
			}
			want := rule.Add(n, false) != notice.Nothing
			if got, err := s.AddNotice(t.Context(), "east", n); got != want || err != nil {
				r.Fatalf("%+v: %v, %v", n, got, err)
			}
		}
		next := rule.Next()
		st, err := s.LoadFT(t.Context())
		if err != nil {
			r.Fatal(err)
		}
		want := ft.Notice{Provider: "east", Stage: ft.Heard, Notice: cloud.Notice{Instance: id, Kind: cloud.Maintenance, Deadline: next.Deadline,
			Received: rule.Received, Source: rule.Source, Action: next.Action, Event: next.ID, Cancelled: next.Cancelled}}
		for _, n := range st.Notices {
			if n.Instance == id {
				if diff := cmp.Diff(want, n); diff != "" {
					r.Fatal(diff)
				}
				want.Node = "c1"
			}
		}
		if want.Node == "" {
			r.Fatal("it is not there")
		}
		want.Stage, want.Cancelled = ft.Acked, next.Cancelled
		if err := s.CommitFT(t.Context(), ft.Change{Notices: []ft.Notice{want}}); err != nil {
			r.Fatal(err)
		}
	})
	if st, err := s.LoadFT(t.Context()); err != nil || len(st.Notices) > 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestClosingANotice: not if it means something else by then; what had no node
// leaves nothing behind.
func TestClosingANotice(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	add := func(n cloud.Notice) {
		t.Helper()
		if _, err := s.AddNotice(t.Context(), "east", n); err != nil {
			t.Fatal(err)
		}
	}
	rows := func() (n int) {
		t.Helper()
		if err := s.db.QueryRow("SELECT count(*) FROM notices").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	load := func() ft.State {
		t.Helper()
		st, err := s.LoadFT(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	commit := func(all ...ft.Notice) {
		t.Helper()
		if err := s.CommitFT(t.Context(), ft.Change{Notices: all}); err != nil {
			t.Fatal(err)
		}
	}
	n := cloud.Notice{Instance: "i-1", Kind: cloud.Maintenance, Received: at, Source: "imds", Event: "e1"}
	rec := ft.Notice{Notice: n, Provider: "east", Node: "c1", Stage: ft.Draining, Ahead: "c2"}
	add(n)
	commit(rec)
	if st := load(); len(st.Notices) != 1 || st.Notices[0] != rec {
		t.Errorf("%+v, want %+v", st, rec)
	}
	n.Cancelled = true
	add(n) // while it is being closed
	rec.Stage = ft.Acked
	commit(rec)
	st := load()
	if len(st.Notices) != 1 || !st.Notices[0].Cancelled || st.Notices[0].Stage != ft.Draining {
		t.Fatalf("a cancellation is lost: %+v", st)
	}
	rec = st.Notices[0]
	rec.Stage = ft.Acked
	commit(rec)
	if st := load(); len(st.Notices) > 0 {
		t.Errorf("%+v", st)
	}
	n.Cancelled, n.Event = false, "e2" // a new one
	add(n)
	if st := load(); len(st.Notices) != 1 || st.Notices[0].Stage != ft.Heard || st.Notices[0].Event != "e2" || st.Notices[0].Ahead != "" {
		t.Errorf("%+v", st)
	}
	before := rows()
	for i := range 100 {
		n := cloud.Notice{Instance: fmt.Sprint("i-foreign-", i), Kind: cloud.SpotInterruption, Received: at}
		add(n)
		commit(ft.Notice{Notice: n, Stage: ft.Foreign}, ft.Notice{Notice: n, Stage: ft.Acked})
	}
	if got := rows(); got != before {
		t.Errorf("%d rows after notices for others, %d before", got, before)
	}
}

// TestWritesTogether: a thousand at once, and what is wrong with one is its own.
func TestWritesTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	s := open(t, path)
	var wg sync.WaitGroup
	begun := time.Now()
	for i := range 1000 {
		wg.Go(func() {
			n := cloud.Notice{Instance: fmt.Sprint("i-", i), Kind: cloud.SpotInterruption, Deadline: at, Received: at}
			if fresh, err := s.AddNotice(t.Context(), "east", n); !fresh || err != nil {
				t.Errorf("%v, %v", fresh, err)
			}
		})
	}
	bad := errors.New("bad")
	for range 20 {
		wg.Go(func() {
			if err := s.small.do(t.Context(), s, func(w *writer) { w.put("UPDATE nothing SET at = 'all'") }); err == nil {
				t.Error("a wrong statement succeeds")
			}
			if err := s.small.do(t.Context(), s, func(w *writer) { w.err = bad }); !errors.Is(err, bad) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	t.Logf("1,000 notices in %s", time.Since(begun))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.AddNotice(ctx, "east", cloud.Notice{Instance: "i-late", Kind: cloud.Rebalance}); err == nil {
		t.Error("a caller that has gone is served")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	if st, err := s.LoadFT(t.Context()); err != nil || len(st.Notices) != 1000 {
		t.Errorf("%d notices, %v", len(st.Notices), err)
	}
}
