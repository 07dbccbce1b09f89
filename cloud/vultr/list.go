package vultr

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vultr/govultr/v3"

	"github.com/burst-hpc/burst/cloud"
)

const opList = "list"

// pageSize is Vultr's largest page.
const pageSize = 500

// List implements cloud.Provider. It reads the whole account and picks: Vultr
// filters by one tag at most, and what a filter hides cannot be told from what
// is gone. An account of a thousand instances is two requests. What was destroyed
// here stays in the list for about an hour, as Terminating first, then as Terminated; what
// launches have taken back, for longer, where its token is asked for.
func (p *Provider) List(ctx context.Context, f cloud.Filter) ([]cloud.Instance, error) {
	if f.Cluster == "" {
		return nil, invalid(opList, "the filter names no cluster")
	}
	began := time.Now()
	all, err := p.ours(ctx, opList)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	instances := p.departed(all, began)
	for _, m := range all {
		instances = append(instances, m.instance(now))
	}
	instances = append(instances, p.takenBackOf(f.Tokens, instances)...)
	var found []cloud.Instance
	for _, i := range instances {
		if i.Cluster != f.Cluster || len(f.Tokens) > 0 && !slices.Contains(f.Tokens, i.Token) || len(f.IDs) > 0 && !slices.Contains(f.IDs, i.ID) {
			continue
		}
		found = append(found, i)
	}
	return found, nil
}

// Clusters implements cloud.Census.
func (p *Provider) Clusters(ctx context.Context) (map[string]int, error) {
	all, err := p.ours(ctx, "census")
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for _, m := range all {
		found[readTags(m.tags)[tagCluster]]++
	}
	return found, nil
}

// ours are the machines of the region that a cluster of Burst has, of both
// kinds: all of them, or an error.
func (p *Provider) ours(ctx context.Context, op string) ([]machine, error) {
	var both [2][]machine
	var errs [2]error
	var wg sync.WaitGroup
	for n, metal := range []bool{false, true} {
		wg.Go(func() { both[n], errs[n] = p.machines(ctx, op, metal) })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	all := slices.Concat(both[:]...)
	p.see(all...)
	p.forget()
	live := map[string]bool{}
	for _, m := range all {
		live[readTags(m.tags)[tagToken]] = true
	}
	p.books.sweep(live)
	return all, nil
}

// machines are those of one kind. With errPartial come those that are shown of a list that is not whole.
func (p *Provider) machines(ctx context.Context, op string, metal bool) ([]machine, error) {
	all, err := pages(ctx, op, list[machine]{
		what: "listing " + kindName(metal) + " in " + p.c.Region,
		id:   func(m machine) string { return m.id },
		read: func(ctx context.Context, at *govultr.ListOptions) (part []machine, meta *govultr.Meta, err error) {
			if metal {
				var servers []govultr.BareMetalServer
				servers, meta, _, err = p.api.BareMetalServer.List(ctx, at)
				for _, s := range servers {
					part = append(part, ofMetal(s))
				}
				return part, meta, err
			}
			var instances []govultr.Instance
			instances, meta, _, err = p.api.Instance.List(ctx, at)
			for _, i := range instances {
				part = append(part, ofCompute(i))
			}
			return part, meta, err
		}})
	if all, err = p.complete(ctx, partList{op, metal, all}, err); err != nil && !errors.Is(err, errPartial) {
		return nil, err
	}
	for i, m := range all {
		all[i] = p.claim(m)
	}
	return slices.DeleteFunc(all, func(m machine) bool {
		return !strings.EqualFold(m.region, p.c.Region) || readTags(m.tags)[tagCluster] == ""
	}), err
}

// claim gives a machine that lacks our tags those that it had, if it is ours: it
// has been seen with them, or its label is that of a launch that is written down.
// Somebody may replace an instance's tags at once; it lives and costs on.
func (p *Provider) claim(m machine) machine {
	if readTags(m.tags)[tagCluster] != "" {
		return m
	}
	s, ok := p.recall(m.id)
	tags := s.tags
	if token, _, ours := readLabel(m.label); !ok && ours && tokens().MatchString(token) {
		tags = p.books.tags(token)
	}
	if len(tags) == 0 {
		return m
	}
	if !s.bare {
		p.log.Warn("somebody has removed Burst's tags from an instance; it is still taken for a node's, and will be ended", "provider", p.c.Name,
			"instance", m.id, "label", m.label, "lost", tags)
	}
	m.tags, m.bare = tags, true
	return m
}

func kindName(metal bool) string {
	if metal {
		return "bare metal"
	}
	return "instances"
}
