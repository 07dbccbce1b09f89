package vultr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

const opLaunch = "launch"

// Launch implements cloud.Provider. One instance goes through these states,
// which its label in the cloud and the launch's book tell together:
//
//	not begun ── written as begun, asked for ──> begun ── answered ────────> made ──> ended
//	    ^                                         │ │                          ^
//	    │<── refused, by Vultr's own word ────────┘ └─ seen in a list ─────────┤
//	    └<── not seen, Lag after it was begun ────── (its answer was lost) ────┘
//
// Only what is not begun is asked for. What is begun is looked for by its label
// until it is seen or its Lag has passed: Launch waits that long. The Lag counts
// from when the request can last have left: from its end here, or, of a process
// that was killed, from the start of this one. One that was made, is in no list any more and, by its id,
// is none that Vultr knows, has ended, and is not made again. What a server's fault has said is no refusal
// until the Lag has passed; then it is, if it names a reason that stays.
func (p *Provider) Launch(ctx context.Context, r cloud.LaunchRequest) ([]cloud.Instance, error) {
	if err := check(r); err != nil {
		return nil, err
	}
	done, err := p.turns.take(ctx, r.Token)
	if err != nil {
		return nil, transient(opLaunch, err)
	}
	defer done()
	if ctx, err = p.withKey(ctx); err != nil {
		return nil, failure(opLaunch, "reading the key", answer{err: err}, err)
	}
	if len(r.Spec) == 0 {
		one := []cloud.LaunchRequest{r}
		if err := p.prepare(ctx, opLaunch, one)[0]; err != nil {
			return nil, err
		}
		r = one[0]
	}
	l := &launch{p: p, r: r}
	if err := json.Unmarshal(r.Spec, &l.spec); err != nil || l.spec.Region == "" {
		return nil, invalid(opLaunch, "the settings of launch %s cannot be read: %v", r.Token, err)
	}
	if l.spec.Region != p.c.Region {
		return nil, invalid(opLaunch, "launch %s is for region %s, and provider %s is now in %s", r.Token, l.spec.Region, p.c.Name, p.c.Region)
	}
	if l.book, err = p.books.open(r.Token); err != nil {
		return nil, transient(opLaunch, err)
	}
	if own := p.disown(r.Token); !l.book.kept && !own && !p.known {
		l.stranger = p.started
	}
	return l.run(ctx)
}

func check(r cloud.LaunchRequest) error {
	switch {
	case !tokens().MatchString(r.Token):
		return invalid(opLaunch, "token %q cannot be part of a label", r.Token)
	case r.Cluster == "":
		return invalid(opLaunch, "the launch names no cluster")
	case r.Count < 1 || r.Count > maxLaunch:
		return invalid(opLaunch, "%d instances are wanted of one launch: from 1 to %d can be", r.Count, maxLaunch)
	}
	return nil
}

// disown says whether the token was prepared by this process and has not been
// launched before: then nobody else can have asked for it.
func (p *Provider) disown(token string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, own := p.own[token]
	delete(p.own, token)
	return own
}

// launch is the work of one call of Launch.
type launch struct {
	p    *Provider
	r    cloud.LaunchRequest
	spec spec
	book *book
	// stranger is set for a token that this process did not prepare, and that may
	// have been written down in a folder that is lost: another process may have asked
	// for it until then.
	stranger time.Time

	found map[int]machine // by the number in the label; live ones
}

func (l *launch) run(ctx context.Context) ([]cloud.Instance, error) {
	if err := l.look(ctx); err != nil {
		return nil, err
	}
	if l.book.over.Over != "" {
		return l.finish(ctx, *l.short())
	}
	var due []int
	for i := range l.r.Count {
		if _, live := l.found[i]; !live && l.book.items[i].id == "" {
			due = append(due, i)
		}
	}
	err := l.denied(ctx, due)
	if err == nil {
		err = l.create(ctx, due)
	}
	switch {
	case err == nil && len(l.found) == l.r.Count:
		return l.instances(), nil
	case err == nil:
		err = l.short()
	}
	var e *cloud.Error
	if errors.As(err, &e) && e.Settled {
		if werr := l.book.write(line{Over: e.Err.Error(), Kind: e.Kind}); werr != nil {
			return l.instances(), transient(opLaunch, werr)
		}
		return l.finish(ctx, *e)
	}
	return l.instances(), err
}

// look finds the launch's instances by their labels, and waits until nothing
// that was begun is in doubt.
func (l *launch) look(ctx context.Context) error {
	lag, began := l.p.c.Lag, time.Now()
	for {
		asked := time.Now() // a list shows no later state than that of its request
		all, err := l.p.machines(ctx, opLaunch, l.spec.Metal)
		if err != nil && (!errors.Is(err, errPartial) || l.unanswered()) {
			return err
		}
		l.found = map[int]machine{}
		l.take(all)
		if err := l.noteFound(); err != nil {
			return transient(opLaunch, err)
		}
		until := l.doubt(began)
		if !asked.Before(until) {
			return l.unshown(ctx)
		}
		pause := min(max(time.Until(until), 0), max(lag/20, time.Millisecond))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return transient(opLaunch, fmt.Errorf("waiting to see what became of launch %s: %w", l.r.Token, ctx.Err()))
		}
	}
}

// unanswered says that something may have been made of which only a list tells: what was made is asked
// for by its id (unshown), and what was never asked for is nowhere.
func (l *launch) unanswered() bool {
	return !l.stranger.IsZero() || slices.ContainsFunc(slices.Collect(maps.Values(l.book.items)), func(it item) bool { return !it.begun.IsZero() && it.id == "" })
}

