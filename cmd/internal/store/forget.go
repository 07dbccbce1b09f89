package store

import (
	"context"
	"time"

	"github.com/burst-hpc/burst/ft/session"
)

// jobRows bounds what is kept of one job's steps, of each kind. A job may have any
// number of steps, one after the other; what a restart needs is of those that run.
const jobRows = 256

// stepsKeep is how much sooner what a job's steps have said, and its evictions, are
// forgotten than other closed records, counted from the end of its run, which has the
// sum: with burstd's 90 days it is a day. Until then Slurm may start the job again.
const stepsKeep = 89 * 24 * time.Hour

// begun forgets what earlier attempts of the job had open.
func (w *writer) begun(job uint32, attempt int) {
	w.put(`DELETE FROM sessions WHERE job = ? AND attempt < ?`, job, attempt)
	w.put(`DELETE FROM answers WHERE job = ? AND attempt < ?`, job, attempt)
	w.put(`DELETE FROM requests WHERE job = ? AND attempt < ?`, job, attempt)
}

// answered keeps a step's answer to the last request of its attempt.
func (w *writer) answered(g session.Given) {
	if g.Answer.ID == "" {
		return
	}
	w.put(`INSERT OR REPLACE INTO answers (job, attempt, step, id, answer) SELECT ?1, ?2, ?3, ?4, ?5
		WHERE EXISTS (SELECT 1 FROM requests WHERE job = ?1 AND attempt = ?2 AND id = ?4)
		AND (SELECT count(*) FROM answers WHERE job = ?1 AND attempt = ?2 AND step <> ?3) < ?6`,
		g.Job, g.Attempt, g.Step, g.Answer.ID, w.json(g.Answer), jobRows)
}

// fewBlessed forgets a generation of a job that has too many, first of the steps that
// have ended well and do not run, then the oldest. What is in its folder counts for a
// step of which nothing is kept.
func (w *writer) fewBlessed(job uint32) {
	w.put(`DELETE FROM blessed WHERE job = ?1 AND (SELECT count(*) FROM blessed WHERE job = ?1) > ?2
		AND step = (SELECT step FROM blessed b WHERE job = ?1 ORDER BY
			NOT EXISTS (SELECT 1 FROM steps_done d WHERE d.job = b.job AND d.step = b.step AND d.exit = 0)
			OR EXISTS (SELECT 1 FROM sessions s WHERE s.job = b.job AND s.step = b.step), at, step LIMIT 1)`, job, jobRows)
}

// fewDone adds the step that ended first to the sum of such steps, which has no name,
// if the job has too many.
func (w *writer) fewDone(job uint32) {
	const first = `FROM steps_done WHERE job = ?1 AND step <> '' AND (SELECT count(*) FROM steps_done WHERE job = ?1 AND step <> '') > ?2
		ORDER BY at, step LIMIT 1`
	w.put(`INSERT INTO steps_done (job, step, attempt, at, label, method, exit, ranks, ran, checkpoints, writing, restarts, lost, lost_unknown, iteration, began)
		SELECT * FROM (SELECT job, '', attempt, at, label, method, exit, ranks, ran, checkpoints, writing, restarts, lost, lost_unknown, iteration, at - ran `+first+`)
		WHERE true ON CONFLICT DO UPDATE SET attempt = max(attempt, excluded.attempt), at = max(at, excluded.at), label = excluded.label,
		method = excluded.method, exit = max(exit, excluded.exit), ranks = max(ranks, excluded.ranks), ran = ran + excluded.ran,
		checkpoints = checkpoints + excluded.checkpoints, writing = writing + excluded.writing, restarts = max(restarts, excluded.restarts),
		lost = lost + excluded.lost, lost_unknown = max(lost_unknown, excluded.lost_unknown), iteration = max(iteration, excluded.iteration),
		began = iif(began > 0, min(began, excluded.began), excluded.began)`, job, jobRows)
	w.put(`DELETE FROM steps_done WHERE job = ?1 AND step = (SELECT step `+first+`)`, job, jobRows)
}

// pruneSteps forgets what was said of jobs whose last run ended so long ago, and of
// jobs without one what is older than before. Of a job that goes on, or waits, however
// long, it keeps what a restart needs.
func (s *Store) pruneSteps(ctx context.Context, before time.Time) error {
	over := func(table string) string {
		return `EXISTS (SELECT 1 FROM runs r WHERE r.job = ` + table + `.job)
			AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.job = ` + table + `.job AND (r.open OR r.ended >= ?1))`
	}
	silent := ` AND job NOT IN (SELECT job FROM sessions)`
	goesOn := ` AND job NOT IN (SELECT job FROM runs WHERE open)`
	ended, old := fromTime(before.Add(stepsKeep)), fromTime(before)
	for _, d := range []struct {
		text string
		args []any
	}{
		{`DELETE FROM sessions WHERE began < ?1 AND ` + over("sessions"), []any{ended}},
		{`DELETE FROM blessed WHERE (at < ?2` + goesOn + ` OR at < ?1 AND ` + over("blessed") + `)` + silent, []any{ended, old}},
		{`DELETE FROM steps_done WHERE at < ?2` + goesOn + ` OR at < ?1 AND ` + over("steps_done"), []any{ended, old}},
		{`DELETE FROM requests WHERE by < ?2` + goesOn + ` OR by < ?1 AND ` + over("requests") + silent, []any{ended, old}},
		{`DELETE FROM answers WHERE NOT EXISTS (SELECT 1 FROM requests q WHERE q.job = answers.job AND q.attempt = answers.attempt AND q.id = answers.id)`, nil},
		{`DELETE FROM evictions WHERE ended > 0 AND (ended < ?2` + goesOn + ` OR ended < ?1 AND ` + over("evictions") + `
			AND NOT EXISTS (SELECT 1 FROM notices n WHERE n.instance = evictions.instance AND n.kind = evictions.kind AND n.stage <> 'acked'))`, []any{ended, old}},
	} {
		if _, err := s.db.ExecContext(ctx, d.text, d.args...); err != nil {
			return err
		}
	}
	return nil
}
