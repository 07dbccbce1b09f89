// Package history keeps a record of each run of a job of ours: one that had a
// node of a pool, or a session of burst-srun. A run is all attempts of a job, from
// its first start until Slurm says that it has ended for good.
//
//	not known -> open -> open, ended -> closed
//	               |    ^                 | |
//	               |    +---- requeued ---+ |
//	               +-- Slurm forgot it -----+
//
// A run that has ended stays open for Settle: a job that Slurm is about to requeue
// may be shown as ended for a moment. A closed run is opened again when its job is
// requeued, also while it waits: its checkpoints and evictions count. And when Slurm
// shows the job alive after all: slurmctld may have been killed, and know less.
package history

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// Settle is how long ago a job must have ended before its run is closed.
const Settle = 15 * time.Second

// Unknown is the state of a run whose end Slurm has forgotten.
const Unknown = "UNKNOWN"

// Run is one run of a job. Job and Submitted are its key: to write it again
// changes nothing.
type Run struct {
	Job       uint32
	Submitted time.Time // when it was first seen: a requeue changes Slurm's
	Whole     bool      // it was seen in its attempt 0: Submitted is the job's own
	Open      bool

	ArrayID                        uint32
	ArrayTask                      string
	HetID                          uint32
	Name, User, Account, Partition string
	UID                            int

	Pool   string // of its last nodes; empty: none of ours
	Types  string // of all instances that it was seen on, with commas
	Nodes  int    // of the last attempt, as all below
	VCPUs  int    // of these nodes, as Slurm has them
	Memory int    // MiB of these nodes
	Measured

	Started  time.Time     // the first attempt that was seen
	Begun    time.Time     // the last attempt; zero: it waits for one
	Ran      time.Duration // of the attempts before
	Seen     time.Time     // the last reading of Slurm that had it
	Ended    time.Time     // zero: it has not
	State    string        // Slurm's, or Unknown
	Exit     int           // of the batch script
	Signal   int           // that ended it; 0: none
	Restarts int

	Label, Method string // as its burst-srun has said
}

// Measured is what a site has measured of a pool, and that no cloud says; 0: it has not.
type Measured struct {
	NetworkGbit float64 // between two of its nodes, Gbit/s
	StorageIOPS float64 // of the shared storage, from one of its nodes
}

// Time is how long the job has run, over all attempts.
func (r Run) Time() time.Duration {
	end := r.Ended
	if end.IsZero() {
		end = r.Seen
	}
	if r.Begun.IsZero() {
		return r.Ran
	}
	return r.Ran + max(0, end.Sub(r.Begun))
}

// Spoken is what a job's burst-srun has said of it.
type Spoken struct{ Label, Method string }

// Input is what there is to know.
type Input struct {
	Snapshot *slurm.Snapshot
	Pools    map[string]string   // of each node of ours
	Types    map[string]string   // of the instance that each node has
	Measured map[string]Measured // of the pools of which there is some
	Spoken   map[uint32]Spoken   // jobs that have, or had a moment ago, a session
}

