package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/ledger"
)

// The sums by day are of instances that are at their end in the ledger: none of their
// rows is open. They change in the transaction that writes the rows, so that at any
// moment they are the rows' sums.

// residue is how many seconds may be left of sums in floating point from which all has been taken away again.
const residue = 1e-3

// dayKey and jobKey are the keys of usage_days and usage_jobs, and daySum and jobSum
// what is added to a row.
type dayKey struct{ dim, day int64 }

type jobKey struct {
	day int
	job uint32
	dim int64
}

// forKey is the key of usage_for.
type forKey struct {
	day           int
	user, account string
}

type daySum struct {
	amount
	parts                           int
	ofAll, ofUser, ofAccount, ofDay int
}

type jobSum struct {
	amount
	parts, ofJob int
}

// adder gathers what is to be added to the sums.
type adder struct {
	w      *writer
	days   calendar
	sign   int // 1, or -1: to be taken away
	dims   map[dim]int64
	byDay  map[dayKey]daySum
	byJob  map[jobKey]jobSum
	byFor  map[forKey]jobSum
	nights map[int][]string // instances by day
}

func (s *Store) adder(w *writer, sign int) *adder {
	return &adder{w: w, days: s.days, sign: sign, dims: map[dim]int64{}, byDay: map[dayKey]daySum{}, byJob: map[jobKey]jobSum{}, byFor: map[forKey]jobSum{}, nights: map[int][]string{}}
}

// instance adds an instance, by all of its rows.
func (a *adder) instance(rows []ledger.Row, l life) error {
	first := firsts{}
	n := func(key any) int {
		if first[key] {
			return 0
		}
		first[key] = true
		return a.sign
	}
	for _, p := range a.days.split(rows, l, span{}) {
		id, err := a.dim(p.dim)
		if err != nil {
			return err
		}
		k := dayKey{id, int64(p.day)}
		d := a.byDay[k]
		d.add(p.amount, float64(a.sign))
		d.parts += a.sign
		d.ofAll += n("")
		d.ofUser += n([2]string{"user", p.user})
		d.ofAccount += n([2]string{"account", keyed["account"](p)})
		d.ofDay += n(p.day)
		a.byDay[k] = d
		kj := jobKey{p.day, p.job, id}
		j := a.byJob[kj]
		j.add(p.amount, float64(a.sign))
		j.parts += a.sign
		j.ofJob += n(p.job)
		a.byJob[kj] = j
	}
	for i, o := range owners(rows, Owner{}) {
		if rows[i].Job > 0 || o.Job == 0 {
			continue
		}
		for _, p := range a.days.split(rows[i:i+1], life{registered: -1}, span{}) {
			k := forKey{p.day, o.User, o.Account}
			f := a.byFor[k]
			f.add(p.amount, float64(a.sign))
			f.parts += a.sign
			a.byFor[k] = f
		}
	}
	begun, end := begins(rows), ends(rows)
	for day := a.days.day(begun) + 1; a.days.begin(day) < end; day++ {
		a.nights[day] = append(a.nights[day], rows[0].Instance)
	}
	return nil
}

// firsts are the keys under which an instance was met.
type firsts map[any]bool

func begins(rows []ledger.Row) int64 {
	return fromTime(slices.MinFunc(rows, func(a, b ledger.Row) int { return a.From.Compare(b.From) }).From)
}

func ends(rows []ledger.Row) int64 {
	return fromTime(slices.MaxFunc(rows, func(a, b ledger.Row) int { return a.To.Compare(b.To) }).To)
}

