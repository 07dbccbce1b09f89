package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// OverflowAsk asks what the rules of overflow say of the pending jobs, now.
type OverflowAsk struct {
	// Rules are those of another burst.toml, as JSON of config.Overflow; empty: burstd's own.
	Rules json.RawMessage `json:"rules,omitempty"`
	// UID narrows to the jobs of one user; below 0: all. The server sets it.
	UID int `json:"-"`
}

// OverflowQuery says which jobs that were moved are asked for.
type OverflowQuery struct {
	Last int // so many at most, up to MaxOverflows
	// UID narrows to the jobs of one user; below 0: all. The server sets it.
	UID int
}

// OverflowJob is a pending job, and what the rules say of it.
type OverflowJob struct {
	Job       string  `json:"job"` // "7", or of an array "7_3" or "7_[3-5]"
	User      string  `json:"user"`
	Account   string  `json:"account,omitempty"`
	Partition string  `json:"partition"`
	Nodes     int     `json:"nodes"`
	Waited    float64 `json:"waited_seconds"`
	Action    string  `json:"action"` // add, keep, take, leave, …; for a budget away, or back to the cloud
	Rule      string  `json:"rule,omitempty"`
	To        string  `json:"to,omitempty"`     // partitions, with commas
	Unread    bool    `json:"unread,omitempty"` // its script, which decides, is not read yet
	Why       string  `json:"why"`
}

// Overflowed is a job to which a rule has added partitions, or from which some were taken away for a budget, and what became of it.
type Overflowed struct {
	Job      string    `json:"job"`
	User     string    `json:"user"`
	Rule     string    `json:"rule"`  // "": it was for a budget
	Was      string    `json:"was"`   // its own partitions, with commas
	To       string    `json:"to"`    // those that were added; for a budget those that are left
	State    string    `json:"state"` // adding, added, taking, theirs; for a budget changing, changed, undoing, theirs
	Added    time.Time `json:"added"`
	Why      string    `json:"why"`
	Ended    time.Time `json:"ended,omitzero"` // zero: it may have them still
	EndedWhy string    `json:"ended_why,omitempty"`
}

// MaxOverflows is the most that one call of Overflows returns.
const MaxOverflows = 10_000

// Overflower is what a Backend does for burst overflow.
type Overflower interface {
	// OverflowPlan says what the rules say of the pending jobs that wait in a partition of one, and changes nothing.
	OverflowPlan(ctx context.Context, ask OverflowAsk) ([]OverflowJob, error)
	// Overflows returns the newest jobs that were moved, oldest first.
	Overflows(ctx context.Context, q OverflowQuery) ([]Overflowed, error)
}

// OverflowPlan is Backend.OverflowPlan; who asks is for the server to see.
func (c *Client) OverflowPlan(ctx context.Context, ask OverflowAsk) (all []OverflowJob, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/overflow", ask, &all)
	return all, err
}

// Overflows is Backend.Overflows; who asks is for the server to see.
func (c *Client) Overflows(ctx context.Context, q OverflowQuery) (all []Overflowed, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/overflow?"+url.Values{"last": {strconv.Itoa(q.Last)}}.Encode(), nil, &all)
	return all, err
}

// overflow serves users their own jobs, SlurmUser and root all.
func (s *server) overflow(mux *http.ServeMux) {
	uid := func(r *http.Request) int {
		uid := r.Context().Value(uidKey{}).(int)
		if s.peers.authz.privileged(uid) {
			return -1
		}
		return uid
	}
	mux.HandleFunc("POST /v1/overflow", s.anybody(func(r *http.Request) (any, error) {
		var ask OverflowAsk
		if err := decode(r.Body, &ask); err != nil {
			return nil, err
		}
		if ask.UID = uid(r); ask.UID >= 0 && len(ask.Rules) > 0 {
			ask.Rules = nil // their cost is burstd's: an admin's alone
		}
		return s.backend.OverflowPlan(r.Context(), ask)
	}))
	mux.HandleFunc("GET /v1/overflow", s.anybody(func(r *http.Request) (any, error) {
		last, err := strconv.Atoi(r.URL.Query().Get("last"))
		if err != nil || last < 1 || last > MaxOverflows {
			return nil, &Error{http.StatusBadRequest, "last is no number from 1 to " + strconv.Itoa(MaxOverflows)}
		}
		return s.backend.Overflows(r.Context(), OverflowQuery{UID: uid(r), Last: last})
	}))
}
