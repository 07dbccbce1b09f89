package cloudtest

import (
	"context"
	"errors"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

var (
	_ cloud.Evicter    = (*Fake)(nil)
	_ cloud.Census     = (*Fake)(nil)
	_ cloud.Accountant = (*Fake)(nil)
)

// Account implements cloud.Accountant: each fake is an account of its own.
func (f *Fake) Account(ctx context.Context) (string, error) {
	lost, err := f.begin(ctx, Account)
	return f.account, errors.Join(err, lost)
}

// testAccount asks twice, and after a restart.
func testAccount(s *subject) {
	a, ok := s.Provider.(cloud.Accountant)
	if s.lacks(!ok, "Accountant") {
		return
	}
	first, err := a.Account(s.ctx)
	if err != nil || first == "" {
		s.Fatalf("%q, %v", first, err)
	}
	for _, p := range []cloud.Provider{s.Provider, s.Reopen()} {
		if again, err := p.(cloud.Accountant).Account(s.ctx); again != first || err != nil {
			s.Errorf("%q, then %q, %v", first, again, err)
		}
	}
}

// Evict implements cloud.Evicter.
func (f *Fake) Evict(ctx context.Context, id string, lead time.Duration) error {
	lost, err := f.begin(ctx, Evict)
	if err != nil {
		return err
	}
	now := time.Now()
	f.mu.Lock()
	m := f.machines[id]
	live := m != nil && m.at(now).State.Live()
	f.mu.Unlock()
	if !live || lead < 0 {
		return fail(Evict, cloud.Invalid, "no such instance lives, or the lead time is negative")
	}
	f.Announce(cloud.Notice{Instance: id, Kind: cloud.SpotInterruption, Deadline: now.Add(lead)})
	return lost
}

// Clusters implements cloud.Census.
func (f *Fake) Clusters(ctx context.Context) (map[string]int, error) {
	lost, err := f.begin(ctx, Clusters)
	if err = errors.Join(err, lost); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	found := map[string]int{}
	for _, id := range f.ids {
		if m := f.machines[id]; !now.Before(m.listed) && m.at(now).State.Live() {
			found[m.Cluster]++
		}
	}
	return found, nil
}

// testEvict takes one of two instances back, as the cloud does.
func testEvict(s *subject) {
	e, ok := s.Provider.(cloud.Evicter)
	if s.lacks(!ok, "Evicter") {
		return
	}
	r, launched := s.launch(2)
	s.settled(r.Token, 2)
	const lead = 500 * time.Millisecond
	began := time.Now()
	if source, ok := s.Provider.(cloud.NoticeSource); ok {
		var got []cloud.Notice
		s.watch(source, func(cancel func(), n cloud.Notice) error {
			got = append(got, n)
			cancel()
			return nil
		}, func() {
			if err := e.Evict(s.ctx, launched[0], lead); err != nil {
				s.Fatalf("evicting: %v", err)
			}
		})
		if len(got) != 1 || got[0].Instance != launched[0] || got[0].Kind != cloud.SpotInterruption || got[0].Deadline.Before(began.Add(lead)) {
			s.Errorf("the notices are %+v", got)
		}
	} else if err := e.Evict(s.ctx, launched[0], lead); err != nil {
		s.Fatalf("evicting: %v", err)
	}
	s.gone(launched[0])
	if took := time.Since(began); took < lead {
		s.Errorf("it ended after %s, with a lead time of %s", took, lead)
	}
	s.settled(r.Token, 1)
	for name, err := range map[string]error{
		"one that is gone":     e.Evict(s.ctx, launched[0], lead),
		"an unknown one":       e.Evict(s.ctx, "i-0123456789", lead),
		"a lead time below 0":  e.Evict(s.ctx, launched[1], -lead),
		"a name that's a path": e.Evict(s.ctx, "../"+launched[1], lead),
	} {
		if cloud.KindOf(err) != cloud.Invalid {
			s.Errorf("%s: %v, want an Invalid error", name, err)
		}
	}
}

// testCensus counts two clusters' instances, in one of which some have ended.
func testCensus(s *subject) {
	c, ok := s.Provider.(cloud.Census)
	if s.lacks(!ok, "Census") {
		return
	}
	r, launched := s.launch(3)
	s.settled(r.Token, 3)
	own := s.cluster
	s.cluster = own + "-2"
	other, _ := s.launch(1)
	s.settled(other.Token, 1)
	count := func(want map[string]int) {
		s.Helper()
		s.within(s.Provider.Limits().Lag, "the census", func() bool {
			found, err := c.Clusters(s.ctx)
			if err != nil {
				s.Fatalf("counting: %v", err)
			}
			return found[own] == want[own] && found[own+"-2"] == want[own+"-2"]
		})
	}
	count(map[string]int{own: 3, own + "-2": 1})
	s.end() // the second
	s.cluster = own
	s.terminate(launched[:2]...)
	count(map[string]int{own: 1})
}
