package srun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/slurm/hostlist"
	"github.com/burst-hpc/burst/slurm/step"
	"github.com/burst-hpc/burst/slurm/step/container"
)

const (
	// aheadTime is how long a job may go by what was found of its nodes' images; within
	// it none is deleted there.
	aheadTime = 30 * time.Minute
	// aheadStop is what the nodes get to end a fetch that nobody waits for any more.
	aheadStop = 10 * time.Second
	// aheadPause is between two tries of a lock that another step has, and aheadSay after
	// how long a line says so.
	aheadPause = 50 * time.Millisecond
	aheadSay   = 10 * time.Second
)

// ahead has the image ready on the step's nodes before the step begins: ranks that wait for
// others to fetch an image wait in MPI_Init, and may give up there.
func (p *program) ahead(ctx context.Context, k known, in inside) error {
	here := k.job.Place == step.Batch && k.job.Nodes == 1 && k.job.Components == 0
	if in.image.Key == "" || k.explain && !in.cheap() {
		return nil
	}
	parts := [][]string{p.aheadNodes(k)}
	if k.job.Components > 0 {
		parts = p.aheadParts(k)
	}
	if here || k.explain || len(parts) == 0 {
		return in.here(ctx, p.environ)
	}
	sign := "image-" + in.image.Key + "-" + hexSum(fmt.Append(nil, parts))[:8]
	recent := func() bool { return left(os.TempDir(), k.job, sign, time.Now().Add(-aheadTime)) }
	if !recent() {
		unlock, err := p.lockSign(ctx, k, sign)
		if err != nil {
			return err
		}
		defer unlock()
		if !recent() {
			if err := p.everywhere(ctx, in, parts); err != nil {
				return err
			}
			renew(os.TempDir(), k.job, sign)
		}
	}
	if in.tool.Path == "" {
		return nil // it could not look into the image
	}
	// This host may be none of the nodes, and is to look into the image.
	return in.here(ctx, p.environ)
}

// here has the image ready on this host.
func (in inside) here(ctx context.Context, environ []string) error {
	_, err := ready(ctx, in.cache, in.image, fetching{in.findTool, environ})
	return err
}

func (in inside) findTool() (container.Tool, error) {
	if in.tool.Path == "" {
		return in.tool, container.ErrNoTool
	}
	return in.tool, nil
}

// cheap says whether the image is there, so that --explain may look into it.
func (in inside) cheap() bool { return in.cache.Has(in.image.Key) }

// aheadNodes are srun's options for as many nodes as the step has, and where it has them: one
// that the job has lost is not asked for. Which nodes those of a part of the job are Slurm
// decides for the step itself once more; on another one the ranks have the image made ready.
func (p *program) aheadNodes(k known) []string {
	nodes := p.mpiStep(k).Nodes
	var where []string
	for _, name := range []string{"nodelist", "nodefile", "exclude", "relative"} {
		value, has := k.call.Value(name, func(string) string { return "" })
		if !has {
			continue
		}
		where = append(where, "--"+name+"="+value)
		if list, err := hostlist.Expand(value); name == "nodelist" && err == nil && !strings.Contains(value, "/") && !k.call.Has("nodes") {
			nodes = min(nodes, len(list))
		}
	}
	n := strconv.Itoa(max(1, nodes))
	return append(where, "--nodes="+n, "--ntasks="+n)
}

// aheadParts are srun's options for the nodes of each component of a heterogeneous job that the
// step runs on; none: how many those are is not known, and each rank has the image made ready.
func (p *program) aheadParts(k known) (parts [][]string) {
	all, err := k.call.Components()
	if err != nil {
		return nil // srun says so
	}
	for _, c := range all {
		n, err := strconv.Atoi(p.env(fmt.Sprintf("SLURM_JOB_NUM_NODES_HET_GROUP_%d", c)))
		if err != nil || n < 1 {
			list, err := hostlist.Expand(p.env(fmt.Sprintf("SLURM_JOB_NODELIST_HET_GROUP_%d", c)))
			if err != nil || len(list) == 0 {
				return nil
			}
			n = len(list)
		}
		parts = append(parts, []string{fmt.Sprintf("--het-group=%d", c), fmt.Sprintf("--nodes=%d", n), fmt.Sprintf("--ntasks=%d", n)})
	}
	return parts
}

// lockSign has one step of the job at a time ask for the image, or make it ready.
func (p *program) lockSign(ctx context.Context, k known, sign string) (unlock func(), err error) {
	root := signs(os.TempDir())
	if root == nil {
		return func() {}, nil // as of another step, there is no sign either
	}
	defer root.Close()
	f, err := root.OpenFile(signOf(k.job, sign+"-lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return func() {}, nil
	}
	tick := time.NewTicker(aheadPause)
	defer tick.Stop()
	for began, told := time.Now(), false; ; {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return func() { _ = f.Close() }, nil // the lock goes with it; where there are no locks each step asks
		}
		if !told && time.Since(began) > aheadSay {
			told = true
			p.say("waits for another step of this job, which asks for the image, or has it made ready")
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		case <-tick.C:
		}
	}
}

// everywhere runs burst-srun once on each node of the step's parts, of all at once.
func (p *program) everywhere(ctx context.Context, in inside, parts [][]string) error {
	words, err := in.words(aheadWord)
	if err != nil {
		return err
	}
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, where := range parts {
		wg.Go(func() { errs[i] = p.onNodes(ctx, where, words) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s is not ready on all nodes of the step, and the step is not started: %w: its nodes say why", in.image, err)
	}
	return nil
}

// onNodes runs burst-srun with words once on each of some nodes.
func (p *program) onNodes(ctx context.Context, where, words []string) error {
	args := []string{"--overlap", "--ntasks-per-node=1", "--cpus-per-task=1", "--mem=0", "--mpi=none", "--cpu-bind=none",
		"--input=none", "--job-name=burst-images", "--quiet", "--kill-on-bad-exit=0", "--wait=0"}
	cmd := exec.CommandContext(ctx, p.srun, slices.Concat(args, where, words)...)
	cmd.Env = aheadEnviron(p.environ)
	cmd.Stdout, cmd.Stderr = p.stderr, p.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = aheadStop
	return cmd.Run()
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
