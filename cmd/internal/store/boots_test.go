package store

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/slurm/power"
)

// whole is a boot of which all is known but its end.
func whole(node string, job uint32, ordered time.Time) power.Boot {
	b := power.Boot{Node: node, Order: "o1", Pool: "p", Job: job, Instance: "i-1", Tries: 1, Ordered: ordered}
	for i, t := range []*time.Time{&b.Called, &b.Launched, &b.Running, &b.Reachable, &b.Setup, &b.Ready, &b.Registered, &b.Started} {
		*t = ordered.Add(time.Duration(i+1) * time.Second)
	}
	return b
}

func TestBoots(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	s := open(t, path)
	open1, done := whole("c1", 7, at.Add(time.Minute)), whole("c2", 8, at)
	done.Ended, done.Outcome = at.Add(time.Hour), power.BootUp
	breakers := []power.Breaker{{Pool: "p", Failures: 5, Stopped: at, Why: "w", ByHand: true}, {Pool: "q", Failures: 1}, {Pool: "q", Provider: "lon", Failures: 2}}
	if err := s.CommitPower(t.Context(), power.Change{Boots: []power.Boot{open1, done}, Breakers: breakers}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, path)
	got, err := s.LoadPower(t.Context())
	if diff := cmp.Diff(power.State{Boots: []power.Boot{open1}, Breakers: breakers}, got); err != nil || diff != "" {
		t.Errorf("loaded: %v (-want +got):\n%s", err, diff)
	}
	for _, tt := range []struct {
		name string
		node string
		job  uint32
		last int
		want []power.Boot
	}{
		{"all", "", 0, 10, []power.Boot{done, open1}},
		{"the last", "", 0, 1, []power.Boot{open1}},
		{"of a job", "", 8, 10, []power.Boot{done}},
		{"of another", "", 9, 10, nil},
		{"the last of a node that is not the newest", "c2", 0, 1, []power.Boot{done}},
		{"of another node", "c", 0, 10, nil},
		{"of a node and a job", "c1", 7, 10, []power.Boot{open1}},
		{"of a node and another's job", "c1", 8, 10, nil},
	} {
		got, err := s.Boots(t.Context(), tt.node, tt.job, tt.last)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
	if err := s.CommitPower(t.Context(), power.Change{Breakers: []power.Breaker{{Pool: "p"}, {Pool: "q"}, {Pool: "q", Provider: "lon"}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Prune(t.Context(), at.Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	got, err = s.LoadPower(t.Context())
	if diff := cmp.Diff(power.State{Boots: []power.Boot{open1}}, got); err != nil || diff != "" {
		t.Errorf("after it was forgotten: %v (-want +got):\n%s", err, diff)
	}
	if all, err := s.Boots(t.Context(), "", 0, 10); err != nil || len(all) != 1 {
		t.Errorf("pruned, there are %d (%v)", len(all), err)
	}
}

// TestAJournalOfTheFirstSchema keeps what it has, and goes on from there.
func TestAJournalOfTheFirstSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	first, err := schema.ReadFile("schema/001.sql")
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(first), `PRAGMA user_version = 1`,
		`INSERT INTO meta VALUES ('cluster', 'f00d')`,
		`INSERT INTO orders VALUES ('o1', 'resume', 'c1', '', 1795000000123456, 1, 0)`,
		`INSERT INTO nodes VALUES ('c1', 'p', 'booting', 1795000000123456, 'o1', 1795000000123456, 7, 1, 't1', 'i-1', 1, 2, 'r')`,
		`INSERT INTO launches VALUES ('t1', 'east', '{"token":"t1","cluster":"f00d","pool":"p","offering":{"type":"c6i.large","zone":"a","market":"spot"},"count":1}', '["c1"]', 'written', 1795000000123456, 0, 'e')`,
		`INSERT INTO instances VALUES ('i-1', 'east', 't1', 'p', 'c6i.large', 'a', 'spot', 'running', '10.0.0.1', 'h', 'c1', 'd', 1795000000123456, 0, 0)`,
		`INSERT INTO holds VALUES (7, -1, 1795000000123456, 'w', 3, 1, 1)`,
		`INSERT INTO coolings VALUES ('east', 'c6i.large', 'a', 'spot', 2, 1795000000123456)`,
		`INSERT INTO events (time, kind, node, instance, pool, job, text) VALUES (1795000000123456, 'k', 'c1', 'i-1', 'p', 7, 'text')`,
	} {
		if _, err := db.Exec(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // and once more, when there is nothing to do
		s := open(t, path)
		want := state(sample())
		want.Launches[0].Request.Cluster, want.Launches[0].Request.Tags, want.Launches[0].Request.AllOrNothing = "f00d", nil, false
		want.Orders[0].Nodes, want.Orders[0].ResumeFile = "c1", ""
		want.Heard = []string{""} // it has been in use
		got, err := s.LoadPower(t.Context())
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if events, err := s.Events(t.Context(), 0, 0); err != nil || len(events) != 1 || events[0].Text != "text" {
			t.Errorf("events: %+v, %v", events, err)
		}
		i := want.Instances[0]
		i.Failed, i.Console = true, true
		if err := s.CommitPower(t.Context(), power.Change{Instances: []power.Instance{i}, Boots: []power.Boot{whole("c1", 7, at)}}); err != nil {
			t.Errorf("writing to it: %v", err)
		}
		if st, err := s.LoadPower(t.Context()); err != nil || len(st.Boots) != 1 || !st.Instances[0].Failed || !st.Instances[0].Console {
			t.Errorf("what was written: %+v, %v", st, err)
		}
		if err := s.CommitPower(t.Context(), power.Change{Instances: want.Instances, Boots: []power.Boot{{Node: "c1", Order: "o1", Ended: at}}}); err != nil {
			t.Error(err)
		}
		s.Close()
	}
}

// TestStoppedByHandBefore: of a pool that was stopped before journals said who had, its reason does.
func TestStoppedByHandBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	db, run := ofVersion(t, path, 9)
	run(`INSERT INTO breakers VALUES ('a', 0, 1, 'audit (by uid 0)'), ('b', 5, 1, '5 instances in a row did not become nodes'), ('c', 1, 0, '')`)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	st, err := open(t, path).LoadPower(t.Context())
	if err != nil || len(st.Breakers) != 3 || !st.Breakers[0].ByHand || st.Breakers[1].ByHand || st.Breakers[2].ByHand {
		t.Errorf("%+v, %v", st.Breakers, err)
	}
}

// TestAKillBetweenMigrations: the next start goes on with the schema that is next.
func TestAKillBetweenMigrations(t *testing.T) {
	files, err := schema.ReadDir("schema")
	if err != nil {
		t.Fatal(err)
	}
	for done := range len(files) + 1 {
		if testing.Short() && done%5 > 0 {
			continue
		}
		path := filepath.Join(t.TempDir(), "burst.db")
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files[:done] {
			text, err := schema.ReadFile("schema/" + f.Name())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.Exec(string(text)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := db.Exec(fmt.Sprintf("PRAGMA user_version = %d", done)); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		s := open(t, path)
		putInstances(t, s, machine("i-1", time.Time{}))
		putRows(t, s, usageRow("i-1", 7, 0, 60))
		instances, rows, err := s.LoadUsage(t.Context())
		if err != nil || len(instances) != 1 || len(rows) != 1 {
			t.Errorf("after %d migrations: %v, %v, %v", done, instances, rows, err)
		}
	}
}

// TestLongReadsAreBesideTheJournal: a user's question keeps no order waiting.
func TestLongReadsAreBesideTheJournal(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	journal, err := s.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := s.Boots(ctx, "", 0, 10); err != nil {
		t.Errorf("boots: %v", err)
	}
	if _, err := s.Usage(ctx, UsageQuery{By: "job", UID: -1}); err != nil {
		t.Errorf("usage: %v", err)
	}
}
