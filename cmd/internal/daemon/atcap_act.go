package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/spending"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
)

// sourceAtCap marks the notices that the site's budget gives.
const sourceAtCap = "burstd"

// saying is what a job's user is told, once for an attempt.
type saying struct {
	kind string // of an event that says so, too; empty: there is none
	text string
}

// say writes the event first: of a burstd that dies between the two the next writes it again.
func (a *atCap) say(ctx context.Context, c spending.Counted, s saying) error {
	key := saidOf{jobRun{c.ID, c.Restarts}, s.text}
	a.mu.Lock()
	said := a.said[key]
	a.mu.Unlock()
	if said {
		return nil
	}
	if !strings.Contains(c.AdminComment, s.text) {
		if s.kind != "" {
			event := ft.Event{Time: time.Now(), Kind: s.kind, Job: c.ID, Text: s.text}
			if err := a.journal.CommitFT(ctx, ft.Change{Events: []ft.Event{event}}); err != nil {
				return err
			}
		}
		text := "burst: " + s.text
		if err := a.client.UpdateJob(ctx, c.ID, slurm.JobUpdate{AdminComment: &text}); err != nil && !errors.Is(err, slurm.ErrNoJob) {
			return err
		}
	}
	a.mu.Lock()
	a.said[key] = true
	a.mu.Unlock()
	return nil
}

// requeue has the guard hear of the jobs' instances, and leaves those that would lose their work.
func (a *atCap) requeue(ctx context.Context, jobs []spending.Counted) error {
	now := time.Now()
	var due []spending.Counted
	for _, c := range jobs {
		t := jobRun{c.ID, c.Restarts}
		if was, of := a.of[t], budget.KeyOf(c.Cap.Scope, c.Cap.Period); was != of {
			a.of[t] = of
			delete(a.asked, t)
			if soon := now.Add(atCapLook); was.Scope == of.Scope && was.Length == of.Length { // its next period
				delete(a.next, t)
			} else if a.next[t].After(soon) { // of several caps now one, now the other may be spent
				a.next[t] = soon
			}
		}
		if now.Before(a.next[t]) {
			continue
		}
		if a.asked[t] > 0 && a.hub != nil && a.hub.Waited(t.job, t.restarts) {
			a.asked[t]--
		}
		due = append(due, c)
	}
	standing := a.engine.Standing()
	heard := map[jobRun]bool{} // true: it was asked
	err := together(due, func(c spending.Counted) error {
		why, err := a.guard.Loses(ctx, c.Nodes[0], c.Job)
		seen := true
		switch {
		case err != nil:
		case why != "":
			err = a.say(ctx, c, saying{"budget-finish", fmt.Sprintf("%s is spent; this job goes on to its end: %s", c.Cap.Short(), why)})
		default:
			seen, err = a.send(ctx, c, standing)
		}
		if err != nil || !seen {
			return err
		}
		if c.State == "CONFIGURING" { // it may have begun, and then have something to lose
			return nil
		}
		a.mu.Lock()
		heard[jobRun{c.ID, c.Restarts}] = why == ""
		a.mu.Unlock()
		return nil
	})
	for t, asked := range heard {
		if a.next[t] = now.Add(atCapLook); !asked {
			continue
		}
		if n := a.asked[t]; n > 0 { // the first notice may have met one that a burstd which was killed has left
			a.next[t] = now.Add(min(atCapAgain<<min(n-1, 8), atCapOwn))
		}
		a.asked[t]++
	}
	return err
}

// send gives the guard a notice for each of a job's instances; false: none is known yet. Each time it is
// another notice: the guard may have closed the one before, for a job that could not go then.
func (a *atCap) send(ctx context.Context, c spending.Counted, standing power.Standing) (bool, error) {
	var instances []power.Instance
	for _, node := range c.Nodes {
		if i, lives := standing.Instances[standing.Nodes[node].Instance]; lives {
			instances = append(instances, i)
		}
	}
	if len(instances) == 0 {
		return false, nil
	}
	if err := a.say(ctx, c, saying{"budget-requeue", c.Cap.Short() + " is spent; this job is checkpointed and requeued"}); err != nil {
		return false, err
	}
	a.mu.Lock()
	a.going[c.ID] = leaver{c.Restarts, c.Cap}
	a.mu.Unlock()
	now := time.Now()
	return true, together(instances, func(i power.Instance) error {
		return a.guard.Hear(ctx, i.Provider, cloud.Notice{Instance: i.ID, Kind: ft.Spent, Received: now, Source: sourceAtCap, Event: now.UTC().Format("20060102T150405.000")})
	})
}

// Goes implements ft.Purse.
func (a *atCap) Goes(j slurm.Job) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	l, ok := a.going[j.ID]
	return ok && l.restarts == j.Restarts
}

