package session

import "context"

// Order is a request to all steps of one attempt of a job, those that start
// later included. A later order for the attempt replaces it.
type Order struct {
	Job     uint32
	Attempt int
	Request Request
}

// Session is an open session, as the hub sees it.
type Session struct {
	UID int
	Hello
}

// Change is what one transaction writes.
type Change struct {
	Opened  []Session // put whole, by their key
	Closed  []Key     // the steps have ended, or have been silent for long
	Orders  []Order   // each replaces what its attempt had
	Answers []Given   // the generation of each, if it has one, is the step's blessed one; again is no error
}

// journal is what the hub needs of the store.
type journal interface {
	// CommitSession makes a change durable; changes that come at once should share
	// a transaction. An order is handed out, and an answer acknowledged, only then.
	CommitSession(ctx context.Context, c Change) error
	// OrderOf is the last order of the attempt, zero if there is none. Which steps
	// have answered it need not be known: they say so again.
	OrderOf(ctx context.Context, job uint32, attempt int) (Order, error)
}
