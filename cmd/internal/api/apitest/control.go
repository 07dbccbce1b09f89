package apitest

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

// control keeps what was steered.
type control struct {
	pauses  []api.PauseChange
	evicts  []api.EvictRequest
	evicted []api.Evicted
	planned []api.Planned
	rounds  []api.ReconcileRequest
	built   []api.Builder
}

// ChangePause keeps the change, and has Status show it.
func (b *Backend) ChangePause(_ context.Context, c api.PauseChange) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		return b.fail
	}
	b.pauses = append(b.pauses, c)
	b.status.Paused = nil
	if c.Pause {
		b.status.Paused = &api.Paused{Since: time.Now(), By: c.By, Why: c.Reason}
	}
	return nil
}

// PauseChanges returns what was changed so far.
func (b *Backend) PauseChanges() []api.PauseChange {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.pauses)
}

// Evict keeps the request and returns what SetEvicted set; without it there is
// no such node.
func (b *Backend) Evict(_ context.Context, r api.EvictRequest) ([]api.Evicted, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.evicts = append(b.evicts, r)
	if len(b.evicted) == 0 && b.fail == nil {
		return nil, &api.Error{Status: http.StatusNotFound, Message: "no instance serves " + r.Names}
	}
	return b.evicted, b.fail
}

// SetEvicted sets what Evict returns.
func (b *Backend) SetEvicted(e []api.Evicted) { b.change(func() { b.evicted = e }) }

// EvictRequests returns the drills so far.
func (b *Backend) EvictRequests() []api.EvictRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.evicts)
}

// Reconcile keeps the request and returns what SetPlanned set.
func (b *Backend) Reconcile(_ context.Context, r api.ReconcileRequest) ([]api.Planned, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rounds = append(b.rounds, r)
	return b.planned, b.fail
}

// SetPlanned sets what Reconcile returns.
func (b *Backend) SetPlanned(p []api.Planned) { b.change(func() { b.planned = p }) }

// ReconcileRequests returns the rounds so far.
func (b *Backend) ReconcileRequests() []api.ReconcileRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.rounds)
}

// BookBuilder keeps the instance.
func (b *Backend) BookBuilder(_ context.Context, i api.Builder) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail == nil {
		b.built = append(b.built, i)
	}
	return b.fail
}

// Builders returns those booked so far.
func (b *Backend) Builders() []api.Builder {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.built)
}
