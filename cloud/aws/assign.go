package aws

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/burst-hpc/burst/cloud"
)

// names are the nodes whose names the tags of their instances shall say. Each
// is a call of its own, as EC2 gives one value to all resources of a call: a
// thousand take a minute and a half under its limit, so they are written
// beside everything else.
type names struct {
	mu      sync.Mutex
	waiting map[string]nodeName // by instance id
	busy    bool                // tagging runs
}

type nodeName struct {
	node  string
	tries int
}

const opAssign = "assign"

const (
	nameWorkers = 8
	nameTries   = 5
	namePause   = 5 * time.Second // before a failed tag is tried again; doubled each time
)

// Assign implements cloud.Assigner: the node's name becomes the instance's Name
// tag, for the console, and its burst:node tag, by which the instance is
// adopted after a lost journal. It returns at once; the tags follow in the
// background. One that fails is tried again some times and then left out: no
// job needs it.
func (p *Provider) Assign(ctx context.Context, nodes map[string]string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.names.mu.Lock()
	defer p.names.mu.Unlock()
	if p.names.waiting == nil {
		p.names.waiting = map[string]nodeName{}
	}
	for id, node := range nodes {
		p.names.waiting[id] = nodeName{node: node}
	}
	if !p.names.busy && len(p.names.waiting) > 0 {
		p.names.busy = true
		go p.tagAll(context.WithoutCancel(ctx))
	}
	return nil
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
			p.log.Warn("instances keep no name in the cloud's console; their jobs are not affected", "provider", p.c.Name, "instances", lost, "error", err)
		}
		<-time.After(pause)
		pause *= 2
	}
}

// tagBatch names instances, some at a time. It returns those that have no name
// yet, and the first error; after one that says that no other call will do
// better now, the rest is not tried.
func (p *Provider) tagBatch(ctx context.Context, batch map[string]nodeName) (map[string]nodeName, error) {
	var mu sync.Mutex
	var first error
	hopeless := false
	failed := map[string]nodeName{}
	due := make(chan string)
	var wg sync.WaitGroup
	for range min(nameWorkers, len(batch)) {
		wg.Go(func() {
			for id := range due {
				mu.Lock()
				skip := hopeless
				mu.Unlock()
				var err error
				if !skip {
					err = p.tag(ctx, id, batch[id].node)
				}
				mu.Lock()
				if skip || err != nil {
					failed[id] = batch[id]
				}
				if err != nil {
					first = cmp.Or(first, err)
					hopeless = hopeless || callError(opAssign, err).Kind == cloud.Auth
				}
				mu.Unlock()
			}
		})
	}
	for _, id := range slices.Sorted(maps.Keys(batch)) {
		due <- id
	}
	close(due)
	wg.Wait()
	return failed, first
}

func (p *Provider) tag(ctx context.Context, id, node string) error {
	_, err := p.clients.ec2.CreateTags(ctx, &ec2.CreateTagsInput{
		Resources: []string{id}, Tags: ec2Tags(map[string]string{tagName: node, tagNode: node}),
	})
	return err
}

// take takes all that wait; none is the end of the tagging.
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
