package srun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/slurm/step"
	"github.com/burst-hpc/burst/slurm/step/mpi"
)

// own are burst-srun's options, beside srun's.
var own = []step.Option{
	{Name: "ckpt", Arg: step.Required, Own: true},
	{Name: "once", Arg: step.Required, Own: true},
	{Name: "container", Arg: step.Required, Own: true}, // over srun's, for OCI bundles
	{Name: "explain", Own: true},
}

// Help is what burst-srun --help prints.
const Help = `Usage: burst-srun [options] [srun's options] program [arguments]

Runs a step of a job as srun does, with srun's own options, and protects it:
takes checkpoints at intervals and when burstd says that a node is about to be
taken back, and restarts the step from the last good one when the job has been
requeued. What is wanted is in the batch script's #BURST lines, in the job's
comment, in the site's defaults, or in --ckpt; burst explain job.sh shows it.
Standard input, output, exit codes and signals are srun's.

Outside of a job, in salloc, within a step, with --pty, and where no method is
asked for, nothing is protected; one line says so, each reason once.

In a job or an allocation a program of MPI is started as the MPI that it was
built with can be, whichever that is; --explain says how. What the user has set
stays.

  --ckpt TEXT     key=value ... as in #BURST lines, for this step and over them;
                  a first word without = is the method
  --once NAME     when the step has ended with exit code 0 it is not run again
                  by later attempts of the job; NAME is unique in the script
  --container IMAGE  run the program in an Apptainer or Singularity image: a SIF
                  file, a sandbox folder, docker://... or oras://...; as
                  container= in #BURST lines, and over it; none: on the host
  --mpi NAME      the MPI, where it cannot be seen: openmpi4, openmpi5, mpich, intel
                  or mvapich; after a comma srun's type, or mpirun for the MPI's
                  own launcher, which may stand alone; all else is srun's --mpi
  --explain       print what would be done, run nothing
  --help          this text; srun --help has srun's options
  --version       the version

Environment: BURST_CKPT and BURST_ONCE are as --ckpt and --once, which are over
them; BURST_MPI is as --mpi, for programs whose MPI is not seen, or none: nothing
is done about MPI; BURST_SRUN is the path of srun; BURST_URLS is where burstd is,
by default as in /etc/burst/agent.env; BURST_WAIT is how long a requeued job waits
for burstd or Slurm if without them it would begin anew, 10m by default;
BURST_CONTAINER_CACHE is the folder, on each node's own disk, of the images that
are used there, /var/tmp/burst-images-UID by default, in which %n is the node's
name, or none; BURST_CONTAINER_CACHE_MAX is what they may take, 50G by default;
BURST_SRUN_OFF=1 makes it srun and no more.

Exit codes: the step's; 1 the step is not begun anew, though it cannot restart
from its checkpoints or they cannot be found now; 2 wrong usage or directive,
before anything is started; 75 the step has been checkpointed and ended, or its
job is started anew elsewhere. A step that is to be requeued is waited for: the
script does not go on.
`

// request is what the command line and the environment ask of burst-srun.
type request struct {
	call    step.Call
	ckpt    []string
	once    string
	mpi     mpiWord
	explain bool
}

// asksNothing says that the call itself asks for nothing of burst-srun.
func (r request) asksNothing() bool { return len(r.ckpt) == 0 && r.once == "" && !r.explain }

// asker asks the real srun: "--version", "--help".
type asker func(ctx context.Context, option string) (string, error)

// read parses the arguments after the program's name. What is not known of srun's
// options is learnt from srun itself. An error says that the arguments are not
// understood: srun is to have them as they are.
func read(ctx context.Context, args []string, env func(string) string, ask asker) (request, error) {
	options := slices.Concat(own, step.Options(""))
	call, err := step.Parse(args, options)
	var unknown *step.UnknownError
	if errors.As(err, &unknown) {
		version, verr := ask(ctx, "--version")
		help, herr := ask(ctx, "--help")
		if verr != nil || herr != nil {
			return request{}, errors.Join(err, verr, herr)
		}
		options = slices.Concat(own, step.Learn(step.Options(version), help))
		call, err = step.Parse(args, options)
	}
	if err != nil {
		return request{}, err
	}
	call, said := takeMPI(call, env, func() (step.Call, error) { return step.Parse(args, ownMPI(options)) })
	r := request{call: call, mpi: said, ckpt: call.OwnValues("ckpt"), once: env("BURST_ONCE"), explain: len(call.OwnValues("explain")) > 0}
	if len(r.ckpt) == 0 && env("BURST_CKPT") != "" {
		r.ckpt = []string{env("BURST_CKPT")}
	}
	if names := call.OwnValues("once"); len(names) > 0 {
		r.once = names[len(names)-1]
	}
	return r, nil
}

// checkName says what is wrong with the name of --once.
func checkName(name string) error {
	const ok = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-"
	if len(name) > 60 || strings.Trim(name, ok) != "" || strings.Contains(name, "..") || strings.Trim(name, "0123456789") == "" {
		return fmt.Errorf("--once %.70q: a name has at most 60 letters, digits and . _ + -, and is no number", name)
	}
	return nil
}

// worded are burst-srun's own options that take a word, and are not srun's.
var worded = []string{"--ckpt", "--once"}

// ownWord says whether a word after --mpi is burst-srun's.
func ownWord(value string) bool {
	_, own, _ := mpi.ReadWord(value)
	return own
}

// stripped are the arguments without burst-srun's own options at their front, for
// arguments that are not understood: further on a word may be the program's.
func stripped(args []string) []string {
	for len(args) > 0 {
		name, value, has := strings.Cut(args[0], "=")
		switch {
		case args[0] == "--explain":
			args = args[1:]
		case slices.Contains(worded, name) && has, name == "--mpi" && has && ownWord(value):
			args = args[1:]
		case !has && len(args) > 1 && (slices.Contains(worded, name) || name == "--mpi" && ownWord(args[1])):
			args = args[2:]
		default:
			return args
		}
	}
	return args
}
