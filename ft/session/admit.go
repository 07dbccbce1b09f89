package session

import (
	"fmt"
	"time"
)

// admit says whether a session may be opened. The lock is held.
func (h *Hub) admit(uid int, hello Hello) error {
	if hello.Attempt < h.newest[hello.Job] {
		return fmt.Errorf("%w: job %d is at its attempt %d, and this is %d", ErrReplaced, hello.Job, h.newest[hello.Job], hello.Attempt)
	}
	a := h.attempts[attemptID{hello.Job, hello.Attempt}]
	if a == nil {
		return h.room(uid)
	}
	s := a.steps[hello.Step]
	switch {
	case s == nil && len(a.steps) >= h.cfg.Steps:
		return fmt.Errorf("%w: %d steps of job %d, the most of one job at once", ErrFull, len(a.steps), hello.Job)
	case s == nil:
		return h.room(uid)
	case s.UID != uid && s.lost: // the job's number is another's by now
		return h.room(uid)
	case s.UID != uid:
		return ErrNotYours
	case s.Token != hello.Token && (s.Began.After(hello.Began) || s.Began.Equal(hello.Began) && s.Token > hello.Token):
		return fmt.Errorf("%w: of step %s of job %d, on %s", ErrReplaced, hello.Step, hello.Job, s.Host)
	}
	return nil
}

// fullAgain is the time between two lines of the log that say that there is no room.
const fullAgain = time.Minute

// tellFull says whether the log is to be told that a step of the attempt was not
// let in: once for an attempt with too many, and now and then else. The lock is held.
func (h *Hub) tellFull(id attemptID) bool {
	if a := h.attempts[id]; a != nil && len(a.steps) >= h.cfg.Steps {
		tell := !a.full
		a.full = true
		return tell
	}
	tell := time.Since(h.toldFull) >= fullAgain
	if tell {
		h.toldFull = time.Now()
	}
	return tell
}

func (h *Hub) room(uid int) error {
	switch {
	case h.sessions >= h.cfg.Most:
		return fmt.Errorf("%w: %d", ErrFull, h.sessions)
	case h.users[uid] >= h.cfg.User:
		return fmt.Errorf("%w: %d of uid %d", ErrFull, h.users[uid], uid)
	}
	return nil
}
