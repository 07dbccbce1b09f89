package ledger

import (
	"time"

	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/slurm/power"
)

// endOf is when the time of an instance that is gone ends, before it is rounded: by its cloud, or, where
// that does not say it, when that was learned of. That is by this host's clock: where it is behind the cloud's, and so before the
// launch, it is the first moment after that, since what a begun unit costs is owed all the same.
func endOf(i power.Instance) time.Time {
	end, ours := i.Ended, i.Guessed
	if end.IsZero() {
		end, ours = i.Gone, true
	}
	if first := i.Launched.Add(1); ours && end.Before(first) {
		return first
	}
	return end
}

// Due is the time that a provider bills and charges for an instance that is gone, by its own
// word of launch and end. Told is false if it never said when the instance ended: it is taken
// to have ended when that was learned of.
func Due(i power.Instance, by price.Increment) (billed, charged time.Duration, told bool) {
	end := endOf(i)
	return by.Billed(end.Sub(i.Launched)), by.Charged(i.Launched, end), !i.Guessed && !i.Ended.IsZero()
}
