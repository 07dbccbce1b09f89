package store

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
)

// TestSpending: rows are cut at the periods' ends, of each user and account, and a job's
// are counted over all its attempts but not those of an older job of its id.
func TestSpending(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	unknown := usageRow("i-1", 7, 150, 200)
	unknown.Price = ledger.Price{}
	putInstances(t, s, machine("i-1", time.Time{}))
	putRows(t, s, usageRow("i-1", 0, 0, 50), usageRow("i-1", 7, 50, 150), unknown, usageRow("i-2", 8, 90, 120))
	if _, err := s.db.Exec(`INSERT INTO runs (job, submitted, whole, open, array, task, het, name, uid, user, account, partition, pool, types, nodes, vcpus, memory,
		network_gbit, storage_iops, started, begun, ran, seen, ended, state, exit, signal, restarts, method, label)
		VALUES (8, 1, 1, 0, 0, '', 0, '', 0, '', '', '', '', '', 1, 1, 1, 0, 0, 0, 0, 0, 0, ?, '', 0, 0, 0, '', '')`, fromTime(at.Add(100*time.Second))); err != nil {
		t.Fatal(err)
	}
	span := func(from, to int) price.Span {
		return price.Span{From: at.Add(time.Duration(from) * time.Second), To: at.Add(time.Duration(to) * time.Second)}
	}
	got, err := s.Spending(t.Context(), SpendingQuery{Periods: []price.Span{span(0, 100), span(100, 200), span(200, 300)}, Jobs: []uint32{7, 8, 9}})
	if err != nil {
		t.Fatal(err)
	}
	// A second costs 0.001 USD.
	want := map[string]Sums{"0//": {USD: 0.05}, "0/u7/a": {USD: 0.05}, "0/u8/a": {USD: 0.01}, "1/u7/a": {0.05, 50. / 3600}, "1/u8/a": {USD: 0.02}}
	if len(got.Spent) != len(want) || len(got.Instances) != 1 || len(got.Rows) != 4 {
		t.Errorf("%+v", got)
	}
	same := func(a, b Sums) bool { return math.Abs(a.USD-b.USD) < 1e-9 && math.Abs(a.Unpriced-b.Unpriced) < 1e-9 }
	for _, sp := range got.Spent {
		key := fmt.Sprintf("%d/%s/%s", sp.Period, sp.User, sp.Account)
		if !same(sp.Sums, want[key]) {
			t.Errorf("%s: %+v, want %+v", key, sp.Sums, want[key])
		}
	}
	if len(got.Jobs) != 2 || !same(got.Jobs[7], Sums{0.1, 50. / 3600}) || !same(got.Jobs[8], Sums{USD: 0.02}) {
		t.Errorf("jobs: %+v", got.Jobs)
	}
}
