package bench

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/burst-hpc/burst/cmd/internal/munge"
	"github.com/burst-hpc/burst/cmd/internal/nodeapi"
	"github.com/burst-hpc/burst/cmd/internal/srun"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/ft/session"
)

// hubWorld is a hub behind its listener, in this process.
type hubWorld struct {
	hub     *session.Hub
	journal *store.Store
	munged  *munged
	link    srun.Link
	served  chan error
	cancel  context.CancelFunc
}

const ordersAtOnce = 32

func newHubWorld(ctx context.Context, env Env) (w *hubWorld, err error) {
	w = &hubWorld{served: make(chan error, 1)}
	if w.munged, err = startMunged(ctx, env.Dir); err != nil {
		return nil, err
	}
	if w.journal, err = store.Open(ctx, filepath.Join(env.Dir, "burst.db")); err != nil {
		w.munged.stop()
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	w.hub = session.NewHub(session.HubConfig{AtOnce: ordersAtOnce}, w.journal, log)
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
	w.link = srun.Link{URLs: []string{"http://" + ln.Addr().String()}, UID: os.Getuid(), Munge: m}
	return w, nil
}

func (w *hubWorld) close() error {
	w.cancel()
	err := errors.Join(<-w.served, w.journal.Close())
	w.munged.stop()
	return err
}

// allWait says whether a question of every client waits.
func (w *hubWorld) allWait() (bool, error) {
	for job := range uint32(ordersJobs) {
		if s := w.hub.Sessions(job+1, 0); len(s) != 1 || !s[0].Waits {
			return false, nil
		}
	}
	return true, nil
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

func (h openHub) Close(ctx context.Context, c nodeapi.Caller, e session.End) error {
	return h.Hub.Close(ctx, c.UID, e)
}
