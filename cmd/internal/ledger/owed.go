package ledger

import (
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// Owed are rows for the time that is not booked yet and has to be paid all the same, if
// each instance ended now: up to the end of the unit that it has begun. It is nobody's
// until it is booked, and is not to be written. Known is as for Book. What a cloud counts by
// the second is left to the next booking.
func Owed(known []Row, in Input, now time.Time) []Row {
	booked := map[string]time.Time{}
	for _, r := range known {
		if r.To.After(booked[r.Instance]) {
			booked[r.Instance] = r.To
		}
	}
	open := map[string][]Row{}
	for _, r := range known {
		if r.Open {
			open[r.Instance] = append(open[r.Instance], r)
		}
	}
	var all []Row
	for _, i := range in.Instances {
		b := booking{Instance: i, in: in}
		if i.Launched.IsZero() || b.increment().Unit < time.Minute {
			continue
		}
		from, any := booked[i.ID]
		if any && len(open[i.ID]) == 0 {
			continue // it is at its end
		}
		if !any {
			from = i.Launched
		}
		to, ended := b.end()
		if !ended {
			to = b.billed(now)
			if !now.After(i.Launched) { // this moment, or the cloud's clock is ahead
				to = b.billed(i.Launched.Add(1))
			}
		}
		if !to.After(from) {
			continue
		}
		for _, r := range b.unused(open[i.ID], from, to) {
			r.Open = false
			all = append(all, r)
		}
	}
	return all
}

// unused are the pieces of a time that no job has.
func (b booking) unused(open []Row, from, to time.Time) []Row {
	b.jobs, b.in.Snapshot = nil, &slurm.Snapshot{}
	var priced []Row
	for _, r := range open {
		r.Job = 0 // its jobs have what is booked
		priced = append(priced, r)
	}
	return b.pieces(priced, from, to)
}
