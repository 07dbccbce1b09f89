// Package ledger books what each instance costs: its whole time, from the
// cloud's launch to the cloud's end, by the job, user and account that had it.
//
// An instance's time is cut into pieces, one after the other without a gap.
// A piece has one row for each job that shares it; a row with job 0 is time
// that no job had: booting, idle, ending. The rules:
//
//   - The cloud says when an instance's time begins and ends; at its end the
//     time is rounded as the cloud bills it (price.Increment). A piece that was
//     booked beyond the end is cut back. Of a live instance the begun unit is owed (Owed).
//   - Time of which the cloud charges nothing, as the month has had its most, is a piece
//     of its own, which costs nothing.
//   - Slurm's snapshots say which jobs were on the node, and each job's own
//     start and end cut the pieces. A live instance is booked up to the last
//     snapshot. A job that is being configured has nothing yet.
//   - A job that was requeued has had its time up to then, if that is at most Doubt
//     ago: Slurm has it as submitted anew.
//   - A job that is gone, without Slurm still knowing when, has had half of the
//     time between the snapshot that showed it and the one that lacks it, if they
//     are at most Doubt apart; else that time is job 0's. If its instance has
//     ended before the second, it has had the time up to the end.
//   - Jobs that share a node share its time equally: Slurm does not say, in one
//     reading for all, how many of a node's CPUs a job has.
//   - On demand, an instance keeps the price that it was launched at, at most until a
//     month has had its most: after that it has the price of the day. A spot
//     price that changes begins a new piece. A price that is not known is not
//     known; it is never zero.
package ledger

import (
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
)

// Doubt is how long a job that has vanished between two snapshots is still
// taken to have had its node.
const Doubt = 2 * time.Minute

// Row is one job's share in a piece of an instance's time. Instance, From and
// Job are its key: to write a row again changes nothing.
type Row struct {
	Instance string
	Provider string
	Pool     string
	Offering cloud.Offering
	Node     string
	Job      uint32 // 0: no job had the time
	UID      int    // of the job's user; -1 for job 0
	User     string
	Account  string
	From, To time.Time
	Share    float64 // of the instance, above 0, at most 1; the shares of a piece add up to 1
	Price    Price
	// USDPerHourOnDemand is what an instance of the same type in the same zone cost on demand when the row was
	// begun; 0: not known. See OnDemand.
	USDPerHourOnDemand float64
	Open               bool // of the instance's last piece, while the instance is not at its end
}

// OnDemand is what the row's instance would have cost an hour on demand, as a whole, if that is
// known: what it did cost, if it was, and nothing, while it was charged nothing.
func (r Row) OnDemand() (usdPerHour float64, known bool) {
	if r.Price == MonthPaid || r.Offering.Market == cloud.OnDemand {
		return r.Price.USDPerHour, r.Price.Known()
	}
	return r.USDPerHourOnDemand, r.USDPerHourOnDemand > 0
}

// Price is what a row's instance costs as a whole. The zero Price is not known.
type Price struct {
	USDPerHour float64
	Date       time.Time // when it was so
	Source     string    // "spot-history", "pricing-api", "plans-api", "table", "month-paid"
}

// MonthPaid is the price of time that the cloud does not charge, since the instance has
// had the most of its month.
var MonthPaid = Price{Source: "month-paid"}

// Known says whether it is a price, or known to be nothing.
func (p Price) Known() bool { return p.USDPerHour > 0 || p == MonthPaid }

// Input is what there is to book.
type Input struct {
	// Instances are those that live, and those that ended and are not at their
	// end in the ledger.
	Instances []power.Instance
	// Snapshot is the last reading of Slurm; nil: there is none, and only what
	// ended is booked.
	Snapshot *slurm.Snapshot
	// Price returns what an instance of the provider's costs now, or the zero Price. It is asked
	// for the on-demand price of what runs on spot, too: for comparison, an unknown one is none.
	Price func(provider string, o cloud.Offering) Price
	// Increment returns how the provider bills the offering.
	Increment func(provider string, o cloud.Offering) price.Increment
}
