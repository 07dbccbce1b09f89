package power

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// Pause is an admin's word that no pool launches: what waits for its call is
// given back, as of stopped pools. What boots or is up goes on. No Since: there is none.
type Pause struct {
	Since   time.Time
	By, Why string
}

// pausedText is in what jobs are told that wait for the end of a pause; by it
// they are known again.
const pausedText = "launches are paused: "

// Pause has no pool launch any more, until Unpause. By says who asked. A second
// one changes the reason only.
func (e *Engine) Pause(ctx context.Context, by, why string) error {
	return e.do(ctx, func(ctx context.Context) error {
		now := time.Now()
		p := Pause{Since: e.mem.pause.Since, By: by, Why: PauseReason(why, by)}
		if p.Since.IsZero() {
			p.Since = now
		}
		return e.commit(ctx, Change{Pause: &p, Events: []Event{PausedEvent(now, p.Why)}})
	})
}

// PauseReason is a pause's Why: one line that names who asked.
func PauseReason(why, by string) string { return oneLine(fmt.Sprintf("%s (by %s)", why, by)) }

// PausedEvent tells of the begin of a pause with this Why.
func PausedEvent(now time.Time, why string) Event {
	return Event{Time: now, Kind: "paused", Text: why + "; no pool launches until `burst resume`"}
}

// Unpause has the pools launch again, and the jobs that wait for it start. By
// says who asked. It is no error that there is no pause.
func (e *Engine) Unpause(ctx context.Context, by string) error {
	snap := e.jobsNow(ctx)
	return e.do(ctx, func(ctx context.Context) error {
		if e.mem.pause.Since.IsZero() {
			return nil
		}
		c := Change{Pause: &Pause{}, Events: []Event{{Time: time.Now(), Kind: "resumed", Text: "by " + by}}}
		unhold(&c, e.mem, snap, pausedText, "launches are not paused any more")
		return e.commit(ctx, c)
	})
}

// Paused says since when no pool launches, by whose word and why; a zero time:
// they do. It may be called at any time.
func (e *Engine) Paused() (since time.Time, by, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mem.pause.Since, e.mem.pause.By, e.mem.pause.Why
}

// unhold plans that the jobs start now of which the reason to wait has this
// text. Those that have been told are told again, but for those whose user has
// chosen another start since. Without a snapshot that is not known.
func unhold(c *Change, m *memory, snap *slurm.Snapshot, text, why string) {
	now := time.Now()
	for _, id := range slices.Sorted(maps.Keys(m.holds)) {
		h := m.holds[id]
		told := slices.ContainsFunc(c.Holds, func(o Hold) bool { return o.Job == id })
		if told || !strings.Contains(h.Why, text) || ownStart(snap, h, now) { // a node may be named before it
			continue
		}
		c.Holds = append(c.Holds, Hold{Job: id, Start: now, Why: why, NoRequeue: h.NoRequeue && !h.Released})
	}
}

// ownStart says that the job waits for another start than the one that was set.
func ownStart(snap *slurm.Snapshot, h Hold, now time.Time) bool {
	if snap == nil || !h.Released {
		return false
	}
	const slack = 2 * time.Second // Slurm has whole seconds
	j, known := snap.Jobs[h.Job]
	return known && j.State == "PENDING" && j.Eligible.After(now.Add(slack)) && j.Eligible.Sub(h.Start).Abs() > slack
}

// jobsNow reads Slurm for unhold; nil: it does not answer, which is no reason
// to leave anything paused.
func (e *Engine) jobsNow(ctx context.Context) *slurm.Snapshot {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	snap, err := e.slurm.Fresh(ctx, time.Now())
	if err != nil {
		e.log.Warn("jobs that wait start now, whatever start their users have chosen meanwhile: Slurm does not answer", "error", err)
		return nil
	}
	return snap
}
