package srun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm/step"
)

// start claims the step, and runs it, unless it has been done before.
func (p *program) start(ctx context.Context, k known, d plan) int {
	k.ctld = p.ctldOf(ctx, k)
	b := k.book(k.dir)
	dir, err := os.Getwd()
	if err != nil {
		return p.noFolder(k.job, err)
	}
	e := steprecord.Step{Args: k.call.Args, Program: programName(k.call), Dir: dir, Began: time.Now().UTC(), Settings: k.settings(), Image: k.image()}
	var was steprecord.Step
	strays := 0
	err = b.Open(ctx, func(r *steprecord.Record) error {
		var i int
		if i, was = r.Claim(e, k.once); was.Name == "" && k.once == "" {
			strays = r.Strays(e)
		}
		e = r.Steps[i]
		return nil
	})
	if err != nil {
		return p.noFolder(k.job, err)
	}
	if strays > 0 && k.isPart() && k.later() {
		return p.failed(fmt.Errorf("step %s would begin anew, and not its parts with it: its arguments or its folder differ from those of the %d steps of %s that earlier attempts had not done; --once NAME tells them apart; %s", e.Name, strays, e.Program, anew(k.job)))
	}
	if strays > 0 {
		p.say("step %s is taken for a new one, and begins anew: its arguments or its folder differ from those of the %d steps of %s that earlier attempts had not done; --once NAME tells them apart", e.Name, strays, e.Program)
	}
	if k.once != "" && e.Done {
		p.say("step %s is done since attempt %d: it is not run again", e.Name, e.Attempt)
		return cli.OK
	}
	if text := k.otherImage(was); text != "" {
		p.say("warning: step %s goes on in another image than in attempt %d: %s", e.Name, was.Attempt, text)
	}
	note := b.Notes(ctx, p.say)
	if d, err = p.goesOn(ctx, k, d, []string{e.Name}); err != nil {
		return p.failed(err)
	}
	if d.Direct {
		return p.recorded(ctx, k, d, recorded{e, note})
	}
	return p.runProtected(ctx, k, recorded{e, note}, was)
}

// recorded is a step of the record, and what writes down how it went.
type recorded struct {
	steprecord.Step
	note func(steprecord.Step)
}

// noFolder says why the checkpoint folder cannot be used. A first attempt has not
// begun its work; a later one would do it again from the beginning.
func (p *program) noFolder(j step.Job, err error) int {
	var wrong wrongError
	switch {
	case errors.As(err, &wrong):
		return p.wrong(err)
	case errors.Is(err, ckpt.ErrSuperseded), errors.Is(err, session.ErrReplaced):
		p.say("%v: this one is over", err)
		return CutOff
	case j.Attempt == 0:
		return p.wrong(fmt.Errorf("%w: name another folder with dir=", err))
	}
	return p.failed(err)
}

func programName(c step.Call) string {
	if words := c.Program(); len(words) > 0 {
		return filepath.Base(words[0])
	}
	return ""
}

// launch is the step's start. At a restart its own output files are appended to.
func (p *program) launch(k known, name string) ckpt.Launch {
	args := append([]string{p.srun}, k.call.Args...)
	at := 1 + k.call.Parts[0].Program
	if k.job.Attempt > 0 && k.call.Truncates(p.env) != "" && k.call.Whole(p.env) {
		args = slices.Insert(args, 1, "--open-mode=append")
		at++
	}
	switch is, once := k.launcher(p); {
	case name == "":
	case !is:
		args, at = k.put.Line(args, at)
	case once && p.name != "srun" && !slices.Contains(launchers, k.merged.Method):
		args, at = k.call.Program(), 0 // srun would start it once for each task
	}
	environ := without(p.environ, loopName)
	if name != "" {
		environ = k.put.Environ(environ)
		environ = append(without(environ, markName), fmt.Sprintf("%s=%s/%s", markName, k.job.Folder(), name))
	}
	return ckpt.Launch{Args: args, Program: at, Env: environ, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Say: p.say}
}

