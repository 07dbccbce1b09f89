package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow"
	"github.com/burst-hpc/burst/slurm/power"
)

// overflowReads keeps what is read of Slurm now and then. It serves the rounds and those who ask
// for a plan.
type overflowReads struct {
	mu         sync.Mutex
	partitions map[string]overflow.Partition
	shown      time.Time
	scripts    map[overflow.ScriptID]overflow.Script
	refusals   map[asked]refusal
	newest     seen
	looking    sync.Mutex         // of those who explain: one reads for all
	dear       map[uint32]dearJob // for which a budget never has room
	aside      map[uint32]time.Time
	rests      map[overflow.ScriptID]resting
	told       map[overflow.ScriptID]time.Time // jobs, what keeps them
	unread     map[string]bool                 // words of squeue's that have been told
}

// firstUnread is the first of those whose word of squeue's nobody knows, each word once.
func (r *overflowReads) firstUnread(waiting []slurm.Waiting) *slurm.Waiting {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, w := range waiting {
		if w.Unread == "" || r.unread[w.Unread] {
			continue
		}
		if r.unread == nil {
			r.unread = map[string]bool{}
		}
		r.unread[w.Unread] = true
		return &waiting[i]
	}
	return nil
}

// dearJob is what a job was that a budget has refused for ever, by its hold's start.
type dearJob struct {
	start      time.Time
	limit      time.Duration
	partitions string
	nodes      int
	comment    string
}

// changed says that the job is not what it was any more when it was refused; each is as it was first seen since. In
// other partitions Slurm may count other nodes for the same CPUs.
func (r *overflowReads) changed(w slurm.Waiting, h power.Hold) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := dearJob{h.Start, w.TimeLimit, w.Partition, w.NumNodes, w.Comment}
	was, known := r.dear[w.ID]
	if !known || !was.start.Equal(h.Start) {
		if r.dear == nil {
			r.dear = map[uint32]dearJob{}
		}
		r.dear[w.ID], was = now, now
	}
	if was.partitions != now.partitions {
		was.partitions, was.nodes = now.partitions, now.nodes
		r.dear[w.ID] = was
	}
	return now != was
}

// forgetDear forgets those that wait for another reason now, or not any more.
func (r *overflowReads) forgetDear(held map[uint32]power.Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.dear, func(id uint32, _ dearJob) bool { return !held[id].Never() })
}

// snapshot reads Slurm, the running jobs at least as late as since.
func (d *Daemon) snapshot(ctx context.Context, since time.Time) (s overflow.Snapshot, err error) {
	snap, err := d.watcher.Fresh(ctx, since)
	if err == nil && time.Since(snap.Taken) > overflowEvery {
		snap, err = d.watcher.Fresh(ctx, time.Now())
	}
	if err != nil {
		return s, err
	}
	held := d.backNow() // before it is seen whose start is that of a hold: one that gets it in between is for the next round
	// After the others: a job that begins in between is in neither, and counts as waiting.
	waiting, err := d.client.Waiting(ctx)
	if err != nil {
		return s, err
	}
	if w := d.overflows.firstUnread(waiting); w != nil {
		d.log.Warn("squeue says what this version of Burst does not know; overflow takes such jobs for some of whole nodes", "word", w.Unread, "job", w.ID)
	}
	d.overflows.look(seen{snap, waiting})
	return d.snapshotOf(ctx, seen{snap, waiting}, held)
}

func (d *Daemon) backNow() map[uint32]power.Hold {
	if len(d.cfg.Pools) == 0 {
		return nil
	}
	return d.engine.Back(time.Now())
}

// lately is snapshot for those who explain: of a reading that has begun at since or later, if there is one.
func (d *Daemon) lately(ctx context.Context, since time.Time) (overflow.Snapshot, error) {
	d.overflows.looking.Lock()
	defer d.overflows.looking.Unlock()
	if last := d.overflows.looked(); last.snap != nil && !last.snap.Taken.Before(since) {
		return d.snapshotOf(ctx, last, d.backNow())
	}
	return d.snapshot(ctx, since)
}

func (d *Daemon) snapshotOf(ctx context.Context, of seen, held map[uint32]power.Hold) (s overflow.Snapshot, err error) {
	s = overflow.Snapshot{Now: time.Now(), Waiting: of.waiting, Jobs: of.snap.Jobs, Scripts: d.overflows.kept(of.waiting)}
	s.Partitions, err = d.overflows.shownBy(ctx, d.client, of.snap)
	s.Closed, s.Back, s.Refused = d.closed(), d.back(of.waiting, held), d.overflows.refusedNow(s.Now)
	ours := d.poolNodes()
	s.Cloud = of.snap.Partitions(func(n string) bool { return ours[n] })
	s.Spot, s.Aside, s.Rests = d.cfg.SpotPartitions(), d.overflows.asideNow(), d.overflows.restsNow()
	return s, err
}

// watchAside notes since when rows with jobs that were moved do not want to start, as far as rounds have seen it.
func (r *overflowReads) watchAside(s *overflow.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	moved := map[uint32]bool{}
	for _, rec := range s.Records {
		moved[rec.Job] = true
	}
	was := r.aside
	r.aside = map[uint32]time.Time{}
	for i := range s.Waiting {
		w := &s.Waiting[i]
		if !moved[w.ID] && !moved[w.ArrayID] || !overflow.Aside(w) {
			continue
		}
		since, seen := was[w.ID]
		if !seen {
			since = s.Now
		}
		r.aside[w.ID] = since
	}
	s.Aside = maps.Clone(r.aside)
}

