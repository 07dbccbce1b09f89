package rehearse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// unjudged is why the results of a rehearsal are not known to be right.
const unjudged = "no --verify command says whether the results are right"

// verify runs the user's command on the results of the n-th restart.
func (r *rehearsal) verify(ctx context.Context, n int) (ok *bool, why string, err error) {
	if r.o.Verify == "" {
		return nil, unjudged, nil
	}
	if err := refresh(r.room.work); err != nil {
		return nil, "", err
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", r.o.Verify)
	cmd.Dir = r.room.work
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr // standard output has the verdict
	submitted, err := os.Getwd()
	if err != nil {
		return nil, "", err
	}
	cmd.Env = append(os.Environ(),
		fmt.Sprintf("BURST_REHEARSE_RESTART=%d", n),
		fmt.Sprintf("BURST_REHEARSE_JOB=%d", r.job.id),
		"BURST_REHEARSE_OUTPUT="+r.room.output("job.out"),
		"BURST_REHEARSE_FROM="+submitted)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil, "", context.Cause(ctx)
	}
	good := err == nil
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		return nil, "", fmt.Errorf("running the --verify command: %w", err)
	}
	if !good {
		why = fmt.Sprintf("the --verify command says after restart %d that the results are not right: %v", n, err)
	}
	r.say("restart %d: verified: %v", n, good)
	return &good, why, nil
}

// lastWords are what burst-srun, or else the job, wrote last on standard error.
func (r *rehearsal) lastWords() string {
	const tail = 64 << 10
	f, err := os.Open(r.room.output("job.err"))
	if err != nil {
		return r.nothingThere()
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > tail {
		if _, err := f.Seek(-tail, io.SeekEnd); err != nil {
			return ""
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, tail))
	if err != nil {
		return ""
	}
	last := ""
	for line := range bytes.Lines(text) {
		s := strings.TrimSpace(string(line))
		if s != "" && !strings.HasPrefix(s, "burst-srun: job ") { // its summary
			last = s
		}
	}
	if last == "" || strings.HasPrefix(last, "burst-srun: rehearsal:") { // which is told
		return r.nothingThere()
	}
	return fmt.Sprintf(" (its last words: %.300s)", last) + r.nothingThere()
}

// nothingThere says that the job may have missed its files.
func (r *rehearsal) nothingThere() string {
	if r.room.own && len(r.o.Copy) == 0 && r.made.Made == nil {
		return fmt.Sprintf("; the job ran in %s, which was empty: copy what it reads by --copy", filepath.Base(r.room.dir)+"/work")
	}
	return ""
}
