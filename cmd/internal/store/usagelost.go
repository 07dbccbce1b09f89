package store

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"math"
	"slices"
)

// What evictions and checkpoints took is a part of the instances' time that a run had, in each pool, and at the price that it had
// on the whole. What was lost of a run that was evicted is so of the time in which it had any of ours; what others have lost, of a step
// that failed, and the writing of checkpoints are of the run's own time, also that at the site. It is the whole run's, on the day of its end, since
// nobody knows when what of it was. It is kept of each run that has ended (lost_runs), and summed up by day (lost_days); both
// change in the transaction that writes the run or rows of its job, so that at any moment they are what those come to.

// What of a run's time is kept, as use in lost_runs.
const (
	redone  = "lost"    // work that was done again
	writing = "writing" // of checkpoints
)

// lostRun is a row of lost_runs, but for what was taken.
type lostRun struct {
	job                      uint32
	submitted, ended         int64
	uid                      int
	user, account, pool, use string
}

// lostNow selects of the jobs in ?1, a list in JSON, the runs that have ended and had lost or written any, each with its
// rows of the ledger from its start on: of what was booked before, as of another job of the id, the run's time knows nothing.
var lostNow = `WITH ended AS MATERIALIZED (SELECT r.*, (SELECT coalesce(max(b.ended), 0) FROM runs b WHERE b.job = r.job AND b.submitted < r.submitted) AS since
		FROM json_each(?1) j CROSS JOIN runs r ON r.job = j.value WHERE NOT r.open AND (r.lost > 0 OR r.writing > 0))
	SELECT r.job, r.submitted, r.ended, r.uid, r.user, r.account, u.pool, max(r.lost, 0), max(r.writing, 0), r.evictions > 0,
		r.ran + iif(r.begun > 0, max(0, r.ended - r.begun), 0), u.began, u.until, u.share * (u.until - u.began) / 1e6, coalesce(u.usd_per_hour, 0) / 3600
	FROM ended r CROSS JOIN usage u ON ` + itsRows("r.job", "r.since", "r.ended") + ` AND u.until > r.started ORDER BY r.job, r.submitted, u.began, u.instance`

// itsRows says which rows u of the ledger are a run's: those that begin after the end of the run before it (since) to which Slurm
// had given the id, and at the latest as it ends. What is booked at that end is so the earlier one's.
func itsRows(job, since, ended string) string {
	return `u.job > 0 AND u.job = ` + job + ` AND u.until > ` + since + ` AND u.began > ` + since + ` AND u.began <= ` + ended
}

// takenOf is what was taken of the runs of the jobs, as lostNow has them.
func takenOf(w *writer, jobs []uint32) (map[lostRun]Unused, error) {
	now := map[lostRun]Unused{}
	var run lostRun // without use and pool
	var lost, wrote, wall, covered, upto int64
	pools, evicted := map[string]Unused{}, false
	done := func() {
		of := wall
		if evicted {
			of = min(wall, covered)
		}
		for use, part := range map[string]float64{redone: share(lost, of), writing: share(wrote, wall)} {
			for pool, all := range pools {
				if run.use, run.pool = use, pool; part > 0 && all.Seconds > 0 {
					now[run] = Unused{part * all.Seconds, part * all.USD}
				}
			}
		}
		clear(pools)
		covered, upto = 0, 0
	}
	_, err := query(w.ctx, w.tx, lostNow, func(scan scanner) (none struct{}, err error) {
		var r lostRun
		var pool string
		var a, b, c, began, until int64
		var seconds, price float64
		var left bool
		err = scan(&r.job, &r.submitted, &r.ended, &r.uid, &r.user, &r.account, &pool, &a, &b, &left, &c, &began, &until, &seconds, &price)
		if r.job != run.job || r.submitted != run.submitted {
			done()
		}
		run, lost, wrote, wall, evicted = r, a, b, c, left
		covered, upto = covered+max(0, until-max(began, upto)), max(upto, until)
		all := pools[pool]
		pools[pool] = Unused{all.Seconds + seconds, all.USD + seconds*price}
		return none, err
	}, list(jobs))
	done()
	return now, err
}

// share is which part of a time was taken.
func share(took, of int64) float64 {
	if of <= 0 {
		return 0
	}
	return float64(min(took, of)) / float64(of)
}