// dim is the id of a dim, which it makes if there is none.
func (a *adder) dim(d dim) (int64, error) {
	if id, ok := a.dims[d]; ok {
		return id, nil
	}
	a.w.put(`INSERT OR IGNORE INTO usage_dims (provider, pool, type, zone, market, uid, user, account, use) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		d.provider, d.pool, d.kind, d.zone, d.market, d.uid, d.user, d.account, d.use)
	if a.w.err != nil {
		return 0, a.w.err
	}
	ids, err := query(a.w.ctx, a.w.tx, `SELECT id FROM usage_dims WHERE uid = ? AND user = ? AND account = ? AND use = ? AND provider = ? AND pool = ?
		AND type = ? AND zone = ? AND market = ?`, func(scan scanner) (id int64, err error) { return id, scan(&id) },
		d.uid, d.user, d.account, d.use, d.provider, d.pool, d.kind, d.zone, d.market)
	if err != nil {
		return 0, err
	}
	a.dims[d] = ids[0]
	return ids[0], nil
}

// write adds to the tables what was gathered.
func (a *adder) write() error {
	for k, d := range a.byDay {
		a.w.put(`INSERT INTO usage_days (dim, day, parts, seconds, usd, unpriced, on_demand, unknown, of_all, of_user, of_account, of_day)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET parts = parts + excluded.parts, seconds = seconds + excluded.seconds,
			usd = usd + excluded.usd, unpriced = unpriced + excluded.unpriced, on_demand = on_demand + excluded.on_demand, unknown = unknown + excluded.unknown,
			of_all = of_all + excluded.of_all, of_user = of_user + excluded.of_user, of_account = of_account + excluded.of_account, of_day = of_day + excluded.of_day`,
			k.dim, k.day, d.parts, d.seconds, d.usd, d.unpriced, d.onDemand, d.unknown, d.ofAll, d.ofUser, d.ofAccount, d.ofDay)
		if a.sign < 0 {
			a.w.put(`DELETE FROM usage_days WHERE dim = ? AND day = ? AND parts = 0`, k.dim, k.day)
		}
	}
	for k, j := range a.byJob {
		a.w.put(`INSERT INTO usage_jobs (day, job, dim, parts, seconds, usd, unpriced, on_demand, unknown, of_job)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET parts = parts + excluded.parts, seconds = seconds + excluded.seconds,
			usd = usd + excluded.usd, unpriced = unpriced + excluded.unpriced, on_demand = on_demand + excluded.on_demand, unknown = unknown + excluded.unknown,
			of_job = of_job + excluded.of_job`,
			k.day, k.job, k.dim, j.parts, j.seconds, j.usd, j.unpriced, j.onDemand, j.unknown, j.ofJob)
		if a.sign < 0 {
			a.w.put(`DELETE FROM usage_jobs WHERE day = ? AND job = ? AND dim = ? AND parts = 0`, k.day, k.job, k.dim)
		}
	}
	for k, f := range a.byFor {
		a.w.put(`INSERT INTO usage_for (day, user, account, parts, usd, unpriced) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET parts = parts + excluded.parts, usd = usd + excluded.usd, unpriced = unpriced + excluded.unpriced`,
			k.day, k.user, k.account, f.parts, f.usd, f.unpriced)
		if a.sign < 0 {
			a.w.put(`DELETE FROM usage_for WHERE day = ? AND user = ? AND account = ? AND parts = 0`, k.day, k.user, k.account)
		}
	}
	for day, ids := range a.nights {
		for _, id := range ids {
			if a.sign > 0 {
				a.w.put(`INSERT OR IGNORE INTO usage_nights (day, instance) VALUES (?, ?)`, day, id)
			} else {
				a.w.put(`DELETE FROM usage_nights WHERE day = ? AND instance = ?`, day, id)
			}
		}
	}
	clear(a.byDay)
	clear(a.byJob)
	clear(a.byFor)
	clear(a.nights)
	return a.w.err
}

// atEnd selects of the instances in ?1, a list in JSON, those that are at their end.
const atEnd = `SELECT value FROM json_each(?1) WHERE EXISTS (SELECT 1 FROM usage WHERE instance = value)
	AND NOT EXISTS (SELECT 1 FROM usage WHERE open AND instance = value)`

// unsumUsage takes those of the instances that are at their end out of the sums: their
// rows are about to change.
func (s *Store) unsumUsage(w *writer, ids string) error {
	return s.sum(w, s.adder(w, -1), `instance IN (`+atEnd+`)`, ids)
}

// sumUsage adds those of the instances that are at their end now to the sums, and notes
// how their providers told their time.
func (s *Store) sumUsage(w *writer, ids string) error {
	w.put(`INSERT OR IGNORE INTO bills (instance, launched, ended, gone, guessed, serves, registered)
		SELECT id, launched, ended, gone, guessed, serves, (SELECT CASE count(*) WHEN 0 THEN -1 ELSE coalesce(min(nullif(registered, 0)), 0) END
			FROM boots b WHERE b.node = i.node AND b.instance = i.id)
		FROM instances i WHERE id IN (`+atEnd+`) AND gone > 0`, ids)
	if w.err != nil {
		return w.err
	}
	return s.sum(w, s.adder(w, 1), `instance IN (`+atEnd+`)`, ids)
}

func (s *Store) sum(w *writer, a *adder, where string, args ...any) error {
	err := eachInstance(w.ctx, w.tx, func(rows []ledger.Row, l life) error {
		if err := a.instance(rows, l); err != nil || len(a.byJob) < usageBatch*20 {
			return err
		}
		return a.write()
	}, where, args...)
	if err != nil {
		return err
	}
	return a.write()
}

func instancesOf(rows []ledger.Row) string {
	var ids []string
	for _, r := range rows {
		if len(ids) == 0 || ids[len(ids)-1] != r.Instance {
			ids = append(ids, r.Instance)
		}
	}
	return list(ids)
}

// list is a list for json_each.
func list[T string | uint32](all []T) string {
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // strings and numbers have a form
	}
	return string(text)
}

// keepDays makes the sums anew if they are not there, or of another time zone.
func (s *Store) keepDays(ctx context.Context) error {
	tables := []string{"usage_days", "usage_jobs", "usage_for", "usage_nights", "usage_dims"}
	return s.keepSums(ctx, "usage_zone", tables, func(w *writer) error {
		return s.sum(w, s.adder(w, 1), `instance NOT IN (SELECT instance FROM usage WHERE open)`)
	})
}

// keepSums makes tables of sums anew if they are not of the present time zone, as meta has it under the key.
func (s *Store) keepSums(ctx context.Context, key string, tables []string, sum func(*writer) error) error {
	zone := s.days.print()
	var known string
	if err := s.db.QueryRowContext(ctx, `SELECT coalesce((SELECT value FROM meta WHERE key = ?), '')`, key).Scan(&known); err != nil || known == zone {
		return err
	}
	return s.tx(ctx, func(tx *sql.Tx) error {
		w := writer{ctx: ctx, tx: tx}
		for _, table := range tables {
			w.put(`DELETE FROM ` + table)
		}
		w.put(`INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)`, key, zone)
		if w.err != nil {
			return w.err
		}
		return sum(&w)
	})
}

// print tells the zone from any other by its offsets, in years that matter.
func (c calendar) print() (text string) {
	last := -1
	for at := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2040; at = at.AddDate(0, 0, 1) {
		if _, offset := at.In(c.zone).Zone(); offset != last {
			text, last = text+fmt.Sprintf("%s%+d ", at.Format("060102"), offset), offset
		}
	}
	return text
}
