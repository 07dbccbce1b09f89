package methods

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// fate is what a signal would do to a process.
type fate int

const (
	served  fate = iota // a handler gets it
	blocked             // it waits, perhaps for a thread that asks for it
	ignored             // nothing
	byDefault
)

// fateOf reads it from the text of /proc/PID/status. What cannot be read is
// taken to be served.
func fateOf(status string, s syscall.Signal) fate {
	has := func(field string) bool {
		for line := range strings.Lines(status) {
			if value, ok := strings.CutPrefix(line, field+":"); ok {
				mask, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
				return err == nil && mask>>(uint(s)-1)&1 == 1
			}
		}
		return false
	}
	switch {
	case !strings.Contains(status, "SigCgt:") || has("SigCgt"):
		return served
	case has("SigBlk") && strings.Contains(status, "State:\tD"):
		return byDefault // a shell, which blocks all signals until its child has begun
	case has("SigBlk"):
		return blocked
	case has("SigIgn"):
		return ignored
	}
	return byDefault
}

// catchTime is how long a program may take from its start until it catches the signal.
const catchTime = time.Minute

// caught waits until the step's process catches the signal, for a program that
// has just begun, or a shell that is its first process, would die of it. Below
// srun and mpirun only those are seen.
func (s *signalStep) caught(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, catchTime)
	defer cancel()
	for was := byDefault; ; {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.p.pid()))
		if !s.p.running() {
			return ckpt.ErrFinishing
		}
		if err != nil {
			return nil
		}
		does := "would die of it"
		is := fateOf(string(text), s.m.signal)
		switch {
		case is == served, is == blocked && was == blocked: // not for a moment only
			return nil
		case is == ignored:
			does = "ignores it"
		}
		was = is
		if !pause(ctx, 50*time.Millisecond) {
			name, _, _ := strings.Cut(strings.TrimPrefix(string(text), "Name:\t"), "\n")
			return fmt.Errorf("%v was not sent: the step's process, %s, does not catch it but %s; a shell must start the program by exec: %w",
				unix.SignalName(s.m.signal), name, does, ctx.Err())
		}
	}
}
