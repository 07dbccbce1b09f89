package slurm

import (
	"context"
	"sync"
	"time"
)

// Watcher shares one reading of Slurm among many waiters: however many ask, at
// most one reading is under way, and Slurm has peace between two.
type Watcher struct {
	read func(context.Context) (*Snapshot, error)
	gap  time.Duration

	mu     sync.Mutex
	latest *Snapshot
	flight *flight   // waiting for its turn, or under way; nil: none
	began  time.Time // the last reading
	cost   time.Duration
}

// flight is one reading and those who wait for it.
type flight struct {
	cancel  context.CancelFunc
	done    chan struct{} // closed when snap and err are set
	start   time.Time     // zero until it begins
	waiters int           // at 0 the flight is cancelled, and nobody may join any more
	snap    *Snapshot
	err     error
}

// costFactor bounds the share of slurmctld's time that readings take: one
// reading's time in three.
const costFactor = 3

// NewWatcher returns a watcher that reads with read. Between the starts of two
// readings lie at least minGap and three times what the last one took.
func NewWatcher(read func(context.Context) (*Snapshot, error), minGap time.Duration) *Watcher {
	return &Watcher{read: read, gap: minGap}
}

// Latest returns the last snapshot, nil before the first.
func (w *Watcher) Latest() *Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.latest
}

// Fresh returns a snapshot that was begun at or after since: the last one, the
// one under way, or a new one. An error of a reading goes to those who waited
// for it, and to no one else.
func (w *Watcher) Fresh(ctx context.Context, since time.Time) (*Snapshot, error) {
	if wait := time.Until(since); wait > 0 {
		if err := pause(ctx, wait); err != nil {
			return nil, err
		}
	}
	for {
		snap, f, joined := w.join(since)
		if snap != nil {
			return snap, nil
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			if joined {
				w.leave(f)
			}
			return nil, context.Cause(ctx)
		}
		if !joined {
			continue
		}
		if f.err != nil {
			return nil, f.err
		}
		if !f.snap.Taken.Before(since) {
			return f.snap, nil
		}
	}
}

// join returns the last snapshot if it is fresh, else the flight to wait for.
// If not joined, that flight is too old for since and only stands in the way.
func (w *Watcher) join(since time.Time) (snap *Snapshot, f *flight, joined bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.latest != nil && !w.latest.Taken.Before(since) {
		return w.latest, nil, false
	}
	f = w.flight
	if f == nil {
		ctx, cancel := context.WithCancel(context.Background())
		f = &flight{cancel: cancel, done: make(chan struct{}), waiters: 1}
		w.flight = f
		go w.fly(ctx, f)
		return nil, f, true
	}
	if f.waiters == 0 || (!f.start.IsZero() && f.start.Before(since)) {
		return nil, f, false
	}
	f.waiters++
	return nil, f, true
}

// leave gives a flight up; the last to leave cancels it.
func (w *Watcher) leave(f *flight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f.waiters--
	if f.waiters == 0 {
		f.cancel()
	}
}

func (w *Watcher) fly(ctx context.Context, f *flight) {
	defer f.cancel()
	f.snap, f.err = w.turn(ctx, f)
	w.mu.Lock()
	if f.err == nil {
		w.latest = f.snap
	}
	w.flight = nil
	w.mu.Unlock()
	close(f.done)
}

// turn waits until Slurm has had its peace, and reads.
func (w *Watcher) turn(ctx context.Context, f *flight) (*Snapshot, error) {
	w.mu.Lock()
	next := w.began.Add(max(w.gap, costFactor*w.cost))
	first := w.began.IsZero()
	w.mu.Unlock()
	if wait := time.Until(next); !first && wait > 0 {
		if err := pause(ctx, wait); err != nil {
			return nil, err
		}
	}
	w.mu.Lock()
	f.start = time.Now()
	w.began = f.start
	w.mu.Unlock()
	snap, err := w.read(ctx)
	w.mu.Lock()
	w.cost = time.Since(f.start)
	w.mu.Unlock()
	return snap, err
}
