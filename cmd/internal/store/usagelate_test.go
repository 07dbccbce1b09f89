package store

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/ledger"
)

// TestUnpricedRowsGoOn to the last instance, however few are read at once.
func TestUnpricedRowsGoOn(t *testing.T) {
	lateAtOnce = 2
	t.Cleanup(func() { lateAtOnce = 1000 })
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	for n := range 5 {
		r := usageRow(fmt.Sprint("i-", n), 0, 0, 600)
		r.Open, r.Price = false, ledger.Price{}
		putRows(t, s, r)
	}
	of, err := s.Unpriced(t.Context(), at.Add(-time.Hour))
	if err != nil || len(of) != 1 {
		t.Fatal(of, err)
	}
	var met []string
	for after := ""; ; {
		rows, err := s.UnpricedRows(t.Context(), of[0], at.Add(-time.Hour), after)
		if err != nil || len(rows) > 2 {
			t.Fatal(rows, err)
		}
		if len(rows) == 0 {
			break
		}
		for _, r := range rows {
			met = append(met, r.Instance)
		}
		after = met[len(met)-1]
	}
	if fmt.Sprint(met) != "[i-0 i-1 i-2 i-3 i-4]" {
		t.Errorf("%v", met)
	}
}

// TestTwoUsersOfOneID have a line each.
func TestTwoUsersOfOneID(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	for n, user := range []string{"ann", "bob"} {
		r := usageRow(fmt.Sprint("i-", n), 7, 0, 3600)
		r.Open, r.UID, r.User = n == 1, 1000+n, user // one is in the sums, the other a row
		putRows(t, s, r)
	}
	all, err := s.Usage(t.Context(), UsageQuery{By: "job", UID: -1})
	if err != nil || len(all) != 2 || all[0].Key != "7" || all[1].Key != "7" || all[0].User == all[1].User || all[0].Seconds != 3600 || all[1].Seconds != 3600 {
		t.Errorf("%+v, %v", all, err)
	}
}
