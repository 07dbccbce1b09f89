// Package step reads what burst-srun needs to know before it runs a step:
// srun's own command line, and the job and the place in it that Slurm's
// environment tells of. It reads, and runs nothing.
package step

import (
	"slices"
	"strings"
)

// Nature is what a call of srun is about.
type Nature int

const (
	// Step is a step of the job, which can be protected.
	Step Nature = iota
	// Query runs nothing: --help, --version, --test-only, --mpi=list.
	Query
	// Foreign is a step, but not one of the job that the caller is in.
	Foreign
	// Terminal is a step with a pseudo terminal: somebody sits before it.
	Terminal
)

// Value is what srun takes for an option of its first component: of the command
// line the last one, else of the environment variables, of which the later ones
// count more, as for srun itself.
func (c Call) Value(name string, env func(string) string) (string, bool) {
	value, has := "", false
	for _, v := range variables[name] {
		if s := env(v); s != "" {
			value, has = s, true
		}
	}
	for _, g := range c.Parts[0].Options {
		if g.Name == name {
			value, has = g.Value, true
		}
	}
	return value, has
}

// variables are those from which srun takes an option, for the options that matter here.
var variables = map[string][]string{
	"mpi":        {"SLURM_MPI_TYPE"},
	"ntasks":     {"SLURM_NPROCS", "SLURM_NTASKS"},
	"nodes":      {"SLURM_JOB_NUM_NODES"},
	"output":     {"SLURM_STDOUTMODE", "SRUN_OUTPUT"},
	"error":      {"SLURM_STDERRMODE", "SRUN_ERROR"},
	"input":      {"SLURM_STDINMODE", "SRUN_INPUT"},
	"open-mode":  {"SLURM_OPEN_MODE"},
	"multi-prog": {"SLURM_SRUN_MULTI"},
	"jobid":      {"SLURM_JOB_ID"},
	"chdir":      {"SLURM_WORKING_DIR"},
}

// Has says whether an option stands on the command line, in any component.
func (c Call) Has(names ...string) bool {
	for _, p := range c.Parts {
		if slices.ContainsFunc(p.Options, func(g Given) bool { return slices.Contains(names, g.Name) }) {
			return true
		}
	}
	return false
}

// Own values of an option of the program that stands in for srun, in their order.
func (c Call) OwnValues(name string) []string {
	var all []string
	for _, g := range c.Own {
		if g.Name == name {
			all = append(all, g.Value)
		}
	}
	return all
}

// Nature says what the call is about, within the job of the environment.
func (c Call) Nature(env func(string) string) Nature {
	mpi, _ := c.Value("mpi", env)
	job, given := c.Value("jobid", env)
	switch {
	case c.Has("help", "usage", "version", "test-only", "autocomplete") || mpi == "list":
		return Query
	case c.Parts[0].Program == c.Parts[0].End && len(c.Parts) == 1:
		return Query // srun says what is missing
	case c.Has("no-allocate", "clusters", "cluster") || given && job != env("SLURM_JOB_ID"):
		return Foreign
	case c.Has("pty"):
		return Terminal
	}
	return Step
}

// Program is the user's command of the first component.
func (c Call) Program() []string { return c.Args[c.Parts[0].Program:c.Parts[0].End] }

// Whole says whether all that the step runs is one command, so that a launcher
// can be put before it: not the file of --multi-prog, not several components.
func (c Call) Whole(env func(string) string) bool {
	_, multi := c.Value("multi-prog", env)
	return !multi && len(c.Parts) == 1
}

// Truncates names a file that the step's output goes to and that srun would
// empty at its start; "" if there is none. What an earlier attempt of the job has
// written there would be lost.
func (c Call) Truncates(env func(string) string) string {
	if mode, _ := c.Value("open-mode", env); strings.HasPrefix(mode, "a") {
		return ""
	}
	for _, name := range []string{"output", "error"} {
		file, ok := c.Value(name, env)
		if ok && file != "" && file != "all" && file != "none" && file != "/dev/null" && strings.Trim(file, "0123456789") != "" {
			return file
		}
	}
	return ""
}
