package demo

import (
	"fmt"
	"strings"
)

const (
	jobScript = "heat.sbatch"
	jobOutput = "heat.out"
)

// script is the job: nothing in it is special but the #BURST line.
func script(heat string, o Options) string {
	return fmt.Sprintf(`#!/bin/bash
#SBATCH --job-name=heat --partition=cloud
#SBATCH --nodes=%d --ntasks-per-node=1
#SBATCH --requeue --open-mode=append --output=%s
#BURST signal=USR1 grace=20s

exec srun --mpi=pmix %s %s \
	--checkpoint heat.ckpt --restart auto --exit-on-signal \
	--progress 0.5 --pace %d
`, o.JobNodes, jobOutput, quote(heat), strings.Join(o.run().args(), " "), o.Pace.Milliseconds())
}

// quote makes s one word for bash.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
