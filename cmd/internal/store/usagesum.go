package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/slurm/power"
)

// UsageQuery says which sums of the ledger are asked for.
type UsageQuery struct {
	Since time.Time // what was before is left out, also of rows that go over it
	Until time.Time // and what was from then on; zero: nothing
	By    string    // "job", "user", "account", "pool", "provider", "offering" or "day"
	UID   int       // of one user's jobs only; below 0: everything
	// Owed gives rows that count beside those written, an instance's begun hour, of what LoadUsage reads
	// in the same moment; nil: there are none.
	Owed func([]power.Instance, []ledger.Row) []ledger.Row
}

// Usage is what one job, user, account, pool, provider or offering has used, or all on one day.
type Usage struct {
	Key           string // "" for time that no job had, where it is by job, user or account
	Job           uint32 // by job: of the job, and its user and account
	User, Account string
	ArrayID       uint32 // by job: of an array's task, the array and which it is
	ArrayTask     string
	Seconds       float64 // of instances
	USD           float64 // of those of which the price is known
	Unpriced      float64 // of Seconds: the price is not known
	OnDemand      float64 // USD that they would have cost on demand, where that is known
	Unknown       float64 // of Seconds: it is not
	Instances     int
	// Of Seconds and USD, time that no job had: until Slurm had the node, idle, of a server of files, and what
	// was paid for after the instance's end.
	Boot, Idle, Serve, Rest Unused
	// Of Seconds and USD of the runs that have ended: work that was done again after evictions, and the
	// writing of checkpoints. Not by provider and offering.
	Lost, Checkpoints Unused
}

// Unused is time in which nothing was computed that lasts.
type Unused struct{ Seconds, USD float64 }

// keyed are what a UsageQuery may group by: a row's key, and behind a zero byte what else tells it apart.
var keyed = map[string]func(part) string{
	"job": func(p part) string {
		if p.job == 0 {
			return ""
		}
		return strconv.FormatUint(uint64(p.job), 10) + "\x00" + strconv.Itoa(p.uid) // Slurm gives an id again
	},
	"user": func(p part) string { return p.user },
	"account": func(p part) string {
		if p.job > 0 && p.account == "" {
			return "(none)"
		}
		return p.account
	},
	"pool":     func(p part) string { return p.pool },
	"provider": func(p part) string { return p.provider },
	"offering": func(p part) string {
		if p.zone != "" {
			return p.kind + "/" + p.zone + "/" + p.market
		}
		return p.kind + "/" + p.market
	},
	"day": nil, // usageSums.key has it
}

// usageSums sums parts up by a key.
type usageSums struct {
	UsageQuery
	days calendar
	rows map[string]*Usage
	met  map[[2]string]bool // key and instance: which have been counted
}

// Usage sums the ledger up, the most expensive first, days in their order.
func (s *Store) Usage(ctx context.Context, q UsageQuery) ([]Usage, error) {
	if _, ok := keyed[q.By]; !ok {
		return nil, fmt.Errorf("the ledger cannot be summed up by %q", q.By)
	}
	u := usageSums{UsageQuery: q, days: s.days, rows: map[string]*Usage{}, met: map[[2]string]bool{}}
	err := s.beside(ctx, func(q querier) error {
		return atOnce(ctx, q, func() error { return u.read(ctx, q) })
	})
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	var all []Usage
	for _, r := range u.rows {
		for _, seconds := range []*float64{&r.Unpriced, &r.Unknown} {
			if *seconds < residue {
				*seconds = 0
			}
		}
		all = append(all, *r)
	}
	slices.SortFunc(all, func(a, b Usage) int {
		if q.By == "day" {
			return cmp.Compare(a.Key, b.Key)
		}
		return cmp.Or(cmp.Compare(b.USD, a.USD), cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Key, b.Key))
	})
	return all, nil
}

// atOnce has what read reads be of one moment.
func atOnce(ctx context.Context, q querier, read func() error) (err error) {
	exec := func(ctx context.Context, text string) error {
		_, err := query(ctx, q, text, func(scanner) (none struct{}, err error) { return none, nil })
		return err
	}
	if err := exec(ctx, "BEGIN DEFERRED"); err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, exec(context.WithoutCancel(ctx), "ROLLBACK")) }()
	return read()
}

