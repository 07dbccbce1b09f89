package api

import (
	"context"
	"net/http"
	"slices"
	"time"
)

// BudgetRow is how one cap stands in its present period.
type BudgetRow struct {
	Of        string    `json:"of"`             // "cluster", "account", "user" or "job"
	Name      string    `json:"name,omitempty"` // of the account or user, the job's id
	Period    string    `json:"period"`         // "day", "month", or "job": over all its attempts
	From      time.Time `json:"from,omitzero"`
	To        time.Time `json:"to,omitzero"`
	Cap       float64   `json:"cap_usd"`
	Spent     float64   `json:"spent_usd"`     // as the ledger has booked it
	Committed float64   `json:"committed_usd"` // what lives, or is being launched, can still cost by the time limits
	Left      float64   `json:"left_usd"`      // below 0: more is spent or committed
	// UnpricedHours are in neither, as their price is not known.
	UnpricedHours float64 `json:"unpriced_hours,omitempty"`
	// AtCap is what becomes of what runs in the cloud when it is really spent, "requeue" or "cancel"; empty: it finishes.
	AtCap string `json:"at_cap,omitempty"`
}

// Budget is Backend.Budget; who asks is for the server to see.
func (c *Client) Budget(ctx context.Context, _ int) (rows []BudgetRow, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/budget", nil, &rows)
	return rows, err
}

// getBudget serves users their own caps, SlurmUser and root all.
func (s *server) getBudget(r *http.Request) (any, error) {
	uid := r.Context().Value(uidKey{}).(int)
	if s.peers.authz.privileged(uid) {
		uid = -1
	}
	return s.backend.Budget(r.Context(), uid)
}

// noAmounts is what users read of events that name whose budget is how full.
var noAmounts = map[string]string{
	"budget-warn":  "a budget is nearly used up",
	"budget-spent": "a budget is spent",
	"budget-room":  "a budget has room again",
	"budget-leave": "more than the cluster's budget could be spent: the node takes no more jobs",
}

// withoutAmounts has events tell no amounts, which only SlurmUser and root may know.
func withoutAmounts(events []Event) []Event {
	events = slices.Clone(events)
	for i, e := range events {
		if text, ok := noAmounts[e.Kind]; ok {
			events[i].Text = text
		}
	}
	return events
}
