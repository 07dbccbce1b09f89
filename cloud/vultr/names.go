package vultr

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// names are the nodes whose names the tags of their instances shall say. Each is
// a request of its own, which Vultr may refuse or leave without an answer: they
// are written beside everything else.
type names struct {
	mu      sync.Mutex
	waiting map[string]nodeName // by instance id
	busy    bool                // tagAll runs
}

type nodeName struct {
	node  string
	tries int
}

const (
	nameWorkers = 4 // of the connections, which launches need too
	nameTries   = 5
	nameTimeout = 20 * time.Second // of one instance
)

// namePause passes before a failed tag is tried again, doubled each time. A variable for tests.
var namePause = 5 * time.Second

// add lets instances wait for their names, and says whether somebody has to
// begin to write them.
func (n *names) add(nodes map[string]string) (begin bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting == nil {
		n.waiting = map[string]nodeName{}
	}
	for id, node := range nodes {
		n.waiting[id] = nodeName{node: node}
	}
	begin = !n.busy && len(n.waiting) > 0
	n.busy = n.busy || begin
	return begin
}

// take takes all that wait; none is the end of the work.
func (n *names) take() map[string]nodeName {
	n.mu.Lock()
	defer n.mu.Unlock()
	batch := n.waiting
	n.waiting, n.busy = map[string]nodeName{}, len(batch) > 0
	return batch
}

// putBack lets instances wait again, unless they have been given another node
// since, and returns those that have been tried often enough.
func (n *names) putBack(failed map[string]nodeName) (lost []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, name := range failed {
		name.tries++
		if _, newer := n.waiting[id]; newer {
			continue
		}
		if name.tries >= nameTries {
			lost = append(lost, id)
			continue
		}
		n.waiting[id] = name
	}
	slices.Sort(lost)
	return lost
}

// tagAll works until nobody waits.
func (p *Provider) tagAll(ctx context.Context) {
	pause := namePause
	for batch := p.names.take(); len(batch) > 0; batch = p.names.take() {
		failed, err := p.tagBatch(ctx, batch)
		if err == nil {
			pause = namePause
			continue
		}
		lost := p.names.putBack(failed)
		p.log.Debug("instances could not be named", "provider", p.c.Name, "failed", len(failed), "given_up", len(lost), "error", err)
		if len(lost) > 0 {
			p.log.Warn("instances keep no node's name in their tags; their jobs are not affected", "provider", p.c.Name, "instances", lost, "error", err)
		}
		<-time.After(pause)
		pause *= 2
	}
}

// tagBatch names instances, some at a time, and returns those that have no name
// yet, and why.
func (p *Provider) tagBatch(ctx context.Context, batch map[string]nodeName) (map[string]nodeName, error) {
	ids := slices.Sorted(maps.Keys(batch))
	errs := make([]error, len(ids))
	each(nameWorkers, len(ids), func(n int) {
		ctx, cancel := context.WithTimeout(ctx, nameTimeout)
		defer cancel()
		errs[n] = p.assign(ctx, ids[n], batch[ids[n]].node)
	})
	failed := map[string]nodeName{}
	for n, err := range errs {
		if err != nil {
			failed[ids[n]] = batch[ids[n]]
		}
	}
	return failed, errors.Join(errs...)
}
