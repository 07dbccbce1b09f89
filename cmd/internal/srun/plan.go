package srun

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/step"
)

// plan is what is done with a step.
type plan struct {
	// Direct: srun takes this process's place. Why is what the user is told of it,
	// once in an attempt; empty: nothing.
	Direct bool
	Why    string
	// unlessKept: a step that has checkpoints restarts from them all the same.
	unlessKept bool
}

func direct(why string) plan { return plan{Direct: true, Why: why} }

// before judges what is known without asking anybody.
func before(f facts, env func(string) string) plan {
	r, j, nature := f.request, f.job, step.Step
	if f.garbled == nil {
		nature = r.call.Nature(env)
	}
	switch {
	case f.garbled != nil && j.Attempt == 0:
		return direct(fmt.Sprintf("%v: the step is not protected", f.garbled))
	case env("BURST_SRUN_OFF") == "1" || within(env, j) || r.helps(f.garbled) || j.Place == step.InStep || nature == step.Query:
		return direct("")
	case j.Place == step.Outside:
		if len(r.ckpt) == 0 && r.once == "" {
			return direct("")
		}
		return direct("this is outside of a job: the step is not protected")
	case j.Place == step.Interactive:
		return direct("an allocation of salloc is never requeued: the step is not protected")
	case nature == step.Foreign:
		return direct("this is a step of another job: it is not protected")
	case nature == step.Terminal:
		return direct("a step with --pty is not protected")
	}
	return plan{}
}

// within says that this is a part of a protected step. A job that such a step has
// submitted has the mark from it, and is none.
func within(env func(string) string, j step.Job) bool {
	mark := env(markName)
	job, _, ok := strings.Cut(mark, "/")
	return mark != "" && (!ok || j.Place == step.Outside || job == j.Folder())
}

// helpers are the programs that mpirun and mpiexec start by srun, one on each node, which start
// the ranks there: of Open MPI, PRRTE, MPICH, MVAPICH and Intel MPI.
var helpers = []string{"orted", "prted", "prte", "hydra_pmi_proxy", "hydra_bstrap_proxy", "pmi_proxy"}

// helps says that an MPI's launcher has called srun for a helper of its own, which speaks with the
// launcher alone, is on the nodes and no image, and is nothing without it.
func (r request) helps(garbled error) bool {
	if garbled != nil || len(r.call.Parts) != 1 || len(r.call.Program()) == 0 {
		return false
	}
	return slices.Contains(helpers, filepath.Base(r.call.Program()[0]))
}

// launchers are the methods that put a launcher before the user's command.
var launchers = []string{directive.DMTCP, directive.MANA, directive.CRIU}

// freezes says whether the method makes images of processes, wherever they are.
func freezes(m directive.Merged) bool {
	return slices.Contains(launchers, m.Method) || m.Preset != ""
}

// userWord is the user's word for the method.
func userWord(m directive.Merged) string {
	if m.Preset != "" {
		return "preset=" + m.Preset
	}
	return "ckpt=" + m.Method
}

// facts are what a step's protection depends on.
type facts struct {
	request
	job     step.Job
	merged  directive.Merged
	burstd  bool  // it is known where burstd is
	deaf    error // why that is not known, though it may be; nil: nothing says it
	usable  error // why the method cannot work here
	garbled error // why srun's arguments are not understood
}

// after judges what is asked for.
func after(f facts, env func(string) string) plan {
	m := f.merged
	only, _ := f.srunOnly(env)
	switch {
	case f.garbled != nil:
		return direct(fmt.Sprintf("%v: the step is not protected", f.garbled))
	case m.Method == directive.None:
		if f.once != "" || m.From["ckpt"].Kind != directive.Default {
			return direct("") // by somebody's word
		}
		if f.job.Attempt > 0 && !f.burstd {
			return direct("no method of checkpoints is asked for (#BURST ckpt=...), and it is not known here where burstd is: if the site had checkpoints taken before, the job begins anew without them, and is not protected")
		}
		why := "no method of checkpoints is asked for (#BURST ckpt=...)"
		if f.deaf != nil {
			why += ", and " + f.nowhere()
		}
		return direct(why + ": the job is not protected")
	case m.Strategy == directive.None:
		return plan{Direct: true, unlessKept: true}
	case f.isPart() && m.Strategy == directive.Periodic:
		return plan{Direct: true, unlessKept: true, Why: "the steps of a heterogeneous job are checkpointed together, on burstd's word, and strategy=periodic has each checkpointed by its own timer: start its components by one burst-srun (a : b), or, on a cloud that gives notices (Vultr gives none), say strategy=preemptive: the step is not protected"}
	case !m.Periodical() && !f.burstd:
		return plan{Direct: true, unlessKept: true, Why: f.nowhere() + ", and checkpoints are asked for on its word alone: the job is not protected"}
	case freezes(m) && !f.call.Whole(env):
		return direct(fmt.Sprintf("%s cannot checkpoint a step of several programs (--multi-prog, or parted by ':'): it is not protected", userWord(m)))
	case (m.Method == directive.CRIU || m.Preset != "") && only != "":
		return direct(fmt.Sprintf("%s starts the program without srun, and %s is for srun: the step is not protected", userWord(m), only))
	case f.usable != nil:
		return direct(fmt.Sprintf("ckpt=%s: %v: the step is not protected", m.Method, f.usable))
	}
	return plan{}
}

// nowhere says that burstd is not to be found here.
func (f facts) nowhere() string {
	if f.deaf != nil {
		return fmt.Sprintf("it is not known here where burstd is (%v)", f.deaf)
	}
	return "it is not known here where burstd is"
}

// unheard says, of a step that takes checkpoints at intervals, that it hears of no
// eviction; "" if it does, or is not to.
func (f facts) unheard() string {
	if m := f.merged; f.burstd || !m.OnNotice() || !m.Periodical() {
		return ""
	}
	why := "burstd is not known here (BURST_URLS or agent.env)"
	if f.deaf != nil {
		why = f.deaf.Error()
	}
	return fmt.Sprintf("not protected against evictions: %s; checkpoints are made %s", why, every(f.merged))
}

// every says how often checkpoints are made.
func every(m directive.Merged) string {
	if m.Interval == 0 {
		return "as often as pays (interval=auto)"
	}
	return "every " + m.Value("interval")
}
