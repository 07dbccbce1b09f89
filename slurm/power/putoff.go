package power

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// isSpent ends why a job waits that was put off.
const isSpent = " is spent"

// roomAgain is why a job starts that was put off.
const roomAgain = "there is something to spend for it again"

// longestOff is for how long a job may be put off: to the end of a month.
const longestOff = 32 * 24 * time.Hour

// Off is a job that is put off, by which budget and until when.
type Off struct {
	Job    uint32
	Budget string
	Until  time.Time
	// NoRequeue: it has nodes that it has not begun on, and was submitted with --no-requeue. It may be requeued
	// until it waits again.
	NoRequeue bool
}

// PutOff has jobs wait as those whose launch the budget refuses: they are told that what may be spent
// is, and start at their time. A job that waits, and has a place at the site too, is not kept from that. That is in the
// journal when PutOff returns. It holds until LetGo, also when burstd is started anew with a budget.
func (e *Engine) PutOff(ctx context.Context, jobs ...Off) error {
	return e.do(ctx, func(ctx context.Context) error {
		var c Change
		for _, j := range jobs {
			hold(&c, e.mem, j.Job, j.Until, overBudget+j.Budget+isSpent)
			c.Holds[len(c.Holds)-1].NoRequeue = c.Holds[len(c.Holds)-1].NoRequeue || j.NoRequeue
		}
		return e.commit(ctx, c)
	})
}

// LetGo has jobs start at once that were put off: there is something to spend for them again.
func (e *Engine) LetGo(ctx context.Context, jobs ...uint32) error {
	return e.do(ctx, func(ctx context.Context) error {
		var c Change
		for _, id := range jobs {
			h := e.mem.holds[id]
			switch {
			case !h.putOff():
			case e.mem.placed[id] == h:
				c.DropHolds = append(c.DropHolds, id) // it was given no start, and told nothing
			default:
				h.Start, h.Released, h.Why = time.Now(), false, roomAgain
				c.Holds = append(c.Holds, h)
			}
		}
		return e.commit(ctx, c)
	})
}

// NotPlaced says that jobs which a budget keeps from the cloud could not be given their place at the site
// alone: they wait with their whole start, and are told so.
func (e *Engine) NotPlaced(ctx context.Context, jobs ...uint32) error {
	return e.do(ctx, func(ctx context.Context) error {
		var c Change
		for _, id := range jobs {
			if h := e.mem.holds[id]; h.putOff() && e.mem.placed[id] == h {
				h.Released = false // it is to be told
				c.Holds = append(c.Holds, h)
			}
		}
		e.mu.Lock()
		maps.DeleteFunc(e.mem.unplaced, func(id uint32, _ bool) bool { _, waits := e.mem.holds[id]; return !waits })
		for _, id := range jobs {
			e.mem.unplaced[id] = true
		}
		e.mu.Unlock()
		return e.commit(ctx, c)
	})
}

// AllPutOff are the jobs that wait since they were put off, by id.
func (e *Engine) AllPutOff(now time.Time) map[uint32]Hold {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[uint32]Hold{}
	for id, h := range e.mem.holds {
		if h.putOff() && h.Start.After(now) {
			all[id] = h
		}
	}
	return all
}

// errPlaced: the job has its place at the site, and the start that it has is not touched.
var errPlaced = errors.New("the job has a place at the site")

// placed says that a job that waits has, or is to have, its place at the site, from which the budget does not keep it: it has
// no partition of the cloud, or others beside, and then loses those of the cloud (see slurm/overflow). What Slurm has
// requeued this minute is given its start first: until it has lost them it is not to go to and fro.
func (e *Engine) placed(snap *slurm.Snapshot, j slurm.Job) bool {
	if !e.inCloud(snap, j) {
		return true
	}
	if e.cannotPlace(j.ID) {
		return false
	}
	if j.HetID != 0 || j.Reason == "BeginTime" || j.Reason == "Cleaning" || j.Eligible.After(snap.Taken) {
		return false
	}
	cloud := snap.Partitions(func(n string) bool { return e.poolOf[n] != "" })
	all := snap.Partitions(func(n string) bool { return e.poolOf[n] == "" })
	return slices.ContainsFunc(strings.Split(j.Partition, ","), func(p string) bool { return all[p] && !cloud[p] })
}

// notePlaced notes that the job of a hold has its place at the site, for as long as the hold is the same.
func (e *Engine) notePlaced(h Hold) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.mem.placed, func(id uint32, h Hold) bool { return e.mem.holds[id] != h })
	e.mem.placed[h.Job] = h
}

func (e *Engine) cannotPlace(job uint32) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mem.unplaced[job]
}

// inCloud says that the job, or of a heterogeneous one a part, may have nodes of a pool by its partitions.
func (e *Engine) inCloud(snap *slurm.Snapshot, j slurm.Job) bool {
	for _, part := range snap.Jobs {
		if part.ID != j.ID && (j.HetID == 0 || part.HetID != j.HetID) {
			continue
		}
		for _, p := range e.pools {
			if slices.ContainsFunc(p.Nodes, func(n string) bool { return inPartition(p, snap.Nodes[n], part) }) {
				return true
			}
		}
	}
	return false
}

func (h Hold) putOff() bool {
	return strings.HasPrefix(h.Why, overBudget) && strings.HasSuffix(h.Why, isSpent)
}
