package store

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/history"
)

const runColumns = `job, submitted, whole, open, array, task, het, name, uid, user, account, partition, pool, types, nodes, vcpus, memory,
	network_gbit, storage_iops, started, begun, ran, seen, ended, state, exit, signal, restarts, method, label`

func scanRun(scan scanner) (r history.Run, err error) {
	var submitted, started, begun, ran, seen, ended int64
	err = scan(&r.Job, &submitted, &r.Whole, &r.Open, &r.ArrayID, &r.ArrayTask, &r.HetID, &r.Name, &r.UID, &r.User, &r.Account, &r.Partition, &r.Pool, &r.Types,
		&r.Nodes, &r.VCPUs, &r.Memory, &r.NetworkGbit, &r.StorageIOPS, &started, &begun, &ran, &seen, &ended, &r.State, &r.Exit, &r.Signal, &r.Restarts, &r.Method, &r.Label)
	r.Submitted, r.Started, r.Begun, r.Ran = toTime(submitted), toTime(started), toTime(begun), us(ran)
	r.Seen, r.Ended = toTime(seen), toTime(ended)
	return r, err
}

// OpenRuns reads the runs that are open.
func (s *Store) OpenRuns(ctx context.Context) ([]history.Run, error) {
	all, err := queryLong(ctx, s, `SELECT `+runColumns+` FROM runs WHERE open ORDER BY job`, scanRun)
	if err != nil {
		return nil, fmt.Errorf("reading the history of runs: %w", err)
	}
	return all, nil
}

// words are those of burst-sruns, of steps that have ended since and of those that go
// on. They are read each second.
const words = `SELECT job, label, method FROM steps_done WHERE at > ?
	UNION ALL SELECT job, coalesce(hello ->> '$.label', ''), coalesce(hello ->> '$.method', '') FROM sessions`

// AboutRuns reads what else of the journal history.Book needs: the types of
// instances by node, and the jobs that speak, or whose steps have ended since.
func (s *Store) AboutRuns(ctx context.Context, since time.Time) (history.Input, error) {
	in := history.Input{Types: map[string]string{}, Spoken: map[uint32]history.Spoken{}}
	_, err := queryLong(ctx, s, `SELECT node, type FROM instances WHERE gone = 0 AND node <> '' ORDER BY launched`, func(scan scanner) (none struct{}, err error) {
		var node, kind string
		if err = scan(&node, &kind); err == nil {
			in.Types[node] = kind
		}
		return none, err
	})
	if err == nil {
		_, err = queryLong(ctx, s, words, func(scan scanner) (none struct{}, err error) {
			var job uint32
			var w history.Spoken
			if err = scan(&job, &w.Label, &w.Method); err == nil {
				in.Spoken[job] = w
			}
			return none, err
		}, fromTime(since))
	}
	if err != nil {
		return in, fmt.Errorf("reading what is known of jobs: %w", err)
	}
	return in, nil
}

// FirstSubmitted is when a job that has not ended was submitted, before any requeue;
// zero: it was not seen then.
func (s *Store) FirstSubmitted(ctx context.Context, job uint32) (first time.Time, err error) {
	all, err := query(ctx, s.db, `SELECT submitted FROM runs WHERE job = ? AND open AND whole`, func(scan scanner) (at int64, err error) { return at, scan(&at) }, job)
	if err != nil {
		return first, fmt.Errorf("reading when job %d was submitted: %w", job, err)
	}
	for _, at := range all {
		if t := toTime(at); t.After(first) {
			first = t
		}
	}
	return first, nil
}

// LastRuns reads the last closed run of each of the jobs that has one.
func (s *Store) LastRuns(ctx context.Context, jobs []uint32) (all []history.Run, err error) {
	for _, job := range jobs {
		r, err := query(ctx, s.db, `SELECT `+runColumns+` FROM runs WHERE job = ? AND NOT open ORDER BY submitted DESC LIMIT 1`, scanRun, job)
		if err != nil {
			return nil, fmt.Errorf("reading the history of job %d: %w", job, err)
		}
		all = append(all, r...)
	}
	return all, nil
}

// PutRuns writes runs by their keys. With the end of one it writes what the journal
// knows of it: its steps, checkpoints and evictions are forgotten sooner.
func (s *Store) PutRuns(ctx context.Context, runs []history.Run) error {
	for len(runs) > 0 {
		n := min(usageBatch, len(runs))
		if err := s.tx(ctx, func(tx *sql.Tx) error { return s.putRuns(ctx, tx, runs[:n]) }); err != nil {
			return fmt.Errorf("writing the history of runs: %w", err)
		}
		runs = runs[n:]
	}
	return nil
}

