package srun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/rehearse"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/ckpt/methods"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/step"
)

// known is what a protected step is made of.
type known struct {
	facts
	seen
	started   time.Time         // this process's work
	transport session.Transport // nil: burstd is not known
	wait      time.Duration     // of a later attempt, for what it must know
	away      bool              // burstd did not answer another step of this attempt
	own       directive.Merged  // what the user says, without the site
	word      Before
	heard     bool // word is burstd's
	dir       string
	past      past
	adopted   string // the method of the step's checkpoints, where none is asked for any more
	method    ckpt.Method
	told      *rehearse.Trial
	trial     *rehearsal // nil: the job is none
}

// protect runs a step of a batch job under its method.
func (p *program) protect(ctx context.Context, k known) int {
	j, err := k.job, error(nil)
	k.started, k.transport = time.Now(), p.transport()
	k.burstd = k.transport != nil
	if k.wait, err = waitOf(p.env); err != nil {
		return p.wrong(err)
	}
	if k.seen, err = p.look(ctx, j, k.wait); err != nil && j.Attempt > 0 {
		return p.failed(err)
	} else if err != nil {
		return p.decided(direct(fmt.Sprintf("what the job asks for cannot be read (%v): it is not protected", err)), k)
	}
	k.away = left(os.TempDir(), j, isAway, k.began)
	if k.unread != nil {
		p.once(j, saidUnread, fmt.Sprintf("warning: the job's comment cannot be read (%v): what it says of checkpoints does not count now", k.unread))
	}
	if k.state.Restarts > j.Attempt {
		p.say("Slurm has job %d at its attempt %d, and this is %d: it is over", j.ID, k.state.Restarts, j.Attempt)
		return CutOff
	}
	said := directive.Said{Script: k.script, Comment: k.state.Comment, Options: k.ckpt}
	if k.told, err = rehearse.Told(p.env, j.ID); err != nil {
		return p.wrong(err)
	}
	if k.told != nil && k.told.Method != "" {
		said.Options = []string{k.told.Method}
	}
	if k.own, err = said.Merge(); err != nil {
		return p.wrong(err)
	}
	if k.burstd {
		if err := p.hearSoon(ctx, &k); errors.Is(err, session.ErrReplaced) {
			return p.noFolder(j, err)
		}
	}
	d, err := p.known(ctx, &k, said)
	k.heardOf()
	if err != nil {
		return p.noFolder(j, err)
	}
	if d.Direct && k.once == "" && (k.usable == nil || j.Attempt == 0) {
		if d, err = p.goesOn(ctx, k, d, k.past.steps); err != nil {
			return p.failed(err)
		}
		if d.Direct {
			if k.merged.Method == directive.None && k.asksNothing() && (k.heard || !k.burstd) && k.past.dir == "" {
				leave(os.TempDir(), j, isPlainJob)
			}
			return p.decided(d, k)
		}
	}
	if k.explain {
		fmt.Fprint(p.stdout, k.explained(d))
		return cli.OK
	}
	return p.start(ctx, k, d)
}

// known is judge, for which a later attempt waits until all is known that it needs.
func (p *program) known(ctx context.Context, k *known, said directive.Said) (plan, error) {
	d, err := p.judge(ctx, k, said)
	if err != nil {
		return d, err
	}
	why := k.unsure(func() error { return p.burstdIs(ctx) })
	if why == nil {
		return d, nil
	}
	if k.burstd {
		if err := p.hearLate(ctx, k, why); errors.Is(err, session.ErrReplaced) {
			return d, err
		}
	}
	if k.heard {
		return p.judge(ctx, k, said)
	}
	return d, fmt.Errorf("%w: the step is not begun anew for that; to name the folder, or begin anew, write dir= or ckpt=none in the job's comment", why)
}

// judge merges all that is said, and finds where the step's checkpoints are.
func (p *program) judge(ctx context.Context, k *known, said directive.Said) (d plan, err error) {
	said.Site = k.site()
	if k.merged, err = said.Merge(); err != nil {
		return d, wrongError{err}
	}
	k.rehearsed(k.told, k.started, p.say)
	k.method, k.usable = nil, nil
	if k.merged.Method != directive.None {
		if k.method, err = methods.New(k.merged.Method, k.methodOptions()); err != nil {
			return d, wrongError{err}
		}
		k.usable = k.method.Usable(ctx)
	}
	d = after(k.facts, p.env)
	if d.Direct && k.once == "" && !k.later() && (k.usable == nil || k.job.Attempt == 0) {
		return d, nil
	}
	if k.merged.Dir == "" { // --once alone
		k.merged.Dir = onceDir
	}
	names, err := p.names(ctx, *k)
	if err != nil {
		return d, err
	}
	k.dir = k.merged.Folder(names)
	k.trial.place(names)
	if !k.later() {
		return d, nil
	}
	asked := k.dir
	if k.past, err = p.seek(ctx, *k, names); err != nil {
		return d, err
	}
	k.dir = cmp.Or(k.past.dir, asked)
	if k.merged.Method == directive.None && k.adopted == "" && k.garbled == nil {
		if g, err := k.kept(ctx, k.past.steps); err != nil || g != nil && g.Manifest.Method != "" {
			if err != nil {
				return d, err
			}
			k.adopted = g.Manifest.Method
			p.once(k.job, saidAdopted, fmt.Sprintf("no method of checkpoints is asked for now, and %s is there: the step goes on under ckpt=%s", g.Dir, g.Manifest.Method))
			return p.judge(ctx, k, said)
		}
	}
	if k.dir != asked && !d.Direct {
		p.once(k.job, saidElsewhere, fmt.Sprintf("what earlier attempts have left is in %s, not in %s: it is used, and stays there", k.dir, asked))
	}
	return d, nil
}

