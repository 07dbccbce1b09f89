package local

import (
	"context"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

var (
	_ cloud.Evicter = (*Provider)(nil)
	_ cloud.Census  = (*Provider)(nil)
)

// Evict implements cloud.Evicter. An instance that does not live is Invalid.
func (p *Provider) Evict(ctx context.Context, id string, lead time.Duration) error {
	const op = "evict"
	if lead < 0 {
		return wrap(op, cloud.Invalid, fmt.Errorf("the lead time %s is negative", lead))
	}
	r, ok, err := p.store.record(id)
	if err != nil {
		return wrap(op, cloud.Transient, err)
	}
	if !ok {
		return wrap(op, cloud.Invalid, fmt.Errorf("there is no instance %q", id))
	}
	i, err := p.store.look(r)
	if err != nil {
		return wrap(op, cloud.Transient, err)
	}
	if !i.State.Live() {
		return wrap(op, cloud.Invalid, fmt.Errorf("instance %s has ended", id))
	}
	now := time.Now()
	return wrap(op, cloud.Transient, p.store.announce(ctx, cloud.Notice{
		Instance: id, Kind: cloud.SpotInterruption, Deadline: now.Add(lead), Received: now, Source: "local",
	}))
}

// Clusters implements cloud.Census.
func (p *Provider) Clusters(ctx context.Context) (map[string]int, error) {
	const op = "census"
	ids, err := p.store.ids()
	if err != nil {
		return nil, wrap(op, cloud.Transient, err)
	}
	found := map[string]int{}
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, wrap(op, cloud.Transient, err)
		}
		r, ok, err := p.store.record(id)
		if err != nil {
			return nil, wrap(op, cloud.Transient, err)
		}
		if !ok {
			continue
		}
		i, err := p.store.look(r)
		if err != nil {
			return nil, wrap(op, cloud.Transient, err)
		}
		if i.State.Live() {
			found[i.Cluster]++
		}
	}
	return found, nil
}
