package vultr

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// partly is what is known of a list that shows fewer than it says that there are.
type partly struct {
	since time.Time            // the first in a row; zero: the last was whole
	told  bool                 // that it is believed
	gone  map[string]time.Time // by id: when Vultr first said that it knows no such machine
}

// partList is what was shown of a list of machines of one kind.
type partList struct {
	op    string
	metal bool
	all   []machine
}

// believedAfter is how many Lags a list's count must have been wrong before what
// it shows is believed.
const believedAfter = 10

// complete returns a list that is whole, and of one that is not what it shows, with its error. But a count
// that stays wrong is Vultr's mistake, and without a list nothing is launched, and no end
// is seen. Then whatever we know to have been made, and is not shown, is asked for by
// its id: what Vultr knows is added, so that nothing seems gone that is there.
func (p *Provider) complete(ctx context.Context, l partList, err error) ([]machine, error) {
	n := 0
	if l.metal {
		n = 1
	}
	if !errors.Is(err, errPartial) {
		if err == nil {
			p.mu.Lock()
			p.part[n] = partly{}
			p.mu.Unlock()
		}
		return l.all, err
	}
	ids, believed, first := p.unshown(n, l)
	if !believed {
		return l.all, err
	}
	if first {
		p.log.Warn("Vultr's list has counted more than it shows for long; it is believed, and what is not shown is asked for by its id", "provider", p.c.Name, "error", err)
	}
	found, errs := make([]machine, len(ids)), make([]error, len(ids))
	each(workers, len(ids), func(i int) { found[i], errs[i] = p.get(ctx, l.op, ids[i], l.metal) })
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, gerr := range errs {
		switch {
		case gerr == nil:
			l.all = append(l.all, found[i])
		case !notFound(gerr):
			return nil, gerr
		case p.part[n].gone[ids[i]].IsZero() && p.part[n].gone != nil:
			p.part[n].gone[ids[i]] = time.Now()
		}
	}
	return l.all, nil
}

// unshown are the ids to ask for in place of a list that is not whole, whether it is
// believed, and for the first time. One that is new, and unknown as yet, is asked for
// again until a Lag has passed.
func (p *Provider) unshown(n int, l partList) (ids []string, believed, first bool) {
	made := p.books.made()
	p.mu.Lock()
	defer p.mu.Unlock()
	part := &p.part[n]
	if part.since.IsZero() {
		*part = partly{since: time.Now(), gone: map[string]time.Time{}}
	}
	if time.Since(part.since) < believedAfter*p.c.Lag {
		return nil, false, false
	}
	ask := map[string]bool{}
	for _, id := range made {
		ask[id] = true
	}
	for id, s := range p.seen {
		ask[id] = s.metal == l.metal
	}
	for _, m := range l.all {
		delete(ask, m.id)
	}
	maps.DeleteFunc(ask, func(id string, kind bool) bool {
		at, gone := part.gone[id]
		return !kind || !uuid.MatchString(id) || gone && time.Since(at) > p.c.Lag
	})
	first, part.told = !part.told, true
	return slices.Sorted(maps.Keys(ask)), true, first
}
