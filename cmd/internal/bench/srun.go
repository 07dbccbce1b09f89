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

// srunRounds is how many steps of each kind are timed, one after the other.
const srunRounds = 15

// stepTimes are milliseconds that burst-srun takes longer than srun.
type stepTimes struct{ plain, protected []float64 }

// srunOverhead is one measurement with two results.
func srunOverhead() []Bench {
	measure := once(measureSrun)
	const method = "in a batch job on a real slurmd of this host, `true` by srun and by burst-srun in turn, process start to end: how much longer burst-srun takes, %s; median of %d rounds"
	result := func(name, what string, of func(stepTimes) []float64) Bench {
		return Bench{
			Name: name, Method: fmt.Sprintf(method, what, srunRounds), Unit: "ms", Better: Lower,
			Run: func(ctx context.Context, env Env) ([]float64, error) {
				times, err := measure(ctx, env)
				return of(times), err
			},
		}
	}
	return []Bench{
		result("srun-overhead-plain", "where the job asks for nothing", func(s stepTimes) []float64 { return s.plain }),
		result("srun-overhead-protected", "with ckpt=signal and no burstd: the job and its script are read from slurmctld, and the step is recorded in its folder", func(s stepTimes) []float64 { return s.protected }),
	}
}

// srunScript times steps in nanoseconds: srun, one that is not protected, one that is.
const srunScript = `#!/bin/bash
t() { local a=$(date +%%s%%N); "$@" 2>>errors || exit; local b=$(date +%%s%%N); echo -n "$((b-a)) "; }
for i in $(seq %d); do
	t srun true
	t %[2]s true
	t %[2]s --ckpt "signal signal=USR1 strategy=periodic interval=1h files=ck" true
	echo
done
`

func measureSrun(ctx context.Context, env Env) (times stepTimes, err error) {
	c, err := sandbox.Start(ctx, sandbox.Options{Dir: filepath.Join(env.Dir, "s"), OnPrem: 1})
	if err != nil {
		return times, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	work := filepath.Join(env.Dir, "w")
	if err := os.Mkdir(work, 0o700); err != nil {
		return times, err
	}
	cmd := c.Command(ctx, "sbatch", "--wait", "--output=out", "-p", "onprem")
	cmd.Dir, cmd.Stdin = work, strings.NewReader(fmt.Sprintf(srunScript, srunRounds, filepath.Join(env.Programs, "burst-srun")))
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	if err := cmd.Run(); err != nil {
		said, rerr := os.ReadFile(filepath.Join(work, "errors"))
		return times, fmt.Errorf("the job that times steps: %w: %s%s %v", err, errOut.Bytes(), said, rerr)
	}
	out, err := os.ReadFile(filepath.Join(work, "out"))
	if err != nil {
		return times, err
	}
	return readSteps(string(out))
}

// readSteps reads three times of a line.
func readSteps(out string) (times stepTimes, err error) {
	for line := range strings.Lines(out) {
		var srun, plain, protected float64
		if _, err := fmt.Sscan(line, &srun, &plain, &protected); err != nil {
			return times, fmt.Errorf("the job printed %q: %w", line, err)
		}
		times.plain = append(times.plain, (plain-srun)/1e6)
		times.protected = append(times.protected, (protected-srun)/1e6)
	}
	if len(times.plain) != srunRounds {
		return times, fmt.Errorf("%d rounds were timed, not %d", len(times.plain), srunRounds)
	}
	return times, nil
}
