package rehearse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// rehearsal is one that is under way.
//
//	submitted, held -> runs -> checkpoint -> killed, held -> restart 1 -> held -> judged
//	                                              work/ is kept            work/ is put back
//	                                                                    -> restart 2 -> ended -> judged
//
// Whatever goes wrong, the job is cancelled.
type rehearsal struct {
	o      Options
	script script
	room   room
	job    job
	trial  Trial
	say    func(format string, args ...any)
	result Result
	made   Report // the step that was checkpointed
}

// Run rehearses a job. The result is that of a rehearsal that came to its end; an
// error says that it did not, and that nothing is shown.
func Run(ctx context.Context, o Options, say func(format string, args ...any)) (Result, error) {
	s, err := readScript(o)
	if err != nil {
		return Result{}, err
	}
	r := rehearsal{o: o, script: s, say: say}
	r.result = Result{Script: s.path, Sum: sumOfText(s.text), Verify: o.Verify, Restarts: []Restart{}}
	if r.room, err = makeRoom(o); err != nil {
		return Result{}, &UsageError{fmt.Errorf("making a folder for the rehearsal: %w", err)}
	}
	exec := slurm.Exec{}
	r.job = job{client: slurm.New(exec), runner: exec}
	if r.job.id, err = submit(ctx, r.room, arguments(o, s, r.room, os.Getenv)); err != nil {
		return Result{}, errors.Join(err, os.RemoveAll(r.room.dir))
	}
	r.result.Job = r.job.id
	r.trial = Trial{Dir: r.room.reports(), Job: r.job.id, For: o.For, Within: o.Within, Method: o.Method}
	say("job %d, in %s", r.job.id, r.room.work)

	unverified, err := r.play(ctx)
	if ctx.Err() != nil {
		say("cancels job %d", r.job.id)
	}
	cerr := r.job.cancel(ctx)
	if cerr != nil {
		say("%v", cerr)
	}
	f := new(failure)
	switch {
	case err == nil && unverified == "":
		r.result.Verdict, r.result.Reason = Trusted, "the results are right after both restarts"
	case err == nil:
		r.result.Verdict, r.result.Reason = Unverified, unverified
	case errors.As(err, &f) && ctx.Err() == nil:
		r.result.Verdict, r.result.Reason = Failed, f.text+r.lastWords()
	default:
		return r.result, fmt.Errorf("the rehearsal in %s was broken off: %w", r.room.dir, err)
	}
	r.result.At = time.Now().UTC().Truncate(time.Second)
	r.result.Folder = r.room.dir
	if r.result.Verdict == Trusted && !o.Keep && cerr == nil {
		if err := r.clear(); err != nil {
			say("%v", err)
		}
	}
	if r.made.Job != 0 && (err == nil || !f.vain) {
		if err := r.result.keep(r.home()); err != nil {
			say("the verdict is not kept: %v", err)
		}
	}
	return r.result, nil
}

// play runs the job's three attempts. It returns why the results are not known to
// be right; empty: they are.
func (r *rehearsal) play(ctx context.Context) (unverified string, err error) {
	if err := r.trial.tell(); err != nil {
		return "", err
	}
	if err := r.job.scontrol(ctx, "release"); err != nil {
		return "", err
	}
	if err := r.begin(ctx); err != nil {
		return "", err
	}
	unverified = r.made.Amiss
	r.say("kills the job")
	if err := r.job.hold(ctx, 1); err != nil {
		return "", err
	}
	if err := refresh(r.room.work); err != nil {
		return "", err
	}
	if err := r.room.keep(); err != nil {
		return "", fmt.Errorf("keeping the job's folder as it was when it was killed: %w", err)
	}
	for n := 1; n <= 2; n++ {
		why, err := r.restart(ctx, n)
		if err != nil {
			return "", err
		}
		unverified = cmp.Or(unverified, why)
	}
	return unverified, nil
}

