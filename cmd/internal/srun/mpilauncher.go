package srun

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/step/mpi"
)

// carried are srun's options that a step has as well where an MPI's launcher stands in srun's
// place: the launcher is told, or they change nothing of the ranks.
var carried = strings.Fields(`ntasks ntasks-per-node tasks-per-node cpus-per-task mpi nodes job-name jobid quiet verbose
unbuffered comment acctg-freq propagate export input output error nodelist exclude relative nodefile msg-timeout`)

// dropped are variables of the job that srun would carry out, and a launcher does not.
var dropped = []string{"SLURM_GPUS_PER_TASK", "SLURM_TRES_PER_TASK", "SLURM_NTASKS_PER_GPU", "SLURM_GPU_BIND", "SLURM_EXACT", "SLURM_OVERLAP"}

// uncarried says which of srun's options a step would lack if an MPI's launcher took srun's
// place; nil: none.
func (p *program) uncarried(k known, launcher string) error {
	word := ""
	for _, g := range k.call.Parts[0].Options {
		if !slices.Contains(carried, g.Name) {
			word = strings.TrimSuffix("--"+g.Name+"="+g.Value, "=")
			break
		}
	}
	if name := first(p.env, dropped...); word == "" && name != "" {
		word = name + "=" + p.env(name)
	}
	if word == "" {
		return nil
	}
	return fmt.Errorf("%s is for srun, and %s would start the ranks in its place: leave it out, or say BURST_MPI=none, which leaves the step to srun as it is", word, filepath.Base(launcher))
}

// losesNodes warns of a launcher of the user's whose exit code says nothing of a lost node,
// where the step's end means that its checkpoints go, or that it is not run again.
func (p *program) losesNodes(k known) {
	if k.job.Nodes < 2 || k.once == "" && (k.merged.Method == "" || k.merged.Method == directive.None) {
		return
	}
	if path, err := exec.LookPath(k.call.Program()[0]); err == nil && mpi.LosesNodes(path) {
		p.warn(k, mpi.Exits0)
	}
}

// warn says what is likely to go wrong, in an attempt of the job once.
func (p *program) warn(k known, text string) {
	if k.explain {
		p.say("%s", text)
		return
	}
	p.once(k.job, saidPlain+hexSum([]byte(text))[:16], text)
}
