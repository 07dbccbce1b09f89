package slurm

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowRead takes cost, and counts.
type slowRead struct {
	cost       time.Duration
	fail       error
	mu         sync.Mutex
	count, now int
	most       int // at the same time
	cancelled  int
}

func (r *slowRead) read(ctx context.Context) (*Snapshot, error) {
	r.mu.Lock()
	r.count++
	r.now++
	r.most = max(r.most, r.now)
	r.mu.Unlock()
	s := &Snapshot{Taken: time.Now()}
	err := pause(ctx, r.cost)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now--
	if err != nil {
		r.cancelled++
		return nil, err
	}
	if r.fail != nil {
		return nil, r.fail
	}
	return s, nil
}

func TestWatcherSharesOneReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &slowRead{cost: 100 * time.Millisecond}
		w := NewWatcher(r.read, 0)
		if w.Latest() != nil {
			t.Error("a snapshot before the first reading")
		}
		since := time.Now()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				s, err := w.Fresh(context.Background(), since)
				if err != nil || s.Taken.Before(since) {
					t.Errorf("%+v, %v", s, err)
				}
			})
		}
		wg.Wait()
		if _, err := w.Fresh(context.Background(), since); err != nil || r.count != 1 {
			t.Errorf("%d readings, %v; want 1 for all", r.count, err)
		}
	})
}

func TestWatcherReadsAgainForLaterSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &slowRead{cost: 100 * time.Millisecond}
		w := NewWatcher(r.read, 0)
		go w.Fresh(context.Background(), time.Now())
		time.Sleep(50 * time.Millisecond)
		since := time.Now() // after the reading under way was begun
		s, err := w.Fresh(context.Background(), since)
		if err != nil || s.Taken.Before(since) || r.count != 2 || r.most != 1 {
			t.Errorf("%+v, %v; %d readings, %d at once", s, err, r.count, r.most)
		}
		future := time.Now().Add(5 * time.Second)
		if s, err := w.Fresh(context.Background(), future); err != nil || s.Taken.Before(future) || r.count != 3 {
			t.Errorf("%+v, %v; %d readings", s, err, r.count)
		}
	})
}

func TestWatcherLeavesSlurmInPeace(t *testing.T) {
	tests := []struct {
		name      string
		cost, gap time.Duration
		most      int // readings in 10 s
	}{
		{"cheap readings, one a second", 10 * time.Millisecond, time.Second, 11},
		{"costly readings, a third of the time", 500 * time.Millisecond, time.Second, 8},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &slowRead{cost: tt.cost}
				w := NewWatcher(r.read, tt.gap)
				end := time.Now().Add(10 * time.Second)
				for time.Now().Before(end) {
					if _, err := w.Fresh(context.Background(), time.Now()); err != nil {
						t.Fatal(err)
					}
				}
				if r.count > tt.most || r.count < tt.most-2 {
					t.Errorf("%d readings in 10 s, want about %d", r.count, tt.most)
				}
			})
		})
	}
}

func TestWatcherErrorGoesToItsWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("slurmctld is down")
		r := &slowRead{cost: time.Millisecond}
		w := NewWatcher(r.read, 0)
		first, err := w.Fresh(context.Background(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		r.fail = down
		if _, err := w.Fresh(context.Background(), time.Now()); !errors.Is(err, down) {
			t.Errorf("got %v, want %v", err, down)
		}
		if w.Latest() != first {
			t.Error("a failed reading replaced the last snapshot")
		}
		if s, err := w.Fresh(context.Background(), first.Taken); err != nil || s != first {
			t.Errorf("the last snapshot is fresh enough: %v, %v", s, err)
		}
		r.fail = nil
		if _, err := w.Fresh(context.Background(), time.Now()); err != nil {
			t.Errorf("after the recovery: %v", err)
		}
	})
}

func TestWatcherStopsWhenNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &slowRead{cost: time.Minute}
		w := NewWatcher(r.read, 0)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := w.Fresh(ctx, time.Now()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if r.cancelled != 1 {
			t.Error("a reading for which nobody waits goes on")
		}
		r.cost = time.Millisecond
		if _, err := w.Fresh(context.Background(), time.Now()); err != nil || r.most != 1 {
			t.Errorf("the next reading: %v, %d at once", err, r.most)
		}
	})
}

// One who leaves does not end the reading of another.
func TestWatcherKeepsReadingForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &slowRead{cost: 10 * time.Second}
		w := NewWatcher(r.read, 0)
		since := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		go w.Fresh(ctx, since)
		if s, err := w.Fresh(context.Background(), since); err != nil || s == nil || r.count != 1 {
			t.Errorf("%v, %v, %d readings", s, err, r.count)
		}
	})
}
