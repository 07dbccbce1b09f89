package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

const (
	jobScript = "heat.sbatch"
	jobOutput = "heat.out"
)

// queued is a job of the demo's queue.
type queued struct {
	name, does string
	script     string
	cloud      bool // it is to run in the cloud, else on the site's own node
	stay       bool // a rule is about it too, and it says no
	id         uint32
	now        slurm.Job // as last read
	endedAt    time.Time // when it was first seen ended, and not completed
	stays      string    // why it stays, in burstd's words
}

// queue lists the jobs in the order in which they are submitted, all to the site's own
// partition alone. heat may start on the site's node, and would after an eviction, when it
// could: plot is before it in the queue, and then has the node until heat is done.
func queue(heat string, o Options) []*queued {
	job := func(name, lines string) string {
		return fmt.Sprintf("#!/bin/bash\n#SBATCH --job-name=%s --partition=onprem --time=10 --output=%[1]s-%%j.out\n%s\n", name, lines)
	}
	sweep := func() *queued {
		return &queued{name: "sweep", does: "one task of 5 s", cloud: true, script: job("sweep", "sleep 5")}
	}
	return []*queued{
		{name: "fill", does: "takes the whole of o1 for 15 s", script: job("fill", "#SBATCH --exclusive --nodelist=o1\nsleep 15")},
		{name: "plot", does: fmt.Sprintf("%d tasks, and #BURST stay", o.JobNodes), stay: true, script: job("plot", tasks(o)+
			"\n#BURST stay\nuntil grep -qs '^heat: done ' "+jobOutput+"; do sleep 0.5; done")},
		{name: heatName, does: fmt.Sprintf("%d MPI tasks, %d iterations", o.JobNodes, o.Iterations), cloud: true, script: script(heat, o)},
		sweep(), sweep(),
	}
}

const heatName = "heat"

// tasks are as many as the CPUs of the site's node, or of so many nodes of the cloud.
func tasks(o Options) string {
	return fmt.Sprintf("#SBATCH --nodes=1-%[1]d --ntasks=%[1]d", o.JobNodes)
}

// script is the job: as for Burst, only its #BURST line is special.
func script(heat string, o Options) string {
	return fmt.Sprintf(`#!/bin/bash
#SBATCH --job-name=heat --partition=onprem --time=10
%s
#SBATCH --requeue --open-mode=append --output=%s
#BURST signal=USR1 grace=20s

# All nodes are this one host: its cores are shared, and its other networks
# may come and go.
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_tcp_if_include=lo
exec srun --mpi=pmix %s %s \
	--checkpoint heat.ckpt --restart auto --exit-on-signal \
	--progress 0.5 --pace %d
`, tasks(o), jobOutput, quote(heat), strings.Join(o.run().args(), " "), o.Pace.Milliseconds())
}

// quote makes s one word for bash.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
