package srun

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/jobword"
	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/step"
)

// requeued is a burst-srun in a later attempt of a job.
type requeued struct {
	*testing.T
	root   string // of all folders; the job's is root/work
	script string
	env    []string
	ctld   client
	burstd transport // nil: it is not known where it is
	said   words
	name   string // that it is called by; empty: burst-srun
	agent  string // the path of agent.env
	line   []string
	direct bool // srun, or another line, has taken its place
	// settings are those of the step that attempt 0 has left.
	settings []directive.Setting
	image    string // that it ran in, as recorded
}

// words are what a program says, from any of its goroutines.
type words struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func newRequeued(t *testing.T) *requeued {
	t.Helper()
	c := make(chan os.Signal, 1) // the runtime's own goroutine is to begin outside of a bubble
	signal.Notify(c, syscall.SIGWINCH)
	signal.Stop(c)
	a := &requeued{T: t, root: t.TempDir(), script: "#!/bin/sh\n#BURST ckpt=signal signal=USR1\n"}
	for name, text := range map[string]string{
		"bin/srun": "#!/bin/sh\nwhile case $1 in -*) ;; *) false ;; esac; do shift; done\nexec \"$@\"\n",
		"bin/sim":  "#!/bin/sh\necho \"${BURST_GENERATION:-the beginning}\" >>" + filepath.Join(a.root, "starts") + "\n",
	} {
		path := filepath.Join(a.root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(a.dir("work"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(a.dir("work"))
	t.Setenv("TMPDIR", t.TempDir())
	a.env = []string{"SLURM_JOB_ID=17", "SLURM_TASK_PID=999999", "SLURM_RESTART_COUNT=1", "PATH=" + os.Getenv("PATH"), "BURST_SRUN=" + a.dir("bin/srun")}
	return a
}

func (a *requeued) dir(name string) string { return filepath.Join(a.root, name) }

// slurm is one that answers.
func (a *requeued) slurm() slurmctld {
	return slurmctld{script: a.script, job: slurm.Job{State: "RUNNING", Restarts: 1}, work: a.dir("work")}
}

// left is what attempt 0 has left in a checkpoint directory: its step, and of that a
// generation, if it was made by a method. It returns its folder.
func (a *requeued) left(dir, method string) string {
	a.Helper()
	k := known{facts: facts{job: step.Job{ID: 17}}, seen: seen{script: a.script}}
	err := k.book(dir).Change(a.Context(), func(r *steprecord.Record) error {
		r.Claim(steprecord.Step{Args: []string{"-n1", a.dir("bin/sim")}, Program: "sim", Dir: a.dir("work"), Began: time.Now(), Settings: a.settings, Image: a.image}, "")
		return nil
	})
	if err != nil {
		a.Fatal(err)
	}
	if method == "" {
		return ""
	}
	f, err := ckpt.Open(a.Context(), ckpt.Options{Dir: dir, Job: "17", Step: "0", Keep: 2})
	if err != nil {
		a.Fatal(err)
	}
	defer f.Close()
	part, err := f.Begin(a.Context(), 0)
	if err != nil {
		a.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(part.Dir, "note.txt"), []byte("as ckpt=signal has it without files=\n"), 0o600); err != nil {
		a.Fatal(err)
	}
	g, err := part.Commit(a.Context(), ckpt.About{Method: method, Nodes: 1})
	if err != nil {
		a.Fatal(err)
	}
	return g.Dir
}

// knows is a burstd that has generations on record, and says this of the site.
func (a *requeued) knows(site string, generations ...string) transport {
	return a.knowsTo(1, site, generations...)
}

// knowsTo is one of which the generations have the number n.
func (a *requeued) knowsTo(n int, site string, generations ...string) transport {
	var rows []session.Blessed
	for i, dir := range generations {
		rows = append(rows, session.Blessed{Key: session.Key{Job: 17, Step: fmt.Sprint(i)}, Answer: session.Answer{Generation: dir, N: n}, At: time.Now()})
	}
	l, err := directive.ReadOptions(site)
	if err != nil {
		a.Fatal(err)
	}
	l.Source = directive.Source{Kind: directive.Site}
	b, err := jobword.Tell(directive.Defaults{Layers: []directive.Layer{l}}, rows)
	if err != nil {
		a.Fatal(err)
	}
	return func(_ context.Context, path string, _, out any) error {
		if path != jobword.Path {
			return errors.New("not now")
		}
		*out.(*jobword.Before) = b
		return nil
	}
}

// away is a burstd that does not answer before the time is over; then it is then.
func away(d time.Duration, then transport) transport {
	until := time.Now().Add(d)
	return func(ctx context.Context, path string, in, out any) error {
		if then == nil || time.Now().Before(until) {
			return errors.New("connection refused")
		}
		return then(ctx, path, in, out)
	}
}

func (a *requeued) run(args ...string) int {
	a.Helper()
	if args == nil {
		args = []string{"-n1", a.dir("bin/sim")}
	}
	p := &program{name: cmp.Or(a.name, "burst-srun"), args: args, environ: a.env, stdout: &a.said, stderr: &a.said, tests: doubles{slurm: a.ctld, agent: a.agent,
		burstd: func() session.Transport {
			if a.burstd == nil {
				return nil
			}
			return a.burstd
		},
		become: func(line []string) error {
			a.direct, a.line = true, line
			return nil
		}}}
	return p.run(a.Context())
}

// starts are what the step has begun from.
func (a *requeued) starts() string {
	text, err := os.ReadFile(a.dir("starts"))
	if err != nil && !os.IsNotExist(err) {
		a.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
