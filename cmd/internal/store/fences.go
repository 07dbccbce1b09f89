package store

import (
	"context"
	"database/sql"

	"github.com/burst-hpc/burst/slurm/power"
)

func loadFences(ctx context.Context, tx *sql.Tx) ([]power.Fence, error) {
	return query(ctx, tx, `SELECT instance, job, restarts, node, since FROM fences ORDER BY instance, job`,
		func(scan scanner) (f power.Fence, err error) {
			var since int64
			err = scan(&f.Instance, &f.Job, &f.Restarts, &f.Node, &since)
			f.Since = toTime(since)
			return f, err
		})
}

func loadHeard(ctx context.Context, tx *sql.Tx) ([]string, error) {
	return query(ctx, tx, `SELECT provider FROM heard ORDER BY provider`, func(scan scanner) (p string, err error) {
		err = scan(&p)
		return p, err
	})
}

// putFences writes fences. An instance that is gone has none.
func putFences(w *writer, c power.Change) {
	for _, p := range c.Heard {
		w.put(`INSERT OR REPLACE INTO heard (provider) VALUES (?)`, p)
	}
	for _, id := range c.DropFences {
		w.put(`DELETE FROM fences WHERE instance = ?`, id)
	}
	for _, f := range c.Fences {
		w.put(`INSERT OR REPLACE INTO fences (instance, job, restarts, node, since) VALUES (?, ?, ?, ?, ?)`,
			f.Instance, f.Job, f.Restarts, f.Node, fromTime(f.Since))
	}
	for _, i := range c.Instances {
		if !i.Gone.IsZero() {
			w.put(`DELETE FROM fences WHERE instance = ?`, i.ID)
		}
	}
}
