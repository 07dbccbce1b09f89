package methods

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// mpiexecCall is a command line of MPICH's mpiexec.
type mpiexecCall struct {
	command string
	options []string // without the number of ranks
	ranks   int
	program []string
}

// hydraNames are those that MPICH's mpiexec has, the surest first.
var hydraNames = []string{"mpiexec.hydra", "mpiexec.mpich", "mpirun.mpich", "mpiexec", "mpirun"}

var (
	// hydraFlags, hydraTakes and hydraTakesTwo are the options of mpiexec that have
	// no value, one and two, as far as ranks can be restarted with them.
	hydraFlags    = strings.Fields("genvall envall prepend-rank l verbose v print-all-exitcodes disable-hostname-propagation order-nodes")
	hydraTakes    = strings.Fields("ppn perhost iface bind-to map-by membind topolib usize outfile-pattern outfile errfile-pattern errfile prepend-pattern gpus-per-proc")
	hydraTakesTwo = strings.Fields("genv env")
	// hydraHosts say where or how the ranks are started, which is not the job's to say.
	hydraHosts = strings.Fields("f hostfile machinefile machine machines machinelist hosts hostlist host launcher launcher-exec bootstrap bootstrap-exec rmk localhost skip-launch-node")
)

// Launcher says whether the step's program starts an MPI job's ranks by itself, and
// whether the options of srun before it name no more than one task: with more, or with
// none in a job of several tasks, srun would start it so often.
func Launcher(of ckpt.Launch) (is, once bool) {
	l := launch(of)
	if l.Program < 1 || l.Program >= len(l.Args) {
		return false, false
	}
	name := filepath.Base(l.Args[l.Program])
	is = isMPIRun(name) || slices.Contains(hydraNames, name) || slices.Contains(otherLaunchers, name)
	return is, is && l.taskOptions() <= 1
}

// otherLaunchers are names that Open MPI's mpirun has beside the common ones.
var otherLaunchers = []string{"mpirun.openmpi", "mpiexec.openmpi", "prterun", "oshrun"}

// mpiexec reads the step's command line, of which mpiexec is the program, and says
// why MANA cannot run it.
func (l launch) mpiexec(ctx context.Context) (mpiexecCall, error) {
	switch {
	case l.Program < 0 || l.Program >= len(l.Args):
		return mpiexecCall{}, errors.New("no program is given")
	case !filepath.IsAbs(l.Scratch):
		return mpiexecCall{}, fmt.Errorf("the scratch folder %q is not absolute", l.Scratch)
	case !slices.Contains(hydraNames, filepath.Base(l.Args[l.Program])):
		return mpiexecCall{}, fmt.Errorf("starts ranks by MPICH's mpiexec only: write mpiexec before %s", l.Args[l.Program])
	case l.Program > 0 && l.taskOptions() > 1:
		return mpiexecCall{}, fmt.Errorf("%s is started once, and its ranks by it: leave out the number of tasks before it", l.Args[l.Program])
	case l.elsewhere():
		return mpiexecCall{}, fmt.Errorf("%s would run on this host, which is none of the job's: start it from the batch script", l.Args[l.Program])
	}
	call, err := parseMpiexec(l.Args[l.Program:])
	if err != nil {
		return call, err
	}
	if call.ranks == 0 {
		call.ranks = countOf(l.env("SLURM_NTASKS"))
	}
	if call.ranks == 0 && l.From == nil {
		return call, fmt.Errorf("the number of ranks is not known: write %s -n NUMBER", call.command)
	}
	path, err := l.lookPath(call.command)
	if err != nil {
		return call, err
	}
	if err := isHydra(ctx, path, l.Env); err != nil || l.From != nil {
		return call, err // an image has all of its program
	}
	return call, l.linkedWithMANA(call.program[0])
}

// parseMpiexec parts mpiexec's options from its program.
func parseMpiexec(args []string) (mpiexecCall, error) {
	c := mpiexecCall{command: args[0]}
	for i := 1; i < len(args); {
		if !strings.HasPrefix(args[i], "-") {
			c.program = args[i:]
			break
		}
		name, value, has := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		takes := 0
		switch {
		case name == "n" || name == "np" || slices.Contains(hydraTakes, name):
			takes = 1
		case slices.Contains(hydraTakesTwo, name):
			takes = 2
		case slices.Contains(hydraHosts, name):
			return c, fmt.Errorf("%s's option -%s is not for a step that changes its nodes: the ranks run on the job's", c.command, name)
		case !slices.Contains(hydraFlags, name):
			return c, fmt.Errorf("%s's option %s is not known to this method", c.command, args[i])
		}
		if has {
			takes--
		}
		if takes < 0 || i+takes >= len(args) {
			return c, fmt.Errorf("%s's option %s has not the values that it needs", c.command, args[i])
		}
		words := args[i : i+1+takes]
		if i += len(words); name != "n" && name != "np" {
			c.options = append(c.options, words...)
			continue
		}
		if !has {
			value = words[1]
		}
		if c.ranks = countOf(value); c.ranks == 0 {
			return c, fmt.Errorf("%q is no number of ranks", value)
		}
	}
	switch {
	case len(c.program) == 0:
		return c, errors.New("no program is given")
	case slices.Contains(c.program, ":"):
		return c, fmt.Errorf("one program for all ranks is checkpointed, and %s has several", c.command)
	}
	return c, nil
}

// isHydra says why it is not MPICH's mpiexec.
func isHydra(ctx context.Context, path string, env []string) error {
	_, out, err := runTool(ctx, &exec.Cmd{Path: path, Args: []string{path, "--version"}, Env: env})
	if err == nil && !strings.Contains(out, "HYDRA") {
		err = fmt.Errorf("%s is not MPICH's, and MANA is for MPICH", path)
	}
	return err
}

// manaStub is the library that mpicc_mana links a program with, in MPI's place.
const manaStub = "libmpistub.so"

// linkedWithMANA says why the program would crash below MANA.
func (l launch) linkedWithMANA(program string) error {
	path, err := l.lookPath(program)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(path) {
		dir, err := l.dir()
		if err != nil {
			return err
		}
		path = filepath.Join(dir, path)
	}
	f, err := elf.Open(path)
	var format *elf.FormatError
	if errors.As(err, &format) || errors.Is(err, io.EOF) {
		return fmt.Errorf("%s is no program that was linked by mpicc_mana: mpiexec must start that itself, not a script around it", path)
	} else if err != nil {
		return err
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if !slices.Contains(libraries, manaStub) {
		return fmt.Errorf("%s was not linked by mpicc_mana (it does not need %s), and would crash: link it with MANA's mpicc_mana", path, manaStub)
	}
	return nil
}

// line is mpiexec's command line with what each rank is to run.
func (c mpiexecCall) line(l launch, ranks int, runs ...string) []string {
	args := []string{c.command}
	if l.env("SLURM_JOB_ID") != "" {
		// By srun, and not by ssh. What stands before mpiexec is Slurm's own.
		args = append(args, "-launcher", "slurm")
		if l.Program > 0 && filepath.IsAbs(l.Args[0]) {
			args = append(args, "-launcher-exec", l.Args[0])
		}
	}
	args = append(args, c.options...)
	return append(append(args, "-n", strconv.Itoa(ranks)), runs...)
}
