package store

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm/power"
)

// ofVersion makes a journal of an earlier schema, and what runs statements on it.
func ofVersion(t *testing.T, path string, version int) (db *sql.DB, run func(query string, args ...any)) {
	t.Helper()
	db, err := connect(path, "journal_mode(WAL)", "foreign_keys(ON)")
	if err != nil {
		t.Fatal(err)
	}
	run = func(query string, args ...any) {
		t.Helper()
		if _, err := db.Exec(query, args...); err != nil {
			t.Fatal(err)
		}
	}
	for v := range version {
		text, err := schema.ReadFile(fmt.Sprintf("schema/%03d.sql", v+1))
		if err != nil {
			t.Fatal(err)
		}
		run(string(text))
	}
	run(fmt.Sprint("PRAGMA user_version = ", version))
	return db, run
}

// copyOfVersion makes a journal of an earlier schema with what another has that fits into it.
func copyOfVersion(t *testing.T, path string, version int, full string) (db *sql.DB, run func(query string, args ...any)) {
	t.Helper()
	db, run = ofVersion(t, path, version)
	run("ATTACH ? AS f", full)
	tables, err := query(t.Context(), db, `SELECT t.name, group_concat(c.name, ', ') FROM sqlite_schema t JOIN pragma_table_info(t.name) c
		WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%' GROUP BY t.name`, func(scan scanner) (t [2]string, err error) { return t, scan(&t[0], &t[1]) })
	if err != nil || len(tables) < 12 {
		t.Fatal(tables, err)
	}
	for _, c := range tables {
		run(fmt.Sprintf("INSERT OR REPLACE INTO %s (%s) SELECT %s FROM f.%s", c[0], c[1], c[1], c[0]))
	}
	return db, run
}

