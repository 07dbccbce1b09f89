package methods

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

func TestDiedOf(t *testing.T) {
	for text, want := range map[string]string{
		"srun: error: o2: task 1: User defined signal 1\n":                              "o2: task 1",
		"x\nsrun: error: o2: tasks 1-3,7: User defined signal 1 (core dumped)\nslurm\n": "o2: tasks 1-3,7",
		"srun: error: o2: task 1: Killed\n":                                             "",
		"srun: error: o2: task 1: Exited with exit code 138\n":                          "",
		"User defined signal 1\n":                                                       "",
		"it said: srun: error: o2: task 1: User defined signal 1\n":                     "",
		"srun: error: o2: task 1: User defined sig":                                     "",
	} {
		path := filepath.Join(t.TempDir(), "err")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := (Output{path: path}).diedOf(syscall.SIGUSR1); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// rankBelow is a launch of a step whose only rank runs script, below a launcher that
// passes SIGUSR1 on.
func (p *place) rankBelow(step, script string) ckpt.Launch {
	l := p.launch()
	l.Env = setEnv(l.Env, map[string]string{"BURST_STEP": step, "RANK": script})
	l.Args = []string{"sh", "-c", `trap 'kill -USR1 $!' USR1; sh -c 'SLURM_TASK_PID=$$ exec sh -c "$RANK"' & wait $!; wait $!; wait $!`}
	return l
}

// A checkpoint waits for a rank that does not catch the signal yet.
func TestSignalWaitsForRank(t *testing.T) {
	t.Parallel()
	p := newPlace(t, bySignal())
	r := p.start(p.rankBelow("17/late", "echo ready $$; sleep 1; trap 'echo 5 7 > new && mv new state' USR1; while :; do sleep 0.1; done"))
	r.pid()
	p.checkpoint(r, false)
}

// One that waits for a rank makes way for what ends the step, which is told and sent.
func TestSignalYields(t *testing.T) {
	t.Parallel()
	p := newPlace(t, bySignal())
	r := p.start(p.rankBelow("17/never", "echo ready $$; sleep 1000; :"))
	r.pid()
	s := r.step.(*signalStep)
	into := p.folder()
	done := make(chan error)
	go func() {
		_, err := s.Checkpoint(t.Context(), into, false)
		done <- err
	}()
	for s.waits.Load() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	s.Yield()
	if err := <-done; !errors.Is(err, ckpt.ErrYielded) || !strings.Contains(err.Error(), "does not catch it") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), longEnough)
	defer cancel()
	if _, err := s.Checkpoint(ctx, p.folder(), true); err == nil || !strings.Contains(err.Error(), "died of SIGUSR1") {
		t.Errorf("%v", err)
	}
	if _, err := s.Wait(); !errors.Is(err, ErrEarly) || !errors.Is(err, ErrLost) {
		t.Errorf("%v", err)
	}
	s.p.signalGroup(syscall.SIGKILL)
}

// A death that srun tells of may be of another step's rank: all of a job write into one file. It ends no step that is to end anyway, nor
// one that may not be meant.
func TestWhoseDeathItIs(t *testing.T) {
	if testing.Short() {
		t.Skip("files are waited for")
	}
	t.Parallel()
	neighbour := filepath.Join(t.TempDir(), "srun")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(sleep, neighbour); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name      string
		stop      bool
		writes    string // how long the files take
		neighbour bool
		torn      bool
	}{
		{"its own", false, "2", false, true},
		{"a neighbour's", false, "2", true, false},
		{"the step is to end", true, "2", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file, err := os.OpenFile(filepath.Join(t.TempDir(), "err"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if tt.neighbour {
				cmd := exec.Command(neighbour, "60")
				cmd.Stderr = file
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			}
			p := newPlace(t, bySignal())
			l := p.launch()
			l.Stderr = file
			l.Args = []string{"bash", "-c", `trap 'echo "srun: error: n9: task 3: User defined signal 1" >&2; sleep ` + tt.writes + `; echo 5 7 >new; mv new state' USR1; echo ready $$; while :; do sleep 0.1; done`}
			r := p.start(l)
			r.pid()
			ctx, cancel := context.WithTimeout(t.Context(), longEnough)
			defer cancel()
			_, err = r.step.Checkpoint(ctx, p.folder(), tt.stop)
			if torn := err != nil && strings.Contains(err.Error(), "killed n9: task 3"); torn != tt.torn || !tt.torn && err != nil {
				t.Errorf("%v", err)
			}
			r.step.(*signalStep).p.signalGroup(syscall.SIGKILL)
		})
	}
}
