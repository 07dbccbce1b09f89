package daemon

import (
	"context"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/crash"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm/power"
)

// metered is a journal whose commits are counted once they are durable, so
// that the engine and the guard know nothing of Prometheus.
type metered struct {
	crash.Journal
	*meters
}

func (j metered) AddOrder(ctx context.Context, o power.Order) (bool, error) {
	fresh, err := j.Journal.AddOrder(ctx, o)
	kind, outcome := among(o.Kind, orderKinds...), "accepted"
	switch {
	case err != nil:
		outcome = "failed"
	case !fresh:
		outcome = "repeated"
	default:
		j.mu.Lock()
		j.openOrders[o.ID] = o.Kind
		j.mu.Unlock()
	}
	j.orders.WithLabelValues(kind, outcome).Inc()
	return fresh, err
}

func (j metered) LoadPower(ctx context.Context) (power.State, error) {
	st, err := j.Journal.LoadPower(ctx)
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, o := range st.Orders {
		j.openOrders[o.ID] = o.Kind
	}
	for _, i := range st.Instances {
		if i.Doomed != "" {
			j.ending[i.ID] = time.Now()
		}
	}
	return st, err
}

func (j metered) CommitPower(ctx context.Context, c power.Change) error {
	if err := j.Journal.CommitPower(ctx, c); err != nil {
		return err
	}
	j.power(c, time.Now())
	return nil
}

// power counts a change of the engine's.
func (m *meters) power(c power.Change, now time.Time) {
	m.mu.Lock()
	for _, id := range c.CloseOrders {
		if kind, ok := m.openOrders[id]; ok {
			delete(m.openOrders, id)
			m.orders.WithLabelValues(among(kind, orderKinds...), "settled").Inc()
		}
	}
	for _, i := range c.Instances {
		if _, known := m.ending[i.ID]; !i.Gone.IsZero() {
			delete(m.ending, i.ID)
		} else if i.Doomed != "" && !known {
			m.ending[i.ID] = now
		}
	}
	m.mu.Unlock()
	for _, b := range c.Boots {
		switch pool := m.labels.pool(b.Pool); {
		case b.Outcome == power.BootUp:
			m.boots.WithLabelValues(pool, "up").Inc()
			if !b.Registered.IsZero() && !b.Ordered.IsZero() {
				m.bootSeconds.WithLabelValues(pool).Observe(max(0, b.Registered.Sub(b.Ordered).Seconds()))
			}
		case b.Outcome != "":
			m.boots.WithLabelValues(pool, "failed").Inc()
		}
	}
	for _, a := range c.Actions {
		m.actions.WithLabelValues(a).Inc()
	}
	var dead []string
	for _, e := range c.Events {
		m.event(e.Kind).Inc()
		if e.Kind == "died" {
			dead = append(dead, e.Node)
		}
	}
	m.nodesDied(dead, now)
}

func (j metered) AddNotice(ctx context.Context, provider string, n cloud.Notice) (bool, error) {
	fresh, err := j.Journal.AddNotice(ctx, provider, n)
	if err == nil {
		j.heard(n, fresh)
	}
	return fresh, err
}

func (j metered) LoadFT(ctx context.Context) (ft.State, error) {
	st, err := j.Journal.LoadFT(ctx)
	j.resume(st)
	return st, err
}

func (j metered) CommitFT(ctx context.Context, c ft.Change) error {
	if err := j.Journal.CommitFT(ctx, c); err != nil {
		return err
	}
	j.evictions(c, time.Now())
	return nil
}