// countLost has lost_runs and lost_days be right of the jobs, of which runs or rows were written. What was taken of a run that
// is forgotten stays as it is, and of one that began before the first rows that the ledger has not forgotten.
func (s *Store) countLost(w *writer, jobs []uint32) error {
	if w.err != nil {
		return w.err
	}
	of := slices.Compact(slices.Sorted(slices.Values(jobs)))
	type run struct {
		job       uint32
		submitted int64
	}
	have, stays := map[lostRun]Unused{}, map[run]bool{}
	if _, err := query(w.ctx, w.tx, `SELECT l.job, l.submitted, l.use, l.ended, l.uid, l.user, l.account, l.pool, l.seconds, l.usd,
			r.started < coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'ledger_since'), 0)
		FROM lost_runs l JOIN runs r ON r.job = l.job AND r.submitted = l.submitted WHERE l.job IN (SELECT value FROM json_each(?))`,
		func(scan scanner) (none struct{}, err error) {
			var r lostRun
			var u Unused
			var old bool
			err = scan(&r.job, &r.submitted, &r.use, &r.ended, &r.uid, &r.user, &r.account, &r.pool, &u.Seconds, &u.USD, &old)
			if old {
				stays[run{r.job, r.submitted}] = true
			} else {
				have[r] = u
			}
			return none, err
		}, list(of)); err != nil {
		return err
	}
	now, err := takenOf(w, of)
	if err != nil {
		return err
	}
	maps.DeleteFunc(now, func(r lostRun, _ Unused) bool { return stays[run{r.job, r.submitted}] })
	for r, u := range have {
		if next, ok := now[r]; ok && next == u {
			delete(now, r)
			continue
		}
		w.put(`DELETE FROM lost_runs WHERE ended = ? AND job = ? AND submitted = ? AND use = ? AND pool = ?`, r.ended, r.job, r.submitted, r.use, r.pool)
		s.addLost(w, r, Unused{-u.Seconds, -u.USD}, -1)
	}
	for r, u := range now {
		w.putLost(r, u)
		s.addLost(w, r, u, 1)
	}
	return w.err
}

func (w *writer) putLost(r lostRun, u Unused) {
	w.put(`INSERT INTO lost_runs (job, submitted, use, ended, uid, user, account, pool, seconds, usd) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.job, r.submitted, r.use, r.ended, r.uid, r.user, r.account, r.pool, u.Seconds, u.USD)
}

// addLost adds to the sums what was taken of so many runs that are alike, or with less than none takes it away.
func (s *Store) addLost(w *writer, r lostRun, u Unused, runs int) {
	day := s.days.day(r.ended)
	w.put(`INSERT INTO lost_days (day, uid, user, account, pool, use, runs, seconds, usd) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET runs = runs + excluded.runs, seconds = iif(abs(seconds + excluded.seconds) < 1e-9, 0, seconds + excluded.seconds),
			usd = iif(abs(usd + excluded.usd) < 1e-9, 0, usd + excluded.usd)`,
		day, r.uid, r.user, r.account, r.pool, r.use, runs, u.Seconds, u.USD)
	if runs < 0 {
		w.put(`DELETE FROM lost_days WHERE day = ? AND uid = ? AND user = ? AND account = ? AND pool = ? AND use = ? AND runs = 0`, day, r.uid, r.user, r.account, r.pool, r.use)
	}
}

// lostJobs is of how many jobs the runs are read at once when lost_runs is made.
var lostJobs = 20 * usageBatch

// keepLost makes lost_runs once, as long as the ledger has what it is made of, and lost_days from it for each time zone.
func (s *Store) keepLost(ctx context.Context) error {
	var made bool
	if err := s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM meta WHERE key = 'lost_runs')`).Scan(&made); err != nil {
		return err
	}
	if !made {
		if err := s.tx(ctx, func(tx *sql.Tx) error { return makeLost(&writer{ctx: ctx, tx: tx}) }); err != nil {
			return err
		}
	}
	return s.keepSums(ctx, "lost_zone", []string{"lost_days"}, s.sumLost)
}

