package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const scaleRuns = 3

// resume1000 is one measurement with three results.
func resume1000() []Bench {
	measure := once(measureResume1000)
	method := fmt.Sprintf("one job of %d nodes, all powered down; burstd's engine and its journal on disk, between a simulated slurmctld that records its commands "+
		"and a cloud in memory (%d instances a launch, %s a launch, %s a list, addresses %s after the launch, boot %g to %g s)",
		scaleNodes, scaleMaxLaunch, scaleLaunch, scaleList, scaleAddr, scaleBootMin.Seconds(), scaleBootMax.Seconds())
	result := func(name, unit, what string, of func(ScaleFigures) float64) Bench {
		return Bench{
			Name: name, Method: fmt.Sprintf("%s; %s: median of %d runs", what, method, scaleRuns), Unit: unit, Better: Lower,
			Run: func(ctx context.Context, env Env) ([]float64, error) {
				all, err := measure(ctx, env)
				var samples []float64
				for _, f := range all {
					samples = append(samples, of(f))
					env.note("%d show, %d update, and %d squeue", f.Reads, f.Updates, f.Queues)
				}
				return samples, err
			},
		}
	}
	calls := result("resume-1000-scontrol-calls", "calls", "the engine's scontrol calls (not burst-gate's readings) from the order until all nodes are up in the journal",
		func(f ScaleFigures) float64 { return float64(f.Reads + f.Updates) })
	calls.Goal = 9 // under 10
	return []Bench{
		calls,
		result("resume-1000-seconds", "s", "from the order to the start of the job's script", func(f ScaleFigures) float64 { return f.Started }),
		result("resume-1000-rss", "MB", "peak memory of a process that holds the simulated slurmctld and the cloud too", func(f ScaleFigures) float64 { return f.RSS }),
	}
}

// measureResume1000 runs Scale in processes of its own: memory's peak is a process's.
func measureResume1000(ctx context.Context, env Env) ([]ScaleFigures, error) {
	var all []ScaleFigures
	for i := range scaleRuns {
		dir := filepath.Join(env.Dir, fmt.Sprint(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		var out, errOut bytes.Buffer
		cmd := exec.CommandContext(ctx, filepath.Join(env.Programs, "burst"), "bench-resume-1000", dir)
		cmd.Stdout, cmd.Stderr = &out, &errOut
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", cmd, err, bytes.TrimSpace(errOut.Bytes()))
		}
		var f ScaleFigures
		if err := json.Unmarshal(out.Bytes(), &f); err != nil {
			return nil, fmt.Errorf("%s printed %q: %w", cmd, out.Bytes(), err)
		}
		all = append(all, f)
	}
	return all, nil
}
