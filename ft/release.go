package ft

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

// saved is how long after a change slurmctld has it on disk: it writes 5 s after
// the first of several. Killed before, it forgets the change.
const saved = 10 * time.Second

// release clears the hold that Slurm puts on a requeued job, once for an
// attempt, and sees that it stays so. While the job's processes end, Slurm would
// forget it.
func (g *Guard) release(ctx context.Context, n *Notice, e *Eviction, s *sight) (err error) {
	a, release, err := g.hold(ctx, e)
	if err != nil {
		return err
	}
	defer release()
	if a.released {
		return g.moved(ctx, e, "")
	}
	again := func() error {
		a.requeued, a.held = false, false
		return g.again(ctx, n, e, s)
	}
	if s, err = g.queued(ctx, e, s); err != nil {
		return err
	}
	if s.over == "" && !s.requeued {
		return again()
	}
	if waits, err := g.putOff(ctx, e, a, s); waits || err != nil {
		return err
	}
	if e.Hold && a.held && (s.over != "" || !strings.HasPrefix(s.Reason, "JobHeld")) {
		a.released = true
		return g.moved(ctx, e, "") // an admin has let it go
	}
	switch err = g.letGo(ctx, e, a, s); {
	case errors.Is(err, slurm.ErrNoJob):
		return g.close(ctx, e, "the job is gone")
	case err != nil:
		return err
	}
	s, err = g.read(ctx, e)
	if err == nil && s.over == "" && !s.requeued {
		return again()
	}
	held, before := "", ""
	if err == nil {
		before = s.AdminComment
	}
	if err == nil && s.requeued && !e.Hold && strings.HasPrefix(s.Reason, "JobHeld") { // as one that was suspended is
		held = fmt.Sprintf("; it is held: \"scontrol release %d\" lets it start", e.Job)
	}
	said := fmt.Sprintf("%s; requeued %s", e.became(), time.Now().Local().Format(time.DateTime))
	text := said + held
	if e.Outcome != "" {
		text += "; " + e.Outcome
	}
	g.comment(ctx, e, text)
	if err := pause(ctx, saved); err != nil {
		return err
	}
	switch s, err = g.read(ctx, e); {
	case err != nil:
		return err
	case s.over == "" && !s.requeued:
		return again()
	case s.over != "" && s.ID != 0 && s.Restarts == e.Restarts:
		return g.close(ctx, e, s.over)
	case !e.Hold && !a.anew && s.heldAgain(before, said):
		a.anew = true
		return fmt.Errorf("job %d is not eligible before %s: Slurm has forgotten that its hold was cleared", e.Job, s.Eligible.Local().Format(time.DateTime))
	}
	a.released = true
	return g.moved(ctx, e, held)
}

// slurmHolds is how long Slurm holds a requeued job, where AuthInfo has no other
// cred_expire, and a moment.
const slurmHolds = 2*time.Minute + 5*time.Second

// heldAgain says that slurmctld was killed when it had saved the requeue, and with it
// the hold, but nothing of what came after. A start that a user has put off since is
// beside what was said of the job, or others have said something else since, and then it
// is not the requeue's hold: SubmitTime is when that was.
func (s *sight) heldAgain(before, said string) bool {
	if s.over != "" || !s.requeued || s.State != "PENDING" || !s.Eligible.After(time.Now().Add(time.Second)) {
		return false
	}
	return !strings.Contains(s.AdminComment, said) && (s.AdminComment == before || s.Eligible.Sub(s.Submitted) <= slurmHolds)
}

// queued waits until the job's processes have ended, if it is on its way into the queue.
func (g *Guard) queued(ctx context.Context, e *Eviction, s *sight) (_ *sight, err error) {
	for s == nil || s.requeued && s.State != "PENDING" {
		if s != nil {
			if err := glance(ctx, look/2); err != nil {
				return nil, err
			}
		}
		if s, err = g.read(ctx, e); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// letGo clears Slurm's hold of the job, or holds it for its user. The attempt is held.
func (g *Guard) letGo(ctx context.Context, e *Eviction, a *attempt, s *sight) error {
	restarts := e.Restarts + 1
	if s.requeued {
		restarts = s.Restarts // a slurmctld that was killed may have forgotten the attempt, and have it as it waited for that
	}
	err := g.command(ctx, time.Time{}, func() error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		switch {
		case e.Hold && a.held:
			return nil
		case e.Hold && s.requeued:
			return g.slurm.Hold(ctx, e.Job)
		}
		return g.slurm.Release(ctx, e.Job, restarts, time.Time{})
	})
	if err != nil && !errors.Is(err, slurm.ErrNotPending) {
		return fmt.Errorf("clearing the hold of job %d: %w", e.Job, err)
	}
	if !e.Hold || !s.requeued || a.held {
		return nil
	}
	next := *e
	next.Held = true
	if err := g.put(ctx, e, next); err != nil {
		return err
	}
	a.held = true
	return nil
}

// moved closes the eviction of a job that is in the queue again. It is looked after
// until it runs.
func (g *Guard) moved(ctx context.Context, e *Eviction, more string) error {
	next := *e
	next.Ending = Moved
	return g.closed(ctx, e, next, "requeued"+more)
}

// again goes back to the requeue: a slurmctld that was killed has come back
// with what it had saved before, the attempt runs on, and its node may take jobs.
func (g *Guard) again(ctx context.Context, n *Notice, e *Eviction, s *sight) error {
	if n.Kind == cloud.SpotInterruption {
		if _, err := g.set(ctx, n, "power_down_asap"); err != nil {
			return err
		}
	}
	next := *e
	next.Stage, next.Held = Signalled, false
	return errors.Join(fmt.Errorf("job %d is %s: Slurm has forgotten its requeue", e.Job, s.State), g.put(ctx, e, next))
}
