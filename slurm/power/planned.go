package power

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// Planned is one thing that a round of reconciliation would do.
type Planned struct {
	Kind     string // an action of the table, or "terminate", "adopt", "unserving", "absent"; "doubt" is only a warning
	Node     string // empty: none
	Instance string // empty: none
	Why      string
	Settling bool // a round does it once it has been wanted for a while
}

// plan notes what a round would do, in an engine that only plans; in another
// it is false, and the thing is to be done.
func (e *Engine) plan(p Planned) bool {
	if e.plans == nil {
		return false
	}
	*e.plans = append(*e.plans, p)
	return true
}

// why says in words what leads to an action on a node.
func (c cell) why(a action) string {
	instance := fmt.Sprintf("its instance is %s", c.instance)
	switch c.instance {
	case noInstance:
		instance = "it has no instance"
	case noAnswer:
		instance = "the cloud does not show its instance"
	}
	why := fmt.Sprintf("Slurm has it %s, the journal %s, %s", c.slurm, c.journal, instance)
	if a == address {
		why += ", at another address than Slurm has"
	}
	return why
}

// Plan says what a round would do now, from new answers of the clouds and of
// Slurm. It changes nothing, and may be called at any time while Run runs.
func (e *Engine) Plan(ctx context.Context) ([]Planned, error) {
	l := e.listAll(ctx)
	snap, err := e.slurm.Fresh(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	var plans []Planned
	for name, err := range l.errs {
		if err != nil {
			plans = append(plans, Planned{Kind: "doubt", Why: fmt.Sprintf("provider %s does not answer: nothing is concluded about its instances: %v", name, err)})
		}
	}
	err = e.do(ctx, func(ctx context.Context) error {
		p := e.planner(&plans)
		var c Change
		p.takeLists(&c, l, snap)
		if err := p.commit(ctx, c); err != nil {
			return err
		}
		return p.settleNodes(ctx, snap, l)
	})
	if err != nil {
		return nil, err // a round may still be planned, for nobody
	}
	slices.SortFunc(plans, func(a, b Planned) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.Instance, b.Instance), strings.Compare(a.Kind, b.Kind))
	})
	return plans, nil
}

// planner is an engine that has what this one has, and does nothing.
func (e *Engine) planner(plans *[]Planned) *Engine {
	p := New(e.cfg, nowhere{}, e.slurm, e.providers, slog.New(slog.DiscardHandler))
	p.renamed = e.renamed
	p.mem, p.plans = e.mem.clone(), plans
	p.missing, p.settling, p.unserved = maps.Clone(e.missing), maps.Clone(e.settling), maps.Clone(e.unserved)
	p.closed, p.heard, p.attempts = maps.Clone(e.closed), maps.Clone(e.heard), maps.Clone(e.attempts)
	p.accounts, p.doubt, p.loaded = maps.Clone(e.accounts), maps.Clone(e.doubt), e.loaded
	p.rounds, p.heirs = e.rounds+1, maps.Clone(e.heirs)
	return p
}

// nowhere is the journal of an engine that only plans.
type nowhere struct{}

func (nowhere) AddOrder(context.Context, Order) (bool, error) { return true, nil }
func (nowhere) LoadPower(context.Context) (State, error)      { return State{}, nil }
func (nowhere) CommitPower(context.Context, Change) error     { return nil }
func (nowhere) Known(context.Context, []string) (map[string]bool, error) {
	return nil, nil
}

// caller is somebody who waits for the end of a round that begins after asked.
type caller struct {
	asked time.Time
	done  chan error
}

// Reconcile has a round run now, and waits for its end.
func (e *Engine) Reconcile(ctx context.Context) error {
	w := caller{time.Now(), make(chan error, 1)}
	if err := e.do(ctx, func(context.Context) error {
		e.next, e.callers = time.Now(), append(e.callers, w)
		return nil
	}); err != nil {
		return err
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answerWaiting tells those who wait for a round how the one went that began
// at a time; for others another follows at once.
func (e *Engine) answerWaiting(began time.Time, err error) {
	var later []caller
	for _, w := range e.callers {
		if w.asked.After(began) {
			later = append(later, w)
			e.next = time.Now()
			continue
		}
		w.done <- err
	}
	e.callers = later
}
