package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
)

func usageRow(id string, job uint32, from, to int) ledger.Row {
	r := ledger.Row{Instance: id, Provider: "east", Pool: "p", Offering: spot, Node: "c1", UID: -1,
		From: at.Add(time.Duration(from) * time.Second), To: at.Add(time.Duration(to) * time.Second), Share: 1,
		Price: ledger.Price{USDPerHour: 3.6, Date: at, Source: "table"}, Open: true}
	if job > 0 {
		r.Job, r.UID, r.User, r.Account = job, 1000+int(job), fmt.Sprintf("u%d", job), "a"
	}
	return r
}

func putInstances(t *testing.T, s *Store, all ...power.Instance) {
	t.Helper()
	if err := s.CommitPower(t.Context(), power.Change{Instances: all}); err != nil {
		t.Fatal(err)
	}
}

func putRows(t *testing.T, s *Store, rows ...ledger.Row) {
	t.Helper()
	if err := s.PutUsage(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
}

func machine(id string, gone time.Time) power.Instance {
	return power.Instance{Provider: "east", Assigned: "c1", Gone: gone,
		Instance: cloud.Instance{ID: id, Pool: "p", Offering: spot, Launched: at, Ended: gone}}
}

func TestTheLedgerGoesOnAfterReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	s := open(t, path)
	gone := at.Add(time.Hour)
	putInstances(t, s, machine("i-live", time.Time{}), machine("i-new", time.Time{}), machine("i-ended", gone),
		machine("i-closed", gone), machine("i-missed", gone), machine("i-forgotten", at.Add(-48*time.Hour)))
	closed := func(r ledger.Row) ledger.Row { r.Open = false; return r }
	unknown := usageRow("i-live", 7, 60, 90)
	unknown.Price = ledger.Price{}
	putRows(t, s, closed(usageRow("i-live", 0, 0, 60)), unknown, closed(usageRow("i-ended", 0, 0, 60)), usageRow("i-ended", 8, 60, 70),
		closed(usageRow("i-closed", 0, 0, 60)))
	s.Close()
	s = open(t, path)
	instances, rows, err := s.LoadUsage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, i := range instances {
		ids = append(ids, i.ID)
	}
	if diff := cmp.Diff([]string{"i-ended", "i-live", "i-missed", "i-new"}, ids); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(machine("i-ended", gone), instances[0]); diff != "" {
		t.Errorf("an instance (-want +got):\n%s", diff)
	}
	want := []ledger.Row{closed(usageRow("i-ended", 0, 0, 60)), usageRow("i-ended", 8, 60, 70), unknown}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	longer := unknown
	longer.To, longer.Open = at.Add(2*time.Minute), false
	longer.Price = usageRow("", 0, 0, 0).Price
	putRows(t, s, longer, closed(want[1]))
	if _, rows, err = s.LoadUsage(t.Context()); err != nil || len(rows) > 0 {
		t.Errorf("after all rows were closed: %+v, %v", rows, err)
	}
	var n int
	if err := s.db.QueryRow(`SELECT count(*) FROM usage WHERE until = ? AND usd_per_hour = 3.6`, fromTime(longer.To)).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d rows are longer: %v", n, err)
	}
}

