package vultr

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/burst-hpc/burst/cloud"
)

// Vultr answers 429 above 30 requests a second from one address.
// https://docs.vultr.com/support/platform/api/what-rate-limits-apply-to-the-vultr-api
// A bucket of 10 that is filled by 20 a second never lets more than 30 through
// in any second. What it lets through may be late on its way, and then come together:
// so no more than 30 are under way, or answered within the last second.
var allowed = pace{perSecond: 20, atOnce: 10, counted: time.Second}

// pace is how fast requests may follow each other.
type pace struct {
	perSecond, atOnce int
	counted           time.Duration // the time over which Vultr counts
}

// paceOf is the pace at an address. A variable for tests.
var paceOf = func(endpoint string) pace { return allowed }

// limits is the rate of all requests from this process to one address.
type limits struct {
	bucket  *rate.Limiter
	counted time.Duration
	seats   chan struct{} // full: one more might be too many within counted

	mu     sync.Mutex
	paused time.Time // until when Vultr wants none
}

// shared holds the limits that providers of this process share: Vultr counts
// by address, not by account.
var shared = struct {
	sync.Mutex
	limits map[string]*limits
}{limits: map[string]*limits{}}

func limitsOf(endpoint string) *limits {
	shared.Lock()
	defer shared.Unlock()
	if shared.limits[endpoint] == nil {
		shared.limits[endpoint] = newLimits(paceOf(endpoint))
	}
	return shared.limits[endpoint]
}

func newLimits(p pace) *limits {
	most := int(float64(p.perSecond)*p.counted.Seconds()) + p.atOnce
	return &limits{bucket: rate.NewLimiter(rate.Limit(p.perSecond), p.atOnce), counted: p.counted, seats: make(chan struct{}, most)}
}

// send returns when a request may go, with the errors of wait. answered is called when it
// is over: Vultr has counted it at some time before then, nobody knows when.
func (l *limits) send(ctx context.Context) (answered func(), err error) {
	for {
		if err := l.wait(ctx); err != nil {
			return nil, err
		}
		select {
		case l.seats <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if l.pauseLeft() <= 0 {
			return func() { time.AfterFunc(l.counted, func() { <-l.seats }) }, nil
		}
		<-l.seats
	}
}

// wait returns when the bucket and Vultr let a request go. If that is not before the
// deadline of ctx, it says so at once: Throttled, with the time after which it is worth another try.
func (l *limits) wait(ctx context.Context) error {
	for {
		// A turn is taken only after a pause: else all that wait would go at its end.
		if err := hold(ctx, l.pauseLeft()); err != nil {
			return err
		}
		turn := l.bucket.Reserve()
		if err := hold(ctx, turn.Delay()); err != nil {
			turn.Cancel()
			return err
		}
		if l.pauseLeft() <= 0 {
			return ctx.Err()
		}
	}
}

func (l *limits) pauseLeft() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.paused)
}

// hold waits d, unless ctx ends before.
func hold(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return &cloud.Error{Kind: cloud.Throttled, RetryAfter: d,
			Err: fmt.Errorf("held back: Vultr's limit of requests allows it in %s", d.Round(time.Millisecond))}
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pause holds all requests back after a 429: others ask from the same address
// too. Without a wish of Vultr's it is the time over which it counts.
func (l *limits) pause(d time.Duration) {
	if d <= 0 {
		d = l.counted
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := time.Now().Add(d); until.After(l.paused) {
		l.paused = until
	}
}
