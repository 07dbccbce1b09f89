package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kind is what an error of a cloud means for the next step.
type Kind string

const (
	Capacity  Kind = "capacity"  // this offering has none now: try another
	Quota     Kind = "quota"     // the account may not have more of it
	Throttled Kind = "throttled" // asked too often: the same again, later
	Invalid   Kind = "invalid"   // the request can never succeed as it is
	Auth      Kind = "auth"      // credentials missing, expired or not allowed
	Transient Kind = "transient" // network or server fault: the outcome may be unknown
)

// Error is what a provider returns; it wraps the SDK's own error.
type Error struct {
	Kind Kind
	Op   string // "launch", "list", "terminate"
	Code string // the cloud's own code, for the log
	// RetryAfter is the cloud's wish, zero if it has none.
	RetryAfter time.Duration
	Err        error
}

func (e *Error) Error() string {
	if e.Code != "" {
		return fmt.Sprintf("%s: %s (%s): %v", e.Op, e.Kind, e.Code, e.Err)
	}
	return fmt.Sprintf("%s: %s: %v", e.Op, e.Kind, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// KindOf reads the kind of err; an error that carries none is Transient, the
// kind after which an outcome is looked up rather than assumed.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return e.Kind
	}
	return Transient
}
