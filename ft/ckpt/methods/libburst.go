package methods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// libMethod has an application that is linked with libburst (contrib/libburst) write a
// checkpoint into the generation's folder, when it next asks whether it should.
//
// What the library needs it finds in its environment: the socket of this process, and
// the folder to go on from. The socket is on this host alone, and so one rank here
// speaks for all.
type libMethod struct{}

var _ ckpt.Method = libMethod{}

func newLib(Options) (ckpt.Method, error) { return libMethod{}, nil }

// Variables of the library.
const (
	libSocketEnv  = "BURST_LIB"
	libRestartEnv = "BURST_LIB_RESTART"
	libJobEnv     = "BURST_LIB_JOB"
)

// libLeaveTime is what an application gets to end by itself, as it was told to, when
// its checkpoint is kept: MPI_Finalize and the last of its output. A variable for the
// tests.
var libLeaveTime = 20 * time.Second

func (libMethod) Name() string { return "libburst" }

// Usable wants of this host what the shared page needs.
func (libMethod) Usable(ctx context.Context) error { return usableLib(ctx) }

func usableLib(context.Context) error {
	page, err := newLibPage()
	if err != nil {
		return fmt.Errorf("libburst: %w", err)
	}
	return page.close()
}

func (m libMethod) Start(ctx context.Context, given ckpt.Launch) (ckpt.Step, error) {
	l := launch(given)
	vars := map[string]string{libSocketEnv: "", libRestartEnv: "", libJobEnv: l.env("SLURM_JOB_ID")}
	if err := errors.Join(l.madeBy(m.Name()), l.passes(libSocketEnv, libRestartEnv)); err != nil {
		return nil, fmt.Errorf("libburst: %w", err)
	}
	if l.From != nil {
		vars[libRestartEnv] = filepath.Join(l.From.Dir, filesFolder)
		if err := hasContent(vars[libRestartEnv]); err != nil {
			return nil, fmt.Errorf("libburst: restarting from %s: %w", l.From.Dir, err)
		}
	}
	s, err := listenLib(l.Say)
	if err != nil {
		return nil, fmt.Errorf("libburst: %w", err)
	}
	vars[libSocketEnv] = s.path()
	p, err := l.begin(ctx, l.Args, setEnv(restartEnv(l), vars))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("libburst: %w", err), s.close())
	}
	go func() {
		<-p.ended
		s.close() // what cannot be deleted of it, a later start deletes
	}()
	return &libStep{l: l, p: p, server: s}, nil
}

// passes says why srun would not give the program these variables.
func (l launch) passes(vars ...string) error {
	given, by := l.env("SLURM_EXPORT_ENV"), "SLURM_EXPORT_ENV="
	for i, arg := range l.Args[:max(0, min(l.Program, len(l.Args)))] {
		name, value, ok := strings.Cut(arg, "=")
		if len(name) < len("--exp") || !strings.HasPrefix("--export", name) { // srun takes it as short as that
			continue
		}
		if ok {
			given, by = value, "--export="
		} else if i+1 < l.Program {
			given, by = l.Args[i+1], "--export="
		}
	}
	names := strings.Split(given, ",")
	if given == "" || l.Program == 0 || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, "ALL") }) {
		return nil
	}
	for _, v := range vars {
		if !slices.Contains(names, v) {
			return fmt.Errorf("%s%s keeps %s from the program: say srun --export=ALL", by, given, v)
		}
	}
	return nil
}

// libStep is a step of libMethod.
type libStep struct {
	l      launch
	p      *process
	server *libServer
	busy   sync.Mutex
}

func (s *libStep) Wait() (int, error)         { return s.p.wait() }
func (s *libStep) Signal(sig os.Signal) error { return s.p.pass(sig) }

// Iteration is what the application has told, as of ckpt.Teller.
func (s *libStep) Iteration() (now, of int64) { return s.server.iteration() }

// Asked has a value when the application wants a checkpoint, as of ckpt.Asker.
func (s *libStep) Asked() <-chan struct{} { return s.server.wishes() }

// Yield gives up an order that the application has not begun.
func (s *libStep) Yield() { s.server.yield() }

// Checkpoint asks, and waits until the application has committed. With stop it is then
// to end; if it does not, it is ended: its work is kept.
func (s *libStep) Checkpoint(ctx context.Context, into string, stop bool) (ckpt.Made, error) {
	if !s.busy.TryLock() {
		return ckpt.Made{}, fmt.Errorf("libburst: %w", ckpt.ErrBusy)
	}
	defer s.busy.Unlock()
	if !s.p.running() {
		return ckpt.Made{}, fmt.Errorf("libburst: %w", ckpt.ErrFinishing)
	}
	made, err := s.take(ctx, into, stop)
	if err != nil {
		return ckpt.Made{}, fmt.Errorf("libburst: %w", err)
	}
	if stop && !s.p.goneWithin(ctx, min(libLeaveTime, max(leaveTime, untilEnd(ctx)/2))) {
		if err := s.p.end(ctx, killWait); err != nil {
			return ckpt.Made{}, fmt.Errorf("libburst: %w", err)
		}
	}
	return made, nil
}

func untilEnd(ctx context.Context) time.Duration {
	if at, ok := ctx.Deadline(); ok {
		return time.Until(at)
	}
	return libLeaveTime * 2
}

// take has the application write into a folder below into.
func (s *libStep) take(ctx context.Context, into string, stop bool) (ckpt.Made, error) {
	folder := filepath.Join(into, filesFolder)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return ckpt.Made{}, err
	}
	o := s.server.order(folder, stop)
	select {
	case <-o.over:
	case <-s.p.ended:
	case <-ctx.Done():
	}
	began := s.server.withdraw(o)
	if o.err == nil {
		return ckpt.Made{Tool: "libburst", Ranks: s.l.ranks(), Iteration: o.iteration}, nil
	}
	switch {
	case !s.p.running():
		return ckpt.Made{}, fmt.Errorf("%w, and committed no checkpoint", ckpt.ErrFinishing)
	case ctx.Err() == nil && errors.Is(o.err, errLibGone):
		if s.p.goneWithin(ctx, reapTime) {
			return ckpt.Made{}, fmt.Errorf("%w: %w", ckpt.ErrFinishing, o.err)
		}
	case errors.Is(o.err, errLibWithdrawn) && began:
		return ckpt.Made{}, fmt.Errorf("the program has begun a checkpoint, and not committed it in time: %w", ctx.Err())
	case errors.Is(o.err, errLibWithdrawn):
		return ckpt.Made{}, fmt.Errorf("%s: %w", s.server.unheard(), ctx.Err())
	}
	return ckpt.Made{}, o.err
}
