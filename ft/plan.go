package ft

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/directive"
)

// plan decides how a job is taken off the node.
func (g *Guard) plan(ctx context.Context, n *Notice, e *Eviction, j slurm.Job) error {
	next := *e
	next.Stage, next.Started, next.Lost, next.LostIterations, next.Retries = Planned, j.Start, -1, -1, -1
	if j.State != "CONFIGURING" || !movable(j) { // else its script has not begun: nothing to save
		a, release, err := g.hold(ctx, e)
		if err != nil {
			return err
		}
		err = g.ask(ctx, n, e, j, a)
		release()
		if err != nil {
			return err
		}
		next.Signal, next.Grace, next.Outcome, next.Ask, next.Retries = a.signal, a.grace, a.wrong, a.ask, a.retries
		stays := mild(n.Kind) && next.Ask != session.Stop // its steps have ended since
		if stays && n.Kind == Spent {
			why, err := g.Loses(ctx, n.Node, j)
			if err != nil {
				return err
			}
			stays = why != ""
		}
		if stays {
			return g.close(ctx, e, "left where it is")
		}
		if next.Ask != "" {
			next.By = g.by(n, e.Began)
		}
	}
	if err := g.journal.CommitFT(ctx, Change{Evictions: []Eviction{next}, Events: []Event{{
		Time: e.Began, Kind: "evict", Node: n.Node, Instance: n.Instance, Job: j.ID, Text: describe(next, j),
	}}}); err != nil {
		return err
	}
	*e = next
	return nil
}

// ask reads what the job's user wants, once for an attempt.
func (g *Guard) ask(ctx context.Context, n *Notice, e *Eviction, j slurm.Job, a *attempt) error {
	if a.asked {
		return nil
	}
	kind, retries, err := g.way(ctx, n, j)
	if err != nil {
		return err // our own journal: nothing goes on without it
	}
	a.retries = retries
	if kind != "" {
		a.asked, a.ask = true, kind
		return nil
	}
	d, err := g.directive(ctx, n, j)
	var wrong *directive.Error
	switch {
	case err == nil:
	case errors.As(err, &wrong):
		a.wrong = fmt.Sprintf("its directive cannot be read, the site's default holds: %v", err)
	case time.Since(e.Began) < g.patience(n, e):
		return err // Slurm did not answer: without its signal the job would lose its work
	default:
		a.wrong = fmt.Sprintf("its script cannot be read, the site's default holds: %v", err)
	}
	if a.wrong != "" {
		g.log.Warn(a.wrong, "job", j.ID)
	}
	if err != nil {
		d, err = directive.Merge(g.site(n.Node)...)
	}
	a.asked = true
	if err == nil && bounded(d) {
		a.retries = d.Retries
	}
	switch {
	case err != nil: // the configuration has been judged: never
		a.signal, a.grace = g.cfg.Signal, g.cfg.Grace
	case d.Startles(), d.Unnamed() && !movable(j): // and its burst-srun has no session
		a.signal, a.grace = "", 0
	default:
		a.signal, a.grace = d.Value("signal"), d.Grace
	}
	return nil
}

// bounded says whether a job without a session has bounded retries: its user asks for
// checkpoints, or says how often. Others are requeued as Slurm would.
func bounded(d directive.Merged) bool {
	own := func(key string) bool {
		return slices.Contains([]directive.Kind{directive.Script, directive.Comment, directive.Option}, d.From[key].Kind)
	}
	return own("retries") || d.Method != directive.None && own("ckpt")
}

// patience is how long Slurm is asked again for what it does not answer: at
// most half of the time that there was.
func (g *Guard) patience(n *Notice, e *Eviction) time.Duration {
	const most = 30 * time.Second
	if at := g.deadline(n); !at.IsZero() {
		return min(most, at.Sub(e.Began)/2)
	}
	return most
}

