package srun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/jobword"
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
	bare      bool              // what the user says lacks the site's word, which is not to be had
	word      jobword.Before
	heard     bool  // word is burstd's
	silence   error // why it does not say it now; nil: it does, or was not asked
	glanced   bool  // it was hardly waited for
	siteNone  bool  // by what this node was told at its boot, the site asks for checkpoints of no job
	dir       string
	ctld      string // the cluster's controller; empty: not known
	past      past
	adopted   []directive.Setting // of the step's checkpoints, where the site asks for their method no more
	method    ckpt.Method
	told      *rehearse.Trial
	trial     *rehearsal    // nil: the job is none
	put       step.Settings // to the user's command line and environment
	inside    *inside       // the image that the ranks run in; nil: they run on the host
	unlooked  error         // why the script is not known; nil: it is, or was not asked for
}

// protect runs a step of a batch job under its method.
func (p *program) protect(ctx context.Context, k known) int {
	j, err := k.job, error(nil)
	k.started = time.Now()
	p.finds(&k)
	if k.wait, err = waitOf(p.env); err != nil {
		p.once(j, saidWait, fmt.Sprintf("warning: %v: a later attempt waits for up to %v", err, defaultWait))
		k.wait = defaultWait
	}
	if k.seen, err = p.look(ctx, j, k.wait); err != nil && j.Attempt > 0 {
		return p.failed(err)
	} else if err != nil {
		k.unlooked = err
		return p.decided(ctx, direct(fmt.Sprintf("what the job asks for cannot be read (%v): it is not protected", err)), k)
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
	if k.own, err = said.Own(); err != nil {
		return p.wrong(err)
	}
	if k.deaf != nil && j.Attempt > 0 && !k.off() {
		return p.failed(fmt.Errorf("%w: the step is not begun anew for that; BURST_URLS in the job's environment says it as well, as http://HOST:PORT", k.deaf))
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
			if k.merged.Method == directive.None && k.merged.Container == "" && k.asksNothing() && k.unread == nil && (k.heard || !k.burstd) && k.past.dir == "" {
				leave(os.TempDir(), j, isPlainJob)
			}
			return p.decided(ctx, d, k)
		}
	}
	if _, _, err := p.plainly(k, nil); err != nil && !d.Direct {
		return p.wrong(err)
	}
	if err := p.prepare(ctx, &k); err != nil {
		return p.unprepared(err)
	}
	if k.explain {
		fmt.Fprint(p.stdout, k.explained(d), p.but(k, d), explainSettings(k.put))
		return cli.OK
	}
	if k.later() && k.past.dir == "" && !d.Direct {
		p.say("this is attempt %d, and nothing of an earlier one is in %s: the step begins from its beginning", j.Attempt, k.dir)
	}
	return p.start(ctx, k, d)
}

// known is judge, for which a later attempt waits until all is known that it needs.
func (p *program) known(ctx context.Context, k *known, said directive.Said) (plan, error) {
	d, err := p.judge(ctx, k, said)
	why := p.doubt(ctx, *k, err)
	switch {
	case why == nil:
		return d, err
	case !k.later():
		k.bare = true
		if d, err = p.judge(ctx, k, said); d.Direct {
			d.Why = fmt.Sprintf("%v: the step is not protected", why)
		}
		return d, err
	}
	k.adopted = nil
	if k.burstd {
		if err := p.hearLate(ctx, k, why); errors.Is(err, session.ErrReplaced) {
			return d, err
		}
	}
	if k.heard {
		return p.judge(ctx, k, said)
	}
	return d, fmt.Errorf("%w: the step is not begun anew for that; %s; or so with dir=FOLDER in place of ckpt=none, to name the folder", why, anew(k.job))
}

// senselessError is of what is said, which does not go together.
type senselessError struct{ wrongError }

func (e senselessError) Unwrap() error { return e.wrongError }

// doubt says why burstd's word might change what was judged with err; nil: it would not.
func (p *program) doubt(ctx context.Context, k known, err error) error {
	var senseless senselessError
	var old unadoptedError
	switch {
	case err == nil:
		return k.unsure(func() error { return p.burstdIs(ctx) })
	case k.heard || !k.burstd || k.told != nil || !errors.As(err, &senseless) && !errors.As(err, &old):
		return nil
	}
	return fmt.Errorf("%s, and without what the site says %v", k.silent(), err) // whose fault err is, is not known
}

// judge merges all that is said, and finds where the step's checkpoints are.
func (p *program) judge(ctx context.Context, k *known, said directive.Said) (d plan, err error) {
	said.Site = k.site()
	var lacks error
	if k.merged, err = said.Merge(); err != nil {
		lacks = senselessError{wrongError{err}}
		if !k.bare && (!k.later() || k.adopted != nil) {
			return d, lacks
		}
		k.merged = k.own // what is recorded of the step may have the rest
		k.merged.Method = directive.None
	}
	if k.isPart() && k.merged.Strategy == directive.Both {
		k.merged.Strategy = directive.Preemptive // a timer of one part's is none of the others'
	}
	k.rehearsed(k.told, k.started, p.say)
	k.method, k.usable = nil, nil
	if k.merged.Method != directive.None {
		if k.method, err = methods.New(k.merged.Method, k.methodOptions()); err != nil {
			return d, wrongError{err}
		}
		k.usable = k.method.Usable(ctx)
		if unusable, err := k.judgeContained(); err != nil {
			return d, err
		} else if unusable != nil {
			k.usable = unusable
		}
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
	if (k.own.From["ckpt"].Kind == directive.Default || lacks != nil) && k.adopted == nil && k.garbled == nil {
		h, err := p.kept(ctx, *k, k.past.steps)
		if err != nil {
			return d, err
		}
		if g := h.good; g != nil && g.Manifest.Method != "" && g.Manifest.Method != k.merged.Method {
			return p.adopt(ctx, k, said, g)
		}
	}
	if lacks != nil {
		return d, lacks
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
