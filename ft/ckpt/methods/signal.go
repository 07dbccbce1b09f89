package methods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// Variables for the tests, which need not wait as long.
var (
	// quietTime is how long the files must stay as they are to be whole.
	quietTime = 500 * time.Millisecond
	lookTime  = 150 * time.Millisecond // between two looks
	// leaveTime is what a step that is to stop gets to leave by itself when its
	// checkpoint is done, as applications that checkpoint and exit do.
	leaveTime = 500 * time.Millisecond
	// killWait is what a step gets between SIGTERM and SIGKILL, as of Slurm's KillWait.
	killWait = 30 * time.Second
)

const (
	// leftCode is EX_TEMPFAIL: the application has written a checkpoint and left.
	leftCode = 75

	extraWrites    = "writes"
	writesByRename = "rename"
)

// signalMethod has the application write its own checkpoint when it gets a
// signal, proves that it has, and keeps a copy.
type signalMethod struct {
	signal syscall.Signal
	grace  time.Duration
	files  []string
	exact  bool
}

var (
	_ ckpt.Method  = (*signalMethod)(nil)
	_ ckpt.Yielder = (*signalStep)(nil)
)

func newSignal(o Options) (ckpt.Method, error) {
	m := &signalMethod{grace: o.Grace, files: o.Files, exact: o.Exact}
	name := o.Signal
	if name == "" {
		name = "USR1"
	}
	m.signal = unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG"))
	switch {
	case m.signal == 0:
		return nil, fmt.Errorf("signal=%s: there is no such signal; say USR1 or another", o.Signal)
	case m.signal == syscall.SIGKILL || m.signal == syscall.SIGSTOP:
		return nil, fmt.Errorf("signal=%s cannot be caught; say USR1 or another", o.Signal)
	case m.grace < 0:
		return nil, fmt.Errorf("grace=%v is less than nothing", m.grace)
	}
	for _, f := range m.files {
		if _, err := path.Match(f, ""); err != nil || f == "" {
			return nil, fmt.Errorf("files=%s: not a pattern of file names", f)
		}
		if !path.IsAbs(f) && !filepath.IsLocal(f) || path.Clean(f) != f || f == "." || f == "/" {
			return nil, fmt.Errorf("files=%s: name files below the job's folder, or by an absolute path, in their shortest form", f)
		}
	}
	return m, nil
}

func (m *signalMethod) Name() string { return "signal" }

// Usable is always so: the application does the work.
func (m *signalMethod) Usable(context.Context) error { return nil }

func (m *signalMethod) Start(ctx context.Context, given ckpt.Launch) (ckpt.Step, error) {
	l := launch(given)
	dir, err := l.dir()
	if err != nil {
		return nil, err
	}
	if err := l.madeBy(m.Name()); err != nil {
		return nil, err
	}
	if l.From != nil {
		if err := m.putBack(ctx, dir, l.From); err != nil {
			return nil, err
		}
	}
	p, err := l.begin(ctx, l.Args, restartEnv(l))
	if err != nil {
		return nil, err
	}
	return &signalStep{m: m, l: l, dir: dir, p: p}, nil
}

// signalStep is a step of signalMethod.
type signalStep struct {
	m    *signalMethod
	l    launch
	dir  string
	p    *process
	busy sync.Mutex
	sent atomic.Bool            // the signal, for a checkpoint
	torn atomic.Pointer[string] // the rank that died of it, for which the step was ended

	waits atomic.Pointer[context.CancelCauseFunc] // ends begun
	told  sync.Once                               // that it waits
}

// Wait returns ErrEarly for a step that died of the signal for a checkpoint.
func (s *signalStep) Wait() (int, error) {
	code, err := s.p.wait()
	if err == nil {
		err = s.early(code)
	}
	return code, err
}

func (s *signalStep) Signal(sig os.Signal) error { return s.p.pass(sig) }

// Checkpoint has the files copied before the step is ended, so that a failed
// copy ends nothing.
func (s *signalStep) Checkpoint(ctx context.Context, into string, stop bool) (ckpt.Made, error) {
	if !s.busy.TryLock() {
		return ckpt.Made{}, ckpt.ErrBusy
	}
	defer s.busy.Unlock()
	if !s.p.running() {
		return ckpt.Made{}, ckpt.ErrFinishing
	}
	if len(s.m.files) == 0 && !stop {
		return ckpt.Made{}, errors.New("without files= only a checkpoint that ends the step can be proved: its exit code is the proof")
	}
	if stop {
		s.warn()
	} else if err := s.begun(ctx); err != nil {
		return ckpt.Made{}, err
	}
	byRename, err := s.write(ctx, into, stop)
	if err != nil {
		return ckpt.Made{}, err
	}
	made := ckpt.Made{Tool: "signal " + unix.SignalName(s.m.signal), Iteration: saidLast(s.l.Stdout), Extra: map[string]string{}}
	if byRename {
		made.Extra[extraWrites] = writesByRename
	}
	if stop && !s.p.goneWithin(ctx, leaveTime) {
		if err := s.p.end(ctx, killWait); err != nil {
			return ckpt.Made{}, err
		}
	}
	return made, nil
}

