package ledger

import (
	"testing"
	"time"
)

// TestLate: a row that has no price gets the nearest one of its instance, else that of now, and
// says so where the price is younger than the time.
func TestLate(t *testing.T) {
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	row := func(id string, hour int, usd float64, since int) Row {
		r := Row{Instance: id, From: at.Add(time.Duration(hour) * time.Hour), To: at.Add(time.Duration(hour+1) * time.Hour), Share: 1}
		if usd > 0 {
			r.Price = Price{USDPerHour: usd, Date: at.Add(time.Duration(since) * time.Hour), Source: "spot-history"}
		}
		return r
	}
	open, paid := row("i-2", 1, 0, 0), row("i-1", 5, 0, 0)
	open.Open, paid.Price = true, MonthPaid
	rows := []Row{row("i-1", 0, 0, 0), row("i-1", 1, 2, 1), row("i-1", 2, 0, 0), row("i-1", 3, 0, 0), row("i-1", 4, 3, -1), paid, row("i-2", 0, 0, 0), open}
	now := Price{USDPerHour: 9, Date: at.Add(-time.Hour), Source: "table"}
	want := []struct {
		usd    float64
		source string
	}{{2, "spot-history, later"}, {2, "spot-history"}, {3, "spot-history"}, {9, "table"}}
	got := Late(rows, now)
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, w := range want {
		if r := got[i]; r.Price.USDPerHour != w.usd || r.Price.Source != w.source || r.Open {
			t.Errorf("%d: %+v, want %+v", i, r, w)
		}
	}
	if more := Late(got, Price{}); len(more) > 0 {
		t.Errorf("again: %+v", more)
	}
	if none := Late(rows[6:], Price{}); len(none) > 0 {
		t.Errorf("without any price: %+v", none)
	}
}
