package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/cmd/internal/jobword"
	"github.com/burst-hpc/burst/cmd/internal/nodeapi"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
)

// steps is burstd as the burst-sruns of jobs see it.
type steps struct {
	hub   *session.Hub
	cfg   *config.Config
	slurm *slurm.Watcher
	store *store.Store
	pools map[string]string // by node
}

var _ nodeapi.Jobs = (*steps)(nil)

// Before implements nodeapi.Jobs.
func (s *steps) Before(ctx context.Context, c nodeapi.Caller, job uint32, attempt int) (any, error) {
	j, err := s.check(ctx, c, attemptOf{job, attempt})
	if err != nil {
		return nil, err
	}
	blessed, err := s.store.BlessedOf(ctx, job)
	if err != nil {
		return nil, err
	}
	first, err := s.store.FirstSubmitted(ctx, job)
	if err != nil {
		return nil, err
	}
	if j.Restarts == 0 {
		first = j.Submitted
	}
	b, err := jobword.Tell(s.cfg.Defaults(j.Partition, history.PoolOf(s.pools, history.NodesOf(j))), slices.DeleteFunc(blessed, func(g session.Blessed) bool { return !ofJob(g, j, first) }))
	b.First = first
	if err != nil {
		return b, err
	}
	b.Evicted, err = s.evicted(ctx, job)
	return b, err
}

// evicted is what of a job's earlier attempts only burstd knows.
func (s *steps) evicted(ctx context.Context, job uint32) (map[int]jobword.Evicted, error) {
	all, err := s.store.AttemptsOf(ctx, job)
	if err != nil {
		return nil, err
	}
	known := map[int]jobword.Evicted{}
	for _, e := range all {
		k := known[e.Restarts]
		if k.Iterations = max(k.Iterations, e.LostIterations); e.Kind == ft.Died {
			k.Died = e.Ended
		}
		if k != (jobword.Evicted{}) {
			known[e.Restarts] = k
		}
	}
	return known, nil
}

// ofJob says whether a generation can be the job's, which was first submitted then
// (zero: that is not known): when Slurm gives an id again, what an earlier job has left
// may still be on record.
func ofJob(g session.Blessed, j slurm.Job, first time.Time) bool {
	return g.Attempt <= j.Restarts && !g.At.Before(first)
}

// Open implements nodeapi.Jobs.
func (s *steps) Open(ctx context.Context, c nodeapi.Caller, h session.Hello) (session.Word, error) {
	if _, err := s.check(ctx, c, attemptOf{h.Job, h.Attempt}); err != nil {
		return session.Word{}, err
	}
	return s.hub.Open(ctx, c.UID, h)
}

// Poll implements nodeapi.Jobs.
func (s *steps) Poll(ctx context.Context, c nodeapi.Caller, q session.Question) (session.Word, error) {
	if snap := s.slurm.Latest(); snap != nil && snap.Jobs[q.Job].Restarts > q.Attempt {
		return session.Word{}, fmt.Errorf("%w: job %d is at its attempt %d", session.ErrReplaced, q.Job, snap.Jobs[q.Job].Restarts)
	}
	return s.hub.Poll(ctx, c.UID, q)
}

// Answer implements nodeapi.Jobs. Also of an attempt that has just been
// requeued: what it has written counts until the next one has begun.
func (s *steps) Answer(ctx context.Context, c nodeapi.Caller, g session.Given) error {
	return s.hub.Answer(ctx, c.UID, g)
}

// Close implements nodeapi.Jobs. What the job has cost is a courtesy: its step waits no
// longer for it than costTime, and no error of it is the step's.
func (s *steps) Close(ctx context.Context, c nodeapi.Caller, e session.End) (session.Closed, error) {
	if err := s.hub.Close(ctx, c.UID, e); err != nil {
		return session.Closed{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, costTime)
	defer cancel()
	cost, known, err := s.store.JobCost(ctx, e.Job, time.Now())
	if err != nil || !known || cost.UID != c.UID {
		return session.Closed{}, nil
	}
	return session.Closed{Cost: costLine(cost)}, nil
}

// costTime is how long the end of a step waits for what its job has cost.
const costTime = time.Second

type attemptOf struct {
	job     uint32
	attempt int
}

const (
	// recent is how old a reading of Slurm may be that shows the attempt running.
	recent = 30 * time.Second
	// readTime is how long a new one is waited for.
	readTime = 8 * time.Second
)

// check says whether the caller owns the job, and speaks from it, and this attempt
// of it runs. Slurm is read only for what the last reading does not show. While
// it cannot be read, an older reading counts that shows the attempt.
func (s *steps) check(ctx context.Context, c nodeapi.Caller, a attemptOf) (slurm.Job, error) {
	last := s.slurm.Latest()
	if last != nil && s.judge(last, c, a) == nil && time.Since(last.Taken) < recent {
		return last.Jobs[a.job], nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	snap, err := s.slurm.Fresh(ctx, time.Now())
	if err != nil && last != nil && s.judge(last, c, a) == nil {
		return last.Jobs[a.job], nil
	}
	if err != nil {
		return slurm.Job{}, fmt.Errorf("asking Slurm for job %d: %w", a.job, err)
	}
	return snap.Jobs[a.job], s.judge(snap, c, a)
}

// judge is check by one reading.
func (s *steps) judge(snap *slurm.Snapshot, c nodeapi.Caller, a attemptOf) error {
	j, ok := snap.Jobs[a.job]
	switch {
	case !ok:
		return fmt.Errorf("%w: it knows no job %d", nodeapi.ErrNotRunning, a.job)
	case j.UID != c.UID:
		return fmt.Errorf("%w: job %d", session.ErrNotYours, a.job)
	case j.Restarts > a.attempt:
		return fmt.Errorf("%w: job %d is at its attempt %d", session.ErrReplaced, a.job, j.Restarts)
	case j.Restarts < a.attempt || !history.HasSteps(j):
		return fmt.Errorf("%w: job %d is %s at its attempt %d", nodeapi.ErrNotRunning, a.job, j.State, j.Restarts)
	case !s.from(snap, j, c.Addr):
		return fmt.Errorf("%w: %s is no node of job %d", session.ErrNotYours, c.Addr, a.job)
	}
	return nil
}

// from says whether the job may speak from the address: a cloud node's root has
// the MUNGE key and could claim any uid, but has its own address only. Of the
// site's own nodes Slurm often knows names alone.
func (s *steps) from(snap *slurm.Snapshot, j slurm.Job, addr netip.Addr) bool {
	if addr.IsLoopback() {
		return true
	}
	names := history.NodesOf(j)
	if len(names) == 0 {
		return false
	}
	has := func(node string) bool {
		a, err := netip.ParseAddr(snap.Nodes[node].Addr)
		return err == nil && a.Unmap() == addr
	}
	if slices.ContainsFunc(names, has) {
		return true
	}
	for _, p := range s.cfg.Pools {
		if slices.ContainsFunc(p.Power.Nodes, has) {
			return false
		}
	}
	return true
}