// TestAJournalWithoutCheckpoints, of the release before there were any, goes on under
// this one with all of its rows.
func TestAJournalWithoutCheckpoints(t *testing.T) {
	dir := t.TempDir()
	path, full := filepath.Join(dir, "burst.db"), filepath.Join(dir, "full.db")
	n := cloud.Notice{Instance: "i-1", Kind: cloud.SpotInterruption, Deadline: at.Add(time.Minute), Received: at, Source: "imds", Event: "e1"}
	ftState := ft.State{Notices: []ft.Notice{{Notice: n, Provider: "east", Node: "c1", Stage: ft.Draining}},
		Evictions: []ft.Eviction{{Instance: "i-1", Kind: cloud.SpotInterruption, Job: 7, Restarts: 2, Node: "c1", Stage: ft.Requeued, Signal: "USR1",
			Grace: 20 * time.Second, SignalledAt: at, Began: at, Lost: -1, LostIterations: -1, Retries: -1}}}
	rows := []ledger.Row{{Provider: "east", Instance: "i-1", Pool: "p", Job: 7, From: at, To: at.Add(time.Hour), Share: 1}}
	s := open(t, full)
	if err := s.CommitPower(t.Context(), sample()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddNotice(t.Context(), "east", n); err != nil {
		t.Fatal(err)
	}
	if err := s.CommitFT(t.Context(), ft.Change{Notices: ftState.Notices, Evictions: ftState.Evictions}); err != nil {
		t.Fatal(err)
	}
	if err := s.PutUsage(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	cluster, err := s.ClusterID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	db, _ := copyOfVersion(t, path, 6, full)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	s = open(t, path)
	want := state(sample())
	want.Heard = []string{""}
	known, err := s.LoadPower(t.Context())
	if diff := cmp.Diff(want, known); err != nil || diff != "" {
		t.Error(err, diff)
	}
	got, err := s.LoadFT(t.Context())
	if diff := cmp.Diff(ftState, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if id, err := s.ClusterID(t.Context()); err != nil || id != cluster {
		t.Errorf("the cluster %q is %q, %v", cluster, id, err)
	}
	j := run7(t, s)
	if j.Evictions != 1 || j.Seconds != 3600 {
		t.Errorf("what was known of the job counts as %+v", j)
	}
	if evicted, err := s.Attempts(t.Context(), 7, -1); err != nil || evicted != 1 {
		t.Errorf("%d evictions count, %v", evicted, err)
	}
}

// run7 writes a run of job 7, in its fourth attempt, with a checkpoint, and
// reads it.
func run7(t *testing.T, s *Store) Told {
	t.Helper()
	k := session.Key{Job: 7, Attempt: 3, Step: "0"}
	hello := session.Hello{Key: k, Token: "t", Began: at, Method: "signal", Dir: "/d"}
	for _, c := range []session.Change{{Opened: []session.Session{{UID: 1, Hello: hello}}},
		{Answers: []session.Given{{Key: k, Token: "t", Answer: session.Answer{Generation: "/d/gen-1", N: 1}}}}} {
		if err := s.CommitSession(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	r := run(7, 3)
	r.Submitted = at.Add(-time.Hour)
	writeRuns(t, s, r)
	if err := s.Prune(t.Context(), at.Add(-24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if b, err := s.Blessed(t.Context(), 7, "0"); err != nil || b.Answer.N != 1 {
		t.Errorf("its generation: %+v, %v", b, err)
	}
	all := told(t, s, RunsQuery{UID: -1, Job: 7})
	if len(all) != 1 {
		t.Fatalf("%+v", all)
	}
	return all[0]
}

// TestAJournalOfTheLastRelease, in the middle of evictions, goes on under this one.
func TestAJournalOfTheLastRelease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	db, run := ofVersion(t, path, 3)
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
		Evictions: []ft.Eviction{{Instance: "i-1", Kind: cloud.SpotInterruption, Job: 7, Restarts: 2, Node: "c1", Stage: ft.Signalled, Signal: "B:USR1", Lost: -1, LostIterations: -1, Retries: -1,
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

// TestAJournalWithReasonsForServers: that a node serves files was written where it says now why one is to go. Its
// instance has it then, and the node goes for nothing.
func TestAJournalWithReasonsForServers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	db, run := ofVersion(t, path, 9)
	for name, reason := range map[string]string{"s1": "serves files", "c1": "job 7 cannot have all its nodes of lon", "c2": ""} {
		run(`INSERT INTO nodes (name, pool, phase, since, order_id, made, job, whole, token, instance, addr_set, tries, reason)
			VALUES (?, 'p', 'up', 0, '', 0, 0, 0, '', ?, 1, 0, ?)`, name, "i-"+name, reason)
		run(`INSERT INTO instances (id, provider, account, token, pool, type, zone, market, state, addr, hostname, node, doomed, failed, console, launched, ended, gone)
			VALUES (?, 'east', '', '', 'p', '', '', '', 'running', '', '', ?, '', 0, 0, 0, 0, 0)`, "i-"+name, name)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	st, err := open(t, path).LoadPower(t.Context())
	if err != nil || len(st.Nodes) != 3 || len(st.Instances) != 3 {
		t.Fatalf("%+v, %v", st, err)
	}
	for _, n := range st.Nodes {
		if (n.Reason != "") != (n.Name == "c1") {
			t.Errorf("%s: %q", n.Name, n.Reason)
		}
	}
	for _, i := range st.Instances {
		if i.Serves != (i.ID == "i-s1") {
			t.Errorf("%s: Serves %v", i.ID, i.Serves)
		}
	}
}

// TestAJournalWithoutWhoToldTheEnd: what was closed with burstd's own time was not told.
func TestAJournalWithoutWhoToldTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	db, run := ofVersion(t, path, 17)
	for id, times := range map[string][2]int{"i-lives": {0, 0}, "i-told": {1_000_000, 2_000_001}, "i-guessed": {2_000_001, 2_000_001}} {
		run(`INSERT INTO instances (id, provider, account, token, pool, type, zone, market, state, addr, hostname, node, doomed, failed, console, launched, ended, gone)
			VALUES (?, 'east', '', '', 'p', '', '', '', '', '', '', '', '', 0, 0, 1, ?, ?)`, id, times[0], times[1])
		if times[1] > 0 {
			run(`INSERT INTO bills (instance, launched, ended, gone, registered) VALUES (?, 1, ?, ?, -1)`, id+"-forgotten", times[0], times[1])
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	for _, table := range []string{"SELECT id FROM instances", "SELECT instance FROM bills"} {
		all, err := query(t.Context(), s.db, table+" WHERE guessed", func(scan scanner) (id string, err error) { err = scan(&id); return id, err })
		if err != nil || len(all) != 1 || !strings.HasPrefix(all[0], "i-guessed") {
			t.Errorf("%s: %v, %v", table, all, err)
		}
	}
}

// TestAJournalWithServers: what no job had of a server of files was summed up as idle, and is not after the update. Where there
// was none the sums are not made anew.
func TestAJournalWithServers(t *testing.T) {
	hour := func(n int) time.Time { return at.Add(time.Duration(n) * time.Hour) }
	of := func(hours float64) Unused { return Unused{hours * 3600, hours * 3.6} }
	for _, tt := range []struct {
		name   string
		serves bool
		before string  // what is done to the sums
		want   []Usage // of the pools p and s
	}{
		{"one", true, `UPDATE usage_dims SET use = 'idle' WHERE use = 'serve'`, []Usage{{Boot: of(1), Idle: of(2)}, {Boot: of(1), Serve: of(3)}}},
		{"none", false, `UPDATE usage_dims SET use = 'rest' WHERE use = 'idle' AND pool = 's'`, []Usage{{Boot: of(1), Idle: of(2)}, {Boot: of(1), Rest: of(3)}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path, full := filepath.Join(dir, "burst.db"), filepath.Join(dir, "full.db")
			var c power.Change
			var rows []ledger.Row
			for pool, hours := range map[string]int{"p": 3, "s": 4} {
				i, r := machine("i-"+pool, hour(hours)), usageRow("i-"+pool, 0, 0, 3600*hours)
				i.Pool, i.Assigned, i.Serves = pool, pool+"1", tt.serves && pool == "s"
				r.Pool, r.Node, r.Open = pool, i.Assigned, false
				c.Instances, rows = append(c.Instances, i), append(rows, r)
				c.Boots = append(c.Boots, power.Boot{Node: i.Assigned, Order: "o1", Instance: i.ID, Ordered: at, Registered: hour(1)})
			}
			s := open(t, full)
			if err := s.CommitPower(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			putRows(t, s, rows...)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}

			db, run := copyOfVersion(t, path, 19, full)
			run(tt.before)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			got, err := open(t, path).Usage(t.Context(), UsageQuery{By: "pool", UID: -1})
			if err != nil || len(got) != 2 {
				t.Fatal(got, err)
			}
			slices.SortFunc(got, func(a, b Usage) int { return strings.Compare(a.Key, b.Key) })
			for n, u := range got {
				if diff := cmp.Diff(tt.want[n], Usage{Boot: u.Boot, Idle: u.Idle, Serve: u.Serve, Rest: u.Rest}, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
					t.Errorf("pool %s (-want +got):\n%s", u.Key, diff)
				}
			}
		})
	}
}
