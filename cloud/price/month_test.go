package price

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fourWeeks is an increment with a most that is as long as the shortest month.
var fourWeeks = PerHour.UpTo(1, 672)

func day(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err)
	}
	return t
}

// Of a calendar month in UTC no more than its most is charged, and each hour is of the
// month in which it begins.
func TestMonth(t *testing.T) {
	for _, c := range []struct {
		name, launched, ended string
		inc                   Increment
		hours                 int
	}{
		{"four weeks", "2026-01-01 00:00", "2026-01-29 00:00", fourWeeks, 672},
		{"a month of 31 days", "2026-01-01 00:00", "2026-02-01 00:00", fourWeeks, 672},
		{"and an hour of the next", "2026-01-01 00:00", "2026-02-01 00:01", fourWeeks, 673},
		{"February", "2026-02-01 00:00", "2026-03-01 00:00", fourWeeks, 672},
		{"February of a leap year", "2028-02-01 00:00", "2028-03-01 00:00", fourWeeks, 672},
		{"30 days over a month's end", "2026-01-16 00:00", "2026-02-15 00:00", fourWeeks, 720},
		{"from the third day on", "2026-01-03 00:00", "2026-02-01 00:00", fourWeeks, 672},
		{"from the fourth day on", "2026-01-04 00:00", "2026-02-01 00:00", fourWeeks, 672},
		{"from the fifth day on", "2026-01-05 00:00", "2026-02-01 00:00", fourWeeks, 648},
		{"the hour over the end is the old month's", "2026-01-01 00:30", "2026-02-01 00:30", fourWeeks, 672},
		{"and the next the new one's", "2026-01-01 00:30", "2026-02-01 00:31", fourWeeks, 673},
		{"three months", "2026-01-01 00:00", "2026-04-01 00:00", fourWeeks, 3 * 672},
		{"a month with a GPU", "2026-01-01 00:00", "2026-02-01 00:00", PerHour, 730},
		{"a short month with a GPU", "2026-04-01 00:00", "2026-05-01 00:00", PerHour, 720},
		{"by the second there is no most", "2026-01-01 00:00", "2026-02-01 00:00", PerSecond, 744},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, zone := range []*time.Location{time.UTC, time.FixedZone("west", -7*3600)} {
				from, to := day(c.launched).In(zone), day(c.ended).In(zone)
				if got := c.inc.Charged(from, to); got != time.Duration(c.hours)*time.Hour {
					t.Errorf("in %s: %g hours, want %d", zone, got.Hours(), c.hours)
				}
			}
		})
	}
}

// Counted hour by hour, the plain way, it is the same; and a time that is looked at in
// parts has the same free hours as the whole.
func TestMonthProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inc := rapid.SampledFrom([]Increment{fourWeeks, PerHour}).Draw(t, "increment")
		launched := day("2026-01-01 00:00").Add(time.Duration(rapid.Int64Range(0, 365*86400).Draw(t, "launch")) * time.Second)
		d := time.Duration(rapid.Int64Range(1, 100*86400).Draw(t, "life")) * time.Second
		want, months := time.Duration(0), map[time.Month]time.Duration{}
		for at := launched; at.Before(launched.Add(d)); at = at.Add(time.Hour) {
			if m := at.UTC().Month(); months[m] < inc.Month {
				months[m] += time.Hour
				want += time.Hour
			}
		}
		if got := inc.Charged(launched, launched.Add(d)); got != want {
			t.Fatalf("from %s for %s: %g hours, want %g", launched, d, got.Hours(), want.Hours())
		}
		end := launched.Add(inc.Billed(d))
		cut := launched.Add(time.Duration(rapid.Int64Range(0, int64(end.Sub(launched))).Draw(t, "cut")))
		parts := time.Duration(0)
		for _, s := range append(inc.Free(launched, launched, cut), inc.Free(launched, cut, end)...) {
			parts += s.To.Sub(s.From)
		}
		if whole := end.Sub(launched) - want; parts != whole {
			t.Fatalf("cut at %s: %s are free in the parts and %s in the whole", cut, parts, whole)
		}
	})
}

func TestOf(t *testing.T) {
	for _, c := range []struct {
		kind        string
		hour, month float64
		want        time.Duration
		text        string
	}{
		{"aws", 0, 0, 0, "second, at least 60"},
		{"aws", 1, 730, 0, "second, at least 60"},
		{"local", 0, 0, 0, "second, at least 60"},
		{"vultr", 0, 0, 730 * time.Hour, "hour, at most 730 a month"},
		{"vultr", 0.132, 0, 730 * time.Hour, "hour, at most 730 a month"},
		{"vultr", 0, 96, 730 * time.Hour, "hour, at most 730 a month"},
		// As Vultr's lists have had them.
		{"vultr", 0.132, 96, 727 * time.Hour, "hour, at most 727 a month"},
		{"vultr", 0.027, 20, 741 * time.Hour, "hour, at most 741 a month"},
		{"vultr", 0.076, 55.48, 730 * time.Hour, "hour, at most 730 a month"},
		{"vultr", 0.143, 96, 671 * time.Hour, "hour, at most 671 a month"},
		{"vultr", 0.01, 1e9, 744 * time.Hour, "hour, at most 744 a month"},
	} {
		got := Of(c.kind).UpTo(c.hour, c.month)
		if got.Month != c.want || got.String() != c.text {
			t.Errorf("%s at %g an hour and %g a month: %s, %s; want %s, %s", c.kind, c.hour, c.month, got.Month, got, c.want, c.text)
		}
	}
}
