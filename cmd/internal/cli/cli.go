// Package cli is what all our programs share at their edge: exit codes, one
// line of error and one of hint, the log, signals.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/burst-hpc/burst/cmd/internal/journald"
)

// Exit codes of every program.
const (
	OK     = 0 // done
	Failed = 1 // failed
	Usage  = 2 // wrong usage or configuration
)

// Main runs run until it returns or a signal ends ctx, prints its error as
// `name: error: …` and `name: hint: …`, and exits.
func Main(run func(ctx context.Context) error) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup is to outlive its terminal
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	err := run(ctx)
	stop()
	os.Exit(Report(os.Stderr, err))
}

// Report prints err, if any, and returns the exit code for it.
func Report(w io.Writer, err error) int {
	if err == nil {
		return OK
	}
	if s := new(silent); errors.As(err, &s) {
		return s.code
	}
	name := filepath.Base(os.Args[0])
	fmt.Fprintf(w, "%s: error: %v\n", name, err)
	var h interface{ Hint() string }
	if errors.As(err, &h) && h.Hint() != "" {
		fmt.Fprintf(w, "%s: hint: %s\n", name, h.Hint())
	}
	var c interface{ ExitCode() int }
	if errors.As(err, &c) {
		return c.ExitCode()
	}
	return Failed
}

// silent is an exit code of which all has been said.
type silent struct{ code int }

func (s *silent) Error() string { return fmt.Sprintf("exit code %d", s.code) }

// Silent is an error that is an exit code alone, as diff's 1 is: Report prints nothing.
func Silent(code int) error { return &silent{code} }

type hinted struct {
	error
	hint string
	code int
}

func (e *hinted) Hint() string  { return e.hint }
func (e *hinted) ExitCode() int { return e.code }
func (e *hinted) Unwrap() error { return e.error }

// WithHint adds what to do next to an error.
func WithHint(err error, format string, args ...any) error {
	return &hinted{err, fmt.Sprintf(format, args...), Failed}
}

// UsageError is wrong usage or configuration: exit code 2.
func UsageError(err error, hint string) error { return &hinted{err, hint, Usage} }

// Log makes the program's logger: text on w, or with fields in the journal if w
// is a standard error that systemd has connected to it. Storms are few lines; when
// BURST_DEBUG is set everything is there.
func Log(w io.Writer) *slog.Logger {
	level := slog.LevelInfo
	if os.Getenv("BURST_DEBUG") != "" {
		level = slog.LevelDebug
	}
	var h slog.Handler = slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})
	if w == os.Stderr {
		if j := journald.ForStderr(journald.Options{Level: level, Fallback: h}); j != nil {
			h = j
		}
	}
	if level != slog.LevelDebug {
		h = newCalm(h)
	}
	return slog.New(h)
}
