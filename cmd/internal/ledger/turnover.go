package ledger

import (
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// Turnover says what to book because attempts of jobs come and go between two rounds:
// of one that was requeued Slurm shows no end afterwards, and of one that came and went
// nothing at all.
type Turnover struct {
	Ours func(slurm.Job) bool // whether a job's nodes may have instances

	last *slurm.Snapshot // that was looked at
	// When the readings were that first showed attempts of which no round knows: the
	// first such and the last; zero: there is none.
	oldest, newest time.Time
	booked         time.Time     // the last round
	cost           time.Duration // of it
}

const (
	// beginEvery is how often at most the ledger is booked because an attempt has begun.
	beginEvery = 5 * time.Second
	// turnCost bounds the part of the time that rounds take which jobs bring about.
	turnCost = 20
)

// Due is what to book now, in this order: of attempts that have left their nodes, the
// last reading that shows them comes first. While it is too soon, what has been looked
// at before is kept: only an attempt that is shorter is missed.
func (t *Turnover) Due(now *slurm.Snapshot, at time.Time) []*slurm.Snapshot {
	since := at.Sub(t.booked)
	if now == nil || now == t.last || since < turnCost*t.cost {
		return nil
	}
	last := t.last
	t.last = now
	if last == nil {
		last = &slurm.Snapshot{} // what runs may have begun this moment
	}
	for id, j := range now.Jobs {
		if has(j) && !goesOn(last.Jobs[id], j) && t.Ours(j) {
			t.newest = now.Taken
			if t.oldest.IsZero() {
				t.oldest = t.newest
			}
			break
		}
	}
	for id, j := range last.Jobs {
		if has(j) && !goesOn(j, now.Jobs[id]) && t.Ours(j) {
			return []*slurm.Snapshot{last, now}
		}
	}
	if t.known(t.oldest) && since >= beginEvery {
		return []*slurm.Snapshot{now}
	}
	return nil
}

// All is Due, or the present reading, which may be nil, alone.
func (t *Turnover) All(now *slurm.Snapshot, at time.Time) []*slurm.Snapshot {
	if due := t.Due(now, at); len(due) > 0 {
		return due
	}
	return []*slurm.Snapshot{now}
}

// known says whether a round now knows the attempts that began by then: the very reading
// that shows one first may be of the moment of its start.
func (t *Turnover) known(by time.Time) bool {
	return !by.IsZero() && t.last.Taken.Sub(by) >= time.Second
}

// Booked notes a round up to the last reading, and what it took.
func (t *Turnover) Booked(at time.Time, cost time.Duration) {
	t.booked, t.cost = at, cost
	switch {
	case t.known(t.newest):
		t.oldest, t.newest = time.Time{}, time.Time{}
	case t.known(t.oldest):
		t.oldest = t.newest
	}
}

// goesOn says whether now shows the attempt j, or how it has ended. Of one that is
// requeued the start is the present, as Slurm has it, while its processes end.
func goesOn(j, now slurm.Job) bool {
	leaves := now.State == "COMPLETING" && now.Nodes == j.Nodes
	return has(j) && (leaves || (has(now) || over(now)) && now.Start.Equal(j.Start))
}
