package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// BootStages are the parts of a node's way up, in their order. Each ends with
// what it is named after.
var BootStages = []string{"queued", "launched", "running", "reachable", "setup", "ready", "registered", "started"}

// MaxBoots is the most that one call of Boots returns.
const MaxBoots = 10000

// Boot is one node's way up for one order of Slurm.
type Boot struct {
	Node     string    `json:"node"`
	Pool     string    `json:"pool"`
	Order    string    `json:"order"`
	Job      uint32    `json:"job,omitempty"`
	Instance string    `json:"instance,omitempty"`
	Tries    int       `json:"tries,omitempty"` // instances that failed before this one
	Ordered  time.Time `json:"ordered"`         // Slurm asked
	// Stages are the seconds of the stages of which the end is known; one that
	// is not is part of the next.
	Stages  map[string]float64 `json:"stages"`
	Seconds float64            `json:"seconds"`           // of all stages
	Outcome string             `json:"outcome,omitempty"` // "up", or why it did not come up; empty: on its way
}

// Boots is Backend.Boots. A burstd of before that knows no node returns those of all.
func (c *Client) Boots(ctx context.Context, node string, job uint32, last int) (b []Boot, err error) {
	q := url.Values{"job": {strconv.FormatUint(uint64(job), 10)}, "last": {strconv.Itoa(last)}}
	if node != "" {
		q.Set("node", node)
	}
	err = c.call(ctx, http.MethodGet, "/v1/boots?"+q.Encode(), nil, &b)
	return b, err
}

func (s *server) getBoots(r *http.Request) (any, error) {
	q := r.URL.Query()
	job, last := uint64(0), 50
	var err error
	if v := q.Get("job"); v != "" {
		if job, err = strconv.ParseUint(v, 10, 32); err != nil {
			return nil, &Error{http.StatusBadRequest, "job is not a job's number"}
		}
	}
	if v := q.Get("last"); v != "" {
		if last, err = strconv.Atoi(v); err != nil || last < 1 || last > MaxBoots {
			return nil, &Error{http.StatusBadRequest, fmt.Sprintf("last is not a number from 1 to %d", MaxBoots)}
		}
	}
	return s.backend.Boots(r.Context(), q.Get("node"), uint32(job), last)
}
