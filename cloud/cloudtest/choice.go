package cloudtest

import (
	"slices"

	"github.com/burst-hpc/burst/cloud"
)

// choice is a request with a choice, where the provider and the harness have one.
func (s *subject) choice(count int) (cloud.LaunchRequest, bool) {
	s.Helper()
	if got := s.Provider.Limits().Choice; got != s.h.Choice {
		s.Fatalf("Limits().Choice is %v, the harness says %v", got, s.h.Choice)
	}
	if s.lacks(!s.h.Choice, "Choice") {
		return cloud.LaunchRequest{}, false
	}
	if len(s.Or) == 0 {
		s.Fatal("the harness says Choice and names no further offerings in Or")
	}
	r := s.request(count)
	r.Or = s.Or
	return r, !s.lacks(s.SetRoom == nil, "SetRoom")
}

// testChoice: what the first offering cannot give comes of the others, and
// each instance says of which it is.
func testChoice(s *subject) {
	r, ok := s.choice(3)
	if !ok {
		return
	}
	s.SetRoom(r.Offering, 0)
	got, err := s.Provider.Launch(s.ctx, r)
	if err != nil || len(got) != 3 {
		s.Fatalf("got %v, %v, want 3 instances", ids(got), err)
	}
	s.assign(ids(got))
	for _, i := range got {
		if !slices.Contains(r.Or, i.Offering) {
			s.Errorf("instance %s is of %s, want one of %v", i.ID, i.Offering, r.Or)
		}
	}
	again, err := s.Provider.Launch(s.ctx, r)
	if err != nil || !slices.Equal(ids(again), ids(got)) {
		s.Errorf("replay returns %v, %v, want %v", ids(again), err, ids(got))
	}
	s.settled(r.Token, 3)
}

// testChoiceWhole: all or nothing is of one offering, though two together had room.
func testChoiceWhole(s *subject) {
	r, ok := s.choice(3)
	if !ok {
		return
	}
	r.AllOrNothing, r.Or = true, r.Or[:1]
	s.SetRoom(r.Offering, 2)
	s.SetRoom(r.Or[0], 2)
	none, err := s.Provider.Launch(s.ctx, r)
	if len(none) != 0 || cloud.KindOf(err) != cloud.Capacity {
		s.Errorf("got %v, %v, want an error of capacity", ids(none), err)
	}
	s.settled(r.Token, 0)
	r2, _ := s.choice(3)
	r2.AllOrNothing, r2.Or = true, r.Or
	s.SetRoom(r2.Or[0], 3)
	got, err := s.Provider.Launch(s.ctx, r2)
	if err != nil || len(got) != 3 {
		s.Fatalf("got %v, %v, want 3 instances", ids(got), err)
	}
	s.assign(ids(got))
	for _, i := range got {
		if i.Offering != r2.Or[0] {
			s.Errorf("instance %s is of %s, want %s", i.ID, i.Offering, r2.Or[0])
		}
	}
	s.settled(r2.Token, 3)
}

// testChoiceErrors: every offering without room is named, and the launch is over.
func testChoiceErrors(s *subject) {
	r, ok := s.choice(2)
	if !ok {
		return
	}
	for _, o := range r.Offerings() {
		s.SetRoom(o, 0)
	}
	none, err := s.Provider.Launch(s.ctx, r)
	if len(none) != 0 {
		s.Errorf("got %v without any room", ids(none))
	}
	s.named(err, cloud.Capacity, r.Offerings()...)
	s.settled(r.Token, 0)
}

// testChoiceThrottled: an offering that was asked for too often is told from
// one that lacks capacity, in one answer.
func testChoiceThrottled(s *subject) {
	r, ok := s.choice(2)
	if !ok || s.lacks(s.Throttle == nil, "Throttle") {
		return
	}
	r.Or = r.Or[:1]
	s.SetRoom(r.Offering, 0)
	s.Throttle(r.Or[0])
	none, err := s.Provider.Launch(s.ctx, r)
	if len(none) != 0 {
		s.Errorf("got %v", ids(none))
	}
	s.named(err, cloud.Capacity, r.Offering)
	s.named(err, cloud.Throttled, r.Or[0])
	s.settled(r.Token, 0)
}

// named checks that err has a settled error of the kind about each offering,
// and about no other.
func (s *subject) named(err error, kind cloud.Kind, want ...cloud.Offering) {
	s.Helper()
	var got []cloud.Offering
	for _, e := range cloud.Errors(err) {
		if e.Kind != kind {
			continue
		}
		if !e.Settled {
			s.Errorf("%v is not settled, though the launch is over", e)
		}
		got = append(got, e.Offering)
	}
	for _, o := range want {
		if !slices.Contains(got, o) {
			s.Errorf("no error of kind %s about %s in %v", kind, o, err)
		}
	}
	for _, o := range got {
		if !slices.Contains(want, o) {
			s.Errorf("an error of kind %s about %s, want only %v", kind, o, want)
		}
	}
}
