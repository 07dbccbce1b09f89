package vultr

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vultr/govultr/v3"
)

// list is one of Vultr's lists, which come in pages.
type list[T any] struct {
	what string // as in "listing plans"
	id   func(T) string
	read func(context.Context, *govultr.ListOptions) ([]T, *govultr.Meta, error) // one page
}

// maxPages is more than any account has, so that a server that gives the same
// cursor again and again is not asked for ever.
const maxPages = 200

// errPartial: a list may lack what is there.
var errPartial = errors.New("the list is not whole")

// pages reads all pages of a list, or none: one that is not whole, as something has
// changed while it was read, is read once more. What is shown of it comes with errPartial.
func pages[T any](ctx context.Context, op string, l list[T]) ([]T, error) {
	all, err := readPages(ctx, op, l)
	if errors.Is(err, errPartial) {
		all, err = readPages(ctx, op, l)
	}
	return all, err
}

// readPages reads them once. An answer without its meta part is none: the SDK
// takes an empty or strange body for an empty list. A page is counted from the list's
// begin: where something goes that an earlier page has shown, the next one begins later
// and skips as much, and where something comes, it shows again what was shown. That loses nothing: launches
// beside this one make a list grow all the time.
func readPages[T any](ctx context.Context, op string, l list[T]) ([]T, error) {
	var all []T
	var odd error          // why the list may lack something
	first, total := -1, -1 // what there is by the first page, and by the last
	cursors, shown := map[string]bool{"": true}, map[string]bool{}
	at := &govultr.ListOptions{PerPage: pageSize}
	for {
		var part []T
		var meta *govultr.Meta
		err := call(ctx, op, l.what, func(ctx context.Context) (err error) {
			part, meta, err = l.read(ctx, at)
			if err == nil && meta == nil {
				err = errors.New("it is no list")
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, one := range part {
			id := l.id(one)
			if !shown[id] {
				shown[id], all = true, append(all, one)
			}
		}
		if first < 0 {
			first = meta.Total
		} else if meta.Total < total {
			odd = fmt.Errorf("a page counts %d, and a later one %d", total, meta.Total)
		}
		total = meta.Total
		if meta.Links == nil || meta.Links.Next == "" {
			if odd == nil && len(all) < first {
				odd = fmt.Errorf("%d of %d are shown", len(all), first)
			}
			if odd != nil {
				return all, transient(op, fmt.Errorf("%s: %w: %w", l.what, errPartial, odd))
			}
			return all, nil
		}
		at.Cursor = meta.Links.Next
		if cursors[at.Cursor] || len(cursors) > maxPages {
			return nil, transient(op, fmt.Errorf("%s: the pages do not end", l.what))
		}
		cursors[at.Cursor] = true
	}
}

// doubted is a list, beside those of machines, that was not whole when it was read last.
type doubted struct {
	since, last time.Time // it was read so first in a row, and last
	told        bool      // that it is believed
}

// listed reads a list of what Vultr offers or the account has, beside machines (complete).
// A count that stays wrong is Vultr's mistake for these, too, and without them nothing is
// launched: then what is shown is believed. So long only while it is read again and again: two
// mistakes far apart are two.
func listed[T any](ctx context.Context, p *Provider, op string, l list[T]) ([]T, error) {
	all, err := pages(ctx, op, l)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !errors.Is(err, errPartial) {
		if err == nil {
			delete(p.doubted, l.what)
		}
		return all, err
	}
	d, now := p.doubted[l.what], time.Now()
	if d.since.IsZero() || !d.told && now.Sub(d.last) > listsAge {
		d = doubted{since: now}
	}
	d.last = now
	believed := now.Sub(d.since) >= believedAfter*p.c.Lag
	if believed && !d.told {
		d.told = true
		p.log.Warn("a list of Vultr's has not been whole for long; what it shows is believed", "provider", p.c.Name, "error", err)
	}
	p.doubted[l.what] = d
	if !believed {
		return nil, err
	}
	return all, nil
}

// whole says that a list was, when it was read last.
func (p *Provider) whole(what string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, wrong := p.doubted[what]
	return !wrong
}
