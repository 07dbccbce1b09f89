package api_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/api/apitest"
)

// levels hands out the level of each record.
type levels struct {
	slog.Handler
	c chan slog.Level
}

func (l levels) Handle(_ context.Context, r slog.Record) error {
	l.c <- r.Level
	return nil
}

func (l levels) Enabled(context.Context, slog.Level) bool { return true }

// slow is a backend whose polls tell when they begin and have ended.
type slow struct {
	apitest.Backend
	begun, ended chan struct{}
}

func (s *slow) Events(ctx context.Context, _ int64, _ time.Duration) ([]api.Event, error) {
	close(s.begun)
	<-ctx.Done()
	close(s.ended)
	return nil, ctx.Err()
}

// TestAClientThatGoesIsNoError: `burst events --follow` ends with Ctrl-C.
func TestAClientThatGoesIsNoError(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "b.sock")
	l, err := api.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	b := &slow{begun: make(chan struct{}), ended: make(chan struct{})}
	said := levels{slog.DiscardHandler, make(chan slog.Level, 10)}
	srv := api.NewServer(b, api.Authz{}, slog.New(said))
	go srv.Serve(l)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-b.begun; cancel() }()
	if _, err := client(t, socket).Events(ctx, 0, time.Minute); err == nil {
		t.Error("the poll was answered")
	}
	<-b.ended
	if err := srv.Shutdown(t.Context()); err != nil { // the request has been answered
		t.Error(err)
	}
	close(said.c)
	for level := range said.c {
		if level > slog.LevelDebug {
			t.Errorf("a record of level %s", level)
		}
	}
}
