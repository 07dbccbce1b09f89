package session

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// knock says whether a session may be written down as opened, and that it will be,
// until through. It waits for what is being written down as closed, which may be
// what the same client had before.
func (h *Hub) knock(ctx context.Context, uid int, hello Hello) error {
	h.mu.Lock()
	for h.shutting != nil {
		wait := h.shutting
		h.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		h.mu.Lock()
	}
	err := h.admit(uid, hello)
	if err == nil {
		h.entering[hello.Key]++
	}
	tell := errors.Is(err, ErrFull) && h.tellFull(attemptID{hello.Job, hello.Attempt})
	h.mu.Unlock()
	if tell {
		h.log.Warn("a step has no session: until there is room it runs on and takes its periodic checkpoints, but is not asked for one before its node goes",
			"job", hello.Job, "step", hello.Step, "uid", uid, "error", err)
	}
	return err
}

// through says that an opening is written down and known, or has failed.
func (h *Hub) through(k Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.entering[k]--; h.entering[k] == 0 {
		delete(h.entering, k)
	}
}

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
