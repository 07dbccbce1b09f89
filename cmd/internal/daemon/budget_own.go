package daemon

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/spending"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/directive"
)

const (
	ownAtOnce = 4    // scripts that are read at once
	ownKept   = 5000 // scripts of which the budget is kept
)

// ownBudgets reads budget= of batch scripts beside the engine, each once, and wakes it.
type ownBudgets struct {
	ctx   context.Context
	slurm interface {
		BatchScript(ctx context.Context, id uint32) (string, error)
	}
	wake func()
	turn chan struct{}

	mu      sync.Mutex
	known   map[uint32]spending.Own // by the script: the job's, its array's or its first part's
	reading map[uint32]bool
}

func newOwnBudgets(ctx context.Context, client *slurm.Client, wake func()) *ownBudgets {
	return &ownBudgets{ctx: ctx, slurm: client, wake: wake, turn: make(chan struct{}, ownAtOnce), known: map[uint32]spending.Own{}, reading: map[uint32]bool{}}
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
	key := cmp.Or(j.HetID, j.ArrayID, j.ID)
	b.mu.Lock()
	defer b.mu.Unlock()
	own, known := b.known[key]
	if !known && !b.reading[key] {
		b.reading[key] = true
		go b.read(key, cmp.Or(j.HetID, j.ID)) // an array's tasks have its script
	}
	return own, known
}

func (b *ownBudgets) read(key, id uint32) {
	b.turn <- struct{}{}
	ctx, cancel := context.WithTimeout(b.ctx, afterAnswer)
	text, err := b.slurm.BatchScript(ctx, id)
	cancel()
	if err != nil && !errors.Is(err, slurm.ErrNoJob) && b.ctx.Err() == nil {
		pauseOr(b.ctx, afterPause) // it is asked for again
	}
	<-b.turn
	b.mu.Lock()
	delete(b.reading, key)
	if err == nil || errors.Is(err, slurm.ErrNoJob) {
		if len(b.known) >= ownKept {
			clear(b.known)
		}
		l, err := directive.ReadScript(text)
		b.known[key] = ownOf(l, err, text)
	}
	b.mu.Unlock()
	b.wake()
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
