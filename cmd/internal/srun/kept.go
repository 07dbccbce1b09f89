package srun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/slurm/directive"
)

// held is what steps have of generations.
type held struct {
	good    *ckpt.Entry  // that one of them may restart from; nil: there is none
	passed  []ckpt.Entry // that none can restart from
	missing string       // on burstd's record, and not to be seen; empty: there is none
}

// held looks for what the steps may restart from.
func (k known) held(ctx context.Context, steps []string) (h held, err error) {
	for _, name := range steps {
		var all []ckpt.Entry
		cleared := false
		f, err := ckpt.View(ckpt.Options{Dir: k.dir, Cluster: k.job.Cluster, Job: k.job.Folder(), Step: name})
		if err == nil {
			all, err = f.List(ctx)
			cleared = f.Cleared()
			f.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return h, err
		}
		for i, e := range all {
			switch e.State {
			case ckpt.Good, ckpt.Unreadable:
				return held{good: &all[i]}, nil
			case ckpt.Damaged, ckpt.Late, ckpt.Aside:
				h.passed = append(h.passed, e)
			}
		}
		id := k.onRecord(name)
		seen := slices.ContainsFunc(all, func(e ckpt.Entry) bool { return !e.ID.Before(id) })
		if id != (ckpt.ID{}) && !seen && !cleared {
			h.missing = fmt.Sprintf("%v of step %s", id, name)
		}
	}
	return h, nil
}

// kept is held, for which it waits until what burstd has on record is to be seen, in
// whatever state, if there is nothing else to restart from.
func (p *program) kept(ctx context.Context, k known, steps []string) (held, error) {
	said := false
	for end := time.Now().Add(seenTime); ; {
		var h held
		err := p.patiently(ctx, k, func() (err error) {
			h, err = k.held(ctx, steps)
			return err
		})
		switch {
		case err != nil || h.good != nil || h.missing == "":
			return h, err
		case time.Now().After(end):
			return h, fmt.Errorf("%s is on record, and not in %s: is the folder's file system mounted here? The step is not begun anew for that; %s", h.missing, k.dir, anew(k.job))
		case !said:
			p.say("%s is on record, and not to be seen on this node yet: it is waited for", h.missing)
			said = true
		}
		if !pause(ctx, seenLook) {
			return h, context.Cause(ctx)
		}
	}
}

// goesOn is the plan for steps of a later attempt, of which d would have srun begin
// one anew. An error says that they have checkpoints, and need their method for them.
func (p *program) goesOn(ctx context.Context, k known, d plan, steps []string) (plan, error) {
	if !d.Direct || k.job.Attempt == 0 || k.off() {
		return d, nil
	}
	h, err := p.kept(ctx, k, steps)
	switch {
	case err != nil:
		return d, err
	case h.good == nil:
		for _, e := range h.passed {
			p.say("%s (%s) is not used: %v", e.Dir, e.State, e.Why)
		}
		return d, nil
	case d.unlessKept:
		p.notProtected(k, d.Why)
		return plan{}, nil
	case k.usable != nil:
		err = fmt.Errorf("ckpt=%s: %w", k.merged.Method, k.usable)
	case d.Why == "":
		err = errors.New("no checkpoints are asked for any more")
	default:
		err = errors.New(d.Why)
	}
	return d, fmt.Errorf("%w: the step is not begun anew while %s is there: ask for its method again; %s", err, h.good.Dir, anew(k.job))
}

// unadoptedError is of a generation whose method is not asked for any more, and that does
// not work by what is known of it.
type unadoptedError struct{ error }

// adopt judges anew with the settings that the step had when g was made.
func (p *program) adopt(ctx context.Context, k *known, said directive.Said, g *ckpt.Entry) (plan, error) {
	method := g.Manifest.Method
	k.adopted = []directive.Setting{{Key: "ckpt", Value: method}}
	if slices.Contains(k.past.settings, k.adopted[0]) {
		k.adopted = k.past.settings
	}
	d, err := p.judge(ctx, k, said)
	var wrong wrongError
	switch {
	case errors.As(err, &wrong):
		return d, unadoptedError{fmt.Errorf("%s was made by ckpt=%s, which is not asked for as it was any more, and how is not known: %w", g.Dir, method, wrong.error)}
	case err == nil && k.own.Method == method:
		p.once(k.job, saidAdopted, fmt.Sprintf("%s was made by ckpt=%s with settings that are not asked for any more: the step goes on with them", g.Dir, method))
	case err == nil:
		p.once(k.job, saidAdopted, fmt.Sprintf("%s was made by ckpt=%[2]s, which is not asked for any more: the step goes on under ckpt=%[2]s", g.Dir, method))
	}
	return d, err
}

// settings are what a later attempt needs to know of a protected step's, should nobody
// say it then. Where its generations lie it finds by itself.
func (k known) settings() []directive.Setting {
	if k.merged.Method == directive.None {
		return nil
	}
	return slices.DeleteFunc(k.merged.Settings(), func(s directive.Setting) bool {
		return s.Key == "dir" || s.Key == "after" || s.Key == "label" || s.Key == "container" || s.Key == "budget"
	})
}
