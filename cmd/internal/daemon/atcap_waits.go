package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/spending"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
)

// A job that Slurm starts on a node which is up is no launch, and nobody is asked. So those that wait when a cap is spent
// are put off, some in each look; one that began before its turn came, or was submitted while a node was free, goes back as soon as it is
// seen:
//
//	PENDING ──put off──► PENDING, with a start when the cap counts anew, or without the cloud's partitions
//	   │ Slurm                 ▲
//	   ▼                       │
//	RUNNING, since the cap was spent: requeued and put off

const (
	// atCapWaiting is how many jobs that wait may be put off, and not be told yet: each takes some commands of Slurm.
	atCapWaiting = 100
	// atCapBegun is for how long a job that began at a spent cap has nothing to lose, unless it would be cancelled.
	atCapBegun = 5 * time.Minute
	// atCapRoom is for how long a cap must have had room again before those go on that it has put off.
	atCapRoom = 5 * time.Minute
	// atCapMixed is for how long a job of a partition that has nodes of the site and of the cloud is kept from both.
	atCapMixed = 10 * time.Minute
	// requeueHold is how long Slurm keeps a job from starting that was requeued, and some.
	requeueHold = 130 * time.Second
)

// spentSince notes since when caps have been spent, and says so in the events: a burstd that is started anew knows by
// them who began before. What had begun by now did so before.
func (a *atCap) spentSince(ctx context.Context, now time.Time, caps []budget.Row) error {
	const spent, room = " is spent", " has room again"
	if a.since == nil {
		all, err := a.store.EventsOf(ctx, "budget-spent", "budget-room")
		if err != nil {
			return err
		}
		a.since = map[string]time.Time{}
		for _, e := range all {
			if of, is := strings.CutSuffix(e.Text, spent); is {
				a.since[of] = e.Time
			} else {
				delete(a.since, strings.TrimSuffix(e.Text, room))
			}
		}
	}
	var begin, end []string
	var events []ft.Event
	for _, r := range caps {
		of := r.Short()
		switch was, reached := !a.since[of].IsZero(), r.Reached(100); {
		case reached && !was:
			begin, events = append(begin, of), append(events, ft.Event{Time: now, Kind: "budget-spent", Text: of + spent})
		case !reached && was:
			end, events = append(end, of), append(events, ft.Event{Time: now, Kind: "budget-room", Text: of + room})
		}
	}
	if len(events) == 0 {
		return nil
	}
	if err := a.journal.CommitFT(ctx, ft.Change{Events: events}); err != nil {
		return err
	}
	for _, of := range begin {
		a.since[of] = now
	}
	for _, of := range end {
		delete(a.since, of)
	}
	return nil
}

// newcomer says that the job has nothing to lose: it has not begun, or only since the cap was spent, and may be requeued. What began and
// was not seen for some time has work to lose by now, unless all of it would be lost.
func (a *atCap) newcomer(c spending.Counted) bool {
	word := a.cfg.Budget.AtCap
	switch {
	case !c.Batch:
		return false
	case c.State == "CONFIGURING":
		return word != config.RequeueJobs // the guard sends it back
	}
	since := a.since[c.Cap.Short()].Truncate(time.Second) // as Slurm says when a job began
	return c.Requeue && !since.IsZero() && !c.Start.Before(since) && (word == config.CancelJobs || time.Since(c.Start) < atCapBegun)
}

// sendBack requeues the jobs, which have nothing to lose, and has them wait. One that boots is put off first: it is
// told as soon as it waits, and until when, so that nothing more is said of it then. Of one that runs a burstd that dies in
// between leaves a job that waits, and is put off as such.
func (a *atCap) sendBack(ctx context.Context, snap *slurm.Snapshot, jobs []spending.Counted) error {
	start := a.startOf(snap)
	return together(jobs, func(c spending.Counted) error {
		off := power.Off{Job: c.ID, Budget: c.Cap.Short(), Until: start(c.Job, c.Cap)}
		if !off.Until.After(time.Now()) {
			return nil
		}
		boots, word := c.State == "CONFIGURING", "began after that"
		if boots {
			word = "has not begun"
		}
		if err := a.say(ctx, c, saying{"budget-back", fmt.Sprintf("%s is spent; this job %s, and is requeued", off.Budget, word)}); err != nil {
			return err
		}
		if boots {
			off.NoRequeue = !c.Requeue
			if h := a.engine.AllPutOff(time.Now())[c.ID]; h.Job == 0 || h.Released || off.NoRequeue && !h.NoRequeue {
				if err := a.engine.PutOff(ctx, off); err != nil {
					return err
				}
			}
		}
		if off.NoRequeue {
			yes := true
			if err := a.client.UpdateJob(ctx, c.ID, slurm.JobUpdate{Requeue: &yes}); err != nil {
				return err
			}
		}
		err := a.client.RequeueMeant(ctx, c.ID, func(j slurm.Job) bool {
			return j.Restarts == c.Restarts && (j.State == "CONFIGURING") == boots && a.inCloud(j)
		})
		if err != nil || boots {
			return err
		}
		return a.engine.PutOff(ctx, off)
	})
}

