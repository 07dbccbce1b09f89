package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// UsageKeys are what usage can be summed up by.
var UsageKeys = []string{"job", "user", "account", "pool", "provider", "offering", "day"}

// UsageQuery says which sums of the ledger are asked for.
type UsageQuery struct {
	Since time.Time
	Until time.Time // without it; zero: no end
	By    string    // one of UsageKeys
	// UID narrows to the jobs of one user; below 0: all. The server sets it.
	UID int
}

// Usage is what one job, user, account, pool, provider or offering has used, or all on one day.
type Usage struct {
	Key     string `json:"key"` // "" for time that no job had, where it is by job, user or account; a day as in 2026-01-31
	User    string `json:"user,omitempty"`
	Account string `json:"account,omitempty"`
	// By job, of an array's task: the array and which it is; Key is the id that Slurm has given the task.
	ArrayJob  uint32  `json:"array_job,omitempty"`
	ArrayTask string  `json:"array_task,omitempty"`
	Seconds   float64 `json:"seconds"` // of instances
	// USD is what the instances cost of which the price is known; null where none is.
	USD             *float64 `json:"usd"`
	UnpricedSeconds float64  `json:"unpriced_seconds,omitempty"` // of Seconds
	Instances       int      `json:"instances"`
	// OnDemandUSD is what they would have cost on demand, of which that is known; null where it is of none.
	OnDemandUSD            *float64 `json:"on_demand_usd"`
	OnDemandUnknownSeconds float64  `json:"on_demand_unknown_seconds,omitempty"` // of Seconds
	// Of Seconds and USD, the time that no job had: until Slurm had the node; until the instance ended; and what
	// is charged after that, as the cloud charges begun units.
	BootSeconds float64 `json:"boot_seconds,omitempty"`
	BootUSD     float64 `json:"boot_usd,omitempty"`
	IdleSeconds float64 `json:"idle_seconds,omitempty"`
	IdleUSD     float64 `json:"idle_usd,omitempty"`
	RestSeconds float64 `json:"rest_seconds,omitempty"`
	RestUSD     float64 `json:"rest_usd,omitempty"`
	// The same of instances that served files, once Slurm had the node; not in Idle.
	ServeSeconds float64 `json:"serve_seconds,omitempty"`
	ServeUSD     float64 `json:"serve_usd,omitempty"`
	// Of jobs that ended in the time asked for, or on the day, since the start of each, also where that was before and is not
	// in Seconds and USD: work that was done again after evictions, and the writing of checkpoints. Not by provider and offering.
	LostSeconds       float64 `json:"lost_seconds,omitempty"`
	LostUSD           float64 `json:"lost_usd,omitempty"`
	CheckpointSeconds float64 `json:"checkpoint_seconds,omitempty"`
	CheckpointUSD     float64 `json:"checkpoint_usd,omitempty"`
}

// Usage is Backend.Usage; who asks is for the server to see.
func (c *Client) Usage(ctx context.Context, q UsageQuery) (u []Usage, err error) {
	v := url.Values{"by": {q.By}, "since": {q.Since.UTC().Format(time.RFC3339Nano)}}
	if !q.Until.IsZero() {
		v.Set("until", q.Until.UTC().Format(time.RFC3339Nano))
	}
	err = c.call(ctx, http.MethodGet, "/v1/usage?"+v.Encode(), nil, &u)
	return u, err
}

// getUsage serves users their own jobs' usage, SlurmUser and root all.
func (s *server) getUsage(r *http.Request) (any, error) {
	v := r.URL.Query()
	q := UsageQuery{By: v.Get("by"), UID: r.Context().Value(uidKey{}).(int)}
	if s.peers.authz.privileged(q.UID) {
		q.UID = -1
	}
	if !slices.Contains(UsageKeys, q.By) {
		return nil, &Error{http.StatusBadRequest, fmt.Sprintf("by %.40q is none of %s", q.By, strings.Join(UsageKeys, ", "))}
	}
	for name, t := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if text := v.Get(name); text != "" {
			var err error
			if *t, err = time.Parse(time.RFC3339Nano, text); err != nil {
				return nil, &Error{http.StatusBadRequest, name + " is not a time as in 2026-01-31T00:00:00Z"}
			}
		}
	}
	return s.backend.Usage(r.Context(), q)
}
