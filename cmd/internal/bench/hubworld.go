package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"

	"github.com/burst-hpc/burst/cmd/internal/munge"
	"github.com/burst-hpc/burst/cmd/internal/nodeapi"
	"github.com/burst-hpc/burst/cmd/internal/srun"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// hubWorld is a guard, its journal, and its hub behind a listener, in this process, with a
// simulated Slurm.
type hubWorld struct {
	*stormWorld
	hub    *session.Hub
	munged *munged
	link   srun.Link
	served chan error
	cancel context.CancelFunc
	runs   sync.WaitGroup
}

const ordersAtOnce = 32

func newHubWorld(ctx context.Context, env Env) (w *hubWorld, err error) {
	w = &hubWorld{served: make(chan error, 1)}
	if w.munged, err = startMunged(ctx, env.Dir); err != nil {
		return nil, err
	}
	if w.stormWorld, err = newStormWorld(ctx, env.Dir, 2*ordersJobs); err != nil { // the jobs go on elsewhere
		w.munged.stop()
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	w.hub = session.NewHub(session.HubConfig{AtOnce: ordersAtOnce}, w.journal, log)
	w.guarded(ft.Config{Sessions: ft.SessionsOf(w.hub, w.journal)})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.munged.stop()
		return nil, errors.Join(err, w.journal.Close())
	}
	m := munge.New(munge.Options{Socket: w.munged.socket})
	srv := nodeapi.New(nil, m, nodeapi.Limits{}, log)
	srv.ServeJobs(openHub{w.hub})
	ctx, w.cancel = context.WithCancel(ctx)
	go func() { w.served <- srv.Serve(ctx, ln) }()
	w.runs.Go(func() { w.ctl.Serve(ctx) })
	w.runs.Go(func() { w.hub.Run(ctx) })
	w.runs.Go(func() { w.fail(w.guard.Run(ctx, nil)) })
	w.link = srun.Link{URLs: []string{"http://" + ln.Addr().String()}, UID: os.Getuid(), Munge: m}
	return w, nil
}

func (w *hubWorld) close() error {
	w.cancel()
	err := <-w.served
	w.runs.Wait()
	err = errors.Join(err, w.failed, w.journal.Close())
	w.munged.stop()
	return err
}

// allWait says whether a question of every job's client waits, of this attempt.
func (w *hubWorld) allWait(attempt int) (bool, error) {
	for job := range uint32(ordersJobs) {
		if s := w.hub.Sessions(job+1, attempt); len(s) != 1 || !s[0].Waits {
			return false, nil
		}
	}
	return true, nil
}

// submit has the jobs of the clients, each on a node of its own.
func (w *hubWorld) submit() (ids []uint32, err error) {
	for range ordersJobs {
		ids = append(ids, w.ctl.Submit(slurmtest.Job{Requeue: true, Script: "#!/bin/sh\n"}))
	}
	if ids[0] != 1 || ids[len(ids)-1] != ordersJobs {
		return nil, fmt.Errorf("the jobs are %d to %d, and the clients are of 1 to %d", ids[0], ids[len(ids)-1], ordersJobs)
	}
	return ids, nil
}

// openHub is a hub that asks no Slurm.
type openHub struct{ *session.Hub }

var _ nodeapi.Jobs = openHub{}

func (openHub) Before(context.Context, nodeapi.Caller, uint32, int) (any, error) {
	return struct{}{}, nil
}

func (h openHub) Open(ctx context.Context, c nodeapi.Caller, hello session.Hello) (session.Word, error) {
	return h.Hub.Open(ctx, c.UID, hello)
}

func (h openHub) Poll(ctx context.Context, c nodeapi.Caller, q session.Question) (session.Word, error) {
	return h.Hub.Poll(ctx, c.UID, q)
}

func (h openHub) Answer(ctx context.Context, c nodeapi.Caller, g session.Given) error {
	return h.Hub.Answer(ctx, c.UID, g)
}

func (h openHub) Close(ctx context.Context, c nodeapi.Caller, e session.End) (session.Closed, error) {
	return session.Closed{}, h.Hub.Close(ctx, c.UID, e)
}
