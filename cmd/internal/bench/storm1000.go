package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
)

// StormCount is how many storms the benchmark makes, one after the other.
const StormCount = 10

func storm1000() Bench {
	return Bench{
		Name: "storm-1000-drained",
		Method: fmt.Sprintf("%d notices of spot interruptions at once, each by a caller of its own, for %d nodes and %d jobs of 3 and 4 nodes: seconds from the first until all nodes are drained "+
			"and all jobs signalled; burstd's guard and its journal on disk, and a simulated slurmctld of %d nodes whose commands take what real ones do (show nodes %s, update of nodes %s, squeue %s, scancel %s, others %s): median of %d storms",
			stormNodes, stormNodes, stormJobs, 2*stormNodes, stormCosts[0].takes, stormCosts[1].takes, stormCosts[2].takes, stormCosts[3].takes, stormCosts[4].takes, StormCount),
		Unit:   "s",
		Better: Lower,
		Goal:   3,
		Run: func(ctx context.Context, env Env) ([]float64, error) {
			f, err := measureStorms(ctx, env)
			if err != nil {
				return nil, err
			}
			env.note("calls in each storm: scontrol update of nodes %v, show nodes %v, others %v", f.Updates, f.Reads, f.Others)
			env.note("resident memory after the last storm %+.1f MB beyond that after the first, peak %.0f MB, in a process that holds the simulated slurmctld too", f.Grown, f.Peak)
			if f.Grown > 10 {
				return nil, fmt.Errorf("resident memory has grown by %.1f MB over %d storms", f.Grown, StormCount)
			}
			return f.Drained, nil
		},
	}
}

// measureStorms runs Storms in a process of its own: memory is a process's.
func measureStorms(ctx context.Context, env Env) (f StormFigures, err error) {
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(env.Programs, "burst"), "bench-storm-1000", env.Dir)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return f, fmt.Errorf("%s: %w: %s", cmd, err, bytes.TrimSpace(errOut.Bytes()))
	}
	if err := json.Unmarshal(out.Bytes(), &f); err != nil {
		return f, fmt.Errorf("%s printed %q: %w", cmd, out.Bytes(), err)
	}
	return f, nil
}

// residentNow is this process's resident memory in MB, after what is free has
// been given back.
func residentNow() (float64, error) {
	debug.FreeOSMemory()
	now, _, err := memoryOf(os.Getpid())
	return now, err
}
