package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// What a client remembers.
const (
	mostLast   = 8  // answers to requests
	mostOutbox = 16 // answers that are not delivered; beyond, of periodic checkpoints the oldest goes
)

// underway is the request that is being carried out.
type underway struct {
	Request
	*nearing
	before []string // IDs of requests that it was, one after the other
}

// take notes what burstd wants, and says whether that is news. Its time is
// counted from when the question was sent, so that a slow answer makes it
// shorter, never longer.
func (c *Client) take(w Word, sent time.Time) bool {
	if w.Request == nil {
		return false
	}
	r := *w.Request
	r.By = sent.Add(w.Waited + r.Left)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.signal()
	same := c.have == r.ID
	if same && !(c.held && !r.Held) {
		return false
	}
	c.have, c.held = r.ID, r.Held
	if i := slices.IndexFunc(c.last, func(a Answer) bool { return a.ID == r.ID }); i >= 0 {
		c.post(c.last[i]) // done before: burstd does not know it any more
		return true
	}
	if c.current != nil && c.current.becomes(r) {
		c.held, c.next = false, nil
		return true
	}
	if c.closing || same && c.next == nil {
		return true
	}
	c.next = &r
	if c.current != nil && c.current.ID != r.ID {
		why := ErrReplaced
		if r.Kind == Cancel {
			why = ErrCancelled
		}
		c.current.cancel(why)
	}
	return true
}

// becomes has what is under way serve r as well, by the nearer of their times, if
// that asks for the same.
func (u *underway) becomes(r Request) bool {
	if u.Kind != r.Kind || u.Err() != nil {
		return false
	}
	if u.ID != r.ID {
		u.before = append(u.before, u.ID)
		u.ID = r.ID
		u.nearer(r.By)
	}
	return true
}

// work carries out requests, one at a time.
func (c *Client) work(ctx context.Context) {
	for {
		var doing *underway
		var r Request
		err := c.until(ctx, func() bool {
			if c.closing && c.next == nil {
				return true
			}
			if c.next == nil || c.next.Held {
				return false
			}
			r, c.next = *c.next, nil
			doing = &underway{Request: r, nearing: newNearing(ctx, r.By)}
			c.current = doing
			return true
		})
		if err != nil || doing == nil {
			return
		}
		a := c.carryOut(doing.nearing, r)
		c.mu.Lock()
		c.current = nil
		doing.cancel(nil)
		for _, a.ID = range append(doing.before, doing.ID) { // the last one is what burstd waits for
			c.last = append(c.last, a)
		}
		c.last = c.last[max(0, len(c.last)-mostLast):]
		c.learn(a)
		c.post(a)
		c.signal()
		c.mu.Unlock()
	}
}

func (c *Client) carryOut(ctx context.Context, r Request) Answer {
	switch {
	case r.Kind == Cancel:
		return Answer{Iteration: -1}
	case ctx.Err() != nil:
		return Answer{Iteration: -1, Error: fmt.Sprintf("not begun: %v", context.Cause(ctx))}
	}
	a := c.cfg.Do(ctx, r)
	a.Error = oneLine(a.Error)
	return a
}

// Report has burstd know of a periodic checkpoint. It does not wait.
func (c *Client) Report(a Answer) {
	a.ID, a.Error = "", oneLine(a.Error)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.learn(a)
	c.post(a)
	c.signal()
}

// learn has the step's cost follow a checkpoint. The lock is held.
func (c *Client) learn(a Answer) { c.costs = lately(c.costs, a) }

// lately is what the last three checkpoints took.
func lately(costs []time.Duration, a Answer) []time.Duration {
	if a.Generation == "" || a.Took <= 0 {
		return costs
	}
	costs = append(costs, a.Took)
	return costs[max(0, len(costs)-3):]
}

// post puts an answer into the outbox. The lock is held.
func (c *Client) post(a Answer) {
	if slices.Contains(c.outbox, a) {
		return
	}
	c.outbox = append(c.outbox, a)
	if len(c.outbox) > mostOutbox {
		i := max(0, slices.IndexFunc(c.outbox, func(a Answer) bool { return a.ID == "" }))
		c.outbox = slices.Delete(c.outbox, i, i+1)
	}
}

func longest(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	return slices.Max(d)
}

// deliver brings answers to burstd, in their order.
func (c *Client) deliver(ctx context.Context) {
	var b backoff
	for ctx.Err() == nil {
		var a Answer
		err := c.until(ctx, func() bool {
			if len(c.outbox) > 0 {
				a = c.outbox[0]
			}
			return len(c.outbox) > 0 || c.closing && c.current == nil
		})
		if err != nil || a == (Answer{}) {
			return
		}
		err = c.call(ctx, PathAnswer, Given{c.cfg.Hello.Key, c.cfg.Hello.Token, a}, nil)
		if err != nil && !hopeless(err) {
			b.pause(ctx, err)
			continue
		}
		if err != nil {
			c.trouble(err)
		}
		b = backoff{}
		c.mu.Lock()
		if i := slices.Index(c.outbox, a); i >= 0 { // else too many came meanwhile
			c.outbox = slices.Delete(c.outbox, i, i+1)
		}
		c.signal()
		c.mu.Unlock()
	}
}

// hopeless says whether the same again will hardly be taken.
func hopeless(err error) bool {
	return errors.Is(err, ErrReplaced) || errors.Is(err, ErrNotYours) || errors.Is(err, ErrInvalid)
}

// trouble tells the user, once, that nothing protects the step.
func (c *Client) trouble(err error) {
	var text string
	c.mu.Lock()
	c.failed = true
	switch {
	case hopeless(err) && !c.told.refused:
		c.told.refused = true
		text = fmt.Sprintf("burstd refuses this step (%v): it is not protected against evictions", err)
	case errors.Is(err, ErrFull) && !c.told.away && !c.told.refused: // its own word, which no patience changes
		c.told.away = true
		text = fmt.Sprintf("%v: until it has room this step is not asked for a checkpoint before its node goes", err)
	case !hopeless(err) && c.epoch == 0 && !c.told.away && !c.told.refused && time.Since(c.began) >= patience:
		c.told.away = true
		text = fmt.Sprintf("burstd does not answer (%v): until it does, this job is not protected against evictions", err)
	}
	c.mu.Unlock()
	if text != "" {
		c.cfg.Say(text)
	}
}

// backoff is how long to wait after failures in a row.
type backoff struct{ next time.Duration }

// pause waits at random up to twice as long as the last time, or as burstd wants.
func (b *backoff) pause(ctx context.Context, err error) {
	b.next = min(max(2*b.next, firstPause), mostPause)
	wait := b.next/4 + rand.N(b.next*3/4)
	var r interface{ RetryAfter() time.Duration }
	switch {
	case hopeless(err):
		wait = slowPause*3/4 + rand.N(slowPause/2)
	case errors.As(err, &r):
		wait = max(wait, min(r.RetryAfter(), mostPause))
	}
	pause(ctx, wait)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
