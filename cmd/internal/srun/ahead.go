package srun

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/slurm/step"
)

const (
	// aheadTime is how long a job may go by what was found of its nodes' images; within
	// it none is deleted there.
	aheadTime = 30 * time.Minute
	// aheadStop is what the nodes get to end a fetch that nobody waits for any more.
	aheadStop = 10 * time.Second
)

// ahead has the image ready on the job's nodes before the step begins: ranks that wait for
// others to fetch an image wait in MPI_Init, and may give up there.
func (p *program) ahead(ctx context.Context, k known, in inside) error {
	here := k.job.Place == step.Batch && k.job.Nodes == 1
	switch {
	case in.image.Key == "" || k.explain && !in.cheap():
		return nil
	case here || k.explain || k.job.Components > 0:
		// A component's nodes are not known here: there each rank has it made ready.
		_, err := ready(ctx, in.cache, in.image, p.environ)
		return err
	}
	sign := "image-" + in.image.Key
	if !left(os.TempDir(), k.job, sign, time.Now().Add(-aheadTime)) {
		if err := p.everywhere(ctx, k, in); err != nil {
			return err
		}
		renew(os.TempDir(), k.job, sign)
	}
	// This host may be none of the nodes, and is to look into the image.
	_, err := ready(ctx, in.cache, in.image, p.environ)
	return err
}

// cheap says whether the image is there, so that --explain may look into it.
func (in inside) cheap() bool { return in.cache.Has(in.image.Key) }

// everywhere runs burst-srun once on each of the job's nodes.
func (p *program) everywhere(ctx context.Context, k known, in inside) error {
	words, err := in.words(aheadWord)
	if err != nil {
		return err
	}
	n := strconv.Itoa(max(1, k.job.Nodes))
	args := []string{"--overlap", "--nodes=" + n, "--ntasks=" + n, "--ntasks-per-node=1", "--cpus-per-task=1", "--mem=0", "--mpi=none", "--cpu-bind=none",
		"--input=none", "--job-name=burst-images", "--quiet", "--kill-on-bad-exit=0", "--wait=0"}
	cmd := exec.CommandContext(ctx, p.srun, append(args, words...)...)
	cmd.Env = aheadEnviron(p.environ)
	cmd.Stdout, cmd.Stderr = p.stderr, p.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = aheadStop
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s is not ready on all nodes of the job, and the step is not started: %w: its nodes say why", in.image, err)
	}
	return nil
}

// aheadEnviron is without what would shape a step: the job's own options are not this one's.
func aheadEnviron(environ []string) []string {
	environ = slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		ours := strings.HasPrefix(name, "SLURM_JOB") || slices.Contains([]string{"SLURM_CONF", "SLURM_CLUSTER_NAME", "SLURM_NODELIST", "SLURM_NNODES"}, name)
		return strings.HasPrefix(name, "SRUN_") || strings.HasPrefix(name, "SLURM_") && !ours
	})
	return append(without(environ, markName), markName+"=images")
}