// begin sees the first attempt to its checkpoint.
func (r *rehearsal) begin(ctx context.Context) error {
	w := watch{r: r, attempt: 0}
	err := r.job.until(ctx, func(now slurm.Job) (bool, error) {
		v, err := w.look(now)
		if err != nil {
			return false, err
		}
		made, err := first(v, r.o)
		if n := len(v.reports); n > 0 {
			r.made = v.reports[n-1]
		}
		if made != nil {
			r.made = *made
		}
		return made != nil, err
	})
	if m := r.made; m.Job != 0 {
		r.result.Step, r.result.Method, r.result.Program, r.result.Host, r.result.Nodes, r.result.Machine = m.Step, m.Method, m.Program, m.Host, m.Nodes, &m.Machine
	}
	if err != nil {
		return err
	}
	made := *r.made.Made
	c := Checkpoint{Tool: made.Tool, Seconds: made.Took.Seconds(), Bytes: made.Bytes, Files: made.Files, Ranks: made.Ranks}
	if made.Iteration >= 0 {
		c.Iteration = &made.Iteration
	}
	r.result.Checkpoint = &c
	r.say("checkpoint of step %s: %.1f MB in %.1f s", r.made.Step, float64(c.Bytes)/1e6, c.Seconds)
	return nil
}

// restart has the held job run for the n-th time, ends it and judges its results.
func (r *rehearsal) restart(ctx context.Context, n int) (unverified string, err error) {
	if n == 2 {
		if err := r.room.restore(); err != nil {
			return "", fmt.Errorf("putting the job's folder back: %w", err)
		}
	}
	if err := r.job.letGo(ctx); err != nil {
		return "", err
	}
	var seen time.Time // restarted
	var report *Report
	ended := false
	w := watch{r: r, attempt: n}
	err = r.job.until(ctx, func(now slurm.Job) (bool, error) {
		v, err := w.look(now)
		if err != nil {
			return false, err
		}
		var over bool
		if report, over, err = again(v, r.made.Step, r.made.Made.ID, r.o); err != nil {
			return false, err
		}
		if report != nil && seen.IsZero() {
			seen = time.Now()
			r.say("restart %d: in %.2f s on %s", n, report.Restart.Seconds(), report.Host)
		}
		ended = over
		return over || r.o.RunFor > 0 && !seen.IsZero() && time.Since(seen) >= r.o.RunFor, nil
	})
	if f := new(failure); errors.As(err, &f) {
		return "", &failure{fmt.Sprintf("restart %d: %s", n, f.text), f.vain}
	}
	if err != nil {
		return "", err
	}
	if n == 1 {
		err = r.job.hold(ctx, 2) // so that Slurm does not forget it meanwhile
	} else {
		err = r.job.cancel(ctx)
	}
	if err != nil {
		return "", err
	}
	res := Restart{Seconds: report.Restart.Seconds(), Host: report.Host, Ended: ended}
	res.Verified, unverified, err = r.verify(ctx, n)
	r.result.Restarts = append(r.result.Restarts, res)
	return unverified, err
}

// watch looks at an attempt.
type watch struct {
	r       *rehearsal
	attempt int
	said    string
	began   time.Time
}

func (w *watch) look(now slurm.Job) (view, error) {
	v := view{job: now, attempt: w.attempt}
	if now.State == "RUNNING" && w.began.IsZero() {
		w.began = time.Now()
	}
	if !w.began.IsZero() {
		v.ran = time.Since(w.began)
	}
	if text := now.State + " " + now.Reason; now.State == "PENDING" && text != w.said && plainReason(now.Reason) {
		w.said = text
		w.r.say("waits for Slurm: %s", now.Reason)
	}
	if v.over() {
		if err := refresh(w.r.trial.Dir); err != nil { // there will be no more
			return v, err
		}
	}
	var err error
	v.reports, err = w.r.trial.reports(w.attempt)
	return v, err
}

// plainReason says that a job waits for more than this rehearsal.
func plainReason(reason string) bool {
	return reason != "" && reason != "None" && !strings.HasPrefix(reason, "JobHeld") && !strings.HasPrefix(reason, "job_requeued") && reason != "BeginTime"
}

// home is the folder of checkpoints of a job that is not rehearsed.
func (r *rehearsal) home() string {
	dir := r.made.Dir
	if filepath.IsAbs(dir) {
		return dir
	}
	work := r.o.Chdir
	if c, ok := r.script.head.Last("chdir"); ok && work == "" {
		work = c.Value
	}
	return filepath.Join(work, dir)
}

// clear deletes what the rehearsal has made.
func (r *rehearsal) clear() error {
	if err := os.RemoveAll(r.room.dir); err != nil {
		return err
	}
	r.result.Folder = ""
	_ = os.Remove(filepath.Dir(r.room.dir)) // unless there are others
	// Those of a job that names an absolute folder.
	name := filepath.Base(r.made.Folder)
	if id := fmt.Sprintf("job-%d", r.job.id); name == id || strings.HasPrefix(name, id+"_") {
		return os.RemoveAll(r.made.Folder)
	}
	return nil
}
