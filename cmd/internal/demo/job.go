package demo

import (
	"fmt"
	"strings"
)

const (
	jobScript = "heat.sbatch"
	jobOutput = "heat.out"
)

// script is the job: as for Burst, only its #BURST line is special.
func script(heat string, o Options) string {
	return fmt.Sprintf(`#!/bin/bash
#SBATCH --job-name=heat --partition=cloud
#SBATCH --nodes=%d --ntasks-per-node=1
#SBATCH --requeue --open-mode=append --output=%s
#BURST signal=USR1 grace=20s

# All nodes are this one host: its cores are shared, and its other networks
# may come and go.
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_tcp_if_include=lo
exec srun --mpi=pmix %s %s \
	--checkpoint heat.ckpt --restart auto --exit-on-signal \
	--progress 0.5 --pace %d
`, o.JobNodes, jobOutput, quote(heat), strings.Join(o.run().args(), " "), o.Pace.Milliseconds())
}

// quote makes s one word for bash.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
