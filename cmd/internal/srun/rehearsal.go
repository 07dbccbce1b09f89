package srun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	goesOn  bool      // a checkpoint is taken after which the step goes on, as at intervals
	stop    bool      // the last one ends the step, as on a notice
	meant   directive.Directive
	dir     string // where checkpoints go without a rehearsal; relative: to the job's folder
	report  rehearse.Report
	say     func(format string, args ...any)
}

// rehearsed has the job's directives serve a rehearsal: its checkpoints are due
// by time, burstd takes no part, and its record does not count.
func (k *known) rehearsed(t *rehearse.Trial, started time.Time, say func(format string, args ...any)) {
	if t == nil {
		return
	}
	k.trial = &rehearsal{Trial: t, started: started, goesOn: k.merged.Periodical(), stop: k.merged.OnNotice(), meant: k.merged.Directive, say: say}
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

// checkpoint takes those of the rehearsal: one of each kind that the strategy will take.
func (t *rehearsal) checkpoint(ctx context.Context, r *runner) {
	timer := time.NewTimer(t.For)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	var err error
	if t.goesOn {
		t.say("rehearsal: takes a checkpoint after which the step goes on")
		if err = t.take(ctx, r, false); err == nil && r.hasEnded(settleTime) {
			t.left(r)
			t.hand()
			return
		}
	}
	if t.stop {
		if err != nil && !r.hasEnded(0) {
			t.report.Amiss = fmt.Sprintf("no checkpoint was made after which the step goes on, as strategy=%s has it: %v", t.meant.Strategy, err)
		}
		t.say("rehearsal: takes a checkpoint that ends the step")
		err = t.take(ctx, r, true)
	}
	switch {
	case errors.Is(err, ckpt.ErrFinishing) && ctx.Err() != nil:
		return
	case err != nil:
		t.report.Made, t.report.Error = nil, err.Error()
	}
	t.hand()
}

// take takes one checkpoint.
func (t *rehearsal) take(ctx context.Context, r *runner, stop bool) error {
	limit, cancel := context.WithTimeout(ctx, t.Within)
	defer cancel()
	g, err := r.take(limit, stop)
	switch {
	case errors.Is(err, ckpt.ErrFinishing) && ctx.Err() != nil:
		return err // the step's own end is told
	case err != nil:
		t.say("rehearsal: checkpoint: %v", err)
		return err
	}
	t.report.Made = &rehearse.Made{ID: g.ID(), Tool: g.Tool, Took: g.Took, Bytes: g.Bytes(), Files: len(g.Files), Ranks: g.Ranks, Iteration: g.Iteration}
	t.say("rehearsal: %v: %s in %s", g.ID(), bytesText(g.Bytes()), shortly(g.Took))
	return nil
}

// left notes that a step that was to go on has ended at its checkpoint. Without a
// rehearsal that would be the end of the job's work.
func (t *rehearsal) left(r *runner) {
	running, _ := r.current()
	if code, err := running.Wait(); code != 0 || err != nil {
		t.report.Amiss = fmt.Sprintf("the step left with exit code %d at a checkpoint after which strategy=%s has it go on, so the first one would end the job: "+
			"write strategy=preemptive, or have the program go on", code, t.meant.Strategy)
		t.say("rehearsal: %s", t.report.Amiss)
	}
}

func (t *rehearsal) hand() {
	if err := t.Report(t.report); err != nil {
		t.say("rehearsal: it cannot be told how it goes: %v", err)
	}
}

// env is a variable of an environment.
func env(environ []string, name string) string { p := program{environ: environ}; return p.env(name) }
