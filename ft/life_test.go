package ft_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm"
)

// life is one guard, from its start to its death.
type life struct {
	w     *world
	guard *ft.Guard
	kill  context.CancelFunc
	done  sync.WaitGroup

	mu     sync.Mutex
	points []string
	at     int // dies at this point; 0: never
	dead   bool
}

var errDead = errors.New("killed by the test")

// point is passed before and after all that outlives the guard; an error
// stands for its death there.
func (l *life) point(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return errDead
	}
	if l.points = append(l.points, name); len(l.points) == l.at {
		l.dead = true
		l.kill()
		return errDead
	}
	return nil
}

func (l *life) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// start begins a guard that dies at the at-th point, 0 for never.
func (w *world) start(cfg ft.Config, at int) *life {
	l := &life{w: w, at: at}
	ctx, kill := context.WithCancel(w.ctx)
	l.kill = kill
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	if os.Getenv("BURST_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	client := slurm.New(runner{l})
	read := func(ctx context.Context) (*slurm.Snapshot, error) {
		snap, err := client.Snapshot(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err == nil && w.rewrite != nil {
			w.rewrite(snap)
		}
		return snap, err
	}
	ctl := struct {
		*slurm.Client
		*slurm.Watcher
	}{client, slurm.NewWatcher(read, 100*time.Millisecond)}
	l.guard = ft.New(cfg, journal{l}, ctl, map[string]cloud.Provider{"fake": provider{w.fake, l}}, log)
	source := cloud.NoticeSource(w.fake)
	if w.source != nil {
		source = w.source
	}
	w.life = l
	l.done.Go(func() {
		if err := l.guard.Run(ctx, map[string]cloud.NoticeSource{"fake": source}); err != nil && ctx.Err() == nil {
			w.Errorf("the guard ended: %v", err)
		}
	})
	return l
}

// die ends the present guard and waits for its last goroutine.
func (w *world) die() {
	if l := w.life; l != nil {
		l.kill()
		l.done.Wait()
		w.life = nil
	}
}
