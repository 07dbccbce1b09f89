package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
	"github.com/burst-hpc/burst/slurm"
)

// site is a rig whose jobs write down when they start.
type site struct{ *rig.Site }

// startSite runs a site of so many one-job nodes. Nothing is suspended while
// it is measured: what is powered down has never been up, or was evicted.
func startSite(ctx context.Context, env Env, name string, o rig.Options) (site, error) {
	o.Bin, o.Dir = env.Programs, filepath.Join(env.Dir, name)
	o.SuspendTime, o.SuspendTimeout = time.Hour, 10*time.Minute
	r, err := rig.Start(ctx, o)
	return site{r}, err
}

// job writes the time as its first act, and keeps its node.
const job = "#!/bin/sh\ndate +%s.%N >>" + stamps + "$SLURM_JOB_ID\nexec sleep 3600\n"

const stamps = "started-"

// submit returns when sbatch has.
func (s site) submit(ctx context.Context) (id uint32, at time.Time, err error) {
	id, err = s.Submit(ctx, job, "--nodes=1", "--exclusive", "--requeue", "--output=/dev/null")
	return id, time.Now(), err
}

// started waits until the job's script has begun for the nth time, and says when.
func (s site) started(ctx context.Context, id uint32, n int) (time.Time, error) {
	return s.stamp(ctx, stamps, id, n)
}

// stamp waits for the nth time that a job has written into the file of that
// kind, and returns it.
func (s site) stamp(ctx context.Context, kind string, id uint32, n int) (time.Time, error) {
	const patience = 90 * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %s", patience))
	defer cancel()
	path := filepath.Join(s.Work, fmt.Sprint(kind, id))
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return time.Time{}, err
		}
		if lines := strings.SplitAfter(string(text), "\n"); len(lines) > n {
			return parseStamp(strings.TrimSpace(lines[n-1]))
		}
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("waiting for line %d of %s%d: %w", n, kind, id, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// parseStamp reads what `date +%s.%N` prints.
func parseStamp(text string) (time.Time, error) {
	s, ns, ok := strings.Cut(text, ".")
	sec, err := strconv.ParseInt(s, 10, 64)
	nsec, nerr := strconv.ParseInt(ns, 10, 64)
	if !ok || len(ns) != 9 || err != nil || nerr != nil {
		return time.Time{}, fmt.Errorf("%q is no time", text)
	}
	return time.Unix(sec, nsec), nil
}

// off reads which nodes are powered down.
func (s site) off(ctx context.Context) (map[string]bool, error) {
	nodes, err := s.Slurm().Nodes(ctx)
	off := map[string]bool{}
	for _, n := range nodes {
		off[n.Name] = n.State.Has(slurm.PoweredDown)
	}
	return off, err
}

// on is the node that the job has; it must be one of off.
func (s site) on(ctx context.Context, id uint32, off map[string]bool) (string, error) {
	j, err := s.Job(ctx, id)
	if err == nil && !off[j.Nodes] {
		err = fmt.Errorf("job %d is on %q, which was not powered down before", id, j.Nodes)
	}
	return j.Nodes, err
}
