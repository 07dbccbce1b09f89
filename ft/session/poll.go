package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Poll waits until there is something for the step to do, but no longer than
// the question wants; then the Word has no request. A later question of the
// session ends an earlier one.
func (h *Hub) Poll(ctx context.Context, uid int, q Question) (Word, error) {
	begun := time.Now()
	if err := q.Key.check(q.Token); err != nil {
		return Word{}, err
	}
	if q.Progress != nil {
		if err := q.Progress.check(); err != nil {
			return Word{}, err
		}
	}
	mine := make(chan struct{}, 1)
	if err := h.begin(uid, q, mine); err != nil {
		return Word{}, err
	}
	defer h.done(q.Key, mine)
	timer := time.NewTimer(min(max(q.Wait, 0), h.cfg.Poll))
	defer timer.Stop()
	for {
		waited := time.Since(begun) // before Left is taken: together they are never too long
		r, hello, err := h.look(uid, q, mine)
		if err != nil && !errors.Is(err, errOver) {
			return Word{}, err
		}
		if err == nil && r == nil {
			select {
			case <-mine:
				continue
			case <-timer.C:
				waited = time.Since(begun)
			case <-ctx.Done():
				return Word{}, context.Cause(ctx)
			}
		}
		return Word{Request: r, Waited: waited, Interval: h.advice(hello)}, nil
	}
}

// begin makes this the session's question.
func (h *Hub) begin(uid int, q Question, mine chan struct{}) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	a, s, err := h.find(uid, q.Key, q.Token)
	if err != nil {
		return err
	}
	h.heard(a, s, q)
	if s.poll != nil {
		close(s.poll)
	}
	s.poll, s.seen = mine, time.Now()
	if q.Progress != nil {
		s.progress, s.told = *q.Progress, time.Now()
	}
	return nil
}

// errOver: another question of the session has come.
var errOver = errors.New("a later question has come")

// look finds what there is to do now; nil: nothing.
func (h *Hub) look(uid int, q Question, mine chan struct{}) (*Request, Hello, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a, s, err := h.find(uid, q.Key, q.Token)
	if err != nil {
		return nil, Hello{}, err
	}
	if s.poll != mine {
		return nil, s.Hello, errOver
	}
	o := a.order
	if o == nil || !o.wanted() || o.has(q.Step) {
		return nil, s.Hello, nil
	}
	left, held := time.Until(o.Request.By), o.writes() && s.stands(o) < writes
	if left <= 0 || q.Have == o.Request.ID && (!q.Held || held) {
		return nil, s.Hello, nil
	}
	r := o.Request
	r.Left, r.Held = left, held
	if s.stands(o) == leaves {
		r.Kind, r.Why = Leave, r.Why+"; "+noTurn
	}
	return &r, s.Hello, nil
}

// done ends the session's question.
func (h *Hub) done(k Key, mine chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := h.attempts[attemptID{k.Job, k.Attempt}]; a != nil {
		if s := a.steps[k.Step]; s != nil && s.poll == mine {
			s.poll, s.seen = nil, time.Now()
		}
	}
}

// Answer takes what came of a request, or of a periodic checkpoint. It is
// durable when it returns nil; the same again is no error.
func (h *Hub) Answer(ctx context.Context, uid int, g Given) error {
	if err := g.Key.check(g.Token); err != nil {
		return err
	}
	h.mu.Lock()
	a, s, err := h.find(uid, g.Key, g.Token)
	dir := ""
	if err == nil {
		dir, s.seen = s.Dir, time.Now()
		if a.order != nil && s.stands(a.order) == leaves && g.Answer.ID == a.order.Request.ID {
			g.Answer.Error = cmp.Or(g.Answer.Error, noTurn)
		}
	}
	h.mu.Unlock()
	if err != nil {
		return err
	}
	if err := g.Answer.check(dir); err != nil {
		return err
	}
	g.Answer.Error = oneLine(g.Answer.Error)
	if err := h.journal.CommitSession(ctx, Change{Answers: []Given{g}}); err != nil {
		return fmt.Errorf("writing down the answer of job %d: %w", g.Job, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	a, s, err = h.find(uid, g.Key, g.Token)
	if err != nil {
		return nil // closed meanwhile; what is written counts
	}
	s.learn(g.Answer)
	h.note(a, g.Step, g.Answer)
	h.turns()
	return nil
}

// Close ends a session: the step has ended. That there is none is no error.
func (h *Hub) Close(ctx context.Context, uid int, e End) error {
	if err := e.Key.check(e.Token); err != nil {
		return err
	}
	if err := e.Summary.check(); err != nil {
		return err
	}
	h.mu.Lock()
	_, _, err := h.holds(uid, e.Key, e.Token)
	h.mu.Unlock()
	if err != nil {
		if errors.Is(err, ErrUnknown) {
			return nil
		}
		return err
	}
	if err := h.journal.CommitSession(ctx, Change{Closed: []End{e}}); err != nil {
		return fmt.Errorf("writing down the end of a step of job %d: %w", e.Job, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	a, s, err := h.holds(uid, e.Key, e.Token)
	if err != nil {
		return nil
	}
	h.leave(a, s)
	h.settle(a)
	h.tidy(a)
	h.turns()
	return nil
}
