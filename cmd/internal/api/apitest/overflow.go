package apitest

import (
	"context"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

// overflows are the parts of a Backend for burst overflow.
type overflows struct {
	overflowAsk  api.OverflowAsk
	overflowJobs []api.OverflowJob
	overflowed   []api.Overflowed
}

// OverflowPlan returns what SetOverflows set, and keeps what was asked.
func (b *Backend) OverflowPlan(_ context.Context, ask api.OverflowAsk) ([]api.OverflowJob, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.overflowAsk = ask
	return b.overflowJobs, b.fail
}

// Overflows returns the last of what SetOverflows set.
func (b *Backend) Overflows(_ context.Context, q api.OverflowQuery) ([]api.Overflowed, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.overflowed[max(0, len(b.overflowed)-q.Last):], b.fail
}

// SetOverflows sets what OverflowPlan and Overflows return.
func (b *Backend) SetOverflows(plan []api.OverflowJob, log []api.Overflowed) {
	b.change(func() { b.overflowJobs, b.overflowed = plan, log })
}

// OverflowAsk is what OverflowPlan was asked last.
func (b *Backend) OverflowAsk() api.OverflowAsk {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.overflowAsk
}
