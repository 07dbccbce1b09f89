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
	// Offering is what the error is about, where a launch had a choice of
	// several; zero: the whole request.
	Offering Offering
	// Settled says that the launch is over and its outcome known: a repeat under the
	// same token brings nothing more. It tells a throttled part of a fleet from a
	// call that was refused and never began.
	Settled bool
	// TakenBack are instances that a launch of all or nothing has made and has ended
	// again, as too few came: they have cost money. Terminating ones are in lists until
	// they are gone. They may be told again by a repeat under the same token.
	TakenBack []Instance
	Err       error
}

func (e *Error) Error() string {
	if e.Code != "" {
		return fmt.Sprintf("%s: %s (%s): %v", e.Op, e.Kind, e.Code, e.Err)
	}
	return fmt.Sprintf("%s: %s: %v", e.Op, e.Kind, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Errors lists the *Error values that err joins or wraps, in order. A launch
// that had a choice fails with one for each offering that was tried.
func Errors(err error) []*Error {
	switch e := err.(type) {
	case nil:
		return nil
	case *Error:
		return []*Error{e}
	case interface{ Unwrap() []error }:
		var all []*Error
		for _, part := range e.Unwrap() {
			all = append(all, Errors(part)...)
		}
		return all
	case interface{ Unwrap() error }:
		return Errors(e.Unwrap())
	}
	return nil
}

// TakenBack lists the instances that a launch has made and ended again, as its error says.
func TakenBack(err error) (all []Instance) {
	for _, e := range Errors(err) {
		all = append(all, e.TakenBack...)
	}
	return all
}

// KindOf reads the kind of err; an error that carries none is Transient, the
// kind after which an outcome is looked up rather than assumed. Of several
// joined errors it is the first's.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return e.Kind
	}
	return Transient
}
