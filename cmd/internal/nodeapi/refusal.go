package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/munge"
)

// refusal is an answer that is no success.
type refusal struct {
	status int
	retry  time.Duration // asked again after it; 0: not
	text   string        // for the node's console
	as     string        // in the metrics, of what is no cause for a warning; empty: as its status says
	kind   string        // the word for a burst-srun; empty: none
}

func (e *refusal) Error() string { return e.text }

func refuse(status int, format string, args ...any) error {
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}

func later(status int, retry time.Duration, text string) error {
	return &refusal{status: status, retry: retry, text: text}
}

func busy() error {
	return later(http.StatusServiceUnavailable, 10*time.Second, "burstd is busy: too many nodes ask at once")
}

// toRefusal finds the answer for an error.
func toRefusal(err error) *refusal {
	var e *refusal
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, ErrNotYet):
		return &refusal{status: http.StatusConflict, retry: 4 * time.Second, text: ErrNotYet.Error()}
	case errors.Is(err, ErrNotYours):
		return &refusal{status: http.StatusForbidden, text: ErrNotYours.Error()}
	case errors.Is(err, munge.ErrAway):
		return &refusal{status: http.StatusServiceUnavailable, retry: 10 * time.Second, text: "munged of burstd's host does not answer"}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &refusal{status: http.StatusServiceUnavailable, retry: 10 * time.Second, text: "burstd is busy or stopping"}
	}
	// What failed is ours, and for our log only.
	return &refusal{status: http.StatusInternalServerError, retry: 10 * time.Second, text: "burstd has failed: its log says why"}
}

// outcome is the refusal in the metrics.
func (e *refusal) outcome() string {
	if e.as != "" {
		return e.as
	}
	switch e.status {
	case http.StatusUnauthorized:
		return "unauthenticated"
	case http.StatusForbidden:
		return "refused"
	case http.StatusConflict:
		return "not-yet"
	case http.StatusTooManyRequests:
		return "too-often"
	case http.StatusServiceUnavailable:
		return "busy"
	case http.StatusInternalServerError:
		return "failed"
	}
	return "malformed"
}

// Requests is how many were answered so far, by outcome: ok, not-yet, refused,
// unauthenticated, malformed, too-often, busy, failed.
func (s *Server) Requests() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}