// directive is what holds for a job on the notice's node.
func (g *Guard) directive(ctx context.Context, n *Notice, j slurm.Job) (directive.Merged, error) {
	said := directive.Said{Comment: j.Comment, Site: directive.Defaults{Layers: g.site(n.Node)}}
	if j.Batch {
		err := g.command(ctx, g.deadline(n), func() (err error) {
			said.Script, err = g.slurm.BatchScript(ctx, j.ID)
			return err
		})
		if err != nil && !errors.Is(err, slurm.ErrNoJob) { // it may have ended, or have no script
			return directive.Merged{}, err
		}
	}
	return said.Merge()
}

// site is what the site says of jobs on a node.
func (g *Guard) site(node string) []directive.Layer {
	if p := g.pool(node); p.Site != nil || g.cfg.Signal == "" {
		return p.Site
	}
	signal := []directive.Setting{{Key: "signal", Value: g.cfg.Signal}, {Key: "grace", Value: g.cfg.Grace.String()}}
	return []directive.Layer{{Source: directive.Source{Kind: directive.Site}, Settings: signal}}
}

func describe(e Eviction, j slurm.Job) string {
	text := fmt.Sprintf("job %d (%s): ", j.ID, j.Name)
	switch {
	case e.Ask != "" && !e.By.After(time.Now()):
		text += "no time is left to ask its steps for anything"
	case e.Ask != "":
		text += "its steps are asked to " + string(e.Ask)
	case e.Signal == "":
		text += "no signal"
	default:
		text += "signal " + e.Signal
	}
	switch {
	case !movable(j):
		text += "; it cannot be requeued"
	case e.Ask != "":
		text += ", then it is requeued"
	case e.Signal == "":
		text += ", requeued at once"
	default:
		text += fmt.Sprintf(", up to %s to checkpoint, then requeued", e.Grace)
	}
	if e.Outcome != "" {
		text += "; " + e.Outcome
	}
	return text
}

// send signals the job, once for an attempt. The signal is sent before the
// stage is written: after a crash between the two it is sent twice, and never not at all.
func (g *Guard) send(ctx context.Context, n *Notice, e *Eviction, j slurm.Job) error {
	a, release, err := g.hold(ctx, e)
	if err != nil {
		return err
	}
	defer release()
	if !a.signalled.IsZero() {
		return g.sent(ctx, e, a.signalled)
	}
	if e.Ask != "" && running(j) {
		err := g.request(ctx, n, e, a)
		if err != nil && time.Since(e.Began) < g.patience(n, e) {
			return err
		}
		if err != nil {
			g.log.Warn("the job's steps could not be asked", "job", e.Job, "error", err)
		}
	}
	if e.Signal != "" && running(j) && !deaf(j) {
		name, batch := strings.CutPrefix(e.Signal, "B:")
		err := g.command(ctx, g.deadline(n), func() error {
			return g.slurm.Signal(ctx, e.Job, slurm.Signal{Name: name, Batch: batch})
		})
		if err != nil && time.Since(e.Began) < g.patience(n, e) {
			return err // lost, or the job is ending: what became of it is read again
		}
		if err != nil {
			g.log.Warn("the job did not get its signal", "job", e.Job, "signal", e.Signal, "error", err)
		}
	}
	at := time.Now()
	if e.Signal != "" || e.Ask != "" {
		a.signalled = at
	}
	if !movable(j) {
		g.comment(ctx, e, fmt.Sprintf("node %s is taken back by the cloud at %s; this job cannot be requeued and ends then", n.Node, g.deadline(n).Local().Format(time.TimeOnly)))
	}
	return g.sent(ctx, e, at)
}

// deaf says that the job takes no signal: scancel would try for 81 s.
func deaf(j slurm.Job) bool { return j.State == "SUSPENDED" || j.State == "CONFIGURING" }

func (g *Guard) sent(ctx context.Context, e *Eviction, at time.Time) error {
	next := *e
	next.Stage, next.SignalledAt = Signalled, at
	return g.put(ctx, e, next)
}

// put writes the eviction as it is to be.
func (g *Guard) put(ctx context.Context, e *Eviction, next Eviction, events ...Event) error {
	if err := g.journal.CommitFT(ctx, Change{Evictions: []Eviction{next}, Events: events}); err != nil {
		return err
	}
	*e = next
	return nil
}
