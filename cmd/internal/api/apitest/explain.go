package apitest

import (
	"context"
	"net/http"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

// explains are the parts of a Backend for `burst explain`.
type explains struct {
	explainAsk api.ExplainAsk
	explained  []api.Explained
}

// Explain returns what SetExplained set, and keeps what was asked. A job without an answer is not known.
func (b *Backend) Explain(_ context.Context, ask api.ExplainAsk) ([]api.Explained, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.explainAsk = ask
	var all []api.Explained
	for _, e := range b.explained {
		if e.Job == ask.Job {
			all = append(all, e)
		}
	}
	if len(all) == 0 && b.fail == nil {
		return nil, &api.Error{Status: http.StatusNotFound, Message: "there is no job " + ask.Job}
	}
	return all, b.fail
}

// SetExplained sets what Explain returns; what has no job is of a script.
func (b *Backend) SetExplained(all ...api.Explained) { b.change(func() { b.explained = all }) }

// ExplainAsk is what Explain was asked last.
func (b *Backend) ExplainAsk() api.ExplainAsk {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.explainAsk
}
