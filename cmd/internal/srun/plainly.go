package srun

import (
	"fmt"
	"os/exec"
	"slices"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/ckpt/methods"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/step"
)

// startsRanks are the methods that start mpirun or mpiexec once, whatever stands before it.
var startsRanks = []string{directive.DMTCP, directive.MANA}

// plainly is the command line of a step that is not protected. That is srun with its
// arguments, but srun would start an MPI launcher once for each of the job's tasks, all
// with all ranks on the same files: where burst-srun stands before one, or the method
// would have left srun out, it is the launcher alone. An error says what the user has to
// change.
func (p *program) plainly(k known, args []string) (line []string, launcher bool, err error) {
	line = append([]string{p.srun}, args...)
	asked := !k.off() && slices.Contains(startsRanks, k.own.Method)
	leaves := asked || slices.Contains(startsRanks, k.merged.Method)
	is, once := k.launcher(p)
	switch {
	case !is || p.name == "srun" && !leaves:
		if at := len(line) - k.behind(); len(k.put) > 0 && at > 0 {
			line, _ = k.put.Line(line, at)
		}
		return line, line[0] != p.srun, nil
	case once:
		if err := k.alone(p.env); err != nil {
			return nil, false, err
		}
		return slices.Clone(k.call.Program()), true, nil
	case asked:
		return nil, false, fmt.Errorf("ckpt=%s: %s is started once, and its ranks by it: leave out the number of tasks before it", k.own.Method, k.call.Program()[0])
	}
	return line, false, nil
}

// behind is how many of the step's words are the user's program and its arguments.
func (k known) behind() int {
	if k.garbled != nil || len(k.call.Parts) == 0 {
		return 0
	}
	return len(k.call.Args) - k.call.Parts[0].Program
}

// launcher says whether the step's program is an MPI launcher that could be started in
// srun's place, and whether srun was told nothing of more than one task.
func (k known) launcher(p *program) (is, once bool) {
	if k.garbled != nil || len(k.call.Parts) == 0 || k.job.Place == step.Outside || !k.call.Whole(p.env) {
		return false, false
	}
	if n := k.call.Nature(p.env); n == step.Query || n == step.Foreign {
		return false, false
	}
	return methods.Launcher(ckpt.Launch{Args: append([]string{p.srun}, k.call.Args...), Program: 1 + k.call.Parts[0].Program})
}

// marked is the environment of a launcher that is not protected: an srun that it starts
// its helpers by is no step to protect.
func (p *program) marked(j step.Job) []string {
	return append(without(p.environ, markName), fmt.Sprintf("%s=%s/plain", markName, j.Folder()))
}

// plain has srun, or the launcher, take this process's place.
func (p *program) plain(why string, k known) int {
	line, launcher, err := p.plainly(k, k.call.Args)
	if err != nil {
		return p.wrong(err)
	}
	p.notProtected(k, why)
	if !launcher {
		line[0] = "srun"
		return p.failed(p.become(p.srun, line, k.put.Environ(p.environ)))
	}
	path, err := exec.LookPath(line[0])
	if err != nil {
		return p.failed(err)
	}
	return p.failed(p.become(path, line, k.put.Environ(p.marked(k.job))))
}
