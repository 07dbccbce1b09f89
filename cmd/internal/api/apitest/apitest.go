// Package apitest serves burstd's API from memory, for tests and benchmarks
// of the programs that talk to it.
package apitest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

// Backend keeps everything in memory. Its zero value is ready to use.
type Backend struct {
	mu      sync.Mutex
	orders  []api.Order
	fail    error
	status  api.Status
	nodes   []api.NodeStatus
	events  []api.Event
	boots   []api.Boot
	pools   []api.PoolStatus
	changes []api.PoolChange
	usage   []api.Usage
	query   api.UsageQuery // the last one
	bills   []api.Bill
	caps    []api.BudgetRow
	gate    api.GateAnswer
	asked   int           // gate questions so far
	changed chan struct{} // closed at the next change, nil if nobody waits
	control
	history
	overflows
	explains
}

var _ api.Backend = (*Backend)(nil)

// AddOrder keeps the order, or fails as Fail said.
func (b *Backend) AddOrder(_ context.Context, o api.Order) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		return b.fail
	}
	for _, have := range b.orders {
		if have.ID == o.ID {
			return nil
		}
	}
	b.orders = append(b.orders, o)
	return nil
}

// Status returns what SetStatus set.
func (b *Backend) Status(context.Context) (api.Status, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status, b.fail
}

// Nodes returns what SetNodes set.
func (b *Backend) Nodes(context.Context) ([]api.NodeStatus, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.nodes, b.fail
}

// Usage returns what SetUsage set.
func (b *Backend) Usage(_ context.Context, q api.UsageQuery) ([]api.Usage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.query = q
	return b.usage, b.fail
}

// Bills returns what SetBills set.
func (b *Backend) Bills(context.Context, time.Time) ([]api.Bill, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bills, b.fail
}

// SetBills sets what Bills returns.
func (b *Backend) SetBills(all []api.Bill) { b.change(func() { b.bills = all }) }

// Budget returns what SetBudget set, of a user only what is not the cluster's.
func (b *Backend) Budget(_ context.Context, uid int) (rows []api.BudgetRow, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.caps {
		if uid < 0 || r.Of != "cluster" {
			rows = append(rows, r)
		}
	}
	return rows, b.fail
}

// SetBudget sets what Budget returns.
func (b *Backend) SetBudget(rows []api.BudgetRow) { b.change(func() { b.caps = rows }) }

// SetUsage sets what Usage returns.
func (b *Backend) SetUsage(u []api.Usage) { b.change(func() { b.usage = u }) }

// UsageQuery is the last question that Usage was asked.
func (b *Backend) UsageQuery() api.UsageQuery {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.query
}

// Events returns events given to AddEvent.
func (b *Backend) Events(ctx context.Context, after int64, wait time.Duration) ([]api.Event, error) {
	var found []api.Event
	err := b.until(ctx, wait, func() bool {
		if after < 0 {
			found = b.events[max(0, len(b.events)+int(after)):]
		} else {
			found = nil
			for _, e := range b.events {
				if e.Seq > after {
					found = append(found, e)
				}
			}
		}
		return len(found) > 0
	})
	return found, err
}

// Gate returns what SetGate set.
func (b *Backend) Gate(ctx context.Context, _ uint32, _ string, wait time.Duration) (a api.GateAnswer, err error) {
	b.mu.Lock()
	b.asked++
	b.mu.Unlock()
	err = b.until(ctx, wait, func() bool { a = b.gate; return a.Go })
	return a, err
}

// until runs done, under the lock, at each change until it is true, wait has
// passed or ctx ends.
func (b *Backend) until(ctx context.Context, wait time.Duration, done func() bool) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		b.mu.Lock()
		ok, err := done(), b.fail
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *Backend) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// Fail makes every call fail with err; nil ends it.
func (b *Backend) Fail(err error) { b.change(func() { b.fail = err }) }

// SetStatus sets what Status returns.
func (b *Backend) SetStatus(s api.Status) { b.change(func() { b.status = s }) }

// SetNodes sets what Nodes returns.
func (b *Backend) SetNodes(n []api.NodeStatus) { b.change(func() { b.nodes = n }) }

// AddEvent adds one event.
func (b *Backend) AddEvent(e api.Event) { b.change(func() { b.events = append(b.events, e) }) }

// SetGate sets what Gate answers; those who wait for a Go hear it at once.
func (b *Backend) SetGate(a api.GateAnswer) { b.change(func() { b.gate = a }) }

// Asked is how often Gate was asked.
func (b *Backend) Asked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked
}

// Orders returns what was ordered so far.
func (b *Backend) Orders() []api.Order {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]api.Order(nil), b.orders...)
}

// Serve serves b on socket to the caller's uid and root, until stop.
func Serve(b api.Backend, socket string) (stop func() error, err error) {
	l, err := api.Listen(socket)
	if err != nil {
		return nil, err
	}
	srv := api.NewServer(b, api.Authz{SlurmUID: os.Getuid()}, slog.New(slog.DiscardHandler))
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			return fmt.Errorf("stopping the server on %s: %w", socket, err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving on %s: %w", socket, err)
		}
		return nil
	}, nil
}
