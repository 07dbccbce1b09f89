package session

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

const (
	// together is how near to each other two times are that count as the same.
	together = 30 * time.Second
	// farOff is the time of an order with which nothing hurries.
	farOff = 15 * time.Minute
	// fewTimes is of how many checkpoints what they took is kept.
	fewTimes = 64
	// noTurn is why a step ends without a checkpoint that waited for its turn.
	noTurn = "too many others were writing, and no time is left for its checkpoint"
)

// stand is how a step stands with an order that has it write.
//
//	fresh -> waits -> writes | leaves
type stand int

const (
	fresh  stand = iota // no turns were given since it came
	waits               // others write
	writes              // until it has answered, or cannot any more
	leaves              // it is told to end without a checkpoint
)

// turn is a step's, of one order.
type turn struct {
	of    *order
	stand stand
	since time.Time // when it was let write; zero: by an earlier life of burstd
}

// stands says how the step stands with the order. The lock is held.
func (s *session) stands(o *order) stand {
	if s.turn.of != o {
		return fresh
	}
	return s.turn.stand
}

// there says whether the step's burst-srun can take a turn, or use it.
func (s *session) there(now time.Time) bool {
	return !s.lost && !s.unheard && (s.poll != nil || now.Sub(s.seen) < absent)
}

// heard notes that the step has asked, and that it writes if it was let do so before
// burstd was started. The lock is held.
func (h *Hub) heard(a *attempt, s *session, q Question) {
	if s.unheard {
		s.unheard = false
		h.unheard--
	}
	if o := a.order; o != nil && q.Have == o.Request.ID && !q.Held && s.stands(o) < writes && !o.has(q.Step) {
		s.turn = turn{of: o, stand: writes}
	}
}

// Waited says that steps of the attempt have been asked last to write, and that none of them has been let do so
// in time, since burstd was started: the others' turns took it all.
func (h *Hub) Waited(job uint32, n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.attempts[attemptID{job, n}]
	return a != nil && (a.waited || a.waits())
}

// waits is the same of the present order. The lock is held.
func (a *attempt) waits() bool {
	if a.order == nil || !a.order.writes() {
		return false
	}
	for name, s := range a.steps {
		turn := s.stands(a.order) >= writes
		late := turn && s.turn.since.Add(s.Cost).After(a.order.Request.By.Add(WaitTime)) && a.order.answers[name].Generation == "" // a stopped step is waited for so long
		if (turn || a.order.has(name)) && !late {
			return false
		}
	}
	return len(a.steps) > 0
}

// waiter is a step that waits for its turn.
type waiter struct {
	*session
	order *order
	idle  bool          // nothing hurries, or is lost
	vain  bool          // it would be late if it began now
	scant bool          // or, if its cost is not known, probably
	at    int           // its time, as so many times together from now
	cost  time.Duration // of its checkpoint, as far as can be said
	rank  int           // among those of its user, those that write included
}

// give lets as many steps write as may, never more. A step has its turn until it has
// answered or ended, its time is over, or its burst-srun has been silent for so long
// that it is not there. One that waited, and would be late if it began now, is told to
// leave: its last generation counts, as if there had been no time when it was asked. The
// lock is held.
func (h *Hub) give() {
	now, guess := time.Now(), h.guess()
	users, writing := map[int]int{}, 0
	if now.Before(h.loaded.Add(absent)) {
		writing = h.unheard // of which each may be writing: soon it says so
	}
	var waiting []*waiter
	for o, a := range h.asked {
		left := o.Request.By.Sub(now)
		if left <= 0 || !o.wanted() {
			delete(h.asked, o)
			continue
		}
		for name, s := range a.steps {
			switch {
			case !o.writes() || o.has(name) || !s.there(now) || s.stands(o) == leaves:
			case s.stands(o) == writes:
				users[s.UID]++
				writing++
			default:
				cost := cmp.Or(s.Cost, guess)
				waiting = append(waiting, &waiter{session: s, order: o, idle: o.Calm || left > farOff, vain: !ckpt.Fits(s.Cost, left), scant: left < cost,
					at: int(left / together), cost: cost})
			}
		}
	}
	if len(h.asked) == 0 {
		h.took = nil // the storm is over
	}
	if writing < h.places(false) { // else none is next
		arrange(waiting, users)
	}
	for _, w := range waiting {
		room := writing < h.places(w.idle)
		switch {
		case w.vain && w.order.leavable() && (!room || w.stands(w.order) == waits):
			w.turn = turn{of: w.order, stand: leaves}
		case room:
			w.turn = turn{w.order, writes, now}
			writing++
		default:
			w.turn = turn{of: w.order, stand: waits}
			continue
		}
		w.wake()
	}
}

// leavable says whether a step may be ended for the order without a checkpoint: what
// it has lost by that it loses anyway.
func (o *order) leavable() bool { return o.Request.Kind == Stop && o.claimed && !o.Calm }

// places is how many may write at once when another begins: a quarter of them, and
// not the only one, is kept from those with which nothing hurries.
func (h *Hub) places(idle bool) int {
	most := h.cfg.AtOnce
	switch {
	case most <= 0:
		return math.MaxInt
	case idle && most > 1:
		return most - (most+3)/4
	}
	return most
}

// arrange brings those that wait into their order. Those with which nothing is lost
// are last; before them those whose time will hardly do; first of the others who must be
// ready first. Of what must be ready at about the same time it is one of each user in
// turn, beginning with who has the fewest of those that write, and of one user's the
// quickest: so the most are done in time.
func arrange(waiting []*waiter, users map[int]int) {
	class := func(a, b *waiter) int {
		return cmp.Or(noFirst(a.order.Calm, b.order.Calm), noFirst(a.scant, b.scant), cmp.Compare(a.at, b.at))
	}
	slices.SortFunc(waiting, func(a, b *waiter) int {
		return cmp.Or(class(a, b), cmp.Compare(a.cost, b.cost), a.order.Request.By.Compare(b.order.Request.By),
			cmp.Compare(a.Job, b.Job), cmp.Compare(a.Step, b.Step))
	})
	ranks := map[int]int{}
	for _, w := range waiting {
		w.rank = users[w.UID] + ranks[w.UID]
		ranks[w.UID]++
	}
	slices.SortStableFunc(waiting, func(a, b *waiter) int { return cmp.Or(class(a, b), cmp.Compare(a.rank, b.rank)) })
}

func noFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// timed notes for how long a step wrote that has made its checkpoint, as seen from
// here: what a step says of that might be wrong. The lock is held.
func (h *Hub) timed(s *session, o *order, a Answer) {
	if s == nil || s.stands(o) != writes || s.turn.since.IsZero() || a.Generation == "" || o.has(s.Step) {
		return
	}
	h.took = append(h.took, time.Since(s.turn.since))
	h.took = h.took[max(0, len(h.took)-fewTimes):]
}

// guess is what a checkpoint is taken to need of a step that has made none: the
// median of those that were made in this storm.
func (h *Hub) guess() time.Duration {
	if len(h.took) == 0 {
		return ckpt.GuessedCost
	}
	all := slices.Sorted(slices.Values(h.took))
	return all[len(all)/2]
}