// runProtected runs the step under its method.
func (p *program) runProtected(ctx context.Context, k known, e recorded, was steprecord.Step) int {
	if e.Components = k.components(); e.Components != nil {
		e.note(e.Step)
	}
	o := ckpt.Options{Dir: k.dir, Cluster: k.job.Cluster, Job: k.job.Folder(), Step: e.Name, Attempt: k.job.Attempt,
		Keep: k.merged.Keep, Reserve: k.word.Site.Reserve, Identity: k.identity()}
	// Without a record of burstd's what is on disk counts: it may have been away.
	blessed := k.onRecord(e.Name)
	if blessed != (ckpt.ID{}) {
		o.Blessed = &blessed
	}
	folder, err := ckpt.Open(ctx, o)
	if err != nil {
		return p.noFolder(k.job, err)
	}
	defer folder.Close()
	if dir := folder.Moved(); dir != "" {
		p.say("what an earlier job with the id %s has left of step %s is in %s, and not used", k.job.Folder(), e.Name, dir)
	}
	e.KeepAfter = k.merged.KeepAfter
	l, loss := p.watched(k, p.launch(k, e.Name))
	r := &runner{job: k.job, name: e.Name, merged: k.merged, method: k.method, folder: folder, launch: l,
		loss: loss, say: p.say, note: e.note, entry: e.Step, was: was, recorded: blessed, slot: make(chan struct{}, 1), advice: make(chan struct{}, 1)}
	r.runs = func(ctx context.Context) error { return running(ctx, p.slurm(), k.job) }
	if freezes(k.merged) {
		r.machine = ckpt.Here(ctx)
	}
	if r.launch.Scratch, err = folder.Scratch(); err != nil {
		return p.noFolder(k.job, err)
	}
	if k.isPart() {
		r.parts = p.parts(ctx, k)
	}
	signals := listen()
	err = r.begin(ctx)
	k.trial.began(ctx, k, r, err)
	if err != nil {
		if isPlain(err) {
			if e.Components != nil {
				e.Components = nil
				e.note(e.Step)
			}
			return p.plain(fmt.Sprintf("%v: the step is not protected", err), k)
		}
		if r.over().IsZero() {
			return p.failed(err)
		}
		return p.noFolder(k.job, err)
	}
	p.begun(k, e.Name)
	go p.sweep(ctx, k) // the end of this process ends it, at any line
	code := p.within(ctx, k, r, signals)
	r.finish(code)
	p.ended(ctx, k, r, signals)
	return code
}

// begun says how the step is protected, and what that lacks.
func (p *program) begun(k known, name string) {
	p.say("step %s of job %s: %s", name, k.job.Folder(), k.how())
	if k.trial == nil {
		p.once(k.job, saidUnheard, k.unheard())
	}
	if file := overwritten(p.stdout); file != "" && k.job.Attempt == 0 {
		p.once(k.job, saidAppend, fmt.Sprintf("a restart empties the output %s: write #SBATCH --open-mode=append, or >> for a file of your own", file))
	}
}

// within runs the step within its session.
func (p *program) within(ctx context.Context, k known, r *runner, signals <-chan os.Signal) int {
	if k.trial != nil {
		return k.trial.run(ctx, r, func() int { return r.run(ctx, signals) })
	}
	if k.transport == nil {
		return r.run(ctx, signals)
	}
	c := session.ClientConfig{Hello: session.Hello{
		Key:  session.Key{Job: k.job.ID, Attempt: k.job.Attempt, Step: r.name},
		Host: hostname(), Method: k.merged.Method, Strategy: k.merged.Strategy, Dir: r.folder.Path(), Interval: k.merged.Interval,
		Cost: r.took, Retries: k.merged.Retries, Label: k.merged.Label, Together: r.parts != nil,
	}, Do: r.order, Progress: r.progress, Say: func(text string) { p.say("%s", text) }}
	if k.merged.Periodical() && k.merged.Interval == 0 {
		c.Advise = r.advise
	}
	c.Transport = noting{k.transport, k.job.Attempt, r.recordedAt}
	code, ranks := 0, k.tasks(p.env)
	c.Summary = func() session.Summary { return r.sum(code, ranks) } // called by Close
	r.burstd = session.NewClient(c)
	running, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { r.burstd.Run(running) })
	code = r.run(ctx, signals)
	if r.over().IsZero() {
		closing, cancel := context.WithTimeout(ctx, closeTime)
		r.cost = r.burstd.Close(closing).Cost
		cancel()
	}
	stop()
	wg.Wait()
	return code
}

// closeTime is how long the end of a step waits for burstd to hear of it.
const closeTime = 3 * time.Second

// recordedAt notes that burstd has a generation on record.
func (r *runner) recordedAt(id ckpt.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.delivered.Before(id) {
		r.delivered = id
	}
}
