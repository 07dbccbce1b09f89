package price

import "time"

// Increment is how a cloud counts an instance's time: in whole units begun,
// and at least a minimum. A zero Unit counts every nanosecond.
type Increment struct {
	Unit time.Duration
	Min  time.Duration
}

// The increments of the clouds we know.
var (
	// PerSecond is AWS's for Linux: by the second, at least a minute.
	PerSecond = Increment{Unit: time.Second, Min: time.Minute}
	// PerHour is Vultr's: every hour begun, running or stopped, from the creation to
	// the destruction. That of a calendar month at most 672 (730 with a GPU) are
	// charged is left out.
	// https://docs.vultr.com/support/platform/billing/how-am-i-billed-for-my-servers
	PerHour = Increment{Unit: time.Hour, Min: time.Hour}
)

// Billed returns the time that is charged for an instance that ran for d. One
// that never ran (d zero or less) is not charged.
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

// Cost returns in USD what an instance costs that ran for d at an hourly price.
func Cost(usdPerHour float64, d time.Duration, inc Increment) float64 {
	return usdPerHour * inc.Billed(d).Hours()
}
