package methods

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// ErrEarly is wrapped, with ErrLost, by the Wait of a step that died of the signal which
// asked for its checkpoint: a rank did not catch it, or not yet.
var ErrEarly = fmt.Errorf("%w: a rank did not catch the signal", ErrLost)

// dying is the first of the step's ranks on this node that the signal would kill; empty:
// none is seen. A rank is what slurmstepd has started: its number is in its environment,
// and in that of its children, which have another. One that has cleared it is not seen.
func (l launch) dying(s syscall.Signal) string {
	step := l.env("BURST_STEP")
	if step == "" {
		return ""
	}
	for _, pid := range processes() {
		env, err := os.ReadFile(filepath.Join("/proc", pid, "environ"))
		if err != nil || !has(env, "SLURM_TASK_PID="+pid) || !has(env, "BURST_STEP="+step) {
			continue
		}
		status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
		if err == nil && fateOf(string(status), s) == byDefault && !isInit(string(status)) {
			name, _, _ := strings.Cut(strings.TrimPrefix(string(status), "Name:\t"), "\n")
			return fmt.Sprintf("%s (process %s)", name, pid)
		}
	}
	return ""
}

// has says whether an environment, as /proc shows it, has the variable with that value.
func has(environ []byte, kv string) bool {
	for one := range bytes.SplitSeq(environ, []byte{0}) {
		if string(one) == kv {
			return true
		}
	}
	return false
}

// isInit says whether a process is the first of a container, whom no signal kills that it
// does not catch.
func isInit(status string) bool {
	for line := range strings.Lines(status) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			all := strings.Fields(ids)
			return len(all) > 1 && all[len(all)-1] == "1"
		}
	}
	return false
}

// Yield has a checkpoint that waits for the ranks make way for one that ends the step.
func (s *signalStep) Yield() {
	if stop := s.waits.Load(); stop != nil {
		(*stop)(ckpt.ErrYielded)
	}
}

// begun waits until the signal kills no rank that is seen. That it takes long is told once.
func (s *signalStep) begun(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.waits.Store(&cancel)
	defer s.waits.Store(nil)
	name := unix.SignalName(s.m.signal)
	for began := time.Now(); ; {
		looks := time.Now()
		rank := s.l.dying(s.m.signal)
		took := time.Since(looks)
		if rank == "" || !s.p.running() {
			return nil
		}
		if time.Since(began) > catchTime {
			s.told.Do(func() {
				s.say("the checkpoint waits: a rank of the step, %s, does not catch %s yet, and would die of it; a shell must start the program by exec", rank, name)
			})
		}
		if !pause(ctx, max(200*time.Millisecond, 20*took)) { // of a host with thousands of processes not much either
			return fmt.Errorf("%s was not sent: a rank of the step, %s, does not catch it, and would die of it: %w", name, rank, context.Cause(ctx))
		}
	}
}

// warn says that the signal will kill a rank. A step that is to end cannot wait for it.
func (s *signalStep) warn() {
	if rank := s.l.dying(s.m.signal); rank != "" {
		s.say("a rank of the step, %s, does not catch %s, or not yet: it is sent all the same, as the step is to end", rank, unix.SignalName(s.m.signal))
	}
}

func (s *signalStep) say(format string, args ...any) {
	if s.l.Say != nil {
		s.l.Say(format, args...)
	}
}

// deathLine finds "srun: error: n1: tasks 0-3: User defined signal 1".
var deathLine = regexp.MustCompile(`(?m)^srun: error: (\S+: tasks? [-0-9,]+): ([^\n]+?)(?: \(core dumped\))?$`)

// diedOf is what srun has said of ranks that a signal killed, in what the step has
// written; empty: nothing.
func (o Output) diedOf(s syscall.Signal) string {
	for _, m := range deathLine.FindAllSubmatch(o.tail(), -1) {
		if strings.EqualFold(string(m[2]), s.String()) {
			return string(m[1])
		}
	}
	return ""
}

// deaths are what srun says of ranks that the signal killed.
type deaths struct {
	said Output
	of   syscall.Signal
	ours bool // it can only be of our step, which is to go on
}

func (d deaths) rank() string {
	if !d.ours {
		return ""
	}
	return d.said.diedOf(d.of)
}

// alone says that no other srun of the job, or that writes into the step's error file, runs on this host: all of a job write
// into one file, and srun does not say of which step it speaks.
func (s *signalStep) alone() bool {
	f, ok := s.l.Stderr.(*os.File)
	if !ok {
		return false
	}
	file, err := f.Stat()
	if err != nil {
		return false
	}
	job, conf, self := s.l.env("SLURM_JOB_ID"), s.l.env("SLURM_CONF"), strconv.Itoa(os.Getpid()) // burst-srun may be called srun, too
	for _, pid := range processes() {
		proc := filepath.Join("/proc", pid)
		name, err := os.ReadFile(filepath.Join(proc, "comm"))
		if err != nil || string(name) != "srun\n" || pid == self || below(pid, s.p.pid()) {
			continue
		}
		env, enverr := os.ReadFile(filepath.Join(proc, "environ"))
		to, err := os.Stat(filepath.Join(proc, "fd", "2"))
		if os.IsPermission(enverr) || os.IsPermission(err) { // another user's
			continue
		}
		if err == nil && os.SameFile(to, file) || job != "" && has(env, "SLURM_JOB_ID="+job) && (conf == "" || has(env, "SLURM_CONF="+conf)) {
			return false
		}
	}
	return true
}

// below says that a process is the other or one of its descendants.
func below(pid string, other int) bool {
	for range 64 {
		if pid == strconv.Itoa(other) {
			return true
		}
		status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
		if err != nil {
			return false
		}
		_, rest, _ := strings.Cut(string(status), "\nPPid:\t")
		pid, _, _ = strings.Cut(rest, "\n")
		if pid == "" || pid == "0" {
			return false
		}
	}
	return false
}

// tear ends a step of which a rank was killed by the signal: the others may wait for it
// in MPI_Init for as long as the job has time.
func (s *signalStep) tear(ctx context.Context, rank string) error {
	name := unix.SignalName(s.m.signal)
	s.torn.Store(&rank)
	if err := s.p.end(ctx, killWait); err != nil {
		return err
	}
	return fmt.Errorf("%s killed %s, which did not catch it: the step is ended", name, rank)
}

// early is why the step has ended if that is the signal; nil: it is not.
func (s *signalStep) early(code int) error {
	rank := s.torn.Load()
	if rank == nil && (!s.sent.Load() || code != 128+int(s.m.signal)) {
		return nil
	}
	who := "a process of it"
	if rank != nil {
		who = *rank
	}
	return fmt.Errorf("%w: %s, which asks for a checkpoint, killed %s; catch it as early as can be, before MPI_Init, start the program by exec in scripts, or take a longer interval=",
		ErrEarly, unix.SignalName(s.m.signal), who)
}
