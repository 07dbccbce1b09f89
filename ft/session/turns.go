package session

import (
	"cmp"
	"slices"
	"time"
)

const (
	// firstNeed is what a step needs for its checkpoint that has made none yet.
	firstNeed = time.Minute
	// leastNeed is for the word to come, and the answer to go: also to and from a
	// burst-srun that pauses after a failure.
	leastNeed = absent
	// together is how near to each other two times are that count as the same.
	together = 30 * time.Second
)

// turn is an order that waits for one.
type turn struct {
	*order
	uid  int
	late bool // it has no more time to wait
	at   int  // its time, as so many times together from now
	rank int  // among those of its user, those that write included
}

// need is how long the steps that are there take for what they are asked, at
// most: twice the longest of their last checkpoints, since many may write at once.
// False: none is there to answer.
func (a *attempt) need(now time.Time) (uid int, need time.Duration, there bool) {
	for step, s := range a.steps {
		if a.order.has(step) || s.lost || s.poll == nil && now.Sub(s.seen) >= absent {
			continue
		}
		its := 2 * s.Cost
		if its == 0 {
			its = firstNeed
		}
		uid, need, there = s.UID, max(need, its, leastNeed), true
	}
	return uid, need, there
}

// turns lets as many write as may. One that is not answered when its time is
// over holds no turn any more, though it may still be written. One that could
// not be done in time if it waited longer gets its turn whoever has one: too many
// at once cost less than a checkpoint that is not made. The lock is held.
func (h *Hub) turns() {
	var waiting []*turn
	writing, users := 0, map[int]int{}
	now := time.Now()
	for o, a := range h.asked {
		if o.over {
			delete(h.asked, o)
			continue
		}
		uid, need, there := a.need(now)
		left := o.Request.By.Sub(now)
		switch {
		case !o.writes() || !there: // nobody is there to take the turn, or to use it
		case o.held:
			waiting = append(waiting, &turn{order: o, uid: uid, late: !o.Calm && left <= need, at: int(left / together)})
		case now.Sub(o.since) < need:
			writing++
			users[uid]++
		}
	}
	arrange(waiting, users)
	for _, t := range waiting {
		if !t.late && writing >= h.places(t.Calm) {
			continue // one that is not calm may come after it
		}
		t.held, t.since = false, now
		writing++
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
