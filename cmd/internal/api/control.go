package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Control is the part of Backend by which SlurmUser and root steer burstd.
type Control interface {
	// ChangePause returns nil once the change is durable.
	ChangePause(ctx context.Context, c PauseChange) error
	// Evict returns once all evictions are sure to happen, also over a restart
	// of burstd. With an error some may be.
	Evict(ctx context.Context, r EvictRequest) ([]Evicted, error)
	// Reconcile returns what a round does, or would do.
	Reconcile(ctx context.Context, r ReconcileRequest) ([]Planned, error)
	// BookBuilder returns nil once it is durable that the ledger is to have the instance; again is nil.
	BookBuilder(ctx context.Context, b Builder) error
}

// Paused is an admin's word that no pool launches.
type Paused struct {
	Since time.Time `json:"since"`
	By    string    `json:"by"`
	Why   string    `json:"why"`
}

// PauseChange has no pool launch any more, or all again.
type PauseChange struct {
	Pause  bool   `json:"pause"`
	Reason string `json:"reason,omitempty"` // of a pause
	// By is who asks, "uid 0". The server sets it.
	By string `json:"-"`
}

// EvictRequest is a drill.
type EvictRequest struct {
	Names string        `json:"names"` // a hostlist of nodes, or ids of instances, or both
	Lead  time.Duration `json:"lead"`  // from the notice to the end, nanoseconds in JSON
	// NoNotice ends the instances at once; nobody is told before.
	NoNotice bool `json:"no_notice,omitempty"`
	// By is who asks, "uid 0". The server sets it.
	By string `json:"-"`
}

// Evicted is one instance of a drill.
type Evicted struct {
	Node     string    `json:"node,omitempty"`
	Instance string    `json:"instance"`
	Pool     string    `json:"pool"`
	Provider string    `json:"provider"`
	Deadline time.Time `json:"deadline"` // when it goes
	// Way is who ends it: "cloud" (the provider can take instances back), "burstd"
	// at the deadline, or "at once".
	Way string `json:"way"`
}

// ReconcileRequest asks for a round of reconciliation, or what it would do.
type ReconcileRequest struct {
	DryRun bool `json:"dry_run"`
}

// Planned is one action of a round of reconciliation.
type Planned struct {
	Action   string `json:"action"`
	Node     string `json:"node,omitempty"`
	Instance string `json:"instance,omitempty"`
	Why      string `json:"why,omitempty"`
	Settling bool   `json:"settling,omitempty"` // it is done once it has been due for a while
}

// Limits of a drill.
const (
	MaxLead  = 24 * time.Hour
	maxNames = 64 << 10 // bytes
)

// ChangePause pauses launches or ends the pause; SlurmUser and root may.
func (c *Client) ChangePause(ctx context.Context, p PauseChange) error {
	return c.call(ctx, http.MethodPost, "/v1/pause", p, &struct{}{})
}

// Evict is Control.Evict; SlurmUser and root may.
func (c *Client) Evict(ctx context.Context, r EvictRequest) (e []Evicted, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/evict", r, &e)
	return e, err
}

// Reconcile is Control.Reconcile; SlurmUser and root may.
func (c *Client) Reconcile(ctx context.Context, r ReconcileRequest) (p []Planned, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/reconcile", r, &p)
	return p, err
}

// control serves what SlurmUser and root only may do.
func (s *server) control(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/pause", s.privileged(s.postPause))
	mux.HandleFunc("POST /v1/evict", s.privileged(s.postEvict))
	mux.HandleFunc("POST /v1/reconcile", s.privileged(s.postReconcile))
	mux.HandleFunc("POST /v1/builders", s.privileged(s.postBuilder))
}

func (s *server) postPause(r *http.Request) (any, error) {
	var said struct { // without the word "pause" nothing is resumed
		Pause  *bool  `json:"pause"`
		Reason string `json:"reason"`
	}
	if err := decode(r.Body, &said); err != nil {
		return nil, err
	}
	if said.Pause == nil {
		return nil, &Error{http.StatusBadRequest, `the request does not say "pause": true or false`}
	}
	p := PauseChange{Pause: *said.Pause, Reason: said.Reason}
	p.Reason = strings.TrimSpace(p.Reason)
	switch {
	case p.Pause && p.Reason == "":
		return nil, &Error{http.StatusBadRequest, "launches are not paused without a reason"}
	case len(p.Reason) > maxReason:
		return nil, &Error{http.StatusBadRequest, fmt.Sprintf("the reason has more than %d bytes", maxReason)}
	}
	p.By = by(r)
	return struct{}{}, s.backend.ChangePause(r.Context(), p)
}

func (s *server) postEvict(r *http.Request) (any, error) {
	var e EvictRequest
	if err := decode(r.Body, &e); err != nil {
		return nil, err
	}
	switch {
	case strings.TrimSpace(e.Names) == "":
		return nil, &Error{http.StatusBadRequest, "the request names no node"}
	case len(e.Names) > maxNames:
		return nil, &Error{http.StatusBadRequest, fmt.Sprintf("the names have more than %d bytes", maxNames)}
	case e.Lead < 0 || e.Lead > MaxLead:
		return nil, &Error{http.StatusBadRequest, fmt.Sprintf("the lead time %s is not from 0s to %s", e.Lead, MaxLead)}
	}
	e.By = by(r)
	all, err := s.backend.Evict(r.Context(), e)
	return append([]Evicted{}, all...), err
}

func (s *server) postReconcile(r *http.Request) (any, error) {
	var q ReconcileRequest
	if err := decode(r.Body, &q); err != nil {
		return nil, err
	}
	all, err := s.backend.Reconcile(r.Context(), q)
	return append([]Planned{}, all...), err
}

// by is who asks.
func by(r *http.Request) string { return fmt.Sprint("uid ", r.Context().Value(uidKey{})) }
