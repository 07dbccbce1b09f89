package ckpt

import "time"

// Slurm gives the ids of jobs again: beyond MaxJobId, and when its state is lost.
// What tells a job from an earlier one of its id, in each of its attempts:
//
//   - its batch script, which no requeue changes;
//   - when it was first submitted. A requeue makes what Slurm says of that later, so
//     Slurm itself says it in attempt 0 alone. After that burstd's journal does, if
//     burstd saw attempt 0.
//
// A record of an attempt has what Slurm said in that attempt, by slurmctld's clock:
// one from before the job's first submission is of an earlier job. Without burstd's
// word, a later attempt cannot tell the records of an earlier job with the very same
// script and id from its own, unless its attempt 0 was there and moved them away.

// Origin is what a record of an attempt says of the job that it is of.
type Origin struct {
	Script    string    `json:"script,omitempty"`   // SHA-256 of the batch script, in hex; empty: not known
	Submitted time.Time `json:"submitted,omitzero"` // Slurm's SubmitTime in that attempt; zero: not known
}

// Identity is which job this one is, in this attempt.
type Identity struct {
	Origin
	First time.Time // when it was first submitted; zero: not known
}

// clockSkew between nodes that MUNGE bears.
const clockSkew = 5 * time.Minute

// Earlier says whether a record, written then by the clock of its host, is known to
// be of an earlier job.
func (i Identity) Earlier(o Origin, written time.Time) bool {
	switch {
	case i.Script != "" && o.Script != "" && i.Script != o.Script:
		return true
	case i.First.IsZero():
		return false
	case o.Submitted.IsZero():
		return written.Before(i.First.Add(-clockSkew))
	}
	return o.Submitted.Before(i.First)
}