// putOffWaiting has those wait for their caps that count to one which is spent and may have nodes of the cloud, and
// lets those go on that were put off, if there is something to spend for them again: at the first look at once, as a
// cap may have been raised, later when there has been for atCapRoom; for their own budgets at the first look alone.
func (a *atCap) putOffWaiting(ctx context.Context, snap *slurm.Snapshot, caps []budget.Row) error {
	now := time.Now()
	off, mixed := a.engine.AllPutOff(now), a.mixed(snap)
	own, err := a.ownRoom(ctx, snap, off)
	if err != nil {
		return err
	}
	var offs []power.Off
	var free []uint32
	room := map[uint32]time.Time{}
	untold := 0
	for id, h := range off {
		if !h.Released {
			untold++
		}
		j, known := snap.Jobs[id]
		switch r := longest(caps, j); {
		case !known:
		case r.Cap == 0:
			if others, _ := h.ForBudget(); !others {
				if own[id] {
					free = append(free, id)
				}
				continue
			}
			if room[id] = a.room[id]; room[id].IsZero() {
				room[id] = now
			}
			if !a.looked || now.Sub(room[id]) >= atCapRoom {
				free = append(free, id)
			}
		case r.To.IsZero() || j.State != "PENDING":
		case mixed(j):
			if soon := now.Add(atCapMixed); h.Start.Sub(soon) > time.Second {
				offs = append(offs, power.Off{Job: id, Budget: r.Short(), Until: soon})
			}
		case r.To.Sub(h.Start) > time.Second, !a.looked && h.Start.Sub(r.To) > time.Second: // a longer one is spent, too; or a cap was raised
			offs = append(offs, power.Off{Job: id, Budget: r.Short(), Until: r.To})
		}
	}
	a.room = room
	if len(free) > 0 {
		if err := a.engine.LetGo(ctx, free...); err != nil {
			for _, id := range free {
				a.own[id] = a.own[id] || own[id] // it is asked again
			}
			return err
		}
	}
	wait := a.waiting(snap, caps, off)
	if len(wait) > atCapWaiting-untold {
		a.inTurn(ctx, wait)
		wait = wait[:max(0, atCapWaiting-untold)]
	}
	for _, j := range wait {
		r := longest(caps, j)
		offs = append(offs, power.Off{Job: j.ID, Budget: r.Short(), Until: roomAt(r)})
	}
	if len(offs) > 0 {
		if err := a.engine.PutOff(ctx, offs...); err != nil {
			return err
		}
	}
	a.looked = true
	return nil
}

// ownRoom says which jobs have something to spend of their own budgets again that were put off for those when burstd was started: while a job
// has no nodes no row tells how that stands.
func (a *atCap) ownRoom(ctx context.Context, snap *slurm.Snapshot, off map[uint32]power.Hold) (map[uint32]bool, error) {
	var jobs []slurm.Job
	for id, h := range off {
		if others, _ := h.ForBudget(); !others && !a.looked {
			a.own[id] = true
		}
		if j, known := snap.Jobs[id]; a.own[id] && known {
			jobs = append(jobs, j)
		}
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	asked, err := a.keeper.Ask(ctx, a.engine.Standing(), nil, jobs...)
	if err != nil {
		return nil, err
	}
	room := asked.OwnRoom(jobs...)
	for id := range room {
		delete(a.own, id)
	}
	return room, nil
}

// waiting are the jobs that could begin in the cloud before there is room for them, of a heterogeneous one the leader. Those of
// mixed partitions are none: they could begin at the site as well.
func (a *atCap) waiting(snap *slurm.Snapshot, caps []budget.Row, off map[uint32]power.Hold) (all []slurm.Job) {
	if len(caps) == 0 {
		return nil
	}
	ours, mixed := snap.Partitions(func(n string) bool { return a.cloud[n] }), a.mixed(snap)
	seen := map[uint32]bool{}
	for _, part := range snap.Jobs {
		if part.State != "PENDING" || !slices.ContainsFunc(strings.Split(part.Partition, ","), func(p string) bool { return ours[p] }) {
			continue
		}
		j, known := snap.Jobs[cmp.Or(part.HetID, part.ID)]
		if _, is := off[j.ID]; !known || is || seen[j.ID] || strings.HasPrefix(j.Reason, "JobHeld") || j.Reason == "Dependency" {
			continue // what waits for others begins after them: then it has its turn
		}
		seen[j.ID] = true
		// Whose user has set a start has its turn then.
		if wait := j.Eligible.Sub(snap.Taken); wait > 0 && (j.Restarts == 0 || wait > requeueHold) {
			continue
		}
		if r := longest(caps, j); r.Cap > 0 && !mixed(j) && j.Eligible.Before(roomAt(r).Add(-2*time.Second)) {
			all = append(all, j)
		}
	}
	return all
}

// inTurn sorts jobs as Slurm would start them, as far as it says so.
func (a *atCap) inTurn(ctx context.Context, jobs []slurm.Job) {
	priority := map[uint32]int64{}
	if all, err := a.client.Waiting(ctx); err == nil {
		for _, w := range all {
			priority[w.ID] = w.Priority
		}
	}
	slices.SortFunc(jobs, func(x, y slurm.Job) int {
		return cmp.Or(cmp.Compare(priority[y.ID], priority[x.ID]), x.Eligible.Compare(y.Eligible), cmp.Compare(x.ID, y.ID))
	})
}
