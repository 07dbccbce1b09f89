package price

import (
	"fmt"
	"math"
	"time"
)

// Increment is how a cloud counts an instance's time: in whole units begun, at
// least a minimum, and of a calendar month not more than a most. A zero Unit
// counts every nanosecond.
type Increment struct {
	Unit  time.Duration
	Min   time.Duration
	Month time.Duration // of an instance's time in a calendar month, in UTC, so much is charged at most; 0: all
}

// The increments of the clouds we know.
var (
	// PerSecond is AWS's for Linux: by the second, at least a minute.
	PerSecond = Increment{Unit: time.Second, Min: time.Minute}
	// PerHour is Vultr's: every hour begun, running or stopped, from the creation to
	// the destruction, and of a calendar month in UTC at most the month's price (UpTo), which
	// is that of 730 hours where only one of the two is known.
	// https://docs.vultr.com/support/platform/billing/how-am-i-billed-for-my-servers
	// https://docs.vultr.com/support/platform/preferences/does-changing-the-display-timezone-affect-my-billing-cycle
	PerHour = Increment{Unit: time.Hour, Min: time.Hour, Month: 730 * time.Hour}
)

// Of returns how a kind of provider ("aws", "vultr", …) bills.
func Of(kind string) Increment {
	if kind == "vultr" {
		return PerHour
	}
	return PerSecond
}

// UpTo has the most of a month be what makes the month's price, as the cloud says both: the hours
// after which the hourly price has come to it, to the nearest one, as hourly prices are rounded.
// Zero is a price that is not known.
func (inc Increment) UpTo(usdPerHour, usdPerMonth float64) Increment {
	if hours := math.Round(usdPerMonth / usdPerHour); inc.Month > 0 && usdPerHour > 0 && hours >= 1 {
		inc.Month = time.Duration(min(hours, 744)) * time.Hour // the longest month's
	}
	return inc
}

// String is "second, at least 60" or "hour, at most 730 a month".
func (inc Increment) String() string {
	switch {
	case inc.Unit == time.Hour && inc.Month > 0:
		return fmt.Sprintf("hour, at most %d a month", inc.Month/inc.Unit)
	case inc.Unit == time.Hour:
		return "hour"
	case inc.Unit == time.Second && inc.Min > inc.Unit:
		return fmt.Sprintf("second, at least %d", inc.Min/inc.Unit)
	}
	return inc.Unit.String()
}

// Billed returns the time that an instance that ran for d is counted with, before
// the most of a month. One that never ran (d zero or less) is not counted.
func (inc Increment) Billed(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	if inc.Unit > 0 {
		if rest := d % inc.Unit; rest > 0 {
			d += inc.Unit - rest
		}
	}
	return max(d, inc.Min)
}

// Span is a time from From up to, and without, To.
type Span struct{ From, To time.Time }

// Free returns what costs nothing of the time from from to to of an instance, since
// its month has had its most. The units are counted from the launch, and each is of
// the month in which it begins.
func (inc Increment) Free(launched, from, to time.Time) []Span {
	if inc.Unit <= 0 || inc.Month <= 0 {
		return nil
	}
	unit := func(n int64) time.Time { return launched.Add(time.Duration(n) * inc.Unit) }
	first := func(t time.Time) int64 { // the first unit that begins then or later
		return int64((max(0, t.Sub(launched)) + inc.Unit - 1) / inc.Unit)
	}
	most := int64(inc.Month / inc.Unit)
	var all []Span
	// A unit that has begun in the month before may reach into from's.
	y, m, _ := from.Add(-inc.Unit).UTC().Date()
	for begin := time.Date(y, m, 1, 0, 0, 0, 0, time.UTC); begin.Before(to); {
		next := begin.AddDate(0, 1, 0)
		s := Span{unit(first(begin) + most), unit(first(next))}
		if s.From.Before(from) {
			s.From = from
		}
		if s.To.After(to) {
			s.To = to
		}
		if s.From.Before(s.To) {
			all = append(all, s)
		}
		begin = next
	}
	return all
}

// Charged returns the time that is charged for an instance that ran from its launch to
// its end.
func (inc Increment) Charged(launched, ended time.Time) time.Duration {
	d := inc.Billed(ended.Sub(launched))
	for _, s := range inc.Free(launched, launched, launched.Add(d)) {
		d -= s.To.Sub(s.From)
	}
	return d
}

// Cost returns in USD what an instance costs at an hourly price from its launch to its end.
func (inc Increment) Cost(usdPerHour float64, launched, ended time.Time) float64 {
	return usdPerHour * inc.Charged(launched, ended).Hours()
}