// onceDir is where finished steps are recorded when no checkpoints are asked for.
const onceDir = "burst-checkpoints"

// methodOptions are a directive's settings as a method takes them.
func (k known) methodOptions() methods.Options {
	m := k.merged
	o := methods.Options{Signal: m.Signal, Files: m.Globs(), Setup: m.Setup, Run: m.Run, Checkpoint: m.Checkpoint, Restart: m.Restart, Preset: m.Preset, Exact: k.trial != nil}
	if m.From["grace"].Kind != directive.Default {
		o.Grace = m.Grace
	}
	return o
}

// start claims the step, and runs it, unless it has been done before.
func (p *program) start(ctx context.Context, k known, d plan) int {
	b := k.book(k.dir)
	dir, err := os.Getwd()
	if err != nil {
		return p.noFolder(k.job, err)
	}
	e := entry{Args: k.call.Args, Program: programName(k.call), Dir: dir, Began: time.Now().UTC()}
	var was entry
	err = b.open(ctx, func(r *record) error {
		var i int
		i, was = r.claim(e, k.once)
		e = r.Steps[i]
		return nil
	})
	if err != nil {
		return p.noFolder(k.job, err)
	}
	if k.once != "" && e.Done {
		p.say("step %s is done since attempt %d: it is not run again", e.Name, e.Attempt)
		return cli.OK
	}
	note := func(e entry) {
		err := b.change(context.WithoutCancel(ctx), func(r *record) error {
			if i := slices.IndexFunc(r.Steps, func(s entry) bool { return s.Name == e.Name }); i >= 0 {
				r.Steps[i] = e
			}
			return nil
		})
		if err != nil {
			p.say("what became of step %s is not recorded: %v", e.Name, err)
		}
	}
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
	entry
	note func(entry)
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
	environ := without(p.environ, loopName)
	if name != "" {
		environ = append(without(environ, markName), fmt.Sprintf("%s=%s/%s", markName, k.job.Folder(), name))
	}
	return ckpt.Launch{Args: args, Program: at, Env: environ, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
}

// runProtected runs the step under its method.
func (p *program) runProtected(ctx context.Context, k known, e recorded, was entry) int {
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
	r := &runner{job: k.job, name: e.Name, merged: k.merged, method: k.method, folder: folder, launch: p.launch(k, e.Name),
		say: p.say, note: e.note, entry: e.entry, was: was, recorded: blessed, slot: make(chan struct{}, 1), advice: make(chan struct{}, 1)}
	r.runs = func(ctx context.Context) error { return running(ctx, p.slurm(), k.job) }
	if freezes(k.merged) {
		r.machine = ckpt.Here(ctx)
	}
	if r.launch.Scratch, err = folder.Scratch(); err != nil {
		return p.noFolder(k.job, err)
	}
	signals := listen()
	p.say("step %s of job %s: %s", e.Name, k.job.Folder(), k.how())
	if file := overwritten(os.Stdout); file != "" && k.job.Attempt == 0 {
		p.once(k.job, saidAppend, fmt.Sprintf("a restart empties the output %s: write #SBATCH --open-mode=append, or >> for a file of your own", file))
	}
	err = r.begin(ctx)
	k.trial.began(ctx, k, r, err)
	if err != nil {
		if isPlain(err) {
			return p.direct(direct(fmt.Sprintf("%v: the step is not protected", err)), k.job, k.call.Args)
		}
		if r.over().IsZero() {
			return p.failed(err)
		}
		return p.noFolder(k.job, err)
	}
	code := p.within(ctx, k, r, signals)
	r.finish(code)
	return code
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
		Cost: r.cost(), Retries: k.merged.Retries, Label: k.merged.Label,
	}, Do: r.order, Say: func(text string) { p.say("%s", text) }}
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
		r.burstd.Close(closing)
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
