package store

import (
	"context"
	"slices"
	"time"
)

// maxEvents is the most that one call of Events returns.
const maxEvents = 1000

// Events returns up to 1,000 events after the given one, oldest first;
// after < 0 asks for the last -after. If there are none it waits up to wait
// for one, and returns none without an error.
func (s *Store) Events(ctx context.Context, after int64, wait time.Duration) ([]Event, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		all, err := s.events(ctx, after)
		if err != nil || len(all) > 0 || wait <= 0 {
			return all, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
			return nil, nil
		case <-changed:
		}
	}
}

func (s *Store) events(ctx context.Context, after int64) ([]Event, error) {
	text, args := `SELECT seq, time, kind, node, instance, pool, job, text FROM events WHERE seq > ? ORDER BY seq LIMIT ?`, []any{after, maxEvents}
	if after < 0 {
		text, args = `SELECT seq, time, kind, node, instance, pool, job, text FROM events ORDER BY seq DESC LIMIT ?`, []any{min(-after, maxEvents)}
	}
	all, err := query(ctx, s.db, text, scanEvent, args...)
	if after < 0 {
		slices.Reverse(all)
	}
	return all, err
}

func scanEvent(scan scanner) (e Event, err error) {
	var t int64
	err = scan(&e.Seq, &t, &e.Kind, &e.Node, &e.Instance, &e.Pool, &e.Job, &e.Text)
	e.Time = toTime(t)
	return e, err
}

// Prune forgets closed orders, resolved launches, gone instances, closed notices and
// events older than the given time. An order's id is remembered for as long: a
// spooled copy that is older is not taken for a new one, since what it asks is
// compared with Slurm's present state. The ledger is kept longer, and what a job's
// steps have said for a shorter time after its end.
func (s *Store) Prune(ctx context.Context, before time.Time) error {
	for _, text := range []string{
		`DELETE FROM orders WHERE closed > 0 AND closed < ?`,
		`DELETE FROM launches WHERE resolved > 0 AND resolved < ?`,
		`DELETE FROM instances WHERE gone > 0 AND gone < ?`,
		`DELETE FROM holds WHERE released AND start < ?`,
		`DELETE FROM notices WHERE stage = 'acked' AND received < ?`,
		`DELETE FROM boots WHERE ended > 0 AND ended < ?`,
		`DELETE FROM overflows WHERE ended > 0 AND ended < ?`,
		`DELETE FROM events WHERE time < ?`,
	} {
		if _, err := s.db.ExecContext(ctx, text, fromTime(before)); err != nil {
			return err
		}
	}
	if err := s.pruneSteps(ctx, before); err != nil {
		return err
	}
	if err := s.pruneRuns(ctx, before); err != nil {
		return err
	}
	return s.pruneUsage(ctx, before)
}

// notify wakes all who wait for events.
func (s *Store) notify() {
	s.mu.Lock()
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
}
