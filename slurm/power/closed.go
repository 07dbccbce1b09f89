package power

import (
	"strings"
	"time"
)

// Closed says why the pool launches nothing, whatever job asks and at whichever of its
// sources: all are paused, or it is stopped. "": it launches.
func (e *Engine) Closed(pool string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := ""
	for _, s := range e.pools[pool].Sources() {
		why, stopped := e.mem.stopped(pool, s.Provider)
		if !stopped {
			return ""
		}
		if first == "" {
			first = why
		}
	}
	return first
}

// Back are the jobs that were given back for want of nodes, were told why, and do not start before
// a time after now, by id; those that are put off also while they are told, again perhaps (see Released); also those for which a budget never has room, for a day: what they could cost differs
// with the hour, and with what is to be had.
func (e *Engine) Back(now time.Time) map[uint32]Hold {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all map[uint32]Hold
	for id, h := range e.mem.holds {
		if (h.Released || h.putOff()) && (h.Start.After(now) || h.Never() && now.Sub(h.Start) < neverAgain) {
			if all == nil {
				all = map[uint32]Hold{}
			}
			all[id] = h
		}
	}
	return all
}

// ForBudget says whether the job waits for a cap on what may be spent that is not its own, and
// whether that is the cluster's, not its user's or account's.
func (h Hold) ForBudget() (waits, cluster bool) {
	_, cap, found := strings.Cut(h.Why, overBudget)
	return found && !strings.HasPrefix(cap, "job "), strings.HasPrefix(cap, "the cluster's ")
}

// OverBudget says that the job waits for a budget, be it its own.
func (h Hold) OverBudget() bool { return strings.Contains(h.Why, overBudget) }

const neverAgain = 24 * time.Hour

// neverFits ends why a job waits for which a budget never has room.
const neverFits = ", unless the job is changed"

// Never says that a budget has no room for the job as it is, whatever else is spent. After a start of burstd that is not known.
func (h Hold) Never() bool {
	return strings.HasPrefix(h.Why, overBudget) && strings.HasSuffix(h.Why, neverFits)
}
