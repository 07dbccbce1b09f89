package store

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/price"
)

// TestBills: what is booked stands beside the times that were told, also when the journal has
// forgotten the instance; what was never booked is there; what the provider tells later counts.
func TestBills(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	gone := at.Add(time.Hour)
	guessed := machine("i-1", gone)
	guessed.Guessed = true
	putInstances(t, s, guessed, machine("i-2", gone), machine("i-lost", gone), machine("i-live", time.Time{}))
	closed := usageRow("i-1", 7, 0, 3000)
	closed.Open = false
	rest := closed
	rest.From, rest.To, rest.Job, rest.Price.USDPerHour, rest.Price.Source, rest.Price.Date = closed.To, gone, 0, 0, "month-paid", time.Time{}
	other := usageRow("i-2", 0, 0, 3600)
	other.Open = false
	putRows(t, s, closed, rest, other, usageRow("i-live", 0, 0, 60))
	if err := s.NoteBilling(t.Context(), map[string]price.Increment{"i-1": price.PerHour}); err != nil {
		t.Fatal(err)
	}
	read := func() map[string]Bill {
		t.Helper()
		all, err := s.Bills(t.Context(), at, gone.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		bills := map[string]Bill{}
		for _, b := range all {
			bills[b.ID] = b
		}
		return bills
	}
	b := read()
	if len(b) != 3 || b["i-lost"].Booked != 0 || b["i-lost"].Provider != "east" {
		t.Errorf("%+v", b)
	}
	if one := b["i-1"]; one.Booked != time.Hour || one.Charged != 3000*time.Second || one.By != price.PerHour || !one.Ended.Equal(gone) || one.USD < 2.9999 || one.USD > 3.0001 {
		t.Errorf("%+v", one)
	}
	if !b["i-1"].Guessed || b["i-2"].Guessed || b["i-lost"].Guessed {
		t.Errorf("the end of i-1 alone was not told: %+v", b)
	}
	if soon, err := s.Bills(t.Context(), at, gone.Add(time.Minute)); err != nil || len(soon) != 2 {
		t.Errorf("one that may still be booked: %+v, %v", soon, err)
	}
	later := machine("i-2", gone)
	later.Ended = gone.Add(time.Minute)
	putInstances(t, s, later)
	if b = read(); !b["i-2"].Ended.Equal(later.Ended) {
		t.Errorf("told later: %+v", b["i-2"])
	}
	known := func(want ...string) {
		t.Helper()
		got, err := s.Known(t.Context(), []string{"i-1", "i-2", "i-lost", "i-live", "i-never"})
		if ids := slices.Sorted(maps.Keys(got)); err != nil || !slices.Equal(ids, want) {
			t.Errorf("known are %v, want %v; %v", ids, want, err)
		}
	}
	known("i-1", "i-2", "i-live", "i-lost")
	if _, err := s.db.Exec(`DELETE FROM instances WHERE gone > 0`); err != nil {
		t.Fatal(err)
	}
	known("i-1", "i-2", "i-live")
	if b = read(); len(b) != 2 || !b["i-1"].Launched.Equal(at) || b["i-1"].Pool != "p" || !b["i-1"].Guessed || b["i-2"].Guessed || b["i-2"].By.Unit >= 0 {
		t.Errorf("forgotten: %+v", b)
	}
}