func (r *overflowReads) asideNow() map[uint32]time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.aside)
}

// closed are the partitions of which no pool launches anything now: a job that were given their nodes
// would only have to wait, at the site too.
func (d *Daemon) closed() map[string]string {
	var closed map[string]string
	open := map[string]bool{}
	for _, p := range d.cfg.Pools {
		why := d.engine.Closed(p.Power.Name)
		if open[p.Slurm.Partition] = open[p.Slurm.Partition] || why == ""; why != "" {
			if closed == nil {
				closed = map[string]string{}
			}
			closed[p.Slurm.Partition] = why
		}
	}
	maps.DeleteFunc(closed, func(partition, _ string) bool { return open[partition] })
	return closed
}

// back are the jobs that a pool gave back for want of nodes, for the time until they may start. One that waits in
// partitions of pools alone is left to them: it has no place of its own to go back to.
func (d *Daemon) back(waiting []slurm.Waiting, held map[uint32]power.Hold) map[uint32]overflow.Back {
	d.overflows.forgetDear(held)
	if len(held) == 0 {
		return nil
	}
	all := map[uint32]overflow.Back{}
	pools := func(partition string) bool {
		return slices.ContainsFunc(d.cfg.Pools, func(p config.Pool) bool { return p.Slurm.Partition == partition })
	}
	for i, w := range waiting {
		h, ok := held[w.ID]
		if !ok || !slices.ContainsFunc(strings.Split(w.Partition, ","), func(p string) bool { return !pools(p) }) {
			continue
		}
		b := overflow.Back{Until: h.Start, Why: h.Why, Budget: h.OverBudget(), Untold: !h.Released, Never: h.Never()}
		if b.Never && d.overflows.changed(w, h) {
			continue
		}
		var budget bool
		if budget, b.Cluster = h.ForBudget(); budget {
			b.Of = &waiting[i]
		}
		all[w.ID] = b
	}
	return all
}

// shownBy are the partitions, read anew each minute.
func (r *overflowReads) shownBy(ctx context.Context, c *slurm.Client, snap *slurm.Snapshot) (map[string]overflow.Partition, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.shown) < overflowShown {
		return r.partitions, nil
	}
	shown, err := c.ShowPartitions(ctx)
	if err != nil {
		return nil, err
	}
	connected, err := c.Connected(ctx)
	if err != nil {
		return nil, err
	}
	r.partitions, r.shown = overflow.PartitionsOf(shown, snap.Nodes, connected), time.Now()
	return r.partitions, nil
}

// kept are the scripts that were read, of jobs that wait; the others are forgotten, with what
// Slurm has refused of them, their rests, and when they were told.
func (r *overflowReads) kept(waiting []slurm.Waiting) map[overflow.ScriptID]overflow.Script {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.scripts)+len(r.refusals)+len(r.rests)+len(r.told) == 0 {
		return nil
	}
	all, wait := map[overflow.ScriptID]overflow.Script{}, map[overflow.ScriptID]bool{}
	for _, w := range waiting {
		id := overflow.ScriptOf(w.Job)
		wait[id] = true
		if s, ok := r.scripts[id]; ok {
			all[id] = s
		}
	}
	maps.DeleteFunc(r.refusals, func(a asked, _ refusal) bool { return !wait[a.ScriptID] })
	maps.DeleteFunc(r.rests, func(id overflow.ScriptID, _ resting) bool { return !wait[id] })
	maps.DeleteFunc(r.told, func(id overflow.ScriptID, _ time.Time) bool { return !wait[id] })
	r.scripts = all
	return all
}

// scripts reads those that decide, some in each round, and says how many it has tried to read. Of a job
// that was moved before burstd started it is read again. One that cannot be read keeps nobody else waiting.
func (o *overflowing) scripts(ctx context.Context, p overflow.OnPrem, plan []overflow.Decision) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, overflowRead)
	defer cancel()
	var errs []error
	for _, dec := range plan {
		if dec.Job == nil || !dec.Script && dec.Action != overflow.Keep && dec.Action != overflow.Seen {
			continue
		}
		id := overflow.ScriptOf(dec.Job.Job)
		if o.overflows.has(id) || o.overflows.waits(asked{id, readIt}) {
			continue
		}
		if n == overflowScripts || len(errs) == overflowFails || ctx.Err() != nil {
			break
		}
		n++
		if err := o.overflows.readScript(ctx, o.client, p, dec.Job.Job); err != nil {
			errs = append(errs, err)
		}
	}
	return n, errors.Join(errs[:min(len(errs), 3)]...)
}

func (r *overflowReads) has(id overflow.ScriptID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.scripts[id]
	return ok
}

// readScript reads a job's script, once; one that Slurm does not give is tried again later.
func (r *overflowReads) readScript(ctx context.Context, c *slurm.Client, p overflow.OnPrem, j slurm.Job) error {
	ctx, cancel := context.WithTimeout(ctx, afterAnswer)
	defer cancel()
	text, err := c.BatchScript(ctx, j.ID)
	if err != nil && !errors.Is(err, slurm.ErrNoJob) { // it has ended this moment, or has none
		r.refused(asked{overflow.ScriptOf(j), readIt}, fmt.Sprintf("its script cannot be read: %v", err), store.Overflowed{})
		return err
	}
	r.done(asked{overflow.ScriptOf(j), readIt})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.scripts == nil {
		r.scripts = map[overflow.ScriptID]overflow.Script{}
	}
	r.scripts[overflow.ScriptOf(j)] = p.Read(text)
	return nil
}
