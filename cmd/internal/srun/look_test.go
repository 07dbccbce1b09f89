package srun

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/step"
)

// slurmctld answers, or does not.
type slurmctld struct {
	script string
	err    error
	job    slurm.Job
	config map[string]string
	work   string
}

func (c slurmctld) Job(_ context.Context, id uint32) (slurm.Job, error) {
	j := c.job
	j.ID = id
	return j, c.err
}
func (c slurmctld) WorkDir(context.Context, uint32) (string, error) { return c.work, c.err }
func (c slurmctld) ShowConfig(context.Context) (map[string]string, error) {
	return c.config, c.err
}
func (c slurmctld) BatchScript(context.Context, uint32) (string, error) { return c.script, c.err }

// proc is /proc with a process 9 that runs a batch script of slurmd's.
func proc(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	spooled := filepath.Join(dir, "spool", "slurm_script")
	for name, text := range map[string]string{
		"spool/slurm_script": script,
		"9/cmdline":          "/bin/bash\x00" + spooled + "\x00arg\x00",
		"9/stat":             "9 (slurm) script) S 1 9 9 0 -1 4194304 100 0 0 0 0 0 0 0 20 0 1 0 360000 1000 100\n",
		"stat":               "cpu 1 2\nbtime 1700000000\n",
		"8/cmdline":          "/bin/bash\x00",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLook(t *testing.T) {
	away := errors.New("Unable to contact slurm controller")
	dir := proc(t, "#BURST from=slurmd\n")
	for _, c := range []struct {
		name   string
		slurm  slurmctld
		shell  int
		script string
		job    uint32
		wrong  string
	}{
		{"slurmctld answers", slurmctld{script: "#BURST from=slurmctld\n"}, 9, "#BURST from=slurmctld\n", 17, ""},
		{"slurmctld is away", slurmctld{err: away}, 9, "#BURST from=slurmd\n", 0, ""},
		{"no script", slurmctld{err: away}, 8, "", 0, "does not run one"},
		{"no process", slurmctld{err: away}, 0, "", 0, "SLURM_TASK_PID"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := look(t.Context(), c.slurm, step.Job{ID: 17, Shell: c.shell}, dir)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) || !errors.Is(err, away) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || s.script != c.script || s.state.ID != c.job {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
	if at := startOf(dir, 9); !at.Equal(time.Unix(1700000000-2+3600, 0)) {
		t.Errorf("it began at %v", at)
	}
	if at := startOf("/proc", os.Getpid()); time.Since(at) < 0 || time.Since(at) > time.Hour {
		t.Errorf("this process began at %v", at)
	}
	for _, pid := range []int{0, -1, 8, 7} {
		if at := startOf(dir, pid); !at.IsZero() {
			t.Errorf("process %d began at %v", pid, at)
		}
	}
}

func TestSigns(t *testing.T) {
	dir := t.TempDir()
	j := step.Job{ID: 17, Shell: 9}
	if left(dir, j, saidPlain, time.Time{}) || !leave(dir, j, saidPlain) || leave(dir, j, saidPlain) || !left(dir, j, saidPlain, time.Time{}) {
		t.Error("not the first time only")
	}
	if left(dir, j, isPlainJob, time.Time{}) {
		t.Error("a sign is taken for another")
	}
	if left(dir, j, saidPlain, time.Now().Add(time.Minute)) {
		t.Error("the sign of an earlier job of the same id is taken")
	}
	j.Attempt = 1
	if !leave(dir, j, saidPlain) {
		t.Error("not in the next attempt")
	}
	own := filepath.Join(dir, "burst-srun-"+strconv.Itoa(os.Getuid()))
	old := filepath.Join(own, "3.0")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(old, time.Time{}, time.Now().Add(-2*oldSign)); err != nil {
		t.Fatal(err)
	}
	leave(dir, step.Job{ID: 18}, saidPlain)
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("an old sign stays: %v", err)
	}
	if err := os.Chmod(own, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, temp := range []string{filepath.Join(dir, "missing"), dir} {
		for range 2 {
			if !leave(temp, j, saidPlain) || left(temp, j, saidPlain, time.Time{}) {
				t.Errorf("%s: silent where it cannot know, or believes what others may write", temp)
			}
		}
	}
}

func TestFindSrunLoop(t *testing.T) {
	env := func(name string) string {
		return map[string]string{loopName: strconv.Itoa(os.Getpid()), "PATH": "/usr/bin"}[name]
	}
	if _, err := findSrun(env); err == nil || !strings.Contains(err.Error(), "leads back") {
		t.Error(err)
	}
	if _, err := findSrun(func(name string) string { return map[string]string{"BURST_SRUN": "bin/srun"}[name] }); err == nil {
		t.Error("a relative path is taken")
	}
}

func TestRunning(t *testing.T) {
	for _, c := range []struct {
		job  slurm.Job
		err  error
		runs bool
	}{
		{slurm.Job{State: "RUNNING", Restarts: 1}, nil, true},
		{slurm.Job{State: "RUNNING", Restarts: 2}, nil, false},
		{slurm.Job{State: "PENDING", Restarts: 1}, nil, false},
		{slurm.Job{State: "RUNNING", Restarts: 1}, errors.New("away"), false},
	} {
		if err := running(t.Context(), slurmctld{err: c.err, job: c.job}, step.Job{ID: 17, Attempt: 1}); (err == nil) != c.runs {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// squeue answers as a Runner.
type squeue struct {
	out string
	err error
}

func (q squeue) Run(context.Context, string, ...string) (stdout, stderr []byte, err error) {
	return []byte(q.out), []byte("slurm_load_jobs error"), q.err
}

func TestWorkDir(t *testing.T) {
	for _, c := range []struct {
		squeue
		want string
	}{
		{squeue{out: "/home/a b        \n"}, "/home/a b"},
		{squeue{out: "/w   \n/w   \n"}, "/w"},
		{squeue{out: "\n"}, ""},
		{squeue{err: errors.New("exit status 1")}, ""},
	} {
		got, err := ctld{runner: c.squeue}.WorkDir(t.Context(), 17)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: %q, %v", c.out, got, err)
		}
	}
}
