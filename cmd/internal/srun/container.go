package srun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/ckpt/methods"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/step"
	"github.com/burst-hpc/burst/slurm/step/container"
	"github.com/burst-hpc/burst/slurm/step/mpi"
)

// inside is the image that a step's ranks run in.
type inside struct {
	image container.Image
	id    string         // tells a file from another of its name; "": it is none
	tool  container.Tool // of this host
	cache container.Cache
	dir   string   // the ranks' working folder
	binds []string // folders that they need beside it
	where []string // words for the nodes about the tool and the cache
	found mpi.Found
	sets  map[string]string // what files set for its Open MPI; nil: it is not known
	takes bool              // a libfabric of this host's
	ucx   bool              // its MPI sends by UCX
	blind error             // why found is not known; nil: it is
}

// contained says why the method cannot checkpoint ranks in a container; nil: it can, or
// the step runs in none.
func (k known) contained() error {
	word, _ := k.imageWord()
	if word == "" || !freezes(k.merged) {
		return nil
	}
	return fmt.Errorf("it makes images of processes, and cannot of those in a container: say ckpt=signal, command, scr or libburst")
}

// container finds the image of the step, has it ready on the job's nodes, and says what
// the ranks are started by.
func (p *program) container(ctx context.Context, k *known) (step.Settings, error) {
	word, option := k.imageWord()
	switch {
	case word == "":
		return nil, nil
	case k.garbled != nil:
		return nil, wrongError{fmt.Errorf("container %s: srun's arguments are not understood, and where its program is (%w): write `apptainer exec %s` before the program, and BURST_SRUN_OFF=1 before burst-srun", word, k.garbled, word)}
	case p.prepares(*k) && container.IsBundle(word), option && container.IsBundle(word):
		return step.Settings{{Option: "--container=" + word, Why: "a folder with a config.json is an OCI bundle, and srun's own --container takes it"}}, nil
	case !p.prepares(*k) && option:
		return nil, wrongError{fmt.Errorf("--container %s: burst-srun starts ranks in containers in jobs and allocations only, not within a step, nor with BURST_SRUN_OFF=1", word)}
	case !p.prepares(*k):
		return nil, nil
	case !k.call.Whole(p.env):
		return nil, wrongError{fmt.Errorf("container %s: a step of several programs is not started in containers: write `apptainer exec %s` before each of them", word, word)}
	}
	if k.merged.Method == directive.BySignal && k.merged.Signal == "URG" {
		return nil, wrongError{fmt.Errorf("container %s: signal=URG does not reach a program in a container, for the tools have it for themselves: name another, such as signal=USR1", word)}
	}
	if is, _ := methods.Launcher(ckpt.Launch{Args: append([]string{p.srun}, k.call.Args...), Program: 1 + k.call.Parts[0].Program}); is {
		return nil, wrongError{fmt.Errorf("container %s: burst-srun starts the ranks itself, each in a container: write the program in place of %s", word, k.call.Program()[0])}
	}
	in, err := p.image(ctx, *k, word)
	if err != nil {
		return nil, err
	}
	if err := p.ahead(ctx, *k, in); err != nil {
		return nil, err
	}
	seen, err := p.probe(ctx, in, k.call.Program())
	in.found, in.sets, in.takes, in.ucx, in.blind = seen.Found, seen.Params, seen.Fabric, seen.UCX, err
	switch f := in.found; {
	case errors.Is(in.blind, errNoProgram):
		return nil, wrongError{in.blind}
	case in.blind != nil && !errors.Is(in.blind, errUnread) && k.job.Place == step.Batch && !k.explain && !container.Writable(p.env):
		return nil, in.blind // this host is one of the nodes: no rank would start
	case in.blind == nil && f.Missing != "":
		return nil, wrongError{fmt.Errorf("container %s: %s is built with another MPI than the image's: it needs %s, which the image lacks: build it in the image, or take an image with its MPI", in.image, k.call.Program()[0], f.Missing)}
	}
	k.inside = &in
	return in.settings(*k, p.environ)
}