// PutOff implements ft.Purse: the job waits as one whose launch the budget refuses, until the cap counts
// anew.
func (a *atCap) PutOff(ctx context.Context, job uint32) (bool, error) {
	select {
	case <-a.known:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	snap, err := a.watcher.Fresh(ctx, time.Now())
	if err != nil {
		return false, err
	}
	a.mu.Lock()
	l, told := a.going[job]
	caps := a.caps
	a.mu.Unlock()
	if !told { // an earlier life has told it
		l.cap = longest(caps, snap.Jobs[job])
	}
	until := a.startOf(snap)(snap.Jobs[job], l.cap)
	if l.cap.Cap == 0 || !until.After(time.Now()) {
		return false, nil
	}
	return true, a.engine.PutOff(ctx, power.Off{Job: job, Budget: l.cap.Short(), Until: until})
}

// longest is the cap, of those that the job counts to, that has no room for longest; zero: it counts to none.
func longest(caps []budget.Row, j slurm.Job) (worst budget.Row) {
	for _, r := range caps {
		if r.Counts(budget.Owner{Job: j.ID, User: j.User, Account: j.Account}) && (worst.Cap == 0 || r.Longer(worst)) {
			worst = r
		}
	}
	return worst
}

// roomAt is when a job of the cap may be tried again.
func roomAt(r budget.Row) time.Time {
	if r.To.IsZero() {
		return time.Now().Add(atCapOwn)
	}
	return r.To
}

// startOf says when a job of the cap may be tried again. One that may begin at the site by the partition that it has the cloud by is not
// kept from that for long: what Slurm begins of it in the cloud goes back.
func (a *atCap) startOf(snap *slurm.Snapshot) func(slurm.Job, budget.Row) time.Time {
	mixed, soon := a.mixed(snap), time.Now().Add(atCapMixed)
	return func(j slurm.Job, cap budget.Row) time.Time {
		at := roomAt(cap)
		if soon.Before(at) && mixed(j) {
			return soon
		}
		return at
	}
}

func (a *atCap) mixed(snap *slurm.Snapshot) func(slurm.Job) bool {
	return snap.Mixed(func(n string) bool { return a.cloud[n] })
}

// cancel ends the jobs.
func (a *atCap) cancel(ctx context.Context, jobs []spending.Counted) error {
	return together(jobs, func(c spending.Counted) error {
		if to := c.Cap.To; !to.IsZero() && !time.Now().Before(to) {
			return nil // there is something to spend again: many jobs may have been before it
		}
		said := a.say(ctx, c, saying{"budget-cancel", c.Cap.Short() + " is spent; this job is being cancelled"})
		if said != nil && ctx.Err() != nil {
			return said
		}
		return errors.Join(said, a.client.CancelRunning(ctx, c.ID, func(j slurm.Job) bool { return j.Restarts == c.Restarts && a.inCloud(j) }))
	})
}

// inCloud says that the job has a node of a pool.
func (a *atCap) inCloud(j slurm.Job) bool {
	names, err := hostlist.Expand(j.Nodes)
	return err == nil && slices.ContainsFunc(names, func(n string) bool { return a.cloud[n] })
}

// close has Slurm give the jobs' nodes no others, and power them down when the jobs are over.
func (a *atCap) close(ctx context.Context, snap *slurm.Snapshot, jobs []spending.Counted) error {
	goes, stays := map[uint32]bool{}, map[string]bool{}
	for _, c := range jobs {
		goes[c.ID] = true
	}
	for _, j := range snap.Jobs {
		if goes[cmp.Or(j.HetID, j.ID)] || !spending.Runs(j) {
			continue
		}
		names, err := hostlist.Expand(j.Nodes)
		if err != nil {
			return fmt.Errorf("the nodes of job %d: %w", j.ID, err) // they may be these
		}
		for _, n := range names {
			stays[n] = true
		}
	}
	var nodes []string
	for _, c := range jobs {
		for _, n := range c.Nodes {
			state := snap.Nodes[n].State
			going := slices.ContainsFunc([]string{slurm.Drain, slurm.PowerDown, slurm.PoweringDown, slurm.PoweredDown, slurm.PoweringUp}, state.Has)
			if !stays[n] && !going && state.Base != "" {
				stays[n] = true // once is enough
				nodes = append(nodes, n)
			}
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	if err := a.client.UpdateNodes(ctx, slurm.NodeUpdate{Nodes: nodes, State: "power_down_asap", Reason: "burst: budget"}); err != nil {
		return fmt.Errorf("closing the nodes of jobs whose budget is spent: %w", err)
	}
	return nil
}
