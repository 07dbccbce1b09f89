package session_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/session"
)

// quiet is a journal that keeps nothing, and takes no time for it.
type quiet struct{}

func (quiet) CommitSession(context.Context, session.Change) error { return nil }
func (quiet) OrderOf(context.Context, uint32, int) (session.Order, error) {
	return session.Order{}, nil
}
func (quiet) OpenSessions(context.Context) ([]session.Session, error) { return nil, nil }

// BenchmarkOpenAgain is what one opening costs when burst-sruns come back while
// 10,000 jobs are asked for a checkpoint.
func BenchmarkOpenAgain(b *testing.B) {
	const jobs = 10_000
	h := session.NewHub(session.HubConfig{AtOnce: 32, User: jobs}, quiet{}, slog.New(slog.DiscardHandler))
	var all []session.Hello
	var orders []session.Order
	for n := range uint32(jobs) {
		hello := session.Hello{Key: key(n+1, 0, "0"), Token: "t", Cost: time.Second}
		all = append(all, hello)
		orders = append(orders, order(hello.Key, "r", session.Stop, time.Hour))
	}
	open := func(n int) {
		if _, err := h.Open(b.Context(), user, all[n%jobs]); err != nil {
			b.Fatal(err)
		}
	}
	for n := range all {
		open(n)
	}
	if _, err := h.AskMany(b.Context(), orders); err != nil {
		b.Fatal(err)
	}
	for n := 0; b.Loop(); n++ {
		open(n)
	}
}
