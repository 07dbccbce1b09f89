package daemon

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm"
)

// The history of runs is written each second, if Slurm has been read since: an attempt
// may be short. With thousands of jobs it is written less often, a twentieth of the
// time, but while Slurm shows a job that has ended, five minutes or MinJobAge.
const (
	recordSoon = time.Second
	recordLate = 10 * time.Second
	recordCost = 20
	// A step's word makes its job ours while Slurm shows the job, and if it was said so
	// long before burstd came back.
	spokenFor = 24 * time.Hour
	// What the journal has read once is not read again, but for what was said so long
	// before: a commit may take that long.
	spokenAgain = time.Minute
)

// keepHistory writes down the runs of jobs of ours until ctx ends. A round that
// fails is made good by the next.
func (d *Daemon) keepHistory(ctx context.Context) error {
	r := recorder{Daemon: d}
	told := ""
	for {
		text, began := "", time.Now()
		if err := r.record(ctx); err != nil {
			text = err.Error()
		}
		if text != "" && text != told && ctx.Err() == nil {
			d.log.Warn("runs of jobs are not written down now; they will be while Slurm knows them", "error", text)
		}
		told = text
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(recordLate, max(recordSoon, recordCost*time.Since(began)))):
		}
	}
}

// recorder knows what it has written: the runs that are open, and the closed ones of
// jobs that Slurm still shows. Nobody else writes them. It knows too what it has read of
// burst-sruns' words: there may be millions of steps.
type recorder struct {
	*Daemon
	open   map[uint32]history.Run // nil: to be read
	last   *slurm.Snapshot        // that was recorded
	closed map[uint32]history.Run // the zero one of a job that has none
	spoken map[uint32]history.Spoken
	heard  time.Time // until which spoken is whole
}

func (r *recorder) record(ctx context.Context) error {
	snap := r.watcher.Latest()
	if snap == nil || snap == r.last {
		return nil
	}
	if r.open == nil {
		open, err := r.store.OpenRuns(ctx)
		if err != nil {
			return err
		}
		r.open = map[uint32]history.Run{}
		for _, o := range open {
			r.open[o.Job] = o
		}
	}
	known := slices.Collect(maps.Values(r.open))
	in, err := r.about(ctx, snap)
	if err != nil {
		return err
	}
	closed := map[uint32]history.Run{}
	var ask []uint32
	for _, id := range history.Meant(known, in) {
		c, ok := r.closed[id]
		if closed[id] = c; c.Job != 0 {
			known = append(known, c)
		} else if !ok {
			ask = append(ask, id)
		}
	}
	asked, err := r.store.LastRuns(ctx, ask)
	if err != nil {
		return err
	}
	written := history.Book(append(known, asked...), in)
	if err := r.store.PutRuns(ctx, written); err != nil {
		r.open, r.closed = nil, nil // some may be written
		return err
	}
	for _, c := range append(asked, written...) {
		delete(closed, c.Job)
		delete(r.open, c.Job)
		if c.Open {
			r.open[c.Job] = c
		} else {
			closed[c.Job] = c
		}
	}
	r.closed, r.last = closed, snap
	if slices.ContainsFunc(written, func(c history.Run) bool { return !c.Open }) {
		select {
		case r.ends <- struct{}{}:
		default: // keepAfter is told already
		}
	}
	return nil
}

// about is what there is to know beside the runs.
func (r *recorder) about(ctx context.Context, snap *slurm.Snapshot) (history.Input, error) {
	now := time.Now()
	since := r.heard.Add(-spokenAgain)
	if r.heard.IsZero() {
		since = now.Add(-spokenFor)
	}
	in, err := r.store.AboutRuns(ctx, since)
	if err != nil {
		return in, err
	}
	for id, s := range r.spoken {
		if _, ok := in.Spoken[id]; ok {
			continue
		}
		if _, ok := snap.Jobs[id]; ok {
			in.Spoken[id] = s
		}
	}
	r.spoken, r.heard = in.Spoken, now
	in.Snapshot, in.Pools, in.Measured = snap, r.rates.pools, r.rates.measured
	return in, nil
}

// Jobs tells of runs.
func (d *Daemon) Jobs(ctx context.Context, q api.JobsQuery) ([]api.Job, error) {
	told, err := d.store.Runs(ctx, store.RunsQuery{UID: q.UID, Job: q.Job, User: q.User, Label: q.Label, Since: q.Since, Last: q.Last})
	if err != nil {
		return nil, err
	}
	all := make([]api.Job, len(told))
	for i, t := range told {
		all[i] = jobOf(t, time.Now())
		if t.Open {
			steps := d.hub.Sessions(t.Job, t.Restarts)
			all[i].Steps = stepsOf(steps[:min(len(steps), api.MaxSteps)])
		}
	}
	return all, nil
}

func jobOf(t store.Told, now time.Time) api.Job {
	j := api.Job{Job: t.Job, ArrayJob: t.ArrayID, ArrayTask: t.ArrayTask, HetJob: t.HetID, Name: t.Name, Label: t.Label, Method: t.Method,
		User: t.User, Account: t.Account, Partition: t.Partition, Pool: t.Pool, Types: []string{}, Nodes: t.Nodes, VCPUs: t.VCPUs, MemoryMiB: t.Memory,
		Submitted: t.Submitted, Started: t.Started, Ended: t.Ended, State: t.State, Over: !t.Open, ExitCode: t.Exit, Signal: t.Signal,
		Attempts: t.Restarts + 1, Seconds: t.Time().Seconds(), Ranks: t.Ranks, Checkpoints: t.Checkpoints, Evictions: t.Evictions,
		ComputingSeconds: seconds(t.Computing), WritingSeconds: seconds(t.Writing), LostSeconds: seconds(t.Lost), LostUnknown: t.LostUnknown,
		LostIterations: known(t.LostIterations), Iteration: known(t.Iteration), InstanceSeconds: t.Seconds, UnpricedSeconds: t.Unpriced}
	if t.NetworkGbit > 0 {
		j.NetworkGbit = &t.NetworkGbit
	}
	if t.StorageIOPS > 0 {
		j.StorageIOPS = &t.StorageIOPS
	}
	if t.Types != "" {
		j.Types = strings.Split(t.Types, ",")
	}
	if !t.Saved.IsZero() {
		j.SinceCheckpoint = seconds(max(0, now.Sub(t.Saved)))
	}
	if t.Unpriced < t.Seconds {
		j.USD = &t.USD
	}
	return j
}

// seconds are nil where the time is not known.
func seconds(d time.Duration) *float64 {
	if d < 0 {
		return nil
	}
	s := d.Seconds()
	return &s
}

func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}
