package store

import (
	"context"
	"sort"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/ledger"
)

// What time was that no job had.
const (
	boot  = "boot"  // until Slurm had the node
	idle  = "idle"  // until its instance ended
	serve = "serve" // the same, of an instance that served files
	rest  = "rest"  // of the unit of time that was begun
)

// dim is all by which the ledger's time is told apart, but for instances, jobs and days.
type dim struct {
	provider, pool, kind, zone, market string
	uid                                int
	user, account                      string
	use                                string // boot, idle, serve or rest; "": a job's, or nobody can tell
}

// amount is what a time comes to.
type amount struct {
	seconds, usd, unpriced float64 // unpriced: of seconds, without a price
	onDemand, unknown      float64 // USD on demand; of seconds, for which that is not known
}

func (a *amount) add(b amount, sign float64) {
	a.seconds += sign * b.seconds
	a.usd += sign * b.usd
	a.unpriced += sign * b.unpriced
	a.onDemand += sign * b.onDemand
	a.unknown += sign * b.unknown
}

// part is one job's share in an instance's time on one day.
type part struct {
	dim
	amount
	instance string
	job      uint32
	day      int
}

// calendar counts the days of a zone, since 1970-01-01.
type calendar struct{ zone *time.Location }

func (c calendar) day(us int64) int {
	y, m, d := time.UnixMicro(us).In(c.zone).Date()
	return int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400)
}

// begin is a day's first moment; of a day that a zone leaves out the next one's.
func (c calendar) begin(day int) int64 {
	at := time.Date(1970, 1, 1+day, 0, 0, 0, 0, c.zone).UnixMicro()
	if c.day(at) == day && c.day(at-1) < day {
		return at
	}
	// There is no midnight, or there are two, as the clocks are set then: what Date gives may lie a day off.
	const around = 48 * 3600
	from := at/1e6 - around
	return 1e6 * (from + int64(sort.Search(2*around, func(n int) bool { return c.day(1e6*(from+int64(n))) >= day })))
}

func (c calendar) date(day int) string {
	return time.Date(1970, 1, 1+day, 0, 0, 0, 0, time.UTC).UTC().Format(time.DateOnly)
}

// life is what tells an instance's idle time apart, in microseconds since 1970.
type life struct {
	registered int64 // Slurm had its node; 0: never, or not yet; -1: not known
	ended      int64 // 0: not yet
	serves     bool  // files
}

// span is a time from from up to to, in microseconds since 1970; to 0: without an end.
type span struct{ from, to int64 }

// split cuts the rows of one instance, by their times, into parts that lie in the span.
func (c calendar) split(rows []ledger.Row, l life, in span) (all []part) {
	if l.registered == 0 { // it was, if a job had the node
		for _, r := range rows {
			if r.Job > 0 {
				l.registered = fromTime(r.From)
				break
			}
		}
	}
	for _, r := range rows {
		from, to := max(fromTime(r.From), in.from), fromTime(r.To)
		if in.to > 0 {
			to = min(to, in.to)
		}
		for from < to {
			day := c.day(from)
			until, use := min(to, c.begin(day+1)), ""
			if until <= from {
				until = to // a zone that has no such day
			}
			if r.Job == 0 {
				until, use = l.use(from, until)
			}
			all = append(all, part{dim: dimOf(r, use), amount: amountOf(r, from, until), instance: r.Instance, job: r.Job, day: day})
			from = until
		}
	}
	return all
}

// use is what the time from from on is, and until when it is that.
func (l life) use(from, until int64) (end int64, use string) {
	switch {
	case l.ended > 0 && from >= l.ended:
		return until, rest
	case l.ended > 0:
		until = min(until, l.ended)
	}
	switch {
	case l.registered < 0:
		return until, ""
	case l.registered == 0:
		return until, boot
	case from < l.registered:
		return min(until, l.registered), boot
	case l.serves:
		return until, serve
	}
	return until, idle
}

func dimOf(r ledger.Row, use string) dim {
	return dim{r.Provider, r.Pool, r.Offering.Type, r.Offering.Zone, string(r.Offering.Market), r.UID, r.User, r.Account, use}
}

func amountOf(r ledger.Row, from, to int64) (a amount) {
	a.seconds = r.Share * float64(to-from) / 1e6
	if r.Price.Known() {
		a.usd = a.seconds * r.Price.USDPerHour / 3600
	} else {
		a.unpriced = a.seconds
	}
	if usd, ok := r.OnDemand(); ok {
		a.onDemand = a.seconds * usd / 3600
	} else {
		a.unknown = a.seconds
	}
	return a
}

// rowColumns are a row's, in scanUsage's order.
const rowColumns = `instance, provider, pool, type, zone, market, node, job, uid, user, account, began, until, share, usd_per_hour, price_date, price_source, on_demand, open`

// registered is when Slurm had the instance's node, as life has it, where no bill says it.
const registered = `(SELECT CASE count(*) WHEN 0 THEN -1 ELSE coalesce(min(nullif(b.registered, 0)), 0) END
	FROM boots b WHERE b.node = usage.node AND b.instance = usage.instance)`

// eachInstance calls f with the rows of each instance that where, a condition on usage, finds.
func eachInstance(ctx context.Context, q querier, f func([]ledger.Row, life) error, where string, args ...any) error {
	var rows []ledger.Row
	var of life
	done := func() error {
		if len(rows) == 0 {
			return nil
		}
		err := f(rows, of)
		rows = rows[:0]
		return err
	}
	_, err := query(ctx, q, `SELECT `+rowColumns+`, coalesce(registered, `+registered+`), coalesce(CASE ended WHEN 0 THEN gone ELSE ended END, 0),
			coalesce(serves, (SELECT i.serves FROM instances i WHERE i.id = usage.instance), 0)
		FROM usage LEFT JOIN bills USING (instance) WHERE `+where+` ORDER BY instance, began, job`, func(scan scanner) (none struct{}, err error) {
		var l life
		r, err := scanUsage(func(dest ...any) error { return scan(append(dest, &l.registered, &l.ended, &l.serves)...) })
		if err == nil && len(rows) > 0 && rows[0].Instance != r.Instance {
			err = done()
		}
		rows, of = append(rows, r), l
		return none, err
	}, args...)
	if err == nil {
		err = done()
	}
	return err
}
