package store

import (
	"context"
	"database/sql"
	"strings"

	"github.com/burst-hpc/burst/slurm/power"
)

const bootColumns = `node, order_id, pool, job, instance, tries, ordered, called, launched, running, reachable, setup, ready, registered, started, ended, outcome`

func scanBoot(scan scanner) (b power.Boot, err error) {
	var ordered, called, launched, running, reachable, setup, ready, registered, started, ended int64
	err = scan(&b.Node, &b.Order, &b.Pool, &b.Job, &b.Instance, &b.Tries, &ordered, &called, &launched, &running, &reachable, &setup, &ready,
		&registered, &started, &ended, &b.Outcome)
	b.Ordered, b.Called, b.Launched, b.Running, b.Reachable = toTime(ordered), toTime(called), toTime(launched), toTime(running), toTime(reachable)
	b.Setup, b.Ready, b.Registered, b.Started, b.Ended = toTime(setup), toTime(ready), toTime(registered), toTime(started), toTime(ended)
	return b, err
}

// loadBoots reads the breakers, and the boots that have not ended.
func loadBoots(ctx context.Context, tx *sql.Tx, st *power.State) error {
	var err error
	st.Breakers, err = query(ctx, tx, `SELECT pool, failures, stopped, why, by_hand FROM breakers ORDER BY pool`, func(scan scanner) (b power.Breaker, err error) {
		var stopped int64
		err = scan(&b.Pool, &b.Failures, &stopped, &b.Why, &b.ByHand)
		b.Stopped = toTime(stopped)
		b.Pool, b.Provider, _ = strings.Cut(b.Pool, "@") // as Breaker.Key has them
		return b, err
	})
	if err != nil {
		return err
	}
	st.Boots, err = query(ctx, tx, `SELECT `+bootColumns+` FROM boots WHERE ended = 0 ORDER BY node, ordered`, scanBoot)
	return err
}

func putBoots(w *writer, c power.Change) {
	for _, b := range c.Breakers {
		if b.Failures == 0 && b.Stopped.IsZero() {
			w.put(`DELETE FROM breakers WHERE pool = ?`, b.Key())
			continue
		}
		w.put(`INSERT OR REPLACE INTO breakers (pool, failures, stopped, why, by_hand) VALUES (?, ?, ?, ?, ?)`, b.Key(), b.Failures, fromTime(b.Stopped), b.Why, b.ByHand)
	}
	for _, b := range c.Boots {
		w.put(`INSERT OR REPLACE INTO boots (`+bootColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			b.Node, b.Order, b.Pool, b.Job, b.Instance, b.Tries, fromTime(b.Ordered), fromTime(b.Called), fromTime(b.Launched), fromTime(b.Running),
			fromTime(b.Reachable), fromTime(b.Setup), fromTime(b.Ready), fromTime(b.Registered), fromTime(b.Started), fromTime(b.Ended), b.Outcome)
	}
}

// maxBoots is the most that one call of Boots returns.
const maxBoots = 10000

// Boots reads the newest boots, at most last and 10,000 of them, oldest first:
// of all jobs with job 0, else of that one; of all nodes with node "", else of that one.
func (s *Store) Boots(ctx context.Context, node string, job uint32, last int) ([]power.Boot, error) {
	of := "? = ''"
	if node != "" {
		of = "node = ?" // by the primary key, however many there are of others
	}
	return queryLong(ctx, s, `SELECT `+bootColumns+` FROM (SELECT * FROM boots WHERE `+of+` AND ? IN (0, job) ORDER BY ordered DESC, node DESC LIMIT ?)
		ORDER BY ordered, node`, scanBoot, node, job, min(last, maxBoots))
}