// write signals, waits for the proof and copies the files; again, if they were
// written meanwhile.
func (s *signalStep) write(ctx context.Context, into string, stop bool) (byRename bool, err error) {
	if err := s.caught(ctx); err != nil {
		return false, err
	}
	before, err := nextTick(ctx, s.dir, s.m.files)
	if err != nil {
		return false, fmt.Errorf("looking at the files before the signal: %w", err)
	}
	d := deaths{said: Follow(s.l.Stderr), of: s.m.signal, ours: !stop && s.alone()}
	s.sent.Store(true)
	defer func() {
		if s.p.running() && s.torn.Load() == nil {
			s.sent.Store(false) // it has borne it
		}
	}()
	if err := s.p.signal(s.m.signal); err != nil {
		if errors.Is(err, os.ErrProcessDone) {
			return false, ckpt.ErrFinishing
		}
		return false, fmt.Errorf("signalling the step: %w", err)
	}
	proofCtx := ctx
	if s.m.grace > 0 {
		var cancel context.CancelFunc
		proofCtx, cancel = context.WithTimeout(ctx, s.m.grace)
		defer cancel()
	}
	for {
		if err := empty(into); err != nil {
			return false, err
		}
		now, err := s.prove(proofCtx, before, d)
		if err != nil {
			return false, err
		}
		// A file of old may be empty: the application is at it, and a restart does without.
		err = keep(ctx, s.dir, into, slices.DeleteFunc(now.files(), func(f seen) bool { return f.size == 0 }))
		switch {
		case err == nil && len(s.m.files) == 0:
			note := fmt.Sprintf("The application said by exit code %d that it has written a checkpoint. files= names none to keep.\n", leftCode)
			return false, os.WriteFile(filepath.Join(into, noteName), []byte(note), 0o600)
		case err == nil:
			return renamed(before, now), nil
		case !errors.Is(err, errChanged):
			return false, err
		}
	}
}

// prove waits until the files are those of a new checkpoint, or the step has left, or
// a rank of it has died of the signal, as srun says: what the others write then is none.
func (s *signalStep) prove(ctx context.Context, before look, d deaths) (look, error) {
	var last look
	var since time.Time // last has not changed since
	for {
		running := s.p.running() // before the look: what is written until the end is seen
		now, err := lookAt(s.dir, s.m.files)
		if err != nil {
			return nil, fmt.Errorf("looking for the checkpoint's files: %w", err)
		}
		why := missing(before, now)
		if !running {
			return now, s.afterEnd(before, now)
		}
		if rank := d.rank(); rank != "" && s.alone() {
			return nil, s.tear(ctx, rank)
		}
		if last == nil || !now.equal(last) {
			last, since = now, time.Now()
		}
		if why == "" && len(now) > 0 && time.Since(since) >= quietTime {
			return now, nil
		}
		if why == "" {
			why = "the files are still being written"
		}
		select {
		case <-s.p.ended: // look at once
			continue
		default:
		}
		if !pause(ctx, lookTime) {
			return nil, fmt.Errorf("no checkpoint after %v: %s: %w", unix.SignalName(s.m.signal), why, ctx.Err())
		}
	}
}

// afterEnd says whether a step that ended after the signal has left a checkpoint.
// Its exit code tells; with another one, of a failure, the step may have died in
// the middle of a file, unless the files are put in place by rename.
func (s *signalStep) afterEnd(before, now look) error {
	code, err := s.p.wait()
	name := unix.SignalName(s.m.signal)
	switch {
	case err != nil:
		return err
	case code == leftCode:
		if why := absent(now); why != "" {
			return fmt.Errorf("%w: it left with exit code %d, which says that it has checkpointed, but %s", ckpt.ErrFinishing, code, why)
		}
		return nil
	case code == 128+int(s.m.signal):
		// Not by itself: it has begun a moment ago, or not all of its processes catch it.
		return fmt.Errorf("the step died of %s: a process of it does not catch it", name)
	case code > 0 && code < 128 && missing(before, now) == "" && renamed(before, now):
		return nil
	}
	return fmt.Errorf("%w: it ended with exit code %d after %s", ckpt.ErrFinishing, code, name)
}
