package apitest

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

// Boots returns those of the node and the job that SetBoots set.
func (b *Backend) Boots(_ context.Context, node string, job uint32, last int) ([]api.Boot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(b.boots), func(o api.Boot) bool { return job != 0 && o.Job != job || node != "" && o.Node != node })
	return all[max(0, len(all)-last):], b.fail
}

// SetBoots sets what Boots returns.
func (b *Backend) SetBoots(all []api.Boot) { b.change(func() { b.boots = all }) }

// Pools returns what SetPools set.
func (b *Backend) Pools(context.Context) ([]api.PoolStatus, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pools, b.fail
}

// SetPools sets what Pools returns.
func (b *Backend) SetPools(p []api.PoolStatus) { b.change(func() { b.pools = p }) }

// ChangePool keeps the change, if there is the pool.
func (b *Backend) ChangePool(_ context.Context, c api.PoolChange) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.ContainsFunc(b.pools, func(p api.PoolStatus) bool { return p.Pool == c.Pool }) {
		return &api.Error{Status: http.StatusNotFound, Message: fmt.Sprintf("no such pool: %q", c.Pool)}
	}
	b.changes = append(b.changes, c)
	return b.fail
}

// PoolChanges returns what was changed so far.
func (b *Backend) PoolChanges() []api.PoolChange {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.changes)
}
