package store

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
)

// lostTables are the rows of both tables, in text, with what each has taken.
func lostTables(t *testing.T, s *Store) map[string]Unused {
	t.Helper()
	all := map[string]Unused{}
	for _, text := range []string{`SELECT concat_ws(' ', job, submitted, use, ended, uid, user, account, pool), seconds, usd FROM lost_runs`,
		`SELECT concat_ws(' ', day, uid, user, account, pool, use, runs), seconds, usd FROM lost_days`} {
		if _, err := query(t.Context(), s.db, text, func(scan scanner) (none struct{}, err error) {
			var key string
			var u Unused
			err = scan(&key, &u.Seconds, &u.USD)
			all[key] = u
			return none, err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// checkKept makes both tables anew: they are as they were.
func checkKept(t *testing.T, s *Store) (rows int) {
	t.Helper()
	kept := lostTables(t, s)
	if _, err := s.db.Exec(`DELETE FROM meta WHERE key IN ('lost_runs', 'lost_zone')`); err != nil {
		t.Fatal(err)
	}
	if err := s.keepLost(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lostTables(t, s), kept, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
		t.Errorf("made anew (-), and kept (+):\n%s", diff)
	}
	return len(kept)
}

// lostRunOf is one of job n that has ended at a time.
func lostRunOf(n int, end time.Time) history.Run {
	began := end.Add(-1000 * time.Second)
	return history.Run{Job: uint32(n), Submitted: began, Started: began, Begun: began, Ended: end, UID: 1000 + n%3, User: fmt.Sprint("u", n%3), Account: "a", Pool: "p", State: "COMPLETED"}
}

// rowOf is what an instance of the run costs, at a price.
func rowOf(r history.Run, usd float64) ledger.Row {
	row := usageRow(fmt.Sprint("i-", r.Job), r.Job, 0, 0)
	row.From, row.To, row.Open, row.Price.USDPerHour = r.Started, r.Ended, false, usd
	return row
}

const lostKilled = "BURST_TEST_LOST_KILLED"

// TestLostOutlivesBurstd: however burstd is killed, what evictions and checkpoints took is what the runs and rows come to.
func TestLostOutlivesBurstd(t *testing.T) {
	if path := os.Getenv(lostKilled); path != "" {
		s := open(t, path)
		for price := 1; ; price++ {
			var runs []history.Run
			var rows []ledger.Row
			for n := range usageBatch + 100 { // two transactions
				r := lostRunOf(n%400+1, at.Add(time.Duration(n)*time.Hour)) // of some ids two
				runs, rows = append(runs, r), append(rows, rowOf(r, float64(price)))
				rows[n].Instance += fmt.Sprint("-", n)
			}
			for _, r := range runs[:20] {
				stepEnds(t, s, r, 100*time.Second, time.Duration(price)*time.Second)
			}
			fmt.Println("written")
			putRows(t, s, rows...)
			fmt.Println("written")
			writeRuns(t, s, runs...)
			fmt.Println("written")
			for i := range runs {
				runs[i].Open, runs[i].Ended = i%2 == 0, runs[i].Ended.Add(time.Minute)
			}
			writeRuns(t, s, runs...)
		}
	}
	path, most := filepath.Join(t.TempDir(), "burst.db"), 0
	for round := range 6 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLostOutlivesBurstd$")
		cmd.Env = append(os.Environ(), lostKilled+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range round + 1 {
			if !lines.Scan() {
				t.Error("it does not write")
			}
		}
		timer := time.AfterFunc(time.Duration(rand.IntN(60))*time.Millisecond, func() { _ = cmd.Process.Kill() }) // at any moment
		_ = cmd.Wait()                                                                                            // it was killed
		timer.Stop()
		s := open(t, path)
		most = max(most, checkKept(t, s))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if most == 0 {
		t.Error("nothing was lost when it was killed")
	}
}

// TestAJournalWithoutWhatWasLost, of the release before that was kept, has it after the update.
func TestAJournalWithoutWhatWasLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	s := open(t, path)
	for n := range 5 {
		r := lostRunOf(n+1, at.Add(time.Duration(n)*9*time.Hour))
		stepEnds(t, s, r, 100*time.Second, 50*time.Second)
		writeRuns(t, s, r)
		putRows(t, s, rowOf(r, 3.6))
	}
	want := lostTables(t, s)
	lostJobs = 2
	t.Cleanup(func() { lostJobs = 20 * usageBatch })
	if _, err := s.db.Exec(`DROP TABLE lost_runs; DROP TABLE lost_days; DELETE FROM meta WHERE key IN ('lost_runs', 'lost_zone'); ALTER TABLE bills DROP COLUMN serves; ALTER TABLE steps_done DROP COLUMN began; PRAGMA user_version = 18`); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	if diff := cmp.Diff(want, lostTables(t, s), cmpopts.EquateApprox(0, 1e-9)); diff != "" || len(want) < 10 {
		t.Errorf("%d rows (-want +got):\n%s", len(want), diff)
	}
}

// TestWhatWasLostIsForgotten with the runs, by whole days.
func TestWhatWasLostIsForgotten(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	const days = 6
	for n := range days * 4 {
		r := lostRunOf(n+1, at.Add(time.Duration(n)*6*time.Hour))
		stepEnds(t, s, r, 100*time.Second, 0)
		writeRuns(t, s, r)
		putRows(t, s, rowOf(r, 3.6))
	}
	for day := range days + 2 {
		now := at.Add(usageKeep + time.Duration(day)*24*time.Hour)
		if err := s.Prune(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		for _, by := range []string{"job", "user", "day"} {
			all, err := s.Usage(t.Context(), UsageQuery{By: by, UID: -1})
			if err != nil {
				t.Fatal(err)
			}
			from := s.days.begin(s.days.day(fromTime(now.Add(-usageKeep))))
			want := 0.0
			for n := range days * 4 {
				if fromTime(at.Add(time.Duration(n)*6*time.Hour)) >= from {
					want += 100
				}
			}
			if lost, _ := lostOf(all); lost.Seconds-want > 1e-6 || want-lost.Seconds > 1e-6 {
				t.Errorf("after %d days, by %s: %g s were lost, want %g", day, by, lost.Seconds, want)
			}
		}
	}
}

// TestWhatWasLostStaysAsTheLedgerForgets: what was taken of a run is not less when it is counted again after the ledger has
// forgotten rows of it, and not when the run is forgotten too.
func TestWhatWasLostStaysAsTheLedgerForgets(t *testing.T) {
	const day = 24 * time.Hour
	run := history.Run{Job: 7, Submitted: at, Started: at, Begun: at, Ended: at.Add(20 * day), UID: 1007, User: "u7", Account: "a", Pool: "p", State: "COMPLETED"}
	later := run // Slurm has given its id again
	later.Submitted, later.Started, later.Begun, later.Ended, later.Open, later.State = at.Add(30*day), at.Add(30*day), at.Add(30*day), time.Time{}, true, "RUNNING"
	for _, tt := range []struct {
		name   string
		pruned time.Duration
	}{{"of its first rows", 15 * day}, {"of the run", 20*day + time.Second}} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "burst.db")
			s := open(t, path)
			first, second := rowOf(run, 3.6), rowOf(run, 3.6)
			first.Instance, first.To = "i-a", at.Add(10*day)
			second.Instance, second.From = "i-b", at.Add(10*day)
			stepEnds(t, s, run, 10*day, 0)
			writeRuns(t, s, run)
			putRows(t, s, first, second)
			ended := func(r history.Run) history.Run { r.Ended = r.Started.Add(day); return r }
			check := func(when string) {
				t.Helper()
				for _, by := range []string{"job", "user"} {
					all, err := s.Usage(t.Context(), UsageQuery{By: by, UID: -1})
					if lost, _ := lostOf(all); err != nil || math.Abs(lost.Seconds-864_000) > 1e-6 || math.Abs(lost.USD-864) > 1e-6 {
						t.Errorf("%s, by %s: %+v, %v", when, by, lost, err)
					}
				}
			}
			if err := s.Prune(t.Context(), at.Add(usageKeep+tt.pruned)); err != nil {
				t.Fatal(err)
			}
			check("pruned")
			if err := s.Prune(t.Context(), at.Add(usageKeep)); err != nil { // by a clock that was set back
				t.Fatal(err)
			}
			s.days.zone = time.FixedZone("", 3600)
			if err := s.keepLost(t.Context()); err != nil {
				t.Fatal(err)
			}
			check("in another zone")
			writeRuns(t, s, later)
			check("its id given again")
			putRows(t, s, rowOf(ended(later), 3.6))
			check("which is booked")
			if tt.pruned < 20*day {
				writeRuns(t, s, run)
				check("written again")
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, path)
			check("after a restart")
		})
	}
}
