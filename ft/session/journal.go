package session

import (
	"context"
	"time"
)

// Order is a request to all steps of one attempt of a job, those that start
// later included. A later order for the attempt replaces it.
type Order struct {
	Job     uint32
	Attempt int
	Request Request
	// Calm: with the request nothing is lost if it is not carried out, as before a node
	// is sure to go. It waits for all others. The journal does not keep it.
	Calm bool
}

// Session is an open session, as the hub sees it.
type Session struct {
	UID int
	Hello
}

// Change is what one transaction writes, in this order.
type Change struct {
	// Opened are put whole, by their key; of two the later by Began counts, then
	// by Token. What earlier attempts of the job have open is closed.
	Opened []Session
	// Answers bless the generation that each has, if any: see Blessed.
	Answers []Given
	Orders  []Order // each replaces what its attempt had
	// Closed have ended, or have been silent for long; of no effect on a session
	// that is another's by now. The Summary of one that is closed is kept, by its job
	// and step.
	Closed []End
}

// Name says what a change does, for the points at which tests stop the daemon.
func (c *Change) Name() string {
	switch {
	case len(c.Orders) > 0:
		return "request"
	case len(c.Opened) > 0:
		return "session opened"
	case len(c.Answers) > 0:
		return "answer"
	}
	return "session closed"
}

// Blessed is the generation of a step that counts: of the latest attempt that has
// made one, the one with the highest number. It never goes back, whatever an
// earlier attempt says that was cut off and goes on; nor is anything blessed of
// an attempt after which another has opened a session.
type Blessed struct {
	Key           // Attempt is the one that made it
	Answer Answer // Generation, N, Bytes, Took, Iteration; the rest is not kept
	At     time.Time
}

// Done is a step that has ended, and how it went.
type Done struct {
	Key
	Summary
	At time.Time
}

// journal is what the hub needs of the store.
type journal interface {
	// CommitSession makes a change durable; changes that come at once should share
	// a transaction. An order is handed out, and an answer acknowledged, only then.
	CommitSession(ctx context.Context, c Change) error
	// OrderOf is the last order of the attempt, zero if there is none. Which steps
	// have answered it need not be known: they say so again. Of Request it has
	// what the caller of Ask has given.
	OrderOf(ctx context.Context, job uint32, attempt int) (Order, error)
	// OpenSessions are those that are not closed, in any order.
	OpenSessions(ctx context.Context) ([]Session, error)
}
