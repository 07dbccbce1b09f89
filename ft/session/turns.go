package session

import (
	"cmp"
	"slices"
	"time"
)

const (
	// firstNeed is for how long a step has its turn that has made no checkpoint yet.
	firstNeed = time.Minute
	// leastNeed is for the word to come, and the answer to go: also to and from a
	// burst-srun that pauses after a failure.
	leastNeed = absent
	// mostTurn is for how long a turn is kept from others, whatever a step says that
	// it needs.
	mostTurn = 5 * time.Minute
	// hurried is the time of an order below which none waits that is not known to
	// be able to: its checkpoint may take all of that.
	hurried = 5 * time.Minute
	// together is how near to each other two times are that count as the same.
	together = 30 * time.Second
)

// need is what the steps of an order need that are there to answer.
type need struct {
	uid  int
	left time.Duration // to begin in time
	turn time.Duration // so long they have theirs, once they have it
}

// need is twice the longest of the steps' last checkpoints, since many may write at
// once. A step may say anything: beyond what the hub has seen it keeps others waiting
// for a part of the order's time only, and does not wait itself beyond a part of
// that, as if it had made none. False: none is there.
func (a *attempt) need(now time.Time) (n need, there bool) {
	all := a.order.Request.By.Sub(a.order.placed)
	unknown := all
	if all >= hurried {
		unknown -= all / 4
	}
	for step, s := range a.steps {
		if a.order.has(step) || s.lost || s.poll == nil && now.Sub(s.seen) >= absent {
			continue
		}
		left, turn := max(2*s.Cost, leastNeed), max(2*s.Cost, leastNeed)
		if s.Cost == 0 {
			left, turn = unknown, firstNeed
		}
		left = min(left, max(unknown, 2*s.proven))
		turn = min(turn, max(firstNeed, all/4), mostTurn)
		n, there = need{s.UID, max(n.left, left), max(n.turn, turn)}, true
	}
	return n, there
}

// turn is an order that waits for one.
type turn struct {
	*order
	uid  int
	late bool // it has no more time to wait
	at   int  // its time, as so many times together from now
	rank int  // among those of its user, those that write included
}

// crowd is who writes.
type crowd struct {
	users   map[int]int
	late    map[int]int // of them, those that could not wait
	writing int         // of a user's late ones at most so many as most
	most    int
}

func (c *crowd) add(uid int, late bool) {
	c.users[uid]++
	if late {
		c.late[uid]++
	}
	if !late || c.late[uid] <= c.most {
		c.writing++
	}
}

// before is how many write, as one of the user's has to see it: those of others that
// came on top because they could not wait keep it waiting in part only.
func (c *crowd) before(uid int) int { return c.writing + max(0, c.late[uid]-c.most) }

// give lets as many write as may. One that is not answered when its time is
// over holds no turn any more, though it may still be written. One that could
// not be done in time if it waited longer gets its turn whoever has one: too many
// at once cost less than a checkpoint that is not made. The lock is held.
func (h *Hub) give() {
	var waiting []*turn
	full := crowd{users: map[int]int{}, late: map[int]int{}, most: (h.cfg.AtOnce + 1) / 2}
	now := time.Now()
	for o, a := range h.asked {
		if o.over {
			delete(h.asked, o)
			continue
		}
		n, there := a.need(now)
		left := o.Request.By.Sub(now)
		switch {
		case !o.writes() || !there: // nobody is there to take the turn, or to use it
		case o.held:
			waiting = append(waiting, &turn{order: o, uid: n.uid, late: !o.Calm && left <= n.left, at: int(left / together)})
		case now.Sub(o.since) < n.turn:
			full.add(n.uid, o.pressed)
		}
	}
	arrange(waiting, full.users)
	for _, t := range waiting {
		if !t.late && full.before(t.uid) >= h.places(t.Calm) {
			continue // one that is not calm may come after it
		}
		t.held, t.since, t.pressed = false, now, t.late
		full.add(t.uid, t.late)
		h.wake(t.order)
	}
}

// places is how many may write at once when another begins: a quarter of them, and
// not the only one, is kept from those with which nothing is lost.
func (h *Hub) places(calm bool) int {
	most := h.cfg.AtOnce
	switch {
	case most <= 0:
		return len(h.asked) + 1
	case calm && most > 1:
		return most - (most+3)/4
	}
	return most
}

// arrange brings those that wait into their order: first those that cannot wait,
// last those with which nothing is lost; among them those that must be ready
// first; of what must be ready at about the same time one of each user in turn,
// beginning with who has the fewest of those that write.
func arrange(waiting []*turn, users map[int]int) {
	slices.SortFunc(waiting, func(a, b *turn) int {
		return cmp.Or(a.Request.By.Compare(b.Request.By), cmp.Compare(a.Job, b.Job))
	})
	ranks := map[int]int{}
	for _, t := range waiting {
		t.rank = users[t.uid] + ranks[t.uid]
		ranks[t.uid]++
	}
	slices.SortStableFunc(waiting, func(a, b *turn) int {
		return cmp.Or(yesFirst(a.late, b.late), yesFirst(b.Calm, a.Calm), cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank))
	})
}

func yesFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
