package power

import (
	"context"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// While nodes are up Slurm is read every watchPace, less or more by a fifth,
// and no more often than once in watchShare of what a reading takes: a large
// site's slurmctld has other things to do.
const (
	watchPace  = 5 * time.Second
	watchShare = 50
)

// watch is the look at Slurm between two rounds.
type watch struct {
	next    time.Time
	doubted map[string]sighting // nodes that do not answer Slurm
}

// watchSlurm looks for nodes that do not answer. That alone says nothing of
// them (a VPN flaps): it is a reason to ask the cloud.
func (e *Engine) watchSlurm(ctx context.Context) (time.Duration, error) {
	const what = "watch"
	if len(e.mem.inPhase(Up)) == 0 && len(e.attempts) == 0 || e.flying[what] {
		return 0, nil
	}
	if wait := time.Until(e.watch.next); wait > 0 {
		return wait, nil
	}
	e.flying[what] = true
	e.beside(ctx, func(ctx context.Context) func(context.Context) {
		began := time.Now()
		snap, err := e.slurm.Fresh(ctx, began.Add(-watchPace/2)) // another's reading will do
		took := time.Since(began)
		return func(ctx context.Context) {
			delete(e.flying, what)
			pace := max(watchPace, watchShare*took)
			e.watch.next = time.Now().Add(pace*4/5 + rand.N(pace*2/5))
			if err == nil {
				err = e.observe(ctx, snap)
			}
			if err != nil {
				e.log.Debug("a look at Slurm failed", "error", err) // a round says it
				return
			}
			e.Ask(e.doubtful(snap)...)
		}
	})
	return 0, nil
}

// doubtful are the instances of nodes that do not answer Slurm, when they are
// to be asked about: at first, and then less and less often.
func (e *Engine) doubtful(snap *slurm.Snapshot) []string {
	var ask []string
	silent := map[string]bool{}
	for _, n := range e.mem.inPhase(Up) {
		if !n.Since.Before(snap.Taken) || powerOf(snap, n.Name) != down {
			continue
		}
		silent[n.Name] = true
		s := e.watch.doubted[n.Name].seen(n.Instance, snap.Taken)
		e.watch.doubted[n.Name] = s
		if s.times&(s.times-1) == 0 || s.times%8 == 0 {
			ask = append(ask, n.Instance)
		}
	}
	maps.DeleteFunc(e.watch.doubted, func(node string, _ sighting) bool { return !silent[node] })
	return ask
}
