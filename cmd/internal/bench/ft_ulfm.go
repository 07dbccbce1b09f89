package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// FTULFM is heat-ulfm: its job outlives its nodes, is started once, and neither
// checkpointed nor requeued. Its ranks leave a node that has a notice.
const FTULFM = "ulfm"

// ftULFMGoal is of the ratio: nothing is granted for boots, during which it computes.
const ftULFMGoal = 1.1

var ulfmEnding = regexp.MustCompile(`^heat: done iterations=(\d+) checksum=(0x[0-9a-f]{16}) seconds=\S+ repeated=\d+$`)

// outlives says that the job is not requeued when a node of its goes.
func (c FTCase) outlives() bool { return c.Method == FTULFM }

// requeue are sbatch's options for what becomes of the job then.
func (c FTCase) requeue() string {
	if c.outlives() {
		return "--no-requeue --no-kill"
	}
	return "--requeue"
}

// schedulerParameters are as `burst genconf` writes them; a node that comes in place of
// another joins the job.
func (c FTCase) schedulerParameters() string {
	if c.outlives() {
		return "batch_sched_delay=1,permit_job_expansion"
	}
	return "batch_sched_delay=1"
}

// ulfmRun is the command that runs heat-ulfm.
func (e Env) ulfmRun(heat string) string {
	built := filepath.Dir(e.Programs)
	return fmt.Sprintf("%s --mpi %s --poll 0.5 %s", filepath.Join(built, "ulfm-run"), filepath.Join(built, "ulfm"), heat)
}

// doomed is which of the job's nodes is evicted: the first rank's, or, of a job that
// outlives its nodes, one that is not the batch host, nor the one that was evicted
// before. "": there is none yet.
func (c FTCase) doomed(j slurm.Job, before string) (string, error) {
	nodes, err := hostlist.Expand(j.Nodes)
	if err != nil || len(nodes) == 0 {
		return "", fmt.Errorf("job %d, which is to be evicted, has the nodes %q: %w", j.ID, j.Nodes, err)
	}
	if !c.outlives() {
		return nodes[0], nil
	}
	for _, n := range nodes {
		if n != j.BatchHost && n != before {
			return n, nil
		}
	}
	return "", nil
}

// evict gives a notice to one of the job's nodes and notes which, if there is one yet.
func (t ftTask) evict(ctx context.Context, s site, id uint32, gone *ulfmGone) error {
	j, err := s.Job(ctx, id)
	if err != nil {
		return err
	}
	last := ""
	if n := len(gone.nodes); n > 0 {
		last = gone.nodes[n-1]
	}
	node, err := t.doomed(j, last)
	if err != nil || node == "" {
		return err
	}
	if gone.places.at == nil { // no rank has moved: each node has some
		if gone.places.at, err = hostlist.Expand(j.Nodes); err != nil {
			return err
		}
	}
	if t.outlives() && !slices.Contains(gone.places.at, node) {
		return nil // it has joined, and has no rank yet
	}
	gone.nodes = append(gone.nodes, node)
	return s.Control.Evict(node, t.size.Notice)
}

// outlived is the part of figures for a job that is started once.
func (t *ftTrace) outlived(r FTRun) (FTRun, error) {
	if r.Evicted && len(t.gone.nodes) != ftEvictions {
		return FTRun{}, fmt.Errorf("%d nodes were taken, not %d", len(t.gone.nodes), ftEvictions)
	}
	if err := t.gone.places.haveLeft(t.gone.nodes); err != nil {
		return FTRun{}, err
	}
	r.LostIterations = t.again
	r.LostSeconds = float64(t.again) * r.IterationSeconds
	for _, gap := range t.gaps {
		if gap > 2*r.IterationSeconds {
			r.IdleSeconds += gap - r.IterationSeconds
		}
	}
	return r, nil
}
