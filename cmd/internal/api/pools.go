package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// PoolStatus is a pool, and how its boots go.
type PoolStatus struct {
	Pool        string    `json:"pool"`
	Provider    string    `json:"provider"`
	Partition   string    `json:"partition"`
	Image       string    `json:"image,omitempty"` // as the pool names it
	Nodes       int       `json:"nodes"`
	Failures    int       `json:"boot_failures"`     // in a row
	MaxFailures int       `json:"max_boot_failures"` // so many stop it; 0: no limit
	Stopped     time.Time `json:"stopped,omitzero"`  // zero: it launches
	Why         string    `json:"why,omitempty"`     // of Stopped
}

// PoolChange starts or stops a pool.
type PoolChange struct {
	Pool   string `json:"pool"`
	Stop   bool   `json:"stop"`
	Reason string `json:"reason,omitempty"` // of a stop
	// By is who asks, "uid 0". The server sets it.
	By string `json:"-"`
}

// maxReason bounds a PoolChange's Reason, in bytes.
const maxReason = 500

// Pools asks for all pools.
func (c *Client) Pools(ctx context.Context) (p []PoolStatus, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/pools", nil, &p)
	return p, err
}

// ChangePool starts or stops a pool; SlurmUser and root may.
func (c *Client) ChangePool(ctx context.Context, p PoolChange) error {
	return c.call(ctx, http.MethodPost, "/v1/pools", p, &struct{}{})
}

func (s *server) postPool(r *http.Request) (any, error) {
	var p PoolChange
	if err := decode(r.Body, &p); err != nil {
		return nil, err
	}
	p.Reason = strings.TrimSpace(p.Reason)
	switch {
	case p.Pool == "":
		return nil, &Error{http.StatusBadRequest, "the request names no pool"}
	case p.Stop && p.Reason == "":
		return nil, &Error{http.StatusBadRequest, "a pool is not stopped without a reason"}
	case len(p.Reason) > maxReason:
		return nil, &Error{http.StatusBadRequest, fmt.Sprintf("the reason has more than %d bytes", maxReason)}
	}
	p.By = fmt.Sprint("uid ", r.Context().Value(uidKey{}))
	return struct{}{}, s.backend.ChangePool(r.Context(), p)
}
