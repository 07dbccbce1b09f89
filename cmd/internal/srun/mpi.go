package srun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/slurm/step"
	"github.com/burst-hpc/burst/slurm/step/mpi"
)

// mpiName is the environment's word for a step's MPI, as --mpi has it for one.
const mpiName = "BURST_MPI"

// mpiWord is what a user says of MPI in words that are not srun's.
type mpiWord struct {
	mpi.Word
	given string // the option as it was written; "": it was not
	wrong error  // for the user to change
}

// takeMPI takes a word for MPI that srun does not know out of a command line, and lets parse,
// to which the option is not srun's, read it again. It counts over BURST_MPI.
func takeMPI(c step.Call, env func(string) string, parse func() (step.Call, error)) (step.Call, mpiWord) {
	var said mpiWord
	if v := env(mpiName); v == "none" {
		said.Off = true
	} else if v != "" {
		var own bool
		if said.Word, own, said.wrong = mpi.ReadWord(v); said.wrong == nil && !own {
			said.wrong = fmt.Errorf("%s=%.80s: it can be %s or none; srun's own words are for SLURM_MPI_TYPE", mpiName, v, mpi.Words())
		}
	}
	own := slices.ContainsFunc(c.Parts[0].Options, func(g step.Given) bool {
		_, own, _ := mpi.ReadWord(g.Value)
		return g.Name == "mpi" && own
	})
	if !own {
		return c, said
	}
	again, err := parse()
	if err != nil {
		return c, mpiWord{given: "--mpi", wrong: err}
	}
	said = mpiWord{}
	for _, v := range again.OwnValues("mpi") {
		word, own, err := mpi.ReadWord(v)
		switch {
		case err != nil:
			said.given, said.wrong = "--mpi="+v, err
		case own:
			said.Word, said.given = word, "--mpi="+v
			said.Line = true
		default:
			said.Type = v // srun's word for it, beside the implementation
		}
	}
	return again, said
}

// ownMPI are options of which --mpi is burst-srun's.
func ownMPI(options []step.Option) []step.Option {
	options = slices.Clone(options)
	for i := range options {
		if options[i].Name == "mpi" {
			options[i].Own = true
		}
	}
	return options
}

// mpi finds what the step needs for its MPI, and says what is likely to go wrong.
func (p *program) mpi(ctx context.Context, k *known) (step.Settings, error) {
	said := k.mpi
	switch {
	case p.env("BURST_SRUN_OFF") == "1":
		return nil, nil // burst-srun's own words are dropped
	case said.wrong != nil && (said.given != "" || p.prepares(*k)):
		return nil, wrongError{said.wrong}
	case said.given != "" && !p.prepares(*k):
		return nil, wrongError{fmt.Errorf("%s is burst-srun's: it counts for a step of a job or of an allocation of salloc; srun's words are in srun --mpi=list", said.given)}
	case !p.prepares(*k), said.Off:
		return nil, nil
	case len(k.call.Parts) != 1 || !k.call.Whole(p.env):
		if said.given != "" {
			return nil, wrongError{fmt.Errorf("%s is for a step of one program", said.given)}
		}
		return nil, nil
	}
	if is, _ := k.launcher(p); is {
		p.losesNodes(*k)
		return nil, nil // the user starts the ranks by it
	}
	s := p.mpiStep(*k)
	found, seen := p.mpiFound(k)
	if !seen && said.Kind == mpi.None {
		return p.unseen(*k, s), nil
	}
	if slices.Contains(launchers, k.merged.Method) && said.given == "" && found.Kind != mpi.None {
		return step.Settings{{Kept: "srun's own choice of MPI", Why: fmt.Sprintf("ckpt=%s makes images of processes, and a connection to srun would not be in them", k.merged.Method)}}, nil
	}
	plan, err := p.mpiWorld(ctx, *k, found).Plan(found, s, said.Word)
	if err != nil {
		return nil, wrongError{err}
	}
	for _, w := range plan.Warnings {
		p.warn(*k, w)
	}
	if plan.Launch.Launcher != "" {
		if err := cmp.Or(k.alone(p.env), p.uncarried(*k, plan.Launch.Launcher)); err != nil {
			return nil, wrongError{err}
		}
	}
	if plan.Found.Kind == mpi.None && found.Missing == "" {
		why := fmt.Sprintf("no MPI is seen in %s", s.Program)
		if found.Script != "" {
			why = fmt.Sprintf("%s is run by %s, and what that starts is not seen", s.Program, found.Script)
		}
		return step.Settings{{Kept: "srun's own choice of MPI", Why: fmt.Sprintf("%s: --mpi=%s and the like would name it", why, mpi.OpenMPI5)}}, nil
	}
	return p.unsent(*k, plan.Settings), nil
}

// unseen is what is said of a program that cannot be looked at. On the host srun says what is
// wrong with it; in an image it may run, each rank in a world of its own.
func (p *program) unseen(k known, s mpi.Step) step.Settings {
	if k.inside == nil {
		return nil
	}
	why := fmt.Sprintf("which MPI %s has in its image is not known here (%v): --mpi=%s and the like would name it", s.Program, k.inside.blind, mpi.OpenMPI5)
	if !k.explain && max(s.Tasks, s.Nodes) > 1 && s.Type == "" {
		p.warn(k, why)
	}
	return step.Settings{{Kept: "srun's own choice of MPI", Why: why}}
}

// mpiFound is which MPI the step's program was built with; seen: it was looked at.
func (p *program) mpiFound(k *known) (f mpi.Found, seen bool) {
	if k.inside != nil {
		f = k.inside.found
		f.Library = "" // a path of the image
		return f, k.inside.blind == nil
	}
	name, dir := k.call.Program()[0], "."
	if to, ok := k.call.Value("chdir", p.env); ok {
		dir = to
	}
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
		if !strings.Contains(name, "/") {
			name = "./" + name
		}
	}
	env := p.stepEnv(*k)
	f, err := mpi.Detect("", name, env)
	if errors.Is(err, fs.ErrNotExist) && !strings.Contains(name, "/") {
		f, err = mpi.Detect("", dir+"/"+name, env) // srun looks there last
	}
	return f, err == nil
}

// exported is what the user says of the environment that the ranks have; "": nothing.
func (p *program) exported(k known) string {
	if given, ok := k.call.Value("export", p.env); ok {
		return given
	}
	return p.env("SLURM_EXPORT_ENV")
}

// stepEnv is the environment that the ranks have: --export has variables over this one's.
func (p *program) stepEnv(k known) func(string) string {
	given := map[string]string{}
	for part := range strings.SplitSeq(p.exported(k), ",") {
		if name, value, ok := strings.Cut(part, "="); ok {
			given[name] = value
		}
	}
	return func(name string) string { return cmp.Or(given[name], p.env(name)) }
}

// unsent are the settings without the variables that srun would not hand to the ranks: of
// --export that is not ALL only Slurm's own reach them.
func (p *program) unsent(k known, put step.Settings) step.Settings {
	given := p.exported(k)
	first, _, _ := strings.Cut(given, ",")
	if first == "" || strings.EqualFold(first, "ALL") {
		return put
	}
	left := slices.DeleteFunc(slices.Clone(put), func(s step.Setting) bool { return s.Variable != "" && !strings.HasPrefix(s.Variable, "SLURM_") })
	if len(left) < len(put) {
		left = append(left, step.Setting{Kept: "--export=" + given, Why: "the variables that would be set for MPI would not reach the ranks: say --export=ALL, and what else you want"})
	}
	return left
}
