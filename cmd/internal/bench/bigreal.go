package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
)

const (
	realUp    = 50
	realRound = 30 * time.Second // from one round of reconciliation to the next
)

// reconcileReal is beside what burstd needs between simulated parts what it
// needs between real ones, with as many slurmd as one host can run.
func reconcileReal() Bench {
	return Bench{
		Name: "reconcile-10k-real-cpu", Unit: "s", Better: Lower, Goal: 1,
		Method: fmt.Sprintf("CPU time of burstd's process, user and system, in %s, which is one round of reconciliation and all that burstd does meanwhile, without the commands that it runs: median of %d; "+
			"a real slurmctld with %d nodes of State=CLOUD, %d of them up with a real slurmd each, of the local provider, under one job", realRound, bigRounds, bigNodes, realUp),
		Run: measureReal,
	}
}

func measureReal(ctx context.Context, env Env) (cpu []float64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, errors.New("not within 5 minutes"))
	defer cancel()
	// The nodes that never come up need no ports of their own on this host.
	rest := bigNodes - realUp
	s, err := startSite(ctx, env, "r", rig.Options{
		Nodes: realUp, ResumeTimeout: 3 * time.Minute,
		SlurmExtra: fmt.Sprintf("NodeName=x[1-%d] CPUs=2 RealMemory=1000 State=CLOUD\nPartitionName=rest Nodes=x[1-%[1]d] State=UP SuspendTime=3600 SuspendTimeout=600 ResumeTimeout=180\n", rest),
		ExtraToml: fmt.Sprintf("[pool.rest]\nprovider = \"here\"\nnodes = \"x[1-%d]\"\npartition = \"rest\"\ninstance_types = [\"local.small\"]\n"+
			"zones = [\"a\"]\ncpus = 2\nreal_memory = 1000\nports = \"40001-%d\"\n", rest, 40000+rest),
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	id, err := s.Submit(ctx, job, fmt.Sprint("--nodes=", realUp), "--exclusive", "--output=/dev/null")
	if err != nil {
		return nil, err
	}
	for up := 0; up < realUp; {
		st, err := s.API.Status(ctx)
		if err != nil {
			return nil, err
		}
		if up = st.Nodes["up"]; up < realUp {
			if err := pause(ctx, time.Second); err != nil {
				return nil, fmt.Errorf("%v of job %d: %w", st.Nodes, id, err)
			}
		}
	}
	if err := pause(ctx, realRound); err != nil { // the boots' last work is over
		return nil, err
	}
	last, err := cpuOf(s.BurstdPID())
	if err != nil {
		return nil, err
	}
	for range bigRounds {
		if err := pause(ctx, realRound); err != nil {
			return nil, err
		}
		now, err := cpuOf(s.BurstdPID())
		if err != nil {
			return nil, err
		}
		cpu = append(cpu, (now - last).Seconds())
		last = now
	}
	rss, peak, err := memoryOf(s.BurstdPID())
	if err != nil {
		return nil, err
	}
	env.note("burstd's resident memory is %.1f MB, the peak since its start %.1f MB", rss, peak)
	return cpu, checkReal(ctx, s)
}

// checkReal says whether the site is as it was: else something else was measured.
func checkReal(ctx context.Context, s site) error {
	nodes, err := s.Slurm().Nodes(ctx)
	if err != nil {
		return err
	}
	st, err := s.API.Status(ctx)
	if err == nil && (len(nodes) != bigNodes || st.Nodes["up"] != realUp || st.Instances != realUp || !st.SlurmOK) {
		err = fmt.Errorf("burstd has %v with %d instances of Slurm's %d nodes, want %d up of %d", st.Nodes, st.Instances, len(nodes), realUp, bigNodes)
	}
	return err
}