// image finds which image a word means, and which one it is now.
func (p *program) image(ctx context.Context, k known, word string) (in inside, err error) {
	here, err := os.Getwd()
	if err != nil {
		return in, err
	}
	in.dir = here
	if dir, ok := k.call.Value("chdir", p.env); ok {
		in.dir = absolute(here, dir)
	}
	ref, err := container.Parse(word, here)
	if err == nil {
		ref, err = ref.Look()
	}
	if err != nil {
		return in, wrongError{err}
	}
	if in.cache, err = imageCache(p.env, p.say); err != nil {
		return in, wrongError{err}
	}
	// The shell of salloc may be on a host that is none of the nodes.
	if in.tool, err = container.FindTool(p.env("PATH")); err != nil && k.job.Place == step.Batch {
		return in, fmt.Errorf("container %s: %w", word, err)
	}
	if in.tool.Path != "" {
		in.where = append(in.where, "--tool="+in.tool.Path)
	}
	for name, word := range nodeNames {
		if v := p.env(name); v != "" {
			in.where = append(in.where, word+"="+v)
		}
	}
	slices.Sort(in.where)
	switch {
	case ref.Remote() && in.cache.Dir == "":
		return in, wrongError{fmt.Errorf("container %s: BURST_CONTAINER_CACHE=none is for images that are files", word)}
	case ref.Remote():
		in.image, err = p.resolved(ctx, k, ref)
	default:
		if in.image, err = container.Identify(ref); err != nil {
			err = wrongError{err}
		}
		in.id = in.image.Key
		if in.cache.Dir == "" {
			in.image.Key = ""
		}
	}
	if k.dir != "" {
		in.binds = append(in.binds, k.dir)
	}
	for _, glob := range k.merged.Globs() {
		if glob = absolute(in.dir, glob); !strings.HasPrefix(glob, in.dir+"/") {
			in.binds = append(in.binds, beforeStar(glob))
		}
	}
	return in, err
}

// beforeStar is the folder that all files of a pattern are below.
func beforeStar(glob string) string {
	if i := strings.IndexAny(glob, `*?[\`); i >= 0 {
		glob = glob[:i] + "x"
	}
	return filepath.Dir(glob)
}

func absolute(from, dir string) string {
	if filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return filepath.Join(from, dir)
}

// path is where the image is on a node that has it.
func (in inside) path() string {
	if in.image.Key == "" {
		return in.image.Path
	}
	return in.cache.Path(in.image.Key)
}

// settings put burst-srun itself before the program: on each node it finds what that node
// has, and the tool takes its place.
func (in inside) settings(k known, environ []string) (step.Settings, error) {
	if k.dir != "" && !k.explain {
		// What is not there cannot be bound; the step would make it a moment later.
		if err := os.MkdirAll(k.dir, 0o700); err != nil {
			return nil, wrongError{fmt.Errorf("%w: name another folder with dir=", err)}
		}
	}
	line, err := in.words(execWord)
	if err != nil {
		return nil, err
	}
	for _, dir := range in.binds {
		line = append(line, "--bind="+dir)
	}
	why := fmt.Sprintf("each rank runs by %s exec in %s", cmp.Or(in.tool.Name, "apptainer or singularity"), in.image)
	if in.image.Key != "" {
		why += fmt.Sprintf(", of which each node has a copy: %s", in.path())
	}
	if k.explain && in.tool.Path != "" {
		why += "; by what this node has, which others may not, that is: " + in.lineHere(k.call.Program(), environ)
	}
	return step.Settings{{Before: append(line, "--dir="+in.dir, "--"), Why: why}}, nil
}

// lineHere is the tool's command line as it would be on this host, after the variables that
// are set for it.
func (in inside) lineHere(command, environ []string) string {
	here := container.ThisNode("/")
	run := container.Run{Tool: in.tool, Image: in.path(), Dir: in.dir, Binds: append(slices.Clip(in.binds), container.Found((&program{environ: environ}).env)...), Program: command}
	words := slices.Concat(run.Environ(here, environ)[len(environ):], run.Line(here))
	return strings.Join(words, " ")
}

// words are a call of burst-srun itself about the image.
func (in inside) words(what string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	line := []string{self, what, "--image=" + in.image.String()}
	if in.image.Key != "" {
		line = append(line, "--key="+in.image.Key, fmt.Sprintf("--size=%d", in.image.Size))
	}
	return append(line, in.where...), nil
}

// judgeContained refuses a method that the user asked for and that cannot work in a
// container; one of the site's is an error of the method's, and the step is not protected.
func (k known) judgeContained() (unusable, refused error) {
	err := k.contained()
	if err == nil {
		return nil, nil
	}
	if slices.Contains(launchers, k.own.Method) || k.own.Preset != "" {
		return nil, wrongError{fmt.Errorf("%s: %w", userWord(k.own), err)}
	}
	return err, nil
}
