package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm/power"
)

// loadPause reads the pause; there is at most one.
func loadPause(ctx context.Context, tx *sql.Tx) (p power.Pause, err error) {
	all, err := query(ctx, tx, `SELECT since, by, why FROM pause`, func(scan scanner) (p power.Pause, err error) {
		var since int64
		err = scan(&since, &p.By, &p.Why)
		p.Since = toTime(since)
		return p, err
	})
	if len(all) > 0 {
		p = all[0]
	}
	return p, err
}

func putPause(w *writer, p *power.Pause) {
	switch {
	case p == nil:
	case p.Since.IsZero():
		w.put(`DELETE FROM pause`)
	default:
		w.put(`INSERT OR REPLACE INTO pause (one, since, by, why) VALUES (1, ?, ?, ?)`, fromTime(p.Since), p.By, p.Why)
	}
}

// Drill is an instance that an admin has announced the end of, and that burstd
// itself has to end then.
type Drill struct {
	Provider, Instance, Node string
	Deadline                 time.Time
}

// Drills reads the notices of a drill whose instances the cloud has not said to
// be gone, the nearest deadline first.
func (s *Store) Drills(ctx context.Context) ([]Drill, error) {
	return query(ctx, s.db, `SELECT n.provider, n.instance, i.node, n.deadline FROM notices n JOIN instances i ON i.id = n.instance
		WHERE n.source = 'drill' AND n.kind = ? AND n.cancelled = 0 AND n.deadline > 0 AND i.gone = 0 ORDER BY n.deadline, n.instance`,
		func(scan scanner) (d Drill, err error) {
			var deadline int64
			err = scan(&d.Provider, &d.Instance, &d.Node, &deadline)
			d.Deadline = toTime(deadline)
			return d, err
		}, cloud.SpotInterruption)
}