func (s *Store) putRuns(ctx context.Context, tx *sql.Tx, runs []history.Run) error {
	w := writer{ctx: ctx, tx: tx}
	var jobs []uint32
	for _, r := range runs {
		jobs = append(jobs, r.Job)
		w.put(`INSERT INTO runs (`+runColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET open = excluded.open, array = excluded.array, task = excluded.task, het = excluded.het, name = excluded.name,
			uid = excluded.uid, user = excluded.user, account = excluded.account, partition = excluded.partition, pool = excluded.pool, types = excluded.types,
			nodes = excluded.nodes, vcpus = excluded.vcpus, memory = excluded.memory,
			network_gbit = excluded.network_gbit, storage_iops = excluded.storage_iops, started = excluded.started, begun = excluded.begun, ran = excluded.ran,
			seen = excluded.seen, ended = excluded.ended, state = excluded.state, exit = excluded.exit, signal = excluded.signal,
			restarts = excluded.restarts, method = excluded.method, label = excluded.label`,
			r.Job, fromTime(r.Submitted), r.Whole, r.Open, r.ArrayID, r.ArrayTask, r.HetID, r.Name, r.UID, r.User, r.Account, r.Partition, r.Pool, r.Types,
			r.Nodes, r.VCPUs, r.Memory, r.NetworkGbit, r.StorageIOPS, fromTime(r.Started), fromTime(r.Begun), r.Ran.Microseconds(), fromTime(r.Seen), fromTime(r.Ended),
			r.State, r.Exit, r.Signal, r.Restarts, r.Method, r.Label)
		if w.err != nil || r.Open {
			continue
		}
		d, err := sumUp(ctx, tx, r)
		if err != nil {
			return err
		}
		w.put(`UPDATE runs SET ranks = ?3, computing = ?4, checkpoints = ?5, writing = ?6, evictions = ?7, lost = ?8, lost_unknown = ?9, lost_iterations = ?10,
			iteration = ?11 WHERE job = ?1 AND submitted = ?2`, r.Job, fromTime(r.Submitted), d.Ranks, micros(d.Computing), d.Checkpoints, micros(d.Writing), d.Evictions,
			micros(d.Lost), d.LostUnknown, d.LostIterations, d.Iteration)
	}
	return s.countLost(&w, jobs)
}

// micros is a time in microseconds; -1: not known.
func micros(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Microseconds()
}

// pruneRuns forgets runs with the ledger's rows of them.
func (s *Store) pruneRuns(ctx context.Context, before time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM runs WHERE NOT open AND ended < ?`, fromTime(before.Add(-usageKeep)))
	return err
}

// RunsQuery says which runs are asked for; zero fields leave none out.
type RunsQuery struct {
	UID   int // of one user's jobs only; below 0: all
	Job   uint32
	User  string
	Label string    // or the name of a job without a label
	Since time.Time // that went on since then
	Last  int       // at most so many, those that began last
}

// Told is a run, what became of it so far, and what its instances cost.
type Told struct {
	history.Run
	Deeds
	USD      float64 // of the instances of which the price is known
	Seconds  float64 // of instances
	Unpriced float64 // of Seconds: the price is not known
}

// Runs reads the runs of a query, oldest first.
func (s *Store) Runs(ctx context.Context, q RunsQuery) ([]Told, error) {
	all, err := queryLong(ctx, s, `SELECT * FROM (SELECT `+runColumns+`, ranks, computing, checkpoints, writing, evictions, lost, lost_unknown, lost_iterations, iteration
			FROM runs WHERE (?1 < 0 OR uid = ?1) AND (?2 = 0 OR job = ?2 OR array = ?2 OR het = ?2) AND (?3 = '' OR user = ?3)
			AND (?4 = '' OR label = ?4 OR label = '' AND name = ?4) AND (open OR ended >= ?5)
			ORDER BY started DESC, job DESC LIMIT ?6) ORDER BY started, job`, scanTold,
		q.UID, q.Job, q.User, q.Label, fromTime(q.Since), q.Last)
	if err != nil {
		return nil, fmt.Errorf("reading the history of runs: %w", err)
	}
	for i := range all {
		if err := s.beside(ctx, func(q querier) error { return tell(ctx, q, &all[i]) }); err != nil {
			return nil, fmt.Errorf("reading the history of job %d: %w", all[i].Job, err)
		}
	}
	return all, nil
}

func scanTold(scan scanner) (t Told, err error) {
	var computing, writing, lost int64
	t.Run, err = scanRun(func(dest ...any) error {
		return scan(append(dest, &t.Ranks, &computing, &t.Checkpoints, &writing, &t.Evictions, &lost, &t.LostUnknown, &t.LostIterations, &t.Iteration)...)
	})
	t.Computing, t.Writing, t.Lost = us(computing), us(writing), us(lost)
	return t, err
}

// tell adds what is not in the run's row: of one that is open what became of it so
// far, and what the ledger has, which is booked after the end.
func tell(ctx context.Context, q querier, t *Told) (err error) {
	if t.Open {
		if t.Deeds, err = sumUp(ctx, q, t.Run); err != nil {
			return err
		}
	}
	since, err := before(ctx, q, t.Run)
	if err != nil {
		return err
	}
	until := fromTime(t.Ended)
	if t.Open {
		until = math.MaxInt64
	}
	_, err = query(ctx, q, `SELECT coalesce(sum(s), 0), coalesce(sum(s * usd_per_hour / 3600), 0), coalesce(sum(s) FILTER (WHERE usd_per_hour IS NULL), 0)
		FROM (SELECT usd_per_hour, share * (until - began) / 1e6 AS s FROM usage u WHERE `+itsRows("?1", "?2", "?3")+`)`,
		func(scan scanner) (struct{}, error) { return struct{}{}, scan(&t.Seconds, &t.USD, &t.Unpriced) }, t.Job, since, until)
	return err
}
