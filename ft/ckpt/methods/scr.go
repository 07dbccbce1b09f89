package methods

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// scrMethod has an application that uses SCR, the Scalable Checkpoint / Restart
// library, write a checkpoint and leave, and keeps a copy of what it wrote.
//
// SCR's halt condition is a file in the prefix directory. While it is there,
// SCR_Need_checkpoint says yes, and after that checkpoint the application leaves:
// by SCR_Should_exit, or by SCR_HALT_EXIT=1. There is no way to ask for a
// checkpoint alone: an application takes those by itself, as SCR_CHECKPOINT_SECONDS
// and the like have it.
type scrMethod struct{ exact bool }

var _ ckpt.Method = scrMethod{}

func newSCR(o Options) (ckpt.Method, error) { return scrMethod{o.Exact}, nil }

func (scrMethod) Name() string { return "scr" }

// Usable looks for SCR's commands: scr_halt is a Python program with a C one
// behind it.
func (scrMethod) Usable(ctx context.Context) error { return usableSCR(ctx) }

func usableSCR(context.Context) error { return hasSCR(os.Environ()) }

// hasSCR looks on the PATH of an environment.
func hasSCR(env []string) error {
	for _, tool := range []string{scrHalt, scrIndex, scrPrint} {
		if _, err := (launch{Env: env}).lookPath(tool); err != nil {
			return fmt.Errorf("scr: %s is not on PATH: install SCR 3 and KVTree, or load their module", tool)
		}
	}
	return nil
}

// SCR's commands.
const (
	scrHalt  = "scr_halt"
	scrIndex = "scr_index"
	scrPrint = "kvtree_print"
)

// scrPlace is an application's prefix directory, with the environment for SCR's
// commands.
type scrPlace struct {
	prefix string // absolute
	l      launch
}

func newSCRPlace(l launch) (scrPlace, error) {
	dir, err := l.dir()
	if err != nil {
		return scrPlace{}, err
	}
	prefix := dir // as SCR itself has it
	if set := l.env("SCR_PREFIX"); set != "" {
		prefix = set
	}
	return scrPlace{inPlace(dir, filepath.Clean(prefix)), l}, nil
}

// run runs one of SCR's commands, which must end with 0.
func (p scrPlace) run(ctx context.Context, args ...string) (string, error) {
	cmd, err := launch{Env: p.l.Env, Dir: p.prefix}.command(args, p.l.Env)
	if err != nil {
		return "", err
	}
	code, out, err := runTool(ctx, cmd)
	if err == nil && code != 0 {
		err = failed(code, out)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// halt asks the application to checkpoint and leave.
func (p scrPlace) halt(ctx context.Context) error {
	_, err := p.run(ctx, scrHalt, p.prefix)
	return err
}

// clear takes the halt condition away, with which an application leaves again as
// soon as it has begun.
func (p scrPlace) clear(ctx context.Context) error {
	if _, err := os.Stat(p.meta("halt.scr")); errors.Is(err, fs.ErrNotExist) {
		return nil // scr_halt --remove wants one
	}
	_, err := p.run(ctx, scrHalt, "--remove", p.prefix)
	return err
}

// meta is a file of SCR's own.
func (p scrPlace) meta(name string) string { return filepath.Join(p.prefix, ".scr", name) }

// Start puts back the generation's dataset, and has SCR begin from it.
func (m scrMethod) Start(ctx context.Context, given ckpt.Launch) (ckpt.Step, error) {
	l := launch(given)
	if err := errors.Join(l.madeBy(m.Name()), hasSCR(l.Env)); err != nil {
		return nil, err
	}
	p, err := newSCRPlace(l)
	if err != nil {
		return nil, fmt.Errorf("scr: %w", err)
	}
	if n := l.ranks(); l.From != nil && n > 0 && l.From.Ranks > 0 && n != l.From.Ranks {
		return nil, fmt.Errorf("scr: the checkpoint is of %d ranks, and the step has %d tasks: SCR would find none, and the program begin anew", l.From.Ranks, n)
	}
	if err := p.clear(ctx); err != nil {
		return nil, fmt.Errorf("scr: the halt condition of before: %w", err)
	}
	if l.From != nil {
		if err := p.putBack(ctx, l.From, m.exact); err != nil {
			return nil, fmt.Errorf("scr: %w", err)
		}
	}
	s := &scrStep{place: p}
	if at, ok, err := p.newest(ctx); err != nil {
		return nil, fmt.Errorf("scr: %w", err)
	} else if ok {
		s.kept = at.id
	}
	set := map[string]string{"SCR_PREFIX": p.prefix}
	if l.env("SCR_HALT_EXIT") == "" {
		set["SCR_HALT_EXIT"] = "1"
	}
	if l.env("USER") == "" {
		set["USER"] = fmt.Sprint(os.Getuid()) // SCR does without a name, not without a word
	}
	if s.p, err = l.begin(ctx, l.Args, setEnv(restartEnv(l), set)); err != nil {
		return nil, fmt.Errorf("scr: %w", err)
	}
	return s, nil
}

// ranks are the tasks that srun starts; 0: it is not known, as of a launcher's.
func (l launch) ranks() int {
	if l.Program < 1 {
		return 0
	}
	return l.tasks()
}

// scrStep is a step of scrMethod.
type scrStep struct {
	place scrPlace
	p     *process
	busy  sync.Mutex
	kept  int // the newest dataset that was there at the start, or was kept since; 0: none. Of the holder of busy.
}

func (s *scrStep) Wait() (int, error)         { return s.p.wait() }
func (s *scrStep) Signal(sig os.Signal) error { return s.p.pass(sig) }

// Checkpoint with stop halts the application, which writes a checkpoint and
// leaves; without, it keeps the one that the application has written by itself.
func (s *scrStep) Checkpoint(ctx context.Context, into string, stop bool) (ckpt.Made, error) {
	if !s.busy.TryLock() {
		return ckpt.Made{}, fmt.Errorf("scr: %w", ckpt.ErrBusy)
	}
	defer s.busy.Unlock()
	if !s.p.running() {
		return ckpt.Made{}, fmt.Errorf("scr: %w", ckpt.ErrFinishing)
	}
	if stop {
		if err := s.leave(ctx); err != nil {
			return ckpt.Made{}, fmt.Errorf("scr: %w", err)
		}
	}
	at, ok, err := s.place.newest(ctx)
	switch {
	case err != nil:
	case stop && (!ok || at.id == s.kept):
		err = fmt.Errorf("%w: it left, and wrote no checkpoint", ckpt.ErrFinishing)
	case !ok || at.id == s.kept:
		err = errors.New("the application has written no checkpoint since; SCR_CHECKPOINT_SECONDS and the like say when it does")
	default:
		err = s.place.keep(ctx, at, into)
	}
	if err != nil {
		return ckpt.Made{}, fmt.Errorf("scr: %w", err)
	}
	s.kept = at.id
	return ckpt.Made{Tool: "scr", Ranks: s.place.l.ranks(), Iteration: iterationOf(at.name), Extra: map[string]string{scrName: at.name}}, nil
}

// leave halts the application and waits until it has left. If it does not in
// time, the condition is taken back: it goes on.
func (s *scrStep) leave(ctx context.Context) error {
	if err := s.place.halt(ctx); err != nil {
		return err
	}
	if s.p.gone(ctx) {
		return nil
	}
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	return errors.Join(fmt.Errorf("the application did not checkpoint and leave in time: %w", ctx.Err()), s.place.clear(back))
}