// Meant are the jobs that Slurm shows and that are ours or were requeued, of which no
// run is open: Book must know their last closed run.
func Meant(open []Run, in Input) []uint32 {
	has := map[uint32]bool{}
	for _, r := range open {
		has[r.Job] = true
	}
	var all []uint32
	for id, j := range in.Snapshot.Jobs {
		if !has[id] && (j.Restarts > 0 || in.ours(j)) {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

// Book returns the runs to write. Known are those that are open, and the last
// closed one of each job that is Meant. Book is pure: what it returned, given back
// to it with the same reading, changes nothing.
func Book(known []Run, in Input) []Run {
	last := map[uint32]Run{}
	for _, r := range known {
		if old, ok := last[r.Job]; !ok || r.Open || !old.Open && r.Submitted.After(old.Submitted) {
			last[r.Job] = r
		}
	}
	var all []Run
	for _, id := range slices.Sorted(maps.Keys(in.Snapshot.Jobs)) {
		j := in.Snapshot.Jobs[id]
		r, ok := last[id]
		delete(last, id)
		if ok && r.Open && other(r, j) {
			all = append(all, r.forgotten())
			ok = false
		}
		if ok && !r.Open {
			switch {
			case again(r, j):
			case r.UID != j.UID || j.Submitted.After(r.Ended):
				ok = false
			case Over(j) && r.State != Unknown && j.Restarts == r.Restarts:
				continue
			}
		}
		if !ok {
			if !in.ours(j) {
				continue
			}
			r = Run{Job: id, Submitted: j.Submitted, Whole: j.Restarts == 0}
		}
		if next := in.see(r, j); next.news(r) {
			all = append(all, next)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(last)) {
		if r := last[id]; r.Open && in.taken().After(r.Seen) {
			all = append(all, r.forgotten())
		}
	}
	return all
}

// seenEvery is how old the time may be at which the journal has a run as seen:
// thousands go on for hours without any other news.
const seenEvery = 20 * time.Second

// news says whether the run differs from what was known of it.
func (r Run) news(known Run) bool {
	late := r.Seen.Sub(known.Seen) >= seenEvery
	known.Seen = r.Seen
	return late || r != known
}

// again says whether the job is the run's, and has been requeued since. A job that was
// given the run's id, as after slurmctld has lost its state, has not, at first.
func again(r Run, j slurm.Job) bool {
	return j.Restarts > r.Restarts && j.UID == r.UID && j.ArrayID == r.ArrayID && j.HetID == r.HetID
}

// other says whether Slurm has given the open run's id to another job: a requeue makes
// the submission later too, and counts.
func other(r Run, j slurm.Job) bool {
	anew := (runs(j) || Over(j)) && !j.Start.Equal(r.Begun) && j.Restarts <= r.Restarts
	return r.UID != j.UID || anew && j.Submitted.After(r.Seen)
}

// forgotten closes a run that Slurm does not show any more.
func (r Run) forgotten() Run {
	if r.Ended.IsZero() {
		r.Ended, r.State, r.Exit, r.Signal = r.Seen, Unknown, 0, 0
	}
	r.Open = false
	return r
}

// taken is when the reading was, as the journal keeps times.
func (in Input) taken() time.Time { return time.UnixMicro(in.Snapshot.Taken.UnixMicro()) }

// ours says whether the job has, or had at its end, a node of a pool, or speaks.
func (in Input) ours(j slurm.Job) bool {
	if !runs(j) && !Over(j) {
		return false
	}
	if _, ok := in.Spoken[j.ID]; ok {
		return true
	}
	return PoolOf(in.Pools, NodesOf(j)) != ""
}

// see is the run after Slurm has been seen to have the job so.
func (in Input) see(r Run, j slurm.Job) Run {
	seen, end := r.Seen, r.Ended
	r.Open, r.Seen, r.Ended = true, in.taken(), time.Time{}
	if r.Seen.Before(seen) {
		r.Seen = seen // the clock was set back
	}
	r.ArrayID, r.ArrayTask, r.HetID = j.ArrayID, j.ArrayTask, j.HetID
	r.Name, r.User, r.UID, r.Account, r.Partition = j.Name, j.User, j.UID, j.Account, j.Partition
	r.State, r.Exit, r.Signal = j.State, 0, 0
	if s, ok := in.Spoken[j.ID]; ok {
		r.Label, r.Method = cmp.Or(s.Label, r.Label), cmp.Or(s.Method, r.Method)
	}
	var begun time.Time
	if runs(j) || Over(j) {
		begun = j.Start
		in.on(&r, j)
	}
	if !r.Begun.IsZero() && !begun.Equal(r.Begun) {
		if end.IsZero() {
			end = left(seen, r.Seen, begun)
		}
		r.Ran += max(0, end.Sub(r.Begun))
	}
	r.Begun, r.Restarts = begun, j.Restarts
	if r.Started.IsZero() {
		r.Started = begun
	}
	if Over(j) {
		r.Ended, r.Exit, r.Signal = j.End, j.ExitCode, j.ExitSignal
		r.Open = in.taken().Sub(j.End) < Settle
	}
	return r
}

// doubt is how long an attempt that Slurm says no end of may have gone on unseen.
const doubt = 2 * time.Minute

// left is when an attempt ended that was seen last then, and not any more now, when
// the next one had begun or, if that is zero, had not: in the middle, as the ledger
// has it.
func left(then, now, next time.Time) time.Time {
	if !next.IsZero() && next.Before(now) {
		now = next
	}
	if between := now.Sub(then); between > 0 && between <= doubt {
		return then.Add(between / 2).Truncate(time.Microsecond)
	}
	return then
}

// on notes the nodes that the job has or had.
func (in Input) on(r *Run, j slurm.Job) {
	nodes := NodesOf(j)
	if len(nodes) == 0 {
		return
	}
	r.Nodes, r.VCPUs, r.Memory, r.Pool = len(nodes), 0, 0, PoolOf(in.Pools, nodes)
	r.Measured = in.Measured[r.Pool]
	var types []string
	if r.Types != "" {
		types = strings.Split(r.Types, ",")
	}
	for _, n := range nodes {
		node := in.Snapshot.Nodes[n]
		r.VCPUs, r.Memory = r.VCPUs+node.CPUs, r.Memory+node.RealMemory
		if t := in.Types[n]; t != "" && runs(j) && !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	slices.Sort(types)
	r.Types = strings.Join(types, ",")
}
