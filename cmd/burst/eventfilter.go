package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// eventFilter says which events are shown. Its zero value shows all.
type eventFilter struct {
	job   uint32          // 0: of any, and of none
	nodes map[string]bool // nil: of any, and of none
	kinds []string        // empty: of any
	since time.Time       // zero: from the beginning
}

var kindName = regexp.MustCompile(`^[a-z][a-z-]*$`)

// parse reads the options' texts; empty ones leave nothing out.
func (f *eventFilter) parse(nodes, kinds, since string) error {
	if nodes != "" {
		names, err := hostlist.Expand(nodes)
		if err != nil {
			return fmt.Errorf("--node %q: %w", nodes, err)
		}
		f.nodes = map[string]bool{}
		for _, n := range names {
			f.nodes[n] = true
		}
	}
	if kinds != "" {
		f.kinds = strings.Split(kinds, ",")
		if i := slices.IndexFunc(f.kinds, func(k string) bool { return !kindName.MatchString(k) }); i >= 0 {
			return fmt.Errorf("--kind %q: write kinds as in notice,evict", kinds)
		}
	}
	if since != "" {
		d, err := parseSince(since)
		if err != nil {
			return err
		}
		f.since = time.Now().Add(-d)
	}
	return nil
}

// narrow says whether anything but time is left out.
func (f *eventFilter) narrow() bool { return f.job != 0 || f.nodes != nil || len(f.kinds) > 0 }

func (f *eventFilter) match(e api.Event) bool {
	return (f.job == 0 || e.Job == f.job) && (f.nodes == nil || f.nodes[e.Node]) &&
		(len(f.kinds) == 0 || slices.Contains(f.kinds, e.Kind)) && !e.Time.Before(f.since)
}

// lastEvents returns the last events that match, at most so many, oldest
// first, and the newest event's number. It looks back page by page, to the
// beginning of the history or of the time that is asked for.
func lastEvents(ctx context.Context, client *api.Client, most int, f eventFilter) (found []api.Event, newest int64, err error) {
	ask := -int64(most)
	if f.narrow() {
		ask = -maxEvents
	}
	page, err := client.Events(ctx, ask, 0)
	if err != nil || len(page) == 0 {
		return nil, 0, err
	}
	newest = page[len(page)-1].Seq
	for {
		var matching []api.Event
		for _, e := range page {
			if f.match(e) {
				matching = append(matching, e)
			}
		}
		found = append(matching, found...)
		first := page[0]
		if !f.narrow() || len(found) >= most || first.Seq <= 1 || first.Time.Before(f.since) {
			return found[max(0, len(found)-most):], newest, nil
		}
		if page, err = before(ctx, client, first.Seq); err != nil || len(page) == 0 {
			return found, newest, err
		}
	}
}

// before returns the page of events that ends before the one with this number;
// none if there is nothing before it.
func before(ctx context.Context, client *api.Client, seq int64) ([]api.Event, error) {
	page, err := client.Events(ctx, max(0, seq-maxEvents-1), 0)
	return slices.DeleteFunc(page, func(e api.Event) bool { return e.Seq >= seq }), err
}
