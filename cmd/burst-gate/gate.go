package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
	"github.com/burst-hpc/burst/slurm/power"
)

const (
	pollWait    = 5 * time.Second        // of one question to burstd
	pollMargin  = 3 * time.Second        // beyond it a burstd that does not answer is away
	lookTimeout = 5 * time.Second        // of one command of Slurm
	minPause    = 100 * time.Millisecond // between two looks, and up to 2.5 times that
	parentTick  = 500 * time.Millisecond // between two looks at the parent
	leastMax    = time.Hour              // where slurmctld has no limit
	bootMargin  = 5 * time.Minute        // beyond ResumeTimeout, at which slurmctld itself ends a boot
)

// errAlone says that slurmctld is gone. Its successor runs a gate of its own.
var errAlone = errors.New("slurmctld is gone")

type asker interface {
	Gate(ctx context.Context, job uint32, nodes string, wait time.Duration) (api.GateAnswer, error)
}

type looker interface {
	Job(ctx context.Context, id uint32) (slurm.Job, error)
	Nodes(ctx context.Context, names ...string) ([]slurm.Node, error)
	ShowConfig(ctx context.Context) (map[string]string, error)
	ShowPartitions(ctx context.Context) ([]map[string]string, error)
}

// gate waits for one job's nodes.
type gate struct {
	job    uint32
	nodes  string        // hostlist
	max    time.Duration // 0: by Slurm's configuration
	log    *slog.Logger
	burstd asker
	slurm  looker
	parent func() int // process id of the parent
}

// wait returns nil when the job may go on its way, errAlone when slurmctld
// is gone, and an error at the end of the longest wait.
func (g gate) wait(ctx context.Context) error {
	parent := g.parent()
	if open, _ := g.ask(ctx, 0); open { // before all else: most jobs may have no cloud nodes
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go g.watchParent(ctx, parent, cancel)
	limit := g.limit(ctx)
	ctx, stop := context.WithTimeoutCause(ctx, limit, context.DeadlineExceeded)
	defer stop()
	why := errors.New("nobody was asked")
	for {
		begin := time.Now()
		open, err := g.ask(ctx, pollWait)
		if open {
			return nil
		}
		if ctx.Err() == nil {
			why = err
		}
		if time.Since(begin) < pollWait/2 { // else the pause was the asking
			pause(ctx, minPause+rand.N(minPause*3/2))
		}
		switch cause := context.Cause(ctx); {
		case cause == nil:
		case !errors.Is(cause, context.DeadlineExceeded):
			return cause
		default:
			return fmt.Errorf("job %d goes on after %s, the longest wait: %w", g.job, limit, why)
		}
	}
}

// watchParent cancels once the parent is another.
func (g gate) watchParent(ctx context.Context, parent int, cancel context.CancelCauseFunc) {
	for g.parent() == parent {
		if pause(ctx, parentTick) != nil {
			return
		}
	}
	cancel(errAlone)
}

// ask asks burstd and, if it has no answer, Slurm. Where the gate is closed
// the error says why.
func (g gate) ask(ctx context.Context, wait time.Duration) (open bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, wait+pollMargin)
	defer cancel()
	a, askErr := g.burstd.Gate(bounded, g.job, g.nodes, wait)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if askErr != nil {
		g.log.Debug("burstd has no answer", "err", askErr)
		var lookErr error
		if a.Go, a.Why, lookErr = g.look(ctx); lookErr != nil {
			g.log.Debug("Slurm has no answer", "err", lookErr)
			return false, fmt.Errorf("%w; %w", askErr, lookErr)
		}
	}
	if a.Go {
		g.log.Debug("gate is open", "why", a.Why)
		return true, nil
	}
	return false, errors.New(a.Why)
}

// look asks Slurm. It does not know of fences: where they matter burstd has to be asked.
func (g gate) look(ctx context.Context) (open bool, why string, err error) {
	job, err := g.slurm.Job(ctx, g.job)
	if errors.Is(err, slurm.ErrNoJob) {
		return true, "Slurm does not know the job", nil
	}
	if err != nil {
		return false, "", err
	}
	names, err := hostlist.Expand(g.nodes)
	if err != nil {
		return false, "", fmt.Errorf("SLURM_JOB_NODELIST: %w", err)
	}
	nodes, err := g.slurm.Nodes(ctx, names...)
	if err != nil {
		return false, "", err
	}
	open, why = power.GateOpen(job, nodes)
	// What runs on premises does not wait for a burstd that is away: most of it was never elsewhere.
	if open && power.AsksFences(job) && power.InCloud(nodes) {
		return false, fmt.Sprintf("job %d has run before: only burstd, which is away, knows whether that attempt has ended", g.job), nil
	}
	return open, why, nil
}

// limit is the longest wait: at PrologEpilogTimeout slurmctld kills us and
// holds the job, so we are gone before, with time for the site's own program.
// Where there is none, no boot takes longer than the longest ResumeTimeout.
func (g gate) limit(ctx context.Context) time.Duration {
	if g.max > 0 {
		return g.max
	}
	config, err := g.slurm.ShowConfig(ctx)
	if err != nil {
		g.log.Debug("PrologEpilogTimeout is not known", "err", err)
		return leastMax
	}
	// From Slurm 25.05 on prologs may have a time of their own.
	if limit, ok := seconds(cmp.Or(config["PrologTimeout"], config["PrologEpilogTimeout"])); ok {
		return limit * 9 / 10
	}
	partitions, err := g.slurm.ShowPartitions(ctx)
	if err != nil {
		g.log.Debug("the partitions' ResumeTimeout is not known", "err", err)
	}
	longest := leastMax
	for _, of := range append(partitions, config) {
		if boot, ok := seconds(of["ResumeTimeout"]); ok {
			longest = max(longest, boot+bootMargin)
		}
	}
	return longest
}

// seconds reads a timeout as scontrol prints it: "1800", "1800 sec", or 65534 and more, the numbers that stand for none.
func seconds(timeout string) (d time.Duration, ok bool) {
	number, _, _ := strings.Cut(timeout, " ")
	s, err := strconv.Atoi(number)
	if err != nil || s <= 0 || s >= 65534 {
		return 0, false
	}
	return time.Duration(s) * time.Second, true
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
