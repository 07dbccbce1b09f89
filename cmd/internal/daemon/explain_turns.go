package daemon

import (
	"context"
	"sync"

	"github.com/burst-hpc/burst/slurm"
)

// explainsAtOnce is how many jobs are explained at once: anybody may ask, and the rules are decided anew for each.
const explainsAtOnce = 2

// turns lets some go on at once, and has the others wait. Its zero value lets explainsAtOnce.
type turns struct {
	once sync.Once
	free chan struct{}
}

// take waits for a turn, which lasts until done is called.
func (t *turns) take(ctx context.Context) (done func(), err error) {
	t.once.Do(func() { t.free = make(chan struct{}, explainsAtOnce) })
	select {
	case t.free <- struct{}{}:
		return func() { <-t.free }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// seen is one reading of Slurm: the jobs, and after them those that wait.
type seen struct {
	snap    *slurm.Snapshot
	waiting []slurm.Waiting
}

// look notes a reading for those who explain.
func (r *overflowReads) look(s seen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest = s
}

func (r *overflowReads) looked() seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest
}
