package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/slurm/power"
)

// SpendingQuery says what of the ledger budgets ask for.
type SpendingQuery struct {
	Periods []price.Span
	Jobs    []uint32
	// Raised says for whom instances are that no job has had yet, by their ids.
	Raised map[string]Owner
	// Beside reads beside the journal's connection, so that nobody who writes has to wait. It sees, too, all
	// that was committed before.
	Beside bool
}

// Owner is a job that an instance's time is counted to.
type Owner struct {
	Job           uint32
	User, Account string
}

// Spending is what budgets count of the ledger, and what it has still to book, of one moment.
type Spending struct {
	// Instances and Rows are as LoadUsage has them.
	Instances []power.Instance
	Rows      []ledger.Row
	Spent     []Spent         // of each period
	Jobs      map[uint32]Sums // of each job, since the last one of its id has ended for good
}

// Spent is what counts to a user in a period under an account.
type Spent struct {
	Period        int // of the query's
	User, Account string
	Sums
}

// Sums are of instances' shares.
type Sums struct {
	USD      float64 // of those of which the price is known
	Unpriced float64 // hours of the others
}

// owners says to whom an instance's rows count, which are in their order: to the job that had the time; where none had, to
// that which had the instance last, or else first, as it was raised and idle for that; or for whom it is raised.
func owners(rows []ledger.Row, raised Owner) []Owner {
	of := func(r ledger.Row) Owner { return Owner{r.Job, r.User, r.Account} }
	now := raised
	if i := slices.IndexFunc(rows, func(r ledger.Row) bool { return r.Job > 0 }); i >= 0 {
		now = of(rows[i])
	}
	all := make([]Owner, len(rows))
	for i, r := range rows {
		if r.Job > 0 {
			now = of(r)
		}
		all[i] = now
	}
	return all
}

// spends sums up what is spent.
type spends struct {
	SpendingQuery
	days  calendar
	spans []span // the periods
	sums  map[spentKey]Sums
	since map[uint32]int64 // of the jobs, in microseconds
	jobs  map[uint32]Sums
}

type spentKey struct {
	period        int
	user, account string
}

// add adds USD, and seconds without a price.
func (u *spends) add(k spentKey, usd, unpriced float64) {
	s := u.sums[k]
	u.sums[k] = Sums{s.USD + usd, s.Unpriced + unpriced/3600}
}

// rows adds those of one instance, as far as they lie in the spans.
func (u *spends) rows(rows []ledger.Row, spans ...periodSpan) {
	for i, o := range owners(rows, u.Raised[rows[0].Instance]) {
		for _, in := range spans {
			if from, to := max(fromTime(rows[i].From), in.from), min(fromTime(rows[i].To), in.to); from < to {
				a := amountOf(rows[i], from, to)
				u.add(spentKey{in.period, o.User, o.Account}, a.usd, a.unpriced)
			}
		}
	}
}

// periodSpan is a span of a period.
type periodSpan struct {
	period int
	span
}

// Spending reads all of it of one moment: nothing is booked in between.
func (s *Store) Spending(ctx context.Context, q SpendingQuery) (sp Spending, err error) {
	u := spends{SpendingQuery: q, days: s.days, sums: map[spentKey]Sums{}, since: map[uint32]int64{}, jobs: map[uint32]Sums{}}
	for _, p := range q.Periods {
		u.spans = append(u.spans, span{fromTime(p.From), fromTime(p.To)})
	}
	read := func(q querier) (err error) {
		if sp.Instances, sp.Rows, err = loadUsage(ctx, q); err != nil {
			return err
		}
		if err := u.live(ctx, q); err != nil {
			return err
		}
		for n, in := range u.spans {
			if err := u.ended(ctx, q, periodSpan{n, in}); err != nil {
				return err
			}
		}
		return u.own(ctx, q)
	}
	if q.Beside {
		err = s.beside(ctx, func(q querier) error { return atOnce(ctx, q, func() error { return read(q) }) })
	} else {
		err = s.tx(ctx, func(tx *sql.Tx) error { return read(tx) })
	}
	if err != nil {
		return Spending{}, fmt.Errorf("reading what is spent: %w", err)
	}
	for k, sums := range u.sums {
		if sums.Unpriced < residue/3600 { // nothing is launched while there is any
			sums.Unpriced = 0
		}
		sp.Spent = append(sp.Spent, Spent{k.period, k.user, k.account, sums})
	}
	sp.Jobs = u.jobs
	return sp, nil
}

