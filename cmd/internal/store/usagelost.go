package store

import (
	"context"
	"math"
)

// lost adds what evictions and checkpoints took of the runs that have ended in the span, as their
// steps and evictions tell: work that was done again, and the writing. Both are priced as the
// run's instances were, on the whole, with their shares. A job may be of several providers and
// offerings: by these it is not summed up.
func (u *usageSums) lost(ctx context.Context, q querier, in span) error {
	if u.By == "provider" || u.By == "offering" {
		return nil
	}
	end := in.to
	if end == 0 {
		end = math.MaxInt64
	}
	_, err := query(ctx, q, `SELECT job, uid, user, account, pool, ended, max(lost, 0) / 1e6, max(writing, 0) / 1e6, wall / 1e6, sum(s), sum(s * usd_per_hour) / 3600
		FROM (SELECT r.job, r.submitted, r.uid, r.user, r.account, r.pool, r.ended, r.lost, r.writing, r.ran + r.ended - r.begun AS wall,
				u.share * (u.until - u.began) / 1e6 AS s, u.usd_per_hour
			FROM runs r JOIN usage u ON u.job > 0 AND u.job = r.job AND u.until > r.started AND u.began < r.ended
			WHERE NOT r.open AND r.ended >= ?1 AND r.ended < ?2 AND (r.lost > 0 OR r.writing > 0) AND (?3 < 0 OR r.uid = ?3))
		WHERE wall > 0 GROUP BY job, submitted`, func(scan scanner) (none struct{}, err error) {
		var p part
		var ended int64
		var redone, writing, wall, seconds float64
		var usd *float64
		if err = scan(&p.job, &p.uid, &p.user, &p.account, &p.pool, &ended, &redone, &writing, &wall, &seconds, &usd); err != nil {
			return none, err
		}
		p.day = u.days.day(ended)
		r := u.row(p)
		for took, of := range map[*Unused]float64{&r.Lost: redone, &r.Checkpoints: writing} {
			of = min(of, wall) / wall
			took.Seconds += of * seconds
			if usd != nil {
				took.USD += of * *usd
			}
		}
		return none, nil
	}, in.from, end, u.UID)
	return err
}
