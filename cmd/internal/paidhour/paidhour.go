// Package paidhour says when an idle node whose cloud bills by begun hours is to be
// powered down: shortly before an hour that is paid for ends, and not sooner, since
// until then it costs nothing more to have it. Once a month has had its most, the hours until
// its end are as good as paid for. It is pure.
//
//	launched                                            the hour's end
//	|----------------- wait ----------------|-- due --|late|
//	                                        4 min     1 min before
package paidhour

import (
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/slurm"
)

const (
	// Lead is how long before the end of an hour its node may go: between that and
	// Last lie Slurm's call, the order, and some attempts to have the cloud end it.
	Lead = 4 * time.Minute
	// Last is how long before the end it is too late: should the cloud take longer,
	// the next hour is begun, and might as well be used.
	Last = time.Minute
	// Quiet is how long a node must have been idle: between two jobs of a queue it is
	// so for seconds.
	Quiet = 30 * time.Second
	// SuspendTime is the partition's: longer than any node that burstd looks after is
	// idle, for those that it does not.
	SuspendTime = time.Hour + 5*time.Minute
)

// Paid is how a node's time is paid for: from its instance's launch on, in the units of By.
type Paid struct {
	Launched time.Time
	By       price.Increment
}

// Until is when the node costs more than it does now: the end of the unit that is paid
// for, or of those after it that are free.
func (p Paid) Until(now time.Time) time.Time {
	begun := now.Sub(p.Launched) / p.By.Unit
	end := p.Launched.Add((begun + 1) * p.By.Unit)
	// Free time ends with the month in which it begins.
	for _, s := range p.By.Free(p.Launched, end, end.AddDate(0, 1, 1)) {
		if s.From.Equal(end) {
			end = s.To
		}
	}
	return end
}

// Waits says whether there is an end to wait for: the launch is known, and units are long enough to wait in.
func (p Paid) Waits() bool { return !p.Launched.IsZero() && p.By.Unit >= 2*Lead }

// Due says whether the node, if it is idle, is to be powered down now. It never is if
// the launch is not known, lies ahead, or units are too short to wait in.
func (p Paid) Due(now time.Time) bool {
	if !p.Waits() || p.Launched.After(now) {
		return false
	}
	left := p.Until(now).Sub(now)
	return Last <= left && left <= Lead
}

// Idle says whether Slurm has the node up and idle, and nothing else: any flag is
// somebody's, an admin's, a reservation's, a job's for which it is planned, or power
// saving's, which is at work already.
func Idle(n slurm.Node, now time.Time) bool {
	return n.State.Base == "IDLE" && n.AllocCPUs == 0 && now.Sub(n.LastBusy) >= Quiet && now.Sub(n.Started) >= Quiet &&
		!slices.ContainsFunc(n.State.Flags, func(f string) bool { return f != "CLOUD" && f != "DYNAMIC_NORM" })
}
