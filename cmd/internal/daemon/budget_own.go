package daemon

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/cmd/internal/spending"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/directive"
)

const (
	ownAtOnce = 4    // scripts that are read at once
	ownKept   = 5000 // scripts of which the budget is kept, whether Slurm shows their jobs or not

	noneAgain = time.Minute // after it a script that Slurm has not is asked for again: it may have been wrong once
)

// ownBudgets reads budget= of batch scripts beside the engine, each once, and wakes it. Those that
// were asked for last are read first.
type ownBudgets struct {
	ctx   context.Context
	slurm interface {
		BatchScript(ctx context.Context, id uint32) (string, error)
	}
	latest func() *slurm.Snapshot
	wake   func()

	mu      sync.Mutex
	known   map[uint32]spending.Own // by scriptKey
	none    map[uint32]time.Time    // by scriptOf: when Slurm had no script of jobs; of others of the array it may have
	waiting map[uint32]uint64       // those to be read, by the same: which question was the last for it
	asks    []scriptAsk             // all of them, with some that are over
	reading map[uint32]bool
	asked   uint64 // counts the questions
	kept    int    // as many are known, or none, before those are dropped that Slurm does not show
}

// scriptAsk is a question for a script, that of job id.
type scriptAsk struct {
	key, id uint32
	at      uint64
}

// scriptKey is whose script a job has: its own, its array's or its first part's.
func scriptKey(j slurm.Job) uint32 { return cmp.Or(j.HetID, j.ArrayID, j.ID) }

// scriptOf is the job by which Slurm is asked for the script: an array's tasks have it as long as Slurm knows them.
func scriptOf(j slurm.Job) uint32 { return cmp.Or(j.HetID, j.ID) }

func newOwnBudgets(ctx context.Context, client *slurm.Client, latest func() *slurm.Snapshot, wake func()) *ownBudgets {
	return &ownBudgets{ctx: ctx, slurm: client, latest: latest, wake: wake, kept: ownKept,
		known: map[uint32]spending.Own{}, none: map[uint32]time.Time{}, waiting: map[uint32]uint64{}, reading: map[uint32]bool{}}
}

// of is spending.Keeper.Own. What the comment says is over the script.
func (b *ownBudgets) of(j slurm.Job) (spending.Own, bool) {
	said, _, err := directive.ReadComment(j.Comment)
	if own := ownOf(said, err, j.Comment); own != (spending.Own{}) {
		return own, true
	}
	if !j.Batch {
		return spending.Own{}, true
	}
	key := scriptKey(j)
	b.mu.Lock()
	defer b.mu.Unlock()
	own, known := b.known[key]
	at, none := b.none[scriptOf(j)]
	if !known && none && time.Since(at) < noneAgain {
		return spending.Own{}, true
	}
	if !known && !b.reading[key] {
		b.asked++
		b.waiting[key] = b.asked
		b.asks = append(b.asks, scriptAsk{key, scriptOf(j), b.asked})
		if len(b.asks) > 2*len(b.waiting)+ownAtOnce {
			b.asks = slices.DeleteFunc(b.asks, b.over)
		}
		if len(b.reading) < ownAtOnce {
			b.next()
		}
	}
	return own, known || none
}

// next begins to read the script that was asked for last.
func (b *ownBudgets) next() {
	for n := len(b.asks); n > 0; n-- {
		last := b.asks[n-1]
		b.asks = b.asks[:n-1]
		if !b.over(last) {
			delete(b.waiting, last.key)
			b.reading[last.key] = true
			go b.read(last.key, last.id)
			return
		}
	}
}

// over says that the script is not waited for any more, or was asked for again.
func (b *ownBudgets) over(a scriptAsk) bool { return b.waiting[a.key] != a.at }

func (b *ownBudgets) read(key, id uint32) {
	text, err := b.script(id)
	if errors.Is(err, slurm.ErrNoJob) && b.shown(id) { // a launch may wait for this answer
		pauseOr(b.ctx, afterPause)
		text, err = b.script(id)
	}
	if err != nil && !errors.Is(err, slurm.ErrNoJob) && b.ctx.Err() == nil {
		pauseOr(b.ctx, afterPause) // it is asked for again
	}
	b.mu.Lock()
	delete(b.reading, key)
	if len(b.known)+len(b.none) >= b.kept {
		b.drop()
	}
	switch {
	case err == nil:
		l, err := directive.ReadScript(text)
		b.known[key] = ownOf(l, err, text)
		delete(b.none, id)
	case errors.Is(err, slurm.ErrNoJob): // as one task of an array that has just ended: the others still ask
		b.none[id] = time.Now()
	}
	b.next()
	b.mu.Unlock()
	b.wake()
}

func (b *ownBudgets) script(id uint32) (string, error) {
	ctx, cancel := context.WithTimeout(b.ctx, afterAnswer)
	defer cancel()
	return b.slurm.BatchScript(ctx, id)
}

// shown says that Slurm shows the job as one that is not over.
func (b *ownBudgets) shown(id uint32) bool {
	snap := b.latest()
	if snap == nil {
		return false
	}
	j, known := snap.Jobs[id]
	return known && !history.Over(j)
}

// drop forgets the scripts of jobs that Slurm does not show.
func (b *ownBudgets) drop() {
	snap := b.latest()
	if snap == nil {
		return
	}
	shown, asked := map[uint32]bool{}, map[uint32]bool{}
	for _, j := range snap.Jobs {
		shown[scriptKey(j)], asked[scriptOf(j)] = true, true
	}
	gone := func(key uint32) bool { return !shown[key] }
	maps.DeleteFunc(b.known, func(key uint32, _ spending.Own) bool { return gone(key) })
	maps.DeleteFunc(b.none, func(id uint32, _ time.Time) bool { return !asked[id] })
	maps.DeleteFunc(b.waiting, func(key uint32, _ uint64) bool { return gone(key) })
	b.kept = max(ownKept, 2*(len(b.known)+len(b.none)))
}

func pauseOr(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// ownOf is what a script or comment says. If it cannot be read, and may name a budget, nothing
// is launched until somebody has looked.
func ownOf(l directive.Layer, err error, text string) (own spending.Own) {
	if err != nil {
		if strings.Contains(text, "budget=") {
			own.Wrong = err.Error()
		}
		return own
	}
	if s, ok := l.Value("budget"); ok {
		m, err := directive.Merge(directive.Layer{Source: l.Source, Settings: []directive.Setting{s}})
		if err != nil {
			own.Wrong = err.Error()
		}
		own.USD = m.Budget
	}
	return own
}
