package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// Pauses between the tries to deliver a notice.
const (
	tryMin = 500 * time.Millisecond
	tryMax = 10 * time.Second
	// tryRefused is for what is refused: a refusal is not signed, and burstd may
	// not know yet that the instance has another address.
	tryRefused = 20 * time.Second
)

// outbox has the notices that burstd does not have yet. Each has a courier of
// its own, who brings the latest word on it; a delivered one is forgotten.
type outbox struct {
	send  func(context.Context, cloud.Notice) error
	log   *slog.Logger
	tally *tally

	mu   sync.Mutex
	open map[key]*parcel
	wg   sync.WaitGroup
}

// key tells notices of one instance apart.
type key struct {
	kind  cloud.NoticeKind
	event string
}

func keyOf(n cloud.Notice) key { return key{n.Kind, n.Event} }

type parcel struct {
	notice  cloud.Notice
	changed chan struct{} // closed when notice is replaced
}

func newOutbox(send func(context.Context, cloud.Notice) error, log *slog.Logger) *outbox {
	return &outbox{send: send, log: log, tally: newTally(log, "burstd does not take a notice: it is sent until it does"), open: map[key]*parcel{}}
}

// put has n delivered, in place of what is known of the same so far.
func (o *outbox) put(ctx context.Context, n cloud.Notice) {
	k := keyOf(n)
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.open[k]
	if p != nil {
		close(p.changed)
		p.notice, p.changed = n, make(chan struct{})
		return
	}
	p = &parcel{n, make(chan struct{})}
	o.open[k] = p
	o.wg.Go(func() { o.deliver(ctx, k, p) })
}

// pending says whether burstd does not have the latest word on k yet.
func (o *outbox) pending(k key) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.open[k] != nil
}

// wait returns when no courier is under way, which is soon after ctx ended.
func (o *outbox) wait() { o.wg.Wait() }

func (o *outbox) deliver(ctx context.Context, k key, p *parcel) {
	pause, said := tryMin, false
	for ctx.Err() == nil {
		o.mu.Lock()
		n, changed := p.notice, p.changed
		o.mu.Unlock()
		err := o.send(ctx, n)
		if err == nil {
			o.tally.ok()
		}
		if err == nil || isRefused(err) && n.Cancelled {
			if o.done(k, p, changed) {
				o.tell(n, err)
				return
			}
			pause = tryMin
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if !isRefused(err) {
			o.tally.fail(err)
		} else if pause = tryRefused; !said {
			o.tell(n, err)
			said = true
		}
		timer := time.NewTimer(max(jitter(pause), retryAfter(err)))
		select {
		case <-timer.C:
			pause = min(2*pause, tryMax)
		case <-changed:
			pause = tryMin
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// done forgets the parcel, unless there is a newer word.
func (o *outbox) done(k key, p *parcel, changed chan struct{}) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.changed != changed {
		return false
	}
	delete(o.open, k)
	return true
}

func (o *outbox) tell(n cloud.Notice, err error) {
	attrs := []any{"kind", n.Kind, "action", n.Action, "deadline", n.Deadline, "event", n.Event, "cancelled", n.Cancelled}
	if err != nil {
		o.log.Error("burstd refuses a notice", append(attrs, "error", err)...)
		return
	}
	o.log.Info("burstd has the notice", append(attrs, "took", time.Since(n.Received).Round(time.Millisecond))...)
}
