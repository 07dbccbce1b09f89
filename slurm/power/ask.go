package power

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// Questions that come together are one call: they wait askMerge for each
// other, and a provider is asked no more often than once in askPace.
const (
	askMerge = 200 * time.Millisecond
	askPace  = 2 * time.Second
)

// questions are the instances that the providers are to be asked about.
type questions struct {
	open  map[string]bool // guarded by Engine.mu
	since time.Time       // the first of them; guarded by Engine.mu
	last  map[string]time.Time
}

// Ask has the providers asked soon about instances of which somebody has heard
// that they may be gone. What a provider answers counts as a round's list does:
// the node of one that is gone is set DOWN at once, and its jobs are requeued. It
// returns at once; ids that the journal does not know are passed over.
func (e *Engine) Ask(instances ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := len(e.questions.open)
	for _, id := range instances {
		if _, ok := e.mem.instances[id]; ok {
			e.questions.open[id] = true
		}
	}
	if before == 0 && len(e.questions.open) > 0 {
		e.questions.since = time.Now()
		e.Wake()
	}
}

// askClouds asks what is to be asked. Before the first round has adopted what
// an old journal does not know, an answer could be taken for another instance's.
func (e *Engine) askClouds(ctx context.Context) (time.Duration, error) {
	by, since := e.asking()
	if len(by) == 0 {
		return 0, nil
	}
	if wait := askMerge - time.Since(since); wait > 0 {
		return wait, nil
	}
	var due time.Duration
	for _, name := range slices.Sorted(maps.Keys(by)) {
		what := "questions to " + name
		switch wait := max(e.until(what), askPace-time.Since(e.questions.last[name])); {
		case e.flying[what]: // its answer wakes us
		case !e.heard[name]:
			due = sooner(due, time.Second)
		case wait > 0:
			due = sooner(due, wait)
		default:
			e.ask(ctx, what, name, by[name])
		}
	}
	return due, nil
}

// asking is the open questions by provider. Those that nobody can answer are dropped.
func (e *Engine) asking() (by map[string][]string, since time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	by = map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(e.questions.open)) {
		i, ok := e.mem.instances[id]
		if _, have := e.providers[i.Provider]; !ok || !have {
			delete(e.questions.open, id)
			continue
		}
		by[i.Provider] = append(by[i.Provider], id)
	}
	return by, e.questions.since
}

func (e *Engine) ask(ctx context.Context, what, name string, ids []string) {
	e.mu.Lock()
	for _, id := range ids {
		delete(e.questions.open, id) // a question from now on is a new one
	}
	e.mu.Unlock()
	e.flying[what], e.questions.last[name] = true, time.Now()
	provider := e.providers[name]
	e.beside(ctx, func(ctx context.Context) func(context.Context) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		list, err := provider.List(ctx, cloud.Filter{Cluster: e.cfg.Cluster, IDs: ids})
		return func(ctx context.Context) {
			delete(e.flying, what)
			e.note(name, err)
			if err == nil {
				err = e.answered(ctx, name, list)
			}
			if err != nil {
				wait := e.refused(what, err)
				e.log.Warn("no answer about instances that may be gone; it will be asked again", "provider", name, "instances", len(ids), "in", wait.Round(time.Millisecond), "error", err)
				e.Ask(ids...)
				return
			}
			delete(e.backoff, what)
		}
	})
}

// answered takes in what a provider says, and does at once what the table says
// of nodes whose instances are gone. Slurm is read after the cloud.
func (e *Engine) answered(ctx context.Context, name string, list []cloud.Instance) error {
	if err := e.commit(ctx, e.learn(list)); err != nil {
		return err
	}
	var ended []string // nodes
	for _, i := range list {
		rec := e.mem.instances[i.ID]
		if n := e.mem.nodes[rec.Assigned]; n.Instance == i.ID && (i.State == cloud.Terminating || i.State == cloud.Terminated) {
			ended = append(ended, n.Name)
		}
	}
	if len(ended) == 0 {
		return nil
	}
	snap, err := e.slurm.Fresh(ctx, time.Now())
	if err != nil {
		return err
	}
	l := &listing{lists: map[string][]cloud.Instance{name: list}}
	var c Change
	planned := map[string]bool{}
	for _, node := range ended {
		if a := decide(e.cellOf(snap, l, node)); !planned[node] && (a == dead || a == retry) {
			from := len(c.Nodes)
			e.act(&c, a, e.mem.nodes[node], snap)
			for _, n := range c.Nodes[from:] {
				planned[n.Name] = true // with another node of its job
			}
		}
	}
	return e.commit(ctx, c)
}
