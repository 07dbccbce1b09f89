package store

import (
	"context"
	"math"
)

// lostRun is a run that has lost work, or written checkpoints.
type lostRun struct {
	part                   // of its end
	first, last    int     // its days
	redone, writes float64 // of its time, from 0 to 1
	seconds, usd   float64 // of its instances, with their shares
}

// lost adds what evictions and checkpoints took of the runs that have ended in the span, as their
// steps and evictions tell: work that was done again, and the writing. Both are priced as the
// run's instances were, on the whole, with their shares, by the sums of the run's days. They are the whole run's, on
// the day of its end, since nobody knows when what of it was: more than its share of the span, maybe. A job may be of
// several providers and offerings: by these it is not summed up.
func (u *usageSums) lost(ctx context.Context, q querier, in span) error {
	if u.By == "provider" || u.By == "offering" {
		return nil
	}
	end := in.to
	if end == 0 {
		end = math.MaxInt64
	}
	runs := map[uint32][]*lostRun{}
	first, last := math.MaxInt32, -1
	_, err := query(ctx, q, `SELECT job, user, account, pool, started, ended, max(lost, 0), max(writing, 0), ran + ended - begun AS wall
		FROM runs WHERE NOT open AND ended >= ?1 AND ended < ?2 AND (lost > 0 OR writing > 0) AND (?3 < 0 OR uid = ?3) AND ran + ended > begun`, func(scan scanner) (none struct{}, err error) {
		var r lostRun
		var started, ended int64
		var wall float64
		if err = scan(&r.job, &r.user, &r.account, &r.pool, &started, &ended, &r.redone, &r.writes, &wall); err != nil {
			return none, err
		}
		r.first, r.last = u.days.day(started), u.days.day(ended)
		r.day, r.redone, r.writes = r.last, min(r.redone, wall)/wall, min(r.writes, wall)/wall
		first, last = min(first, r.first), max(last, r.last)
		runs[r.job] = append(runs[r.job], &r)
		return none, nil
	}, in.from, end, u.UID)
	if err != nil || len(runs) == 0 {
		return err
	}
	add := func(job uint32, from, to int, seconds, usd float64) {
		for _, r := range runs[job] {
			if from <= r.last && to >= r.first {
				r.seconds, r.usd = r.seconds+seconds, r.usd+usd
			}
		}
	}
	if _, err := query(ctx, q, `SELECT day, job, sum(seconds), sum(usd) FROM usage_jobs WHERE day >= ?1 AND day <= ?2 AND job > 0
		AND (?3 < 0 OR dim IN (SELECT id FROM usage_dims WHERE uid = ?3)) GROUP BY day, job`, func(scan scanner) (none struct{}, err error) {
		var day int
		var job uint32
		var seconds, usd float64
		if err = scan(&day, &job, &seconds, &usd); err == nil {
			add(job, day, day, seconds, usd)
		}
		return none, err
	}, first, last, u.UID); err != nil {
		return err
	}
	// The sums have no instance that is not at its end.
	if _, err := query(ctx, q, `SELECT job, began, until, share * (until - began) / 1e6, coalesce(usd_per_hour, 0) / 3600 FROM usage
		WHERE instance IN (SELECT instance FROM usage WHERE open) AND job > 0 AND (?1 < 0 OR uid = ?1)`, func(scan scanner) (none struct{}, err error) {
		var job uint32
		var from, to int64
		var seconds, usd float64
		if err = scan(&job, &from, &to, &seconds, &usd); err == nil {
			add(job, u.days.day(from), u.days.day(to), seconds, seconds*usd)
		}
		return none, err
	}, u.UID); err != nil {
		return err
	}
	for _, all := range runs {
		for _, r := range all {
			if r.seconds <= 0 {
				continue // of none of ours
			}
			row := u.row(r.part)
			for took, of := range map[*Unused]float64{&row.Lost: r.redone, &row.Checkpoints: r.writes} {
				took.Seconds += of * r.seconds
				took.USD += of * r.usd
			}
		}
	}
	return nil
}
