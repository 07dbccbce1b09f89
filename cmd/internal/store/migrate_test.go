package store

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
)

// TestAJournalOfTheLastRelease, in the middle of evictions, goes on under this one.
func TestAJournalOfTheLastRelease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	db, err := connect(path, "journal_mode(WAL)", "foreign_keys(ON)")
	if err != nil {
		t.Fatal(err)
	}
	run := func(query string, args ...any) {
		t.Helper()
		if _, err := db.Exec(query, args...); err != nil {
			t.Fatal(err)
		}
	}
	const version = 3
	for v := range version {
		text, err := schema.ReadFile(fmt.Sprintf("schema/%03d.sql", v+1))
		if err != nil {
			t.Fatal(err)
		}
		run(string(text))
	}
	run(fmt.Sprint("PRAGMA user_version = ", version))
	deadline := at.Add(2 * time.Minute)
	for _, row := range [][]any{
		{"i-1", "spot-interruption", "east", fromTime(deadline), fromTime(at), "imds", "c1", "draining"},
		{"i-2", "spot-interruption", "east", 0, fromTime(at), "sqs", "", "heard"},
		{"i-3", "spot-interruption", "east", fromTime(deadline), fromTime(at), "sqs", "c3", "acked"},
	} {
		run(`INSERT INTO notices VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, row...)
	}
	run(`INSERT INTO evictions VALUES ('i-1', 'spot-interruption', 7, 2, 'c1', 'signalled', 'B:USR1', 20000000, ?, ?, 0, '')`, fromTime(at), fromTime(at))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	s := open(t, path)
	st, err := s.LoadFT(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spot := func(id string) cloud.Notice {
		return cloud.Notice{Instance: id, Kind: cloud.SpotInterruption, Received: at}
	}
	first, second := spot("i-1"), spot("i-2")
	first.Deadline, first.Source, second.Source = deadline, "imds", "sqs"
	want := ft.State{Notices: []ft.Notice{{Notice: second, Provider: "east", Stage: ft.Heard}, {Notice: first, Provider: "east", Node: "c1", Stage: ft.Draining}},
		Evictions: []ft.Eviction{{Instance: "i-1", Kind: cloud.SpotInterruption, Job: 7, Restarts: 2, Node: "c1", Stage: ft.Signalled, Signal: "B:USR1", Lost: -1, LostIterations: -1,
			Grace: 20 * time.Second, SignalledAt: at, Began: at}}}
	if diff := cmp.Diff(want, st); diff != "" {
		t.Error(diff)
	}
	sooner := first
	sooner.Deadline = deadline.Add(-time.Minute)
	later := first
	later.Received, later.Deadline = at.Add(time.Second), deadline.Add(time.Second)
	for _, tt := range []struct {
		what string
		n    cloud.Notice
		news bool
	}{{"the same", first, false}, {"a later deadline", later, false}, {"what is closed", spot("i-3"), false}, {"a sooner deadline", sooner, true}} {
		if news, err := s.AddNotice(t.Context(), "east", tt.n); news != tt.news || err != nil {
			t.Errorf("%s: %t, %v", tt.what, news, err)
		}
	}
	if n, err := s.NoticeOf(t.Context(), "i-1", cloud.SpotInterruption); err != nil || !n.Deadline.Equal(sooner.Deadline) {
		t.Errorf("%+v, %v", n, err)
	}
	for i, n := range st.Notices {
		st.Notices[i].Stage, st.Notices[i].Node = ft.Acked, n.Node
	}
	if err := s.CommitFT(t.Context(), ft.Change{Notices: st.Notices}); err != nil {
		t.Fatal(err)
	}
	if st, err := s.LoadFT(t.Context()); err != nil || len(st.Notices) > 0 || len(st.Evictions) > 0 {
		t.Errorf("%+v, %v", st, err)
	}
}