func makeLost(w *writer) error {
	w.put(`DELETE FROM lost_runs`)
	w.put(`INSERT INTO meta (key, value) VALUES ('lost_runs', 'made')`)
	w.put(`DELETE FROM meta WHERE key = 'lost_zone'`)
	if w.err != nil {
		return w.err
	}
	jobs, err := query(w.ctx, w.tx, `SELECT DISTINCT job FROM runs WHERE NOT open AND (lost > 0 OR writing > 0)`, func(scan scanner) (job uint32, err error) {
		return job, scan(&job)
	})
	for some := range slices.Chunk(jobs, lostJobs) {
		now, err := takenOf(w, some)
		if err != nil {
			return err
		}
		for r, u := range now {
			w.putLost(r, u)
		}
	}
	return cmp.Or(err, w.err)
}

// sumLost sums up lost_runs by day.
func (s *Store) sumLost(w *writer) error {
	type sum struct {
		Unused
		runs int
	}
	sums, day := map[lostRun]sum{}, 0
	write := func() {
		for r, u := range sums {
			s.addLost(w, r, u.Unused, u.runs)
		}
		clear(sums)
	}
	_, err := query(w.ctx, w.tx, `SELECT ended, uid, user, account, pool, use, seconds, usd FROM lost_runs ORDER BY ended`, func(scan scanner) (none struct{}, err error) {
		var r lostRun
		var u Unused
		err = scan(&r.ended, &r.uid, &r.user, &r.account, &r.pool, &r.use, &u.Seconds, &u.USD)
		if of := s.days.day(r.ended); of != day {
			write()
			day = of
		}
		r.ended = s.days.begin(day)
		have := sums[r]
		sums[r] = sum{Unused{have.Seconds + u.Seconds, have.USD + u.USD}, have.runs + 1}
		return none, cmp.Or(err, w.err)
	})
	write()
	return cmp.Or(err, w.err)
}

// pruneLost forgets what was taken of runs that ended before the day of a time. Of one that began before it and ended
// later all is kept, though the ledger forgets its first rows.
func (s *Store) pruneLost(ctx context.Context, old int64) error {
	day := s.days.day(old)
	return s.tx(ctx, func(tx *sql.Tx) error {
		w := writer{ctx: ctx, tx: tx}
		w.put(`DELETE FROM lost_runs WHERE ended < ?`, s.days.begin(day))
		w.put(`DELETE FROM lost_days WHERE day < ?`, day)
		return w.err
	})
}

// lost adds what evictions and checkpoints took of the runs that have ended in the span, of whole days by their sums. A job
// may be of several providers and offerings: by these it is not summed up.
func (u *usageSums) lost(ctx context.Context, q querier, in span) error {
	if u.By == "provider" || u.By == "offering" {
		return nil
	}
	add := func(text string, args ...any) error {
		_, err := query(ctx, q, text, func(scan scanner) (none struct{}, err error) {
			var p part
			var use string
			var took Unused
			if err = scan(&p.job, &p.uid, &p.user, &p.account, &p.pool, &p.day, &use, &took.Seconds, &took.USD); err != nil {
				return none, err
			}
			row := u.row(p)
			of := map[string]*Unused{redone: &row.Lost, writing: &row.Checkpoints}[use]
			of.Seconds, of.USD = of.Seconds+took.Seconds, of.USD+took.USD
			return none, nil
		}, args...)
		return err
	}
	end := in.to
	if end == 0 {
		end = math.MaxInt64
	}
	const runs = `SELECT job, uid, user, account, pool, ?4, use, seconds, usd FROM lost_runs WHERE ended >= ?1 AND ended < ?2 AND (?3 < 0 OR uid = ?3)`
	if u.By == "job" {
		return add(runs, in.from, end, u.UID, 0)
	}
	whole, partly := u.days.within(in)
	for _, day := range partly {
		if err := add(runs, max(in.from, u.days.begin(day)), min(end, u.days.begin(day+1)), u.UID, day); err != nil {
			return err
		}
	}
	return add(`SELECT ?4, 0, user, account, pool, day, use, max(0, sum(seconds)), max(0, sum(usd)) FROM lost_days WHERE day >= ?1 AND day < ?2 AND (?3 < 0 OR uid = ?3)
		GROUP BY use, `+u.By, whole.first, whole.end, u.UID, math.MaxUint32)
}