// live adds the instances that are not at their end in the ledger. Of what was before the periods
// no more is read than from the last row of a job on: what follows counts to it.
func (u *spends) live(ctx context.Context, q querier) error {
	if len(u.spans) == 0 {
		return nil
	}
	var all []periodSpan
	first := u.spans[0].from
	for n, in := range u.spans {
		all, first = append(all, periodSpan{n, in}), min(first, in.from)
	}
	return eachInstance(ctx, q, func(rows []ledger.Row, _ life) error {
		u.rows(rows, all...)
		return nil
	}, `(instance, began, job) IN (
		WITH live AS MATERIALIZED (SELECT instance, coalesce((SELECT max(began) FROM usage b WHERE b.instance = o.instance AND job > 0 AND until <= ?), 0) AS last
			FROM (SELECT DISTINCT instance FROM usage WHERE open) o)
		SELECT u.instance, u.began, u.job FROM live CROSS JOIN usage u ON u.instance = live.instance AND u.began >= live.last)`, first)
}

// ended adds the others: of whole days their sums, of other days their rows.
func (u *spends) ended(ctx context.Context, q querier, in periodSpan) error {
	whole, partly := u.days.within(in.span)
	if whole.first < whole.end {
		for sign, text := range []string{ // what is for a user is taken from nobody's
			`SELECT user, account, sum(usd), sum(unpriced) FROM usage_dims d CROSS JOIN usage_days u ON u.dim = d.id AND day >= ? AND day < ? GROUP BY user, account`,
			`SELECT user, account, sum(usd), sum(unpriced) FROM usage_for WHERE day >= ? AND day < ? GROUP BY user, account`,
		} {
			if _, err := query(ctx, q, text, func(scan scanner) (none struct{}, err error) {
				k := spentKey{period: in.period}
				var usd, unpriced float64
				if err = scan(&k.user, &k.account, &usd, &unpriced); err == nil {
					u.add(k, usd, unpriced)
					u.add(spentKey{period: in.period}, -float64(sign)*usd, -float64(sign)*unpriced)
				}
				return none, err
			}, whole.first, whole.end); err != nil {
				return err
			}
		}
	}
	for _, day := range partly {
		begin, end := u.days.begin(day), u.days.begin(day+1)
		cut := periodSpan{in.period, span{max(in.from, begin), min(in.to, end)}}
		if err := eachInstance(ctx, q, func(rows []ledger.Row, _ life) error {
			u.rows(rows, cut)
			return nil
		}, `instance NOT IN (SELECT instance FROM usage WHERE open) AND instance IN (SELECT instance FROM usage_nights WHERE day = +?
			UNION SELECT instance FROM usage WHERE until > ? AND until <= ?)`, day+1, begin, end); err != nil {
			return err
		}
	}
	return nil
}

// own adds what the jobs have used that are asked for.
func (u *spends) own(ctx context.Context, q querier) error {
	if len(u.Jobs) == 0 {
		return nil
	}
	jobs := list(u.Jobs)
	if _, err := query(ctx, q, `SELECT value, (SELECT coalesce(max(ended), 0) FROM runs r WHERE r.job = value AND NOT r.open) FROM json_each(?)`, func(scan scanner) (none struct{}, err error) {
		var job uint32
		var since int64
		err = scan(&job, &since)
		u.since[job] = since
		return none, err
	}, jobs); err != nil {
		return err
	}
	var raised []string
	for id, o := range u.Raised {
		if _, asked := u.since[o.Job]; asked {
			raised = append(raised, id)
		}
	}
	return eachInstance(ctx, q, func(rows []ledger.Row, _ life) error {
		for i, o := range owners(rows, u.Raised[rows[0].Instance]) {
			since, asked := u.since[o.Job]
			if from, to := max(fromTime(rows[i].From), since), fromTime(rows[i].To); asked && o.Job > 0 && from < to {
				a := amountOf(rows[i], from, to)
				s := u.jobs[o.Job]
				u.jobs[o.Job] = Sums{s.USD + a.usd, s.Unpriced + a.unpriced/3600}
			}
		}
		return nil
	}, `instance IN (SELECT instance FROM usage WHERE job > 0 AND job IN (SELECT value FROM json_each(?)) UNION SELECT value FROM json_each(?))`, jobs, list(raised))
}

// HasEvent says whether an event of the kind is kept whose text begins so.
func (s *Store) HasEvent(ctx context.Context, kind, begin string) (have bool, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM events WHERE kind = ?1 AND substr(text, 1, length(?2)) = ?2)", kind, begin).Scan(&have)
	if err != nil {
		return false, fmt.Errorf("reading the events: %w", err)
	}
	return have, nil
}

// EventsOf are the events of some kinds, oldest first.
func (s *Store) EventsOf(ctx context.Context, kinds ...string) ([]Event, error) {
	marks, args := strings.Repeat(", ?", len(kinds))[2:], make([]any, len(kinds))
	for i, k := range kinds {
		args[i] = k
	}
	all, err := query(ctx, s.db, "SELECT seq, time, kind, node, instance, pool, job, text FROM events WHERE kind IN ("+marks+") ORDER BY seq", scanEvent, args...)
	if err != nil {
		return nil, fmt.Errorf("reading the events: %w", err)
	}
	return all, nil
}
