package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/slurm/power"
)

// AddOrder makes an order durable. It is false for an id that was ever
// accepted before, closed or not.
func (s *Store) AddOrder(ctx context.Context, o power.Order) (bool, error) {
	r, err := s.db.ExecContext(ctx, `INSERT INTO orders (id, kind, nodes, resume_file, made, taken)
		VALUES (?, ?, ?, ?, ?, 0) ON CONFLICT DO NOTHING`, o.ID, o.Kind, o.Nodes, o.ResumeFile, fromTime(o.Made))
	if err != nil {
		return false, fmt.Errorf("writing order %s: %w", o.ID, err)
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

// LoadPower reads what is open of orders, nodes, launches, instances, holds,
// cooldowns, breakers and boots, and the pause.
func (s *Store) LoadPower(ctx context.Context) (power.State, error) {
	var st power.State
	err := s.tx(ctx, func(tx *sql.Tx) error {
		var err error
		if st.Orders, err = query(ctx, tx, `SELECT id, kind, nodes, resume_file, made, taken FROM orders WHERE closed = 0 ORDER BY made, id`,
			func(scan scanner) (o power.Order, err error) {
				var made int64
				err = scan(&o.ID, &o.Kind, &o.Nodes, &o.ResumeFile, &made, &o.Taken)
				o.Made = toTime(made)
				return o, err
			}); err != nil {
			return err
		}
		if st.Nodes, err = query(ctx, tx, `SELECT name, pool, phase, since, order_id, made, job, whole, token, instance, addr_set, tries, reason FROM nodes ORDER BY name`,
			func(scan scanner) (n power.Node, err error) {
				var since, made int64
				err = scan(&n.Name, &n.Pool, &n.Phase, &since, &n.Order, &made, &n.Job, &n.Whole, &n.Token, &n.Instance, &n.AddrSet, &n.Tries, &n.Reason)
				n.Since, n.Made = toTime(since), toTime(made)
				return n, err
			}); err != nil {
			return err
		}
		if st.Launches, err = query(ctx, tx, `SELECT token, provider, account, request, nodes, state, created, error FROM launches WHERE resolved = 0 ORDER BY created, token`, scanLaunch); err != nil {
			return err
		}
		if st.Instances, err = query(ctx, tx, `SELECT `+instanceColumns+` FROM instances WHERE gone = 0 ORDER BY id`, scanInstance); err != nil {
			return err
		}
		if st.Served, err = query(ctx, tx, `SELECT `+instanceColumns+` FROM instances WHERE serves = 1 AND gone > 0 ORDER BY id`, scanInstance); err != nil {
			return err
		}
		if st.Ended, err = query(ctx, tx, `SELECT `+instanceColumns+` FROM instances
			WHERE gone > 0 AND token IN (SELECT token FROM launches WHERE resolved = 0) ORDER BY id`, scanInstance); err != nil {
			return err
		}
		if st.Holds, err = query(ctx, tx, `SELECT job, start, why, tries, norequeue, released FROM holds ORDER BY job`,
			func(scan scanner) (h power.Hold, err error) {
				var start int64
				err = scan(&h.Job, &start, &h.Why, &h.Tries, &h.NoRequeue, &h.Released)
				h.Start = toTime(start)
				return h, err
			}); err != nil {
			return err
		}
		st.Coolings, err = query(ctx, tx, `SELECT provider, type, zone, market, failures, until, most, paid FROM coolings`,
			func(scan scanner) (c power.Cooling, err error) {
				var until, paid int64
				err = scan(&c.Provider, &c.Offering.Type, &c.Offering.Zone, &c.Offering.Market, &c.Failures, &until, &c.Most, &paid)
				c.Until, c.Paid = toTime(until), toTime(paid)
				return c, err
			})
		if err != nil {
			return err
		}
		if err := loadBoots(ctx, tx, &st); err != nil {
			return err
		}
		if st.Fences, err = loadFences(ctx, tx); err != nil {
			return err
		}
		if st.Heard, err = loadHeard(ctx, tx); err != nil {
			return err
		}
		st.Pause, err = loadPause(ctx, tx)
		return err
	})
	if err != nil {
		return power.State{}, fmt.Errorf("reading the journal: %w", err)
	}
	return st, nil
}

func scanLaunch(scan scanner) (l power.Launch, err error) {
	var request, nodes string
	var created int64
	if err := scan(&l.Token, &l.Provider, &l.Account, &request, &nodes, &l.State, &created, &l.Error); err != nil {
		return l, err
	}
	l.Created = toTime(created)
	if err := json.Unmarshal([]byte(request), &l.Request); err != nil {
		return l, fmt.Errorf("launch %s: %w", l.Token, err)
	}
	if err := json.Unmarshal([]byte(nodes), &l.Nodes); err != nil {
		return l, fmt.Errorf("launch %s: %w", l.Token, err)
	}
	return l, nil
}

const instanceColumns = `id, provider, account, token, pool, type, zone, market, state, addr, hostname, node, doomed, failed, console, serves, shown, launched, ended, gone, guessed`

func scanInstance(scan scanner) (i power.Instance, err error) {
	var launched, ended, gone int64
	err = scan(&i.ID, &i.Provider, &i.Account, &i.Token, &i.Pool, &i.Offering.Type, &i.Offering.Zone, &i.Offering.Market, &i.State,
		&i.Addr, &i.Hostname, &i.Assigned, &i.Doomed, &i.Failed, &i.Console, &i.Serves, &i.Shown, &launched, &ended, &gone, &i.Guessed)
	i.Launched, i.Ended, i.Gone = toTime(launched), toTime(ended), toTime(gone)
	return i, err
}

// CommitPower writes a change in one transaction.
func (s *Store) CommitPower(ctx context.Context, c power.Change) error {
	err := s.tx(ctx, func(tx *sql.Tx) error { return putPower(ctx, tx, c) })
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	if len(c.Events) > 0 {
		s.notify()
	}
	return nil
}

func putPower(ctx context.Context, tx *sql.Tx, c power.Change) error {
	w := writer{ctx: ctx, tx: tx}
	for _, o := range c.Orders {
		w.put(`INSERT INTO orders (id, kind, nodes, resume_file, made, taken) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET taken = excluded.taken`, o.ID, o.Kind, o.Nodes, o.ResumeFile, fromTime(o.Made), o.Taken)
	}
	for _, id := range c.CloseOrders {
		w.put(`UPDATE orders SET closed = unixepoch('subsec') * 1000000 WHERE id = ?`, id)
	}
	for _, n := range c.DropNodes {
		w.put(`DELETE FROM nodes WHERE name = ?`, n)
	}
	for _, n := range c.Nodes {
		w.put(`INSERT OR REPLACE INTO nodes (name, pool, phase, since, order_id, made, job, whole, token, instance, addr_set, tries, reason)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, n.Name, n.Pool, n.Phase, fromTime(n.Since), n.Order, fromTime(n.Made), n.Job, n.Whole, n.Token, n.Instance, n.AddrSet, n.Tries, n.Reason)
	}
	for _, l := range c.Launches {
		w.put(`INSERT OR REPLACE INTO launches (token, provider, account, request, nodes, state, created, resolved, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			l.Token, l.Provider, l.Account, w.json(l.Request), w.json(l.Nodes), l.State, fromTime(l.Created), fromTime(l.Resolved), l.Error)
	}
	for _, i := range c.Instances {
		putInstance(&w, i)
	}
	for _, h := range c.Holds {
		// restarts was never anything else, and nobody reads it: the column stays for an older burstd.
		w.put(`INSERT OR REPLACE INTO holds (job, restarts, start, why, tries, norequeue, released) VALUES (?, -1, ?, ?, ?, ?, ?)`,
			h.Job, fromTime(h.Start), h.Why, h.Tries, h.NoRequeue, h.Released)
	}
	for _, j := range c.DropHolds {
		w.put(`DELETE FROM holds WHERE job = ?`, j)
	}
	for _, k := range c.Coolings {
		o := k.Offering
		if k.Failures == 0 && k.Paid.IsZero() {
			w.put(`DELETE FROM coolings WHERE provider = ? AND type = ? AND zone = ? AND market = ?`, k.Provider, o.Type, o.Zone, o.Market)
			continue
		}
		w.put(`INSERT OR REPLACE INTO coolings (provider, type, zone, market, failures, until, most, paid) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			k.Provider, o.Type, o.Zone, o.Market, k.Failures, fromTime(k.Until), k.Most, fromTime(k.Paid))
	}
	putBoots(&w, c)
	putFences(&w, c)
	putPause(&w, c.Pause)
	for _, e := range c.Events {
		w.event(Event{Time: e.Time, Kind: e.Kind, Node: e.Node, Instance: e.Instance, Pool: e.Pool, Job: e.Job, Text: e.Text})
	}
	return w.err
}

func putInstance(w *writer, i power.Instance) {
	w.put(`INSERT OR REPLACE INTO instances (`+instanceColumns+`)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, i.ID, i.Provider, i.Account, i.Token, i.Pool, i.Offering.Type, i.Offering.Zone, i.Offering.Market,
		i.State, i.Addr, i.Hostname, i.Assigned, i.Doomed, i.Failed, i.Console, i.Serves, i.Shown, fromTime(i.Launched), fromTime(i.Ended), fromTime(i.Gone), i.Guessed)
}

// NodeOf is the node that the instance serves now; empty: none.
func (s *Store) NodeOf(ctx context.Context, instance string) (string, error) {
	var node string
	err := s.db.QueryRowContext(ctx, `SELECT coalesce((SELECT name FROM nodes WHERE instance = ?), '')`, instance).Scan(&node)
	return node, err
}

// Known are those of some instances that the journal has, also as gone, or that are at their end in the ledger.
func (s *Store) Known(ctx context.Context, ids []string) (map[string]bool, error) {
	known := map[string]bool{}
	_, err := query(ctx, s.db, `SELECT value FROM json_each(?)
		WHERE EXISTS (SELECT 1 FROM instances WHERE id = value) OR EXISTS (SELECT 1 FROM bills WHERE instance = value)`,
		func(scan scanner) (none struct{}, err error) {
			var id string
			err = scan(&id)
			known[id] = true
			return none, err
		}, list(ids))
	if err != nil {
		return nil, fmt.Errorf("reading which instances the journal has: %w", err)
	}
	return known, nil
}

// Instances reads the instances launched since the given time, gone ones too,
// oldest first: what they cost is for the reader to say.
func (s *Store) Instances(ctx context.Context, since time.Time) ([]power.Instance, error) {
	return query(ctx, s.db, `SELECT `+instanceColumns+`
		FROM instances WHERE launched >= ? ORDER BY launched, id`, scanInstance, fromTime(since))
}
