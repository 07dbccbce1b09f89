package cloudtest

import (
	"slices"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

func testLaunch(s *subject) {
	r := s.request(3)
	instances, err := s.Provider.Launch(s.ctx, r)
	if err != nil || len(instances) != 3 {
		s.Fatalf("got %d instances, %v, want 3", len(instances), err)
	}
	if n := len(slices.Compact(ids(instances))); n != 3 {
		s.Fatalf("got %d different ids, want 3", n)
	}
	s.assign(ids(instances))
	var listed []cloud.Instance
	s.within(s.Provider.Limits().Lag, "3 running instances with addresses", func() bool {
		listed = s.list(cloud.Filter{})
		return len(listed) == 3 && !slices.ContainsFunc(listed, func(i cloud.Instance) bool {
			return i.State != cloud.Running || i.Addr == ""
		})
	})
	if got, want := ids(listed), ids(instances); !slices.Equal(got, want) {
		s.Errorf("listed are %v, launched %v", got, want)
	}
	for _, i := range append(instances, listed...) {
		if i.Token != r.Token || i.Cluster != r.Cluster || i.Pool != r.Pool || i.Offering != r.Offering {
			s.Errorf("instance is not of its request: %+v", i)
		}
		if d := time.Since(i.Launched).Abs(); d > time.Hour {
			s.Errorf("instance %s was launched %s from now", i.ID, d)
		}
		if !i.State.Live() || !i.Ended.IsZero() {
			s.Errorf("instance %s is %s, ended %s", i.ID, i.State, i.Ended)
		}
	}
}

func testReplay(s *subject) {
	r, first := s.launch(3)
	for what, p := range s.providers() {
		again, err := p.Launch(s.ctx, r)
		if err != nil || !slices.Equal(ids(again), first) {
			s.Errorf("%s: replay returns %v, %v, want %v", what, ids(again), err, first)
		}
	}
	s.settled(r.Token, 3)
}

// testReplayEnded replays a launch some or all of whose instances are gone.
func testReplayEnded(s *subject) {
	r, first := s.launch(3)
	s.settled(r.Token, 3)
	for left := 2; left >= 0; left -= 2 {
		s.terminate(first[left:]...)
		s.gone(first[left:]...)
		for what, p := range s.providers() {
			again, err := p.Launch(s.ctx, r)
			if err == nil || !slices.Equal(ids(again), first[:left]) {
				s.Errorf("%s: replay returns %v, %v, want %v and an error", what, ids(again), err, first[:left])
			}
		}
		s.settled(r.Token, left)
	}
}

// testRace launches twice at the same moment, as after a failover.
func testRace(s *subject) {
	if s.lacks(s.h.NoTokens, "launch tokens in the cloud") {
		return
	}
	r := s.request(3)
	var wg sync.WaitGroup
	for what, p := range s.providers() {
		wg.Go(func() {
			if _, err := p.Launch(s.ctx, r); err != nil {
				s.Errorf("%s: %v", what, err)
			}
		})
	}
	wg.Wait()
	s.settled(r.Token, 3)
}

func testLostAnswer(s *subject) {
	if s.lacks(s.LoseAnswer == nil, "LoseAnswer") {
		return
	}
	r := s.request(3)
	s.LoseAnswer()
	if _, err := s.Provider.Launch(s.ctx, r); err == nil || cloud.KindOf(err) != cloud.Transient {
		s.Errorf("launch whose answer is lost: %v, want a transient error", err)
	}
	again, err := s.Provider.Launch(s.ctx, r)
	if err != nil || len(again) != 3 {
		s.Fatalf("replay returns %v, %v, want 3 instances", ids(again), err)
	}
	if found := s.settled(r.Token, 3); !slices.Equal(found, ids(again)) {
		s.Errorf("listed are %v, replay returned %v", found, ids(again))
	}
}

func testPartial(s *subject) {
	if s.lacks(s.SetCapacity == nil, "SetCapacity") {
		return
	}
	s.SetCapacity(2)
	r := s.request(3)
	first, err := s.Provider.Launch(s.ctx, r)
	if len(first) != 2 || err == nil || cloud.KindOf(err) != cloud.Capacity {
		s.Fatalf("got %d instances, %v, want 2 and an error of capacity", len(first), err)
	}
	s.assign(ids(first))
	again, err := s.Provider.Launch(s.ctx, r)
	if !slices.Equal(ids(again), ids(first)) || err == nil {
		s.Errorf("replay returns %v, %v, want %v and an error", ids(again), err, ids(first))
	}
	s.settled(r.Token, 2)
	r = s.request(1)
	none, err := s.Provider.Launch(s.ctx, r)
	if len(none) != 0 || cloud.KindOf(err) != cloud.Capacity {
		s.Errorf("without any room: %v, %v, want an error of capacity", ids(none), err)
	}
	s.settled(r.Token, 0)
}

func testAllOrNothing(s *subject) {
	if s.lacks(s.SetCapacity == nil, "SetCapacity") {
		return
	}
	s.SetCapacity(2)
	r := s.request(3)
	r.AllOrNothing = true
	none, err := s.Provider.Launch(s.ctx, r)
	if len(none) != 0 || cloud.KindOf(err) != cloud.Capacity {
		s.Errorf("got %v, %v, want an error of capacity", ids(none), err)
	}
	s.settled(r.Token, 0)
	r = s.request(2)
	r.AllOrNothing = true
	if both, err := s.Provider.Launch(s.ctx, r); err != nil || len(both) != 2 {
		s.Errorf("the room is not given back: %v, %v, want 2 instances", ids(both), err)
	}
	s.settled(r.Token, 2)
}

func testInvalid(s *subject) {
	for what, change := range map[string]func(*cloud.LaunchRequest){
		"no token":   func(r *cloud.LaunchRequest) { r.Token = "" },
		"no cluster": func(r *cloud.LaunchRequest) { r.Cluster = "" },
		"count 0":    func(r *cloud.LaunchRequest) { r.Count = 0 },
		"too many":   func(r *cloud.LaunchRequest) { r.Count = s.Provider.Limits().MaxLaunch + 1 },
	} {
		r := s.request(1)
		change(&r)
		if got, err := s.Provider.Launch(s.ctx, r); len(got) != 0 || err == nil || cloud.KindOf(err) != cloud.Invalid {
			s.Errorf("%s: got %v, %v, want an error of kind invalid", what, ids(got), err)
		}
	}
	if _, err := s.Provider.List(s.ctx, cloud.Filter{}); err == nil {
		s.Error("a list without a cluster is answered")
	}
	if found := s.list(cloud.Filter{}); len(found) != 0 {
		s.Errorf("something was launched: %v", found)
	}
}

// providers are the provider, and the same after a restart.
func (s *subject) providers() map[string]cloud.Provider {
	all := map[string]cloud.Provider{"same provider": s.Provider}
	if s.Reopen != nil {
		all["reopened provider"] = s.Reopen()
	}
	return all
}
