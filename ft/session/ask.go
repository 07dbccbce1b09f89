package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"
)

// How an order ends without all its answers.
var (
	ErrLate  = errors.New("the time is over")
	ErrEnded = errors.New("the step has ended by itself")
)

// order is an Order under way.
//
//	held -> handed out -> over: all answered | ErrLate | ErrReplaced | ErrEnded
type order struct {
	Order
	answers map[string]Answer // by step
	asked   bool              // a step has been there to be asked
	claimed bool              // by who asks, since burstd was started: what is not in the journal is known
	over    bool
	done    chan struct{} // closed when over
	err     error         // then: nil, ErrLate, ErrReplaced or ErrEnded
}

func newOrder(o Order) *order {
	o.Request.Left, o.Request.Held = 0, false // the hub's to say
	n := &order{Order: o, answers: map[string]Answer{}, done: make(chan struct{})}
	return n
}

// writes says whether the order has the shared storage written to.
func (o *order) writes() bool { return o.Request.Kind == Checkpoint || o.Request.Kind == Stop }

func (o *order) has(step string) bool {
	_, ok := o.answers[step]
	return ok
}

// wanted says whether steps are still to be told. One that starts when all
// others have stopped is to stop too: its nodes go.
func (o *order) wanted() bool {
	goes := o.Request.Kind == Stop || o.Request.Kind == Leave
	return !o.over || goes && (o.err == nil || errors.Is(o.err, ErrEnded))
}

func (o *order) end(err error) {
	if !o.over {
		o.over, o.err = true, err
		close(o.done)
	}
}

// Asked is a request that burst-srun has, or will have as soon as it asks.
type Asked struct {
	hub *Hub
	*order
}

// Ask has all steps of an attempt do something by the request's time. It is
// durable when it returns. Asking again under the same ID asks nothing anew; a
// request under another ID takes its place; of those of one attempt each is asked
// after the one before has returned. An attempt that has no session yet is asked
// when it opens one. An error says that nothing is asked, though after a restart
// of burstd it may be.
func (h *Hub) Ask(ctx context.Context, o Order) (Asked, error) {
	all, err := h.AskMany(ctx, []Order{o})
	if err != nil {
		return Asked{}, err
	}
	return all[0], nil
}

// AskMany asks many at once, all or none; it returns them in their order.
func (h *Hub) AskMany(ctx context.Context, orders []Order) ([]Asked, error) {
	now := time.Now()
	var c Change
	h.mu.Lock()
	for _, o := range orders {
		if h.same(o) == nil {
			c.Orders = append(c.Orders, o)
		}
	}
	h.mu.Unlock()
	for _, o := range c.Orders {
		if err := o.check(now); err != nil {
			return nil, err
		}
	}
	if len(c.Orders) > 0 {
		if err := h.journal.CommitSession(ctx, c); err != nil {
			return nil, fmt.Errorf("writing down %d requests for a checkpoint: %w", len(c.Orders), err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]Asked, len(orders))
	for i, o := range orders {
		n := h.same(o)
		if n == nil {
			n = newOrder(o)
			h.place(n)
		}
		n.Calm, n.claimed = o.Calm, true
		all[i] = Asked{h, n}
		h.fresh = append(h.fresh, n)
	}
	h.turns()
	return all, nil
}

// same is the attempt's last order if it is this one. The lock is held.
func (h *Hub) same(o Order) *order {
	if a := h.attempts[attemptID{o.Job, o.Attempt}]; a != nil && a.order != nil && a.order.Request.ID == o.Request.ID {
		return a.order
	}
	return nil
}

// place makes n its attempt's order. The lock is held.
func (h *Hub) place(n *order) {
	if n.Attempt < h.newest[n.Job] {
		n.end(ErrReplaced)
		return
	}
	a := h.attempt(attemptID{n.Job, n.Attempt})
	a.waited = n.Request.Kind == Cancel && (a.waited || a.waits())
	if old := a.order; old != nil {
		if old.wanted() && old.Request.Kind == n.Request.Kind {
			for step, s := range a.steps {
				if s.turn.of == old && !old.has(step) {
					s.turn.of = n // what is being written is for this one
				}
			}
		}
		old.end(ErrReplaced)
	}
	a.order, n.asked = n, len(a.steps) > 0
	h.asked[n] = a
}

// wake has the questions that wait look again. The lock is held.
func (h *Hub) wake(o *order) {
	a := h.attempts[attemptID{o.Job, o.Attempt}]
	if a == nil || a.order != o {
		return
	}
	for _, s := range a.steps {
		s.wake()
	}
}

func (s *session) wake() {
	if s.poll != nil {
		select {
		case s.poll <- struct{}{}:
		default: // it will look anyway
		}
	}
}

// note takes a step's answer to its attempt's order. The lock is held.
func (h *Hub) note(a *attempt, step string, answer Answer) {
	if o := a.order; o != nil && answer.ID == o.Request.ID {
		h.timed(a.steps[step], o, answer)
		o.asked, o.answers[step] = true, answer
		h.settle(a)
	}
}

// settle ends the attempt's order if no step is left to answer. The lock is held.
func (h *Hub) settle(a *attempt) {
	o := a.order
	if o == nil || o.over {
		return
	}
	o.asked = o.asked || len(a.steps) > 0
	for step := range a.steps {
		if !o.has(step) {
			return
		}
	}
	switch {
	case len(o.answers) > 0:
		o.end(nil)
	case o.asked:
		o.end(ErrEnded)
	}
}

// absent is how long after its last question a burst-srun is taken to be there:
// longer than it pauses after a failure. One that writes a checkpoint asks too.
const absent = mostPause + callTimeout/4

// Wait waits until all steps have answered. With the answers by step, which may
// be some only, comes nil, or ErrLate, ErrReplaced (by a later request, or
// because the job has been started anew), ErrEnded, or ctx's cause.
func (a Asked) Wait(ctx context.Context) (map[string]Answer, error) {
	timer := time.NewTimer(time.Until(a.Request.By))
	defer timer.Stop()
	var err error
	select {
	case <-a.done:
	case <-timer.C:
		a.hub.expire(a.order)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	a.hub.mu.Lock()
	defer a.hub.mu.Unlock()
	if a.over {
		err = a.err
	}
	return maps.Clone(a.answers), err
}

// expire ends an order whose time is over.
func (h *Hub) expire(o *order) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o.end(ErrLate)
	if a := h.attempts[attemptID{o.Job, o.Attempt}]; a != nil {
		h.tidy(a)
	}
	h.turns()
}