func (u *usageSums) read(ctx context.Context, q querier) error {
	in := span{from: max(0, fromTime(u.Since)), to: fromTime(u.Until)}
	if u.Until.IsZero() {
		in.to = 0
	} else if in.to <= in.from {
		return nil
	}
	if u.Owed != nil && u.UID < 0 {
		instances, rows, err := loadUsage(ctx, q)
		if err != nil {
			return err
		}
		for _, r := range u.Owed(instances, rows) {
			u.all(u.days.split([]ledger.Row{r}, life{registered: -1, ended: 1}, in))
		}
	}
	if err := u.lost(ctx, q, in); err != nil {
		return err
	}
	if err := u.booked(ctx, q, in); err != nil || u.By != "job" {
		return err
	}
	return u.tasks(ctx, q, in)
}

// tasks notes which jobs are tasks of arrays. Where two runs of the span have had one id it does not tell them apart, and says of neither.
func (u *usageSums) tasks(ctx context.Context, q querier, in span) error {
	_, err := query(ctx, q, `SELECT job, uid, max(array), max(task) FROM (SELECT * FROM runs WHERE open UNION ALL SELECT * FROM runs WHERE NOT open AND ended >= ?1)
		WHERE (?2 = 0 OR submitted < ?2) AND (?3 < 0 OR uid = ?3)
		GROUP BY job, uid HAVING max(array) > 0 AND max(task) <> '' AND min(array) = max(array) AND min(task) = max(task)`, func(scan scanner) (none struct{}, err error) {
		var p part
		var array uint32
		var task string
		err = scan(&p.job, &p.uid, &array, &task)
		if r := u.rows[u.key(p)]; r != nil {
			r.ArrayID, r.ArrayTask = array, task
		}
		return none, err
	}, in.from, in.to, u.UID)
	return err
}

// booked adds the rows of the ledger.
func (u *usageSums) booked(ctx context.Context, q querier, in span) error {
	raw := func(where string, args ...any) error {
		return eachInstance(ctx, q, func(rows []ledger.Row, l life) error {
			u.all(u.days.split(rows, l, in))
			return nil
		}, where, args...)
	}
	if u.UID >= 0 { // few rows, and none without a job
		return raw(`uid >= 0 AND uid = ? AND until > ?`, u.UID, in.from)
	}
	if err := raw(`instance IN (SELECT instance FROM usage WHERE open)`); err != nil {
		return err
	}
	whole, partly := u.days.within(in)
	if err := u.summed(ctx, q, whole); err != nil {
		return err
	}
	where, args := touched(u.days, whole, partly)
	return eachInstance(ctx, q, func(rows []ledger.Row, l life) error {
		u.beside(u.days.split(rows, l, span{}), u.days.split(rows, l, in), whole)
		return nil
	}, where, args...)
}

// dayspan are days from first up to, and without, end.
type dayspan struct{ first, end int }

func (d dayspan) has(day int) bool { return d.first <= day && day < d.end }

// within are the days that lie in the span wholly, and the others that it touches.
func (c calendar) within(in span) (whole dayspan, partly []int) {
	first := c.day(in.from)
	whole = dayspan{first, math.MaxInt32}
	if c.begin(first) < in.from {
		whole.first++
		partly = append(partly, first)
	}
	if in.to == 0 {
		return whole, partly
	}
	whole.end = c.day(in.to)
	if c.begin(whole.end) < in.to && !slices.Contains(partly, whole.end) {
		partly = append(partly, whole.end)
	}
	whole.end = max(whole.end, whole.first)
	return whole, partly
}

// touched is a condition for the rows of instances at their end that the sums of the whole days do not
// count, or of which they lack a part: those that were there when these begin, and on the other days.
func touched(c calendar, whole dayspan, partly []int) (where string, args []any) {
	where = `instance NOT IN (SELECT instance FROM usage WHERE open) AND instance IN (SELECT instance FROM usage_nights WHERE day = +?`
	args = []any{whole.first}
	for _, day := range partly {
		where += ` UNION SELECT instance FROM usage_nights WHERE day = +? UNION SELECT instance FROM usage WHERE until > ? AND until <= ?`
		args = append(args, day+1, c.begin(day), c.begin(day+1))
	}
	return where + `)`, args
}

