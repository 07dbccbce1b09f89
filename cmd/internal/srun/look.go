package srun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/step"
)

// client is what is asked of Slurm.
type client interface {
	Job(ctx context.Context, id uint32) (slurm.Job, error)
	BatchScript(ctx context.Context, id uint32) (string, error)
	// WorkDir is the job's working directory, which a script may have left.
	WorkDir(ctx context.Context, id uint32) (string, error)
	// ShowConfig is slurmctld's configuration.
	ShowConfig(ctx context.Context) (map[string]string, error)
}

// ctld is slurmctld by its own commands.
type ctld struct {
	*slurm.Client
	runner slurm.Runner
}

func (c ctld) WorkDir(ctx context.Context, id uint32) (string, error) {
	out, errs, err := c.runner.Run(ctx, "squeue", "-h", "--local", "-j", strconv.FormatUint(uint64(id), 10), "-O", "WorkDir:4096")
	if err != nil {
		return "", fmt.Errorf("reading the working directory of job %d: %w: %.300s", id, err, errs)
	}
	line, _, _ := strings.Cut(string(out), "\n") // of an array's first task all are listed, and have the same
	if dir := strings.TrimSpace(line); filepath.IsAbs(dir) {
		return dir, nil
	}
	return "", fmt.Errorf("reading the working directory of job %d: squeue printed %.300q", id, line)
}

// seen is what Slurm says of the job.
type seen struct {
	script string
	state  slurm.Job // zero: Slurm does not answer, and the environment alone is known
	unread error     // why state is zero
	began  time.Time // of the batch script; zero: not known
}

// lookTime bounds each question to Slurm. Where it does not answer, srun will not start a step.
const lookTime = 20 * time.Second

// look asks Slurm for the job and its script. The script is also read from where
// slurmd has put it for this very run, should slurmctld not answer: an error says
// that neither has it.
func look(ctx context.Context, c client, j step.Job, proc string) (seen, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	s := seen{began: startOf(proc, j.Shell)}
	var job slurm.Job
	if job, s.unread = c.Job(ctx, j.ID); s.unread == nil {
		s.state = job
	}
	script, err := c.BatchScript(ctx, j.ID)
	if err != nil {
		var lerr error
		if script, lerr = spooled(proc, j.Shell); lerr != nil {
			return s, errors.Join(err, lerr)
		}
	}
	s.script = script
	return s, nil
}

// errNotRunning is Slurm's own word that an attempt does not run.
var errNotRunning = errors.New("it does not run any more")

// running says why Slurm does not have this very attempt of the job running.
func running(ctx context.Context, c client, j step.Job) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	now, err := c.Job(ctx, j.ID)
	switch {
	case err != nil:
		return err
	case now.State != "RUNNING" || now.Restarts != j.Attempt:
		return fmt.Errorf("%w: it is %s, at its attempt %d", errNotRunning, now.State, now.Restarts)
	}
	return nil
}

// maxScript is more than slurmctld takes of a script, by default 4 MB.
const maxScript = 64 << 20

// spooled reads the script that the shell with this process id runs: slurmd starts
// it by a path that ends with slurm_script, after the interpreter's.
func spooled(proc string, shell int) (string, error) {
	if shell <= 0 {
		return "", errors.New("SLURM_TASK_PID, the batch script's process, is not known")
	}
	line, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(shell), "cmdline"))
	if err != nil {
		return "", fmt.Errorf("looking for the batch script: %w", err)
	}
	for word := range bytes.SplitSeq(line, []byte{0}) {
		path := string(word)
		if filepath.Base(path) != "slurm_script" || !filepath.IsAbs(path) {
			continue
		}
		st, err := os.Stat(path)
		if err == nil && st.Size() > maxScript {
			err = fmt.Errorf("%s has %d bytes", path, st.Size())
		}
		if err != nil {
			return "", fmt.Errorf("looking for the batch script: %w", err)
		}
		text, err := os.ReadFile(path)
		return string(text), err
	}
	return "", fmt.Errorf("looking for the batch script: process %d does not run one", shell)
}

// startOf is when a process was started; zero: not known. proc(5): field 22 of
// its stat, in hundredths of a second since the boot, which is btime of /proc/stat.
func startOf(proc string, pid int) time.Time {
	text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	if err != nil || pid <= 0 {
		return time.Time{}
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return time.Time{}
	}
	ticks, err := strconv.ParseInt(fields[19], 10, 64)
	if err != nil {
		return time.Time{}
	}
	all, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return time.Time{}
	}
	for line := range strings.Lines(string(all)) {
		if s, ok := strings.CutPrefix(line, "btime "); ok {
			boot, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
			if err != nil {
				return time.Time{}
			}
			// btime is in whole seconds, rounded.
			return time.Unix(boot-2, 0).Add(time.Duration(ticks) * (time.Second / 100))
		}
	}
	return time.Time{}
}
