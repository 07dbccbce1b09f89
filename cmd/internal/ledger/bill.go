package ledger

import (
	"time"

	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/slurm/power"
)

// Due is the time that a provider bills and charges for an instance that is gone, by its own
// word of launch and end. Told is false if it never said when the instance ended: it is taken
// to have ended when that was learned of.
func Due(i power.Instance, by price.Increment) (billed, charged time.Duration, told bool) {
	end := i.Ended
	if end.IsZero() {
		end = i.Gone
	}
	return by.Billed(end.Sub(i.Launched)), by.Charged(i.Launched, end), !i.Guessed && !i.Ended.IsZero()
}
