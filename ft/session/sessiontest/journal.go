// Package sessiontest has what tests of sessions share: a journal in memory, a
// wire between a Client and a Hub, and the suite that each journal passes.
package sessiontest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/burst-hpc/burst/ft/session"
)

// Journal is what a hub, and whoever starts a job again, need of a store.
type Journal interface {
	CommitSession(ctx context.Context, c session.Change) error
	OrderOf(ctx context.Context, job uint32, attempt int) (session.Order, error)
	OpenSessions(ctx context.Context) ([]session.Session, error)
	Blessed(ctx context.Context, job uint32, step string) (session.Blessed, error)
	StepsDone(ctx context.Context, job uint32) ([]session.Done, error)
	AnswersOf(ctx context.Context, job uint32, attempt int) (map[string]session.Answer, error)
}

// Memory is a journal in memory. It outlives the hubs of a test.
type Memory struct {
	mu       sync.Mutex
	sessions map[session.Key]session.Session
	orders   map[attempt]session.Order
	blessed  map[step]session.Blessed
	done     map[step]session.Done
	answers  map[session.Key]session.Answer
}

type attempt struct {
	job uint32
	n   int
}

type step struct {
	job  uint32
	name string
}

var _ Journal = (*Memory)(nil)

// NewMemory makes an empty journal.
func NewMemory() *Memory {
	return &Memory{sessions: map[session.Key]session.Session{}, orders: map[attempt]session.Order{}, blessed: map[step]session.Blessed{},
		done: map[step]session.Done{}, answers: map[session.Key]session.Answer{}}
}

// CommitSession implements Journal.
func (m *Memory) CommitSession(ctx context.Context, c session.Change) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range c.Opened {
		m.open(s)
	}
	for _, g := range c.Answers {
		if g.Answer.ID != "" && g.Answer.ID == m.orders[attempt{g.Job, g.Attempt}].Request.ID {
			m.answers[g.Key] = g.Answer
		}
		m.bless(g)
	}
	for _, o := range c.Orders {
		o.Request.Left, o.Request.Held = 0, false
		m.orders[attempt{o.Job, o.Attempt}] = o
	}
	for _, e := range c.Closed {
		if m.sessions[e.Key].Token == e.Token {
			if e.Summary != nil {
				m.done[step{e.Job, e.Step}] = session.Done{Key: e.Key, Summary: *e.Summary, At: time.Now()}
			}
			delete(m.sessions, e.Key)
		}
	}
	return nil
}

func (m *Memory) open(s session.Session) {
	for k := range m.sessions {
		if k.Job == s.Job && k.Attempt < s.Attempt {
			delete(m.sessions, k)
		}
	}
	maps.DeleteFunc(m.orders, func(a attempt, _ session.Order) bool { return a.job == s.Job && a.n < s.Attempt })
	maps.DeleteFunc(m.answers, func(k session.Key, _ session.Answer) bool { return k.Job == s.Job && k.Attempt < s.Attempt })
	if old, ok := m.sessions[s.Key]; !ok || cmp.Or(old.Began.Compare(s.Began), cmp.Compare(old.Token, s.Token)) <= 0 {
		m.sessions[s.Key] = s
	}
}

func (m *Memory) bless(g session.Given) {
	if g.Answer.Generation == "" {
		return
	}
	for k := range m.sessions {
		if k.Job == g.Job && k.Attempt > g.Attempt {
			return
		}
	}
	id := step{g.Job, g.Step}
	if old, ok := m.blessed[id]; ok && cmp.Or(cmp.Compare(old.Attempt, g.Attempt), cmp.Compare(old.Answer.N, g.Answer.N)) >= 0 {
		return
	}
	a := g.Answer
	m.blessed[id] = session.Blessed{Key: g.Key, At: time.Now(),
		Answer: session.Answer{Generation: a.Generation, N: a.N, Bytes: a.Bytes, Took: a.Took, Iteration: a.Iteration}}
}

// OrderOf implements Journal.
func (m *Memory) OrderOf(_ context.Context, job uint32, n int) (session.Order, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.orders[attempt{job, n}], nil
}

// OpenSessions implements Journal.
func (m *Memory) OpenSessions(context.Context) ([]session.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []session.Session
	for _, s := range m.sessions {
		all = append(all, s)
	}
	return all, nil
}

// Blessed implements Journal; zero: the step has none.
func (m *Memory) Blessed(_ context.Context, job uint32, name string) (session.Blessed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.blessed[step{job, name}], nil
}

// AnswersOf implements Journal.
func (m *Memory) AnswersOf(_ context.Context, job uint32, n int) (map[string]session.Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]session.Answer{}
	for k, a := range m.answers {
		if k.Job == job && k.Attempt == n && a.ID == m.orders[attempt{job, n}].Request.ID {
			all[k.Step] = a
		}
	}
	return all, nil
}

// StepsDone implements Journal.
func (m *Memory) StepsDone(_ context.Context, job uint32) (all []session.Done, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.done {
		if d.Job == job {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b session.Done) int { return cmp.Compare(a.Step, b.Step) })
	return all, nil
}