func TestUsageIsSummedUp(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	half := usageRow("i-1", 8, 60, 160)
	half.Share = 0.5
	other := half
	other.Job, other.UID, other.User, other.Account = 9, 1009, "u9", ""
	free := usageRow("i-2", 7, 0, 100)
	free.Price = ledger.Price{}
	putRows(t, s, usageRow("i-1", 0, 0, 60), half, other, usageRow("i-2", 7, 100, 400), free)
	for _, tt := range []struct {
		name string
		q    UsageQuery
		want []Usage
	}{
		{"by job", UsageQuery{By: "job", UID: -1}, []Usage{
			{Key: "7", Job: 7, User: "u7", Account: "a", Seconds: 400, USD: 0.3, Unpriced: 100, Unknown: 400, Instances: 1},
			{Seconds: 60, USD: 0.06, Unknown: 60, Instances: 1},
			{Key: "8", Job: 8, User: "u8", Account: "a", Seconds: 50, USD: 0.05, Unknown: 50, Instances: 1},
			{Key: "9", Job: 9, User: "u9", Seconds: 50, USD: 0.05, Unknown: 50, Instances: 1}}},
		{"by account", UsageQuery{By: "account", UID: -1}, []Usage{
			{Key: "a", Seconds: 450, USD: 0.35, Unpriced: 100, Unknown: 450, Instances: 2},
			{Seconds: 60, USD: 0.06, Unknown: 60, Instances: 1},
			{Key: "(none)", Seconds: 50, USD: 0.05, Unknown: 50, Instances: 1}}},
		{"of one user", UsageQuery{By: "user", UID: 1009}, []Usage{{Key: "u9", Seconds: 50, USD: 0.05, Unknown: 50, Instances: 1}}},
		{"of nobody", UsageQuery{By: "user", UID: 5}, nil},
		{"by pool", UsageQuery{By: "pool", UID: -1}, []Usage{{Key: "p", Seconds: 560, USD: 0.46, Unpriced: 100, Unknown: 560, Instances: 2}}},
		{"since a time", UsageQuery{By: "offering", UID: -1, Since: at.Add(150 * time.Second)}, []Usage{
			{Key: "c6i.large/a/spot", Seconds: 260, USD: 0.26, Unknown: 260, Instances: 2}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := s.Usage(t.Context(), tt.q)
			near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })
			if diff := cmp.Diff(tt.want, got, near); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	if _, err := s.Usage(t.Context(), UsageQuery{By: "type; DROP"}); err == nil || !strings.Contains(err.Error(), "DROP") {
		t.Errorf("by something else: %v", err)
	}
}

func TestTheLedgerIsKeptForAYear(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	old := usageRow("i-1", 0, 0, 60)
	old.Open = false
	putRows(t, s, old, usageRow("i-2", 0, 0, 60))
	for _, tt := range []struct{ days, want int }{{300, 2}, {311, 1}} {
		if err := s.Prune(t.Context(), at.Add(time.Duration(tt.days)*24*time.Hour)); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := s.db.QueryRow(`SELECT count(*) FROM usage`).Scan(&n); err != nil || n != tt.want {
			t.Errorf("after %d days %d rows are left, want %d: %v", tt.days, n, tt.want, err)
		}
	}
}

// TestBookedThroughTheStore: what the store keeps of a time is enough for the
// ledger to go on with, also after a restart.
func TestBookedThroughTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	s := open(t, path)
	i := machine("i-1", time.Time{})
	putInstances(t, s, i)
	round := func(after time.Duration, jobs ...slurm.Job) {
		t.Helper()
		instances, rows, err := s.LoadUsage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		snap := &slurm.Snapshot{Taken: i.Launched.Add(after), Jobs: map[uint32]slurm.Job{}}
		for _, j := range jobs {
			snap.Jobs[j.ID] = j
		}
		rows = ledger.Book(rows, ledger.Input{Instances: instances, Snapshot: snap,
			Price:     func(string, cloud.Offering) ledger.Price { return ledger.Price{USDPerHour: 3600} },
			Increment: func(string, cloud.Offering) price.Increment { return price.PerSecond }})
		for range 2 { // the second changes nothing
			putRows(t, s, rows...)
		}
		s.Close()
		s = open(t, path)
	}
	job := slurm.Job{ID: 7, User: "u7", UID: 1007, State: "RUNNING", Nodes: "c1", Start: i.Launched.Add(40*time.Second + 777)}
	round(30*time.Second + 333)
	round(60*time.Second+555, job)
	round(90*time.Second+999, job)
	round(120 * time.Second)
	i.Ended, i.Gone = i.Launched.Add(140*time.Second), i.Launched.Add(150*time.Second)
	putInstances(t, s, i)
	round(170 * time.Second)
	round(200 * time.Second)
	got, err := s.Usage(t.Context(), UsageQuery{By: "user", UID: -1})
	want := []Usage{{Seconds: 75, USD: 75, OnDemand: 75, Instances: 1}, {Key: "u7", Seconds: 65, USD: 65, OnDemand: 65, Instances: 1}}
	near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-4 && b-a < 1e-4 })
	if diff := cmp.Diff(want, got, near); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestSumsWithoutAPause do not keep the write-ahead log from being emptied, however slow
// they are.
func TestSumsWithoutAPause(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	s.maxLog = 1 << 20
	var rows []ledger.Row
	for i := range 2000 {
		rows = append(rows, ledger.Row{Instance: fmt.Sprint("i-", i), Job: 7, From: at, To: at.Add(time.Minute), Share: 1})
	}
	if err := s.PutUsage(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.Usage(ctx, UsageQuery{By: "job", UID: -1}); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	var largest int64
	for i := range 400 {
		if err := s.CommitPower(t.Context(), power.Change{Events: []power.Event{{Time: at, Kind: "k", Text: fmt.Sprintf("%40000d", i)}}}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(s.path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, info.Size())
	}
	if largest > s.maxLog+100<<10 { // and one commit, of 16 MB that were written
		t.Errorf("the log grew to %d bytes", largest)
	}
}

// TestLogUnderAnothersRead: a read of another process keeps the log from being emptied,
// and nobody from writing. When it is over the log is small again.
func TestLogUnderAnothersRead(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	s.maxLog = 64 << 10
	another, err := connect(s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer another.Close()
	exec := func(text string) {
		t.Helper()
		if _, err := another.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	write := func() int64 {
		t.Helper()
		for i := range 20 {
			if err := s.CommitPower(t.Context(), power.Change{Events: []power.Event{{Time: at, Kind: "k", Text: fmt.Sprintf("%20000d", i)}}}); err != nil {
				t.Fatal(err)
			}
		}
		return s.logSize()
	}
	exec("BEGIN")
	exec("CREATE TEMP TABLE seen AS SELECT * FROM events") // reads
	began := time.Now()
	if size := write(); size < 5*s.maxLog {
		t.Errorf("the log has %d bytes, though it is read", size)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("20 writes took %s", took)
	}
	exec("COMMIT")
	if size := write(); size > 2*s.maxLog {
		t.Errorf("the log has still %d bytes", size)
	}
}
