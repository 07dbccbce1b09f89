package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/burst-hpc/burst/slurm/sandbox"
)

const (
	idleRuns  = 5 // in each step
	idleSteps = 3
)

// libburstIdleCall is what a program pays that asks after every iteration.
func libburstIdleCall() Bench {
	return Bench{
		Name: "libburst-idle-call",
		Method: fmt.Sprintf("a program under burst-srun with ckpt=libburst, in a batch job on a real slurmd of this host, calls burst_progress and burst_should_checkpoint 20,000,000 times each while there is nothing to say: "+
			"time of a call, of the dearer of the two; median of %d runs, %d in each of %d steps", idleRuns*idleSteps, idleRuns, idleSteps),
		Unit: "ns", Better: Lower, Goal: 1000,
		Run: measureIdle,
		Absent: func(env Env) string {
			if _, err := os.Stat(idleProgram(env)); err != nil {
				return fmt.Sprintf("NOT MEASURED: %s is not there; `make build` builds it", idleProgram(env))
			}
			return ""
		},
	}
}

// idleProgram is built of contrib/libburst/examples/idle.c.
func idleProgram(env Env) string {
	return filepath.Join(filepath.Dir(env.Programs), "libburst", "idle")
}

// Periodic checkpoints alone: there is no burstd.
const idleScript = `#!/bin/bash
for i in $(seq %d); do
	%s --ckpt "libburst strategy=periodic interval=1h" -n1 %s %d 2>>errors || exit
done
`

func measureIdle(ctx context.Context, env Env) (took []float64, err error) {
	c, err := sandbox.Start(ctx, sandbox.Options{Dir: filepath.Join(env.Dir, "s"), OnPrem: 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	work := filepath.Join(env.Dir, "w")
	if err := os.Mkdir(work, 0o700); err != nil {
		return nil, err
	}
	cmd := c.Command(ctx, "sbatch", "--wait", "--output=out", "-p", "onprem")
	cmd.Dir, cmd.Stdin = work, strings.NewReader(fmt.Sprintf(idleScript, idleSteps, filepath.Join(env.Programs, "burst-srun"), idleProgram(env), idleRuns))
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	if err := cmd.Run(); err != nil {
		said, rerr := os.ReadFile(filepath.Join(work, "errors"))
		return nil, fmt.Errorf("the job that times calls: %w: %s%s %v", err, errOut.Bytes(), said, rerr)
	}
	out, err := os.ReadFile(filepath.Join(work, "out"))
	if err != nil {
		return nil, err
	}
	progress, should, err := readIdle(string(out))
	if err != nil {
		return nil, err
	}
	env.note("burst_progress %.3g ns, burst_should_checkpoint %.3g ns", Median(progress), Median(should))
	if Median(progress) > Median(should) {
		return progress, nil
	}
	return should, nil
}

// readIdle reads what the steps print: two times on a line, and in the end that
// burst-srun was there.
func readIdle(out string) (progress, should []float64, err error) {
	connected := 0
	for line := range strings.Lines(out) {
		var p, s float64
		if strings.TrimSpace(line) == "connected" {
			connected++
		} else if _, err := fmt.Sscanf(line, "%g %g\n", &p, &s); err != nil {
			return nil, nil, fmt.Errorf("the job printed %q: %w", line, err)
		} else {
			progress, should = append(progress, p), append(should, s)
		}
	}
	if connected != idleSteps || len(progress) != idleRuns*idleSteps {
		return nil, nil, fmt.Errorf("%d runs were timed, not %d, and %d of %d steps heard burst-srun", len(progress), idleRuns*idleSteps, connected, idleSteps)
	}
	return progress, should, nil
}
