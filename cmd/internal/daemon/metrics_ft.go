package daemon

import (
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// What becomes of a notice: it is acted upon; it is of a kind that its pool
// ignores; it is for no node of ours; it says nothing new; it takes back what
// another has announced.
var noticeOutcomes = []string{"acted", "ignored", "foreign", "duplicate", "cancelled"}

// attempt is a run of a job that has to leave its nodes. Several notices may
// mean it: it is counted once.
type attempt struct {
	restarts int
	open     map[string]bool // its evictions that are not closed, by instance
	start    time.Time       // of the run, as far as Slurm has been seen to say
	end      time.Time       // of its grace, once it has had its signal
	over     bool            // counted
}

// heard counts a notice of which nothing becomes, or that begins.
func (m *meters) heard(n cloud.Notice, fresh bool) {
	key := noticeKey{n.Instance, n.Kind}
	source := noticeSource(n)
	m.mu.Lock()
	defer m.mu.Unlock()
	o, known := m.open[key]
	switch {
	case !fresh:
		m.notice(n.Kind, source, "duplicate")
		return
	case n.Cancelled:
		m.notice(n.Kind, source, "cancelled")
		if !known {
			m.open[key] = openNotice{ft.Foreign, source, time.Time{}} // what becomes of it is counted
		}
		return
	}
	if o.source = source; !known {
		o.stage = ft.Heard
	}
	if o.deadline.IsZero() || !n.Deadline.IsZero() && n.Deadline.Before(o.deadline) {
		o.deadline = n.Deadline
	}
	m.open[key] = o
}

// overdue is for how long the deadline of a spot interruption has been over that
// is still being acted upon: the longest. Maintenance only begins at its deadline.
func (m *meters) overdue(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	var most time.Duration
	for key, o := range m.open {
		if key.kind == cloud.SpotInterruption && !o.deadline.IsZero() && (o.stage == ft.Heard || o.stage == ft.Draining) {
			most = max(most, now.Sub(o.deadline))
		}
	}
	return most
}

func (m *meters) notice(kind cloud.NoticeKind, source, outcome string) {
	m.notices.WithLabelValues(noticeKind(kind), source, outcome).Inc()
}

// resume takes up what an earlier life left open: it is counted already.
func (m *meters) resume(st ft.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range st.Notices {
		m.open[noticeKey{n.Instance, n.Kind}] = openNotice{n.Stage, noticeSource(n.Notice), n.Deadline}
	}
	for _, e := range st.Evictions {
		if e.Ended.IsZero() {
			a := m.attempt(e)
			a.over = a.over || e.Stage == ft.Requeued
		}
	}
}

// evictions counts a change of the guard's.
func (m *meters) evictions(c ft.Change, now time.Time) {
	for _, e := range c.Events {
		m.event(e.Kind).Inc()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range c.Notices {
		m.moved(n, now)
	}
	for _, e := range c.Evictions {
		m.evicted(e, now)
	}
}

// moved counts what a notice's next stage says.
func (m *meters) moved(n ft.Notice, now time.Time) {
	key := noticeKey{n.Instance, n.Kind}
	o, known := m.open[key]
	if !known {
		o = openNotice{ft.Heard, noticeSource(n.Notice), n.Deadline}
	}
	if o.stage == ft.Heard && n.Stage != ft.Heard {
		outcome := "acted"
		switch {
		case n.Stage == ft.Foreign && n.Node == "":
			outcome = "foreign"
		case n.Stage == ft.Foreign:
			outcome = "ignored"
		}
		m.notice(n.Kind, o.source, outcome)
	}
	if n.Stage == ft.Done && o.stage != ft.Done && !o.deadline.IsZero() {
		m.left(n.Kind, "free", o.deadline.Sub(now))
	}
	if o.stage = n.Stage; n.Stage == ft.Acked {
		delete(m.open, key)
		return
	}
	m.open[key] = o
}

func (m *meters) left(kind cloud.NoticeKind, moment string, lead time.Duration) {
	m.lead.WithLabelValues(noticeKind(kind), moment).Observe(max(0, lead.Seconds()))
}

// attempt finds or begins the record of an eviction's attempt.
func (m *meters) attempt(e ft.Eviction) *attempt {
	a := m.moving[e.Job]
	if a == nil || a.restarts != e.Restarts {
		a = &attempt{restarts: e.Restarts, open: map[string]bool{}}
		m.moving[e.Job] = a
	}
	a.open[e.Instance+" "+string(e.Kind)] = true
	switch {
	case e.SignalledAt.IsZero():
	case e.Ask != "":
		a.end = e.By
	case e.Signal != "":
		a.end = e.SignalledAt.Add(e.Grace)
	}
	if a.start.IsZero() {
		a.start = m.startOf(e.Job, e.Restarts)
	}
	return a
}

// evicted counts what an eviction's next stage says of its job's attempt.
func (m *meters) evicted(e ft.Eviction, now time.Time) {
	if e.Kind == ft.Died {
		m.fell(e)
		return
	}
	asked := m.moving[e.Job] != nil && m.moving[e.Job].restarts == e.Restarts && !m.moving[e.Job].end.IsZero()
	a := m.attempt(e)
	notice := m.open[noticeKey{e.Instance, e.Kind}]
	if !asked && !a.end.IsZero() {
		m.checkpoints.WithLabelValues("asked").Inc()
		if !notice.deadline.IsZero() {
			m.left(e.Kind, "signalled", notice.deadline.Sub(e.SignalledAt))
		}
	}
	if done := e.Stage == ft.Done; (e.Stage == ft.Requeued || done) && !a.over {
		a.over = true
		m.ended(e, a, now, notice.deadline)
	}
	if e.Stage == ft.Done {
		if delete(a.open, e.Instance+" "+string(e.Kind)); len(a.open) == 0 {
			delete(m.moving, e.Job)
		}
	}
}

// requeueMargin is how near to the end of its grace, or of the lead time, a
// requeue is taken for one that did not wait for the job.
const requeueMargin = 6 * time.Second

// ended counts the end of an attempt: what became of the checkpoint that it
// was asked for, and the work that may be lost. A job that left by itself after
// its signal is taken to have saved what it had.
func (m *meters) ended(e ft.Eviction, a *attempt, now, deadline time.Time) {
	requeued := e.Stage == ft.Requeued || e.Ending == ft.Moved
	if requeued {
		m.requeues.WithLabelValues("notice").Inc()
	}
	late := !now.Before(a.end) || !deadline.IsZero() && deadline.Sub(now) < requeueMargin
	outcome, cause := "ended", ""
	switch {
	case requeued && e.Ask != "":
		outcome = "saved"
		if e.Lost != 0 {
			outcome = "unsaved"
			m.lost.WithLabelValues("since-checkpoint").Add(max(0, e.Lost.Seconds()))
			m.iterations.WithLabelValues("since-checkpoint").Add(float64(max(0, e.LostIterations)))
		}
	case a.end.IsZero() && requeued:
		cause = "no-signal"
	case requeued && late:
		outcome, cause = "grace-over", "grace-over"
	case requeued:
		outcome = "left"
	case e.Ending == ft.Finished:
		outcome = "finished"
	}
	if !a.end.IsZero() {
		m.checkpoints.WithLabelValues(outcome).Inc()
	}
	if cause != "" {
		m.lose(cause, a.start, now)
	}
}

// fell counts an attempt under burst-srun that died with its node, once: what it had
// done since its last checkpoint.
func (m *meters) fell(e ft.Eviction) {
	if r, counted := m.died[e.Job]; counted && r == e.Restarts {
		return
	}
	m.died[e.Job] = e.Restarts
	if e.Ending == ft.Moved {
		m.requeues.WithLabelValues("died").Inc()
	}
	m.lost.WithLabelValues("died").Add(max(0, e.Lost.Seconds()))
	m.iterations.WithLabelValues("died").Add(float64(max(0, e.LostIterations)))
}

// lose counts the run of an attempt whose start is known.
func (m *meters) lose(cause string, start, now time.Time) {
	if !start.IsZero() && now.After(start) {
		m.lost.WithLabelValues(cause).Add(now.Sub(start).Seconds())
	}
}

// startOf is when the attempt began to run; zero if it had not, or Slurm does
// not say.
func (m *meters) startOf(job uint32, restarts int) time.Time {
	snap := m.latest()
	if snap == nil {
		return time.Time{}
	}
	j, ok := snap.Jobs[job]
	if !ok || j.Restarts != restarts || j.State == "PENDING" || j.State == "CONFIGURING" {
		return time.Time{}
	}
	return j.Start
}

// nodesDied counts the jobs that lose their run with nodes that the cloud took
// without a word, each attempt once.
func (m *meters) nodesDied(nodes []string, now time.Time) {
	snap := m.latest()
	if len(nodes) == 0 || snap == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.died {
		if _, known := snap.Jobs[id]; !known {
			delete(m.died, id)
		}
	}
	for id, j := range snap.Jobs {
		if r, counted := m.died[id]; !runs(j) || counted && r == j.Restarts || !on(j, nodes) {
			continue
		}
		if a := m.moving[id]; a != nil && a.restarts == j.Restarts {
			continue // a notice came first: it is counted with it
		}
		m.died[id] = j.Restarts
		if j.Batch && j.Requeue {
			m.requeues.WithLabelValues("died").Inc()
		}
		m.lose("died", j.Start, now)
	}
}

func runs(j slurm.Job) bool { return j.State == "RUNNING" || j.State == "SUSPENDED" }

func on(j slurm.Job, nodes []string) bool {
	of, err := hostlist.Expand(j.Nodes)
	return err == nil && slices.ContainsFunc(of, func(n string) bool { return slices.Contains(nodes, n) })
}
