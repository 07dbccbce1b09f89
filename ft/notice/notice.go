// Package notice merges what the sources say of one instance into one record
// for each key (instance, kind): the same notice by the node's agent, by a queue
// and by a drill is one.
package notice

import (
	"cmp"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// Event is one announcement under a key. Most kinds have one, without an id; of
// maintenances there may be several.
type Event struct {
	ID        string    `json:"id,omitempty"`
	Deadline  time.Time `json:"deadline,omitzero"`
	Action    string    `json:"action,omitempty"`
	Cancelled bool      `json:"cancelled,omitempty"`
}

// Record is what is known under one key. The zero Record knows nothing.
type Record struct {
	Source   string // of the notice that was received first
	Received time.Time
	Events   []Event // by id
}

// Effect is what one more notice means for its record.
type Effect int

const (
	Nothing Effect = iota // it was known
	Changed               // an earlier deadline, another action, or a cancellation
	Opened                // something new is to be acted upon
)

// maxEvents bounds what one instance may have us remember.
const maxEvents = 16

// Add merges a notice into the record. The notices of the same events give the
// same record in whatever order they come: of each event the earliest deadline
// counts, and a cancellation, also one that comes first. Closed says that what
// the record had announced is over: an announcement without an id is then a new one.
// A cancellation without an id is of all that is known.
func (r *Record) Add(n cloud.Notice, closed bool) Effect {
	before, known := r.state()
	if c := n.Received.Compare(r.Received); !known || c < 0 || c == 0 && n.Source < r.Source {
		r.Source, r.Received = n.Source, n.Received
	}
	if n.Cancelled && n.Event == "" {
		for i := range r.Events {
			r.Events[i].Cancelled = true
		}
	}
	e := Event{ID: n.Event, Deadline: n.Deadline, Action: n.Action, Cancelled: n.Cancelled}
	i, found := slices.BinarySearchFunc(r.Events, e, func(a, b Event) int { return cmp.Compare(a.ID, b.ID) })
	begins := !e.Cancelled && (!found || closed && e.ID == "" && r.Events[i].Cancelled)
	switch {
	case !found:
		r.Events = slices.Insert(r.Events, i, e)
	case begins:
		r.Events[i] = e
	default:
		r.Events[i] = r.Events[i].join(e)
	}
	r.bound()
	after, _ := r.state()
	switch {
	case known && before.Cancelled && after.Cancelled:
		return Nothing
	case !known, closed && begins, before.Cancelled && !after.Cancelled:
		return Opened
	case before == after:
		return Nothing
	}
	return Changed
}

func (e Event) join(o Event) Event {
	if !o.Deadline.IsZero() && (e.Deadline.IsZero() || o.Deadline.Before(e.Deadline)) {
		e.Deadline = o.Deadline
	}
	e.Action = max(e.Action, o.Action) // any rule that does not depend on the order
	e.Cancelled = e.Cancelled || o.Cancelled
	return e
}

// bound forgets the event that matters least when there are too many.
func (r *Record) bound() {
	if len(r.Events) <= maxEvents {
		return
	}
	last := slices.MaxFunc(r.Events, urgency)
	r.Events = slices.DeleteFunc(r.Events, func(e Event) bool { return e.ID == last.ID })
}

// urgency orders events: what is not cancelled before what is, then by
// deadline, one without a deadline last.
func urgency(a, b Event) int {
	rank := func(e Event) int {
		switch {
		case e.Cancelled:
			return 2
		case e.Deadline.IsZero():
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Deadline.Compare(b.Deadline), cmp.Compare(a.ID, b.ID))
}

// Next is the event that is to be acted upon: the most urgent. It is cancelled
// when all are.
func (r *Record) Next() Event {
	if len(r.Events) == 0 {
		return Event{}
	}
	return slices.MinFunc(r.Events, urgency)
}

// state is Next in a form that can be compared.
func (r *Record) state() (e Event, known bool) {
	e = r.Next()
	if !e.Deadline.IsZero() {
		e.Deadline = time.UnixMicro(e.Deadline.UnixMicro())
	}
	return e, len(r.Events) > 0
}

// Sane corrects a deadline that no cloud means: one before the notice itself, as
// after a step of the clock, is the notice's time; one farther off than a cloud
// announces is none.
func Sane(n cloud.Notice) cloud.Notice {
	farthest := 24 * time.Hour
	if n.Kind == cloud.Maintenance {
		farthest = 366 * 24 * time.Hour
	}
	switch {
	case n.Deadline.IsZero():
	case n.Deadline.Before(n.Received):
		n.Deadline = n.Received
	case n.Deadline.Sub(n.Received) > farthest:
		n.Deadline = time.Time{}
	}
	return n
}