// summed adds the sums of whole days.
func (u *usageSums) summed(ctx context.Context, q querier, of dayspan) error {
	if of.first >= of.end {
		return nil
	}
	const sums = `sum(seconds), sum(usd), sum(unpriced), sum(on_demand), sum(unknown) FROM usage_dims d CROSS JOIN usage_days u ON u.dim = d.id AND day >= ? AND day < ?`
	counted := map[string]string{"user": "of_user", "account": "of_account"}[u.By]
	text := `SELECT provider, pool, type, zone, market, uid, user, account, use, 0, 0, sum(` + cmp.Or(counted, "of_all") + `), ` + sums + ` GROUP BY d.id`
	switch u.By {
	case "day":
		text = `SELECT '', '', '', '', '', 0, '', '', use, day, 0, sum(of_day), ` + sums + ` GROUP BY use, day`
	case "job":
		text = `SELECT provider, pool, type, zone, market, uid, user, account, use, 0, job, of_job, seconds, usd, unpriced, on_demand, unknown
			FROM usage_jobs u CROSS JOIN usage_dims d ON u.dim = d.id WHERE day >= ? AND day < ?`
	}
	_, err := query(ctx, q, text, func(scan scanner) (none struct{}, err error) {
		var p part
		var n int
		err = scan(&p.provider, &p.pool, &p.kind, &p.zone, &p.market, &p.uid, &p.user, &p.account, &p.use, &p.day, &p.job, &n,
			&p.seconds, &p.usd, &p.unpriced, &p.onDemand, &p.unknown)
		if p.uid >= 0 && p.job == 0 {
			p.job = math.MaxUint32 // one of theirs
		}
		u.add(p).Instances += n
		return none, err
	}, of.first, of.end)
	return err
}

// all adds the parts of an instance.
func (u *usageSums) all(parts []part) {
	for _, p := range parts {
		r := u.add(p)
		if k := [2]string{u.key(p), p.instance}; !u.met[k] {
			u.met[k] = true
			r.Instances++
		}
	}
}

// beside adds of an instance's parts those that are counted and are not of whole days, which are
// summed up; and it counts the instance where those sums do not: they have it under the day of its
// first part.
func (u *usageSums) beside(every, counted []part, whole dayspan) {
	have := map[string]bool{}
	for _, p := range every {
		if k := u.key(p); !have[k] {
			have[k] = true
			if whole.has(p.day) {
				u.met[[2]string{k, p.instance}] = true
			}
		}
	}
	for _, p := range counted {
		r := &Usage{}
		if whole.has(p.day) {
			r = u.row(p)
		} else {
			r = u.add(p)
		}
		if k := [2]string{u.key(p), p.instance}; !u.met[k] {
			u.met[k] = true
			r.Instances++
		}
	}
}

func (u *usageSums) key(p part) string {
	if u.By == "day" {
		return u.days.date(p.day)
	}
	return keyed[u.By](p)
}

// row is that of the part's key.
func (u *usageSums) row(p part) *Usage {
	k := u.key(p)
	r := u.rows[k]
	if r == nil {
		name, _, _ := strings.Cut(k, "\x00")
		r = &Usage{Key: name}
		if u.By == "job" {
			r.Job, r.User, r.Account = p.job, p.user, p.account
		}
		u.rows[k] = r
	}
	return r
}

// add adds a part's time to its row.
func (u *usageSums) add(p part) *Usage {
	r := u.row(p)
	r.Seconds += p.seconds
	r.USD += p.usd
	r.Unpriced += p.unpriced
	r.OnDemand += p.onDemand
	r.Unknown += p.unknown
	of := map[string]*Unused{boot: &r.Boot, idle: &r.Idle, serve: &r.Serve, rest: &r.Rest}[p.use]
	if of != nil {
		of.Seconds += p.seconds
		of.USD += p.usd
	}
	return r
}