// take keeps the machines that have the launch's labels. Of two with one label,
// the one that the book has is it, else the older one; the other serves no node,
// and reconciliation ends it.
func (l *launch) take(all []machine) {
	for _, m := range all {
		token, i, ok := readLabel(m.label)
		if !ok || token != l.r.Token || i >= l.r.Count || readTags(m.tags)[tagCluster] != l.r.Cluster || !m.instance(time.Now()).State.Live() {
			continue
		}
		if other, twice := l.found[i]; twice {
			l.p.log.Warn("Vultr has made one instance twice; the second will be ended", "provider", l.p.c.Name, "label", m.label, "instances", []string{other.id, m.id})
			mine := l.book.items[i].id
			if other.id == mine || m.id != mine && !older(m, other) {
				continue
			}
		}
		l.found[i] = m
		l.p.see(m)
	}
}

func older(a, b machine) bool {
	if !a.created.Equal(b.created) {
		return a.created.Before(b.created)
	}
	return a.id < b.id
}

// unshown asks for what was made and no list shows, by its id: a list may lack what lives, as where
// somebody has another one destroyed while its pages are read. What would be taken for ended is not
// made again, and of all or nothing the rest is destroyed for it.
func (l *launch) unshown(ctx context.Context) error {
	var due []int
	for i := range l.r.Count {
		if _, shown := l.found[i]; !shown && l.book.items[i].id != "" {
			due = append(due, i)
		}
	}
	there, errs := make([]machine, len(due)), make([]error, len(due))
	each(workers, len(due), func(n int) { there[n], errs[n] = l.p.get(ctx, opLaunch, l.book.items[due[n]].id, l.spec.Metal) })
	for n, err := range errs {
		switch {
		case err == nil:
			there[n].label = label(l.r.Token, due[n]) // whatever it is called now
			l.take([]machine{l.p.claim(there[n])})
		case !notFound(err):
			return err
		}
	}
	return nil
}

// noteFound writes down what a list has shown: should it end, it is not made again.
func (l *launch) noteFound() error {
	var lines []line
	for i, m := range l.found {
		if l.book.items[i].id == "" {
			lines = append(lines, line{I: i, ID: m.id, At: time.Now().UTC()})
		}
	}
	return l.book.write(lines...)
}

// doubt is until when something that is not found may still be seen. now is when
// the call began: what was written later than that was written by another clock.
func (l *launch) doubt(now time.Time) time.Time {
	var until time.Time
	later := func(t time.Time) {
		if t.After(now) {
			t = now
		}
		if t = t.Add(l.p.c.Lag); t.After(until) {
			until = t
		}
	}
	for i := range l.r.Count {
		if _, ok := l.found[i]; ok {
			continue
		}
		if it := l.book.items[i]; !it.begun.IsZero() {
			later(it.begun)
			if it.id == "" && it.begun.Before(l.p.started) {
				later(l.p.started) // the process that wrote it may have sent it until its death
			}
		}
		if !l.stranger.IsZero() {
			later(l.stranger)
		}
	}
	return until
}

// finish returns what is left of a launch that is over. Of all or nothing,
// nothing: what cannot be ended now is returned, for the engine to end, and the
// error tells what has been ended, now or by a call before.
func (l *launch) finish(ctx context.Context, why cloud.Error) ([]cloud.Instance, error) {
	if l.r.AllOrNothing && len(l.found) < l.r.Count {
		if err := l.takeBack(ctx); err != nil {
			return l.instances(), transient(opLaunch, err)
		}
		why.TakenBack = l.p.takenBack(l.book, l.found)
	}
	return l.instances(), &why
}

// takeBack destroys what has come. That it is to be is written down first: whoever
// asks again under this token is told what has cost a begun hour.
func (l *launch) takeBack(ctx context.Context) error {
	var lines []line
	for i, m := range l.found {
		lines = append(lines, line{I: i, ID: m.id, Back: time.Now().UTC(), Created: m.created, Plan: m.plan})
	}
	if err := l.book.write(lines...); err != nil {
		return err
	}
	taken := make([]bool, len(lines))
	each(workers, len(lines), func(n int) {
		// Of what cannot be ended, or is not found though it was made, the engine learns by lists.
		var err error
		if taken[n], err = l.p.end(ctx, lines[n].ID); taken[n] {
			l.p.destroyed(lines[n].ID)
		} else if err != nil {
			l.p.log.Warn("one of too few instances could not be ended; it is tried again", "provider", l.p.c.Name, "instance", lines[n].ID, "error", err)
		}
	})
	for n, ended := range taken {
		if ended {
			delete(l.found, lines[n].I)
		}
	}
	return nil
}

// short is the error of a launch that has fewer instances than it asked for,
// and is over.
func (l *launch) short() *cloud.Error {
	kind, text := l.book.over.Kind, l.book.over.Over
	if text == "" {
		kind, text = cloud.Capacity, fmt.Sprintf("%d of %d × %s in pool %s are left of launch %s", len(l.found), l.r.Count, l.r.Offering.Type, l.r.Pool, l.r.Token)
	}
	return &cloud.Error{Kind: kind, Op: opLaunch, Offering: l.r.Offering, Settled: true, Err: errors.New(text)}
}

// instances are those found, in the order of their numbers.
func (l *launch) instances() []cloud.Instance {
	var all []cloud.Instance
	for i := range l.r.Count {
		if m, ok := l.found[i]; ok {
			all = append(all, m.instance(time.Now()))
		}
	}
	return all
}
