package store

import (
	"context"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm/power"
)

// Evicted is how often a pool's spot instances were taken back.
type Evicted struct {
	Pool      string
	Watched   time.Duration // that they lived, summed
	Evictions int           // instances that the cloud took back
	Told      int           // of these, with a notice that came ahead of the end
}

// Evicted reads what is known of spot instances since a time, by pool.
func (s *Store) Evicted(ctx context.Context, since time.Time) ([]Evicted, error) {
	now := fromTime(time.Now())
	all, err := query(ctx, s.db, `
		SELECT pool, sum(max(0, CASE gone WHEN 0 THEN ?1 ELSE gone END - max(launched, ?2))),
			sum(told OR doomed = ?3), sum(told)
		FROM (SELECT pool, launched, gone, doomed,
				EXISTS (SELECT 1 FROM notices n WHERE n.instance = i.id AND n.kind = ?4 AND NOT n.cancelled
					AND n.source <> 'drill' AND (n.deadline = 0 OR n.deadline > n.received)) AS told
			FROM instances i WHERE market = ?5 AND launched > 0 AND (gone = 0 OR gone > ?2))
		GROUP BY pool ORDER BY pool`,
		func(scan scanner) (e Evicted, err error) {
			var watched int64
			err = scan(&e.Pool, &watched, &e.Evictions, &e.Told)
			e.Watched = time.Duration(watched) * time.Microsecond
			return e, err
		}, now, fromTime(since), power.CloudEnded, cloud.SpotInterruption, cloud.Spot)
	if err != nil {
		return nil, fmt.Errorf("reading how often instances were evicted: %w", err)
	}
	return all, nil
}
