package srun

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rehearse"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/slurm/directive"
)

// rehearsal is a step's part in `burst checkpoint rehearse`. A nil one does nothing.
type rehearsal struct {
	*rehearse.Trial
	started time.Time // this process's work
	stop    bool      // the checkpoint ends the step, as on a notice
	meant   directive.Directive
	dir     string // where checkpoints go without a rehearsal; relative: to the job's folder
	report  rehearse.Report
	say     func(format string, args ...any)
}

// rehearsed has the job's directives serve a rehearsal: its one checkpoint is due
// by time, burstd takes no part, and its record does not count.
func (k *known) rehearsed(t *rehearse.Trial, started time.Time, say func(format string, args ...any)) {
	if t == nil {
		return
	}
	k.trial = &rehearsal{Trial: t, started: started, stop: k.merged.OnNotice(), meant: k.merged.Directive, say: say}
	k.transport, k.word.Blessed, k.burstd = nil, nil, true
	if k.merged.Method == directive.None {
		return
	}
	k.merged.Strategy, k.merged.Interval = directive.Preemptive, 0
	if !filepath.IsAbs(k.merged.Dir) && !strings.HasPrefix(k.merged.Dir, "~") {
		k.merged.Dir = strings.ReplaceAll(t.Checkpoints(), "%", "%%")
	}
}

// place notes where checkpoints go without a rehearsal.
func (t *rehearsal) place(n directive.Names) {
	if t != nil {
		n.Work = ""
		t.dir = t.meant.Folder(n)
	}
}

// began reports the step's start, or why there is none.
func (t *rehearsal) began(ctx context.Context, k known, r *runner, err error) {
	if t == nil {
		return
	}
	name := ""
	if words := k.call.Program(); len(words) > 0 {
		name = words[0]
	}
	t.report = rehearse.Report{Job: k.job.ID, Attempt: k.job.Attempt, Step: r.name, Program: rehearse.Identify(name, env(r.launch.Env, "PATH")),
		Method: k.merged.Method, Folder: filepath.Dir(r.folder.Path()), Dir: t.dir, Host: cmp.Or(env(r.launch.Env, "SLURMD_NODENAME"), hostname()), Nodes: k.job.Nodes, Machine: ckpt.Here(ctx)}
	t.report.Machine.Features = nil // a restart compares them, people do not
	if err != nil {
		t.report.Error = err.Error()
	} else {
		t.report.Began, t.report.Restart = time.Now().UTC(), time.Since(t.started)
	}
	if r.from != nil {
		t.report.From = r.from.ID()
	}
	t.hand()
}

// run sees the step to its end, with a checkpoint in the job's first attempt.
func (t *rehearsal) run(ctx context.Context, r *runner, over func() int) int {
	running, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if r.job.Attempt == 0 {
			t.checkpoint(running, r)
		}
	}()
	code := over()
	cancel()
	<-done
	if r.over().IsZero() {
		t.report.Ended, t.report.Code = time.Now().UTC(), code
		t.hand()
	}
	return code
}

// checkpoint takes the one of the rehearsal.
func (t *rehearsal) checkpoint(ctx context.Context, r *runner) {
	timer := time.NewTimer(t.For)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	limit, cancel := context.WithTimeout(ctx, t.Within)
	defer cancel()
	t.say("rehearsal: takes a checkpoint")
	g, err := r.take(limit, t.stop)
	switch {
	case err == nil:
		t.report.Made = &rehearse.Made{ID: g.ID(), Tool: g.Tool, Took: g.Took, Bytes: g.Bytes(), Files: len(g.Files), Ranks: g.Ranks, Iteration: g.Iteration}
		t.say("rehearsal: %v: %s in %s", g.ID(), bytesText(g.Bytes()), shortly(g.Took))
	case errors.Is(err, ckpt.ErrFinishing) && ctx.Err() != nil:
		return // the step's own end is told
	default:
		t.report.Error = err.Error()
		t.say("rehearsal: checkpoint: %v", err)
	}
	t.hand()
}

func (t *rehearsal) hand() {
	if err := t.Report(t.report); err != nil {
		t.say("rehearsal: it cannot be told how it goes: %v", err)
	}
}

// env is a variable of an environment.
func env(environ []string, name string) string { p := program{environ: environ}; return p.env(name) }
