package cloudtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// Kinds are all kinds of error that a provider may return.
var Kinds = []cloud.Kind{cloud.Capacity, cloud.Quota, cloud.Throttled, cloud.Invalid, cloud.Auth, cloud.Transient}

// Harness tells the suite how to get a provider and how to make it fail.
type Harness struct {
	// New returns a cloud of its own for one subtest, and ends it by t.Cleanup.
	New func(t *testing.T) Cloud
	// Timeout is how long an instance may take to run or to end; 10 s.
	Timeout time.Duration
	// Poll is the pause between two looks at the cloud; 5 ms.
	Poll time.Duration
	// NoTokens says that the cloud itself knows no launch tokens: two launches
	// at the same moment under one token may both start instances.
	NoTokens bool
	// Choice says that the provider's Limits say Choice.
	Choice bool
	// Gaps names subtests that an emulator behind the provider cannot pass, with
	// the reason. A name that is no subtest is an error.
	Gaps map[string]string
	// Apart says that New's clouds know nothing of each other: the subtests run
	// side by side.
	Apart bool
	// Bubble runs each subtest in synctest's time, for clouds in memory.
	Bubble bool
}

// Cloud is a provider under test. A nil function is a fault that it cannot
// inject: the subtest says so and tests nothing.
type Cloud struct {
	Provider cloud.Provider
	// Request is a valid request; the suite sets token, cluster, pool and count.
	Request cloud.LaunchRequest
	// Reopen returns another provider for the same cloud, as after a restart.
	Reopen func() cloud.Provider
	// PageSize is how many instances one page of List has, if List reads pages.
	PageSize int
	// FailPage makes the second page of the next List fail.
	FailPage func()
	// LoseAnswer lets the next Launch have its effect but not its answer.
	LoseAnswer func()
	// SetCapacity gives Request.Offering room for n more instances.
	SetCapacity func(n int)
	// Or lists further offerings of Request's market, at least one, where Harness.Choice.
	Or []cloud.Offering
	// SetRoom gives any offering room for n more instances.
	SetRoom func(o cloud.Offering, n int)
	// Throttle has the next launch that asks for the offering refuse it as asked too often.
	Throttle func(o cloud.Offering)
	// Fail makes the next call of op (Launch, List, Terminate) fail.
	Fail func(op Op, kind cloud.Kind)
	// LoseImage lets the next MakeImage have its effect but not its answer.
	LoseImage func()
	// CutDelete lets the next DeleteImage fail after its first step, if it has several.
	CutDelete func()
	// Announce makes a notice of the instance's interruption in a minute.
	Announce func(id string)
}

// Conformance checks all that cloud.Provider promises, and NoticeSource,
// Acknowledger, Assigner, Evicter, Census and Imager where they are met.
func Conformance(t *testing.T, h Harness) {
	setDefault(&h.Timeout, 10*time.Second)
	setDefault(&h.Poll, 5*time.Millisecond)
	gaps := maps.Clone(h.Gaps)
	for _, tt := range []struct {
		name string
		run  func(*subject)
	}{
		{"launch and list", testLaunch},
		{"launch replayed", testReplay},
		{"launch replayed after some ended", testReplayEnded},
		{"launches race", testRace},
		{"answer lost", testLostAnswer},
		{"partial launch", testPartial},
		{"all or nothing", testAllOrNothing},
		{"choice among offerings", testChoice},
		{"choice, all or nothing", testChoiceWhole},
		{"choice, an error for each", testChoiceErrors},
		{"choice, throttled", testChoiceThrottled},
		{"invalid launch", testInvalid},
		{"pages", testPages},
		{"filter", testFilter},
		{"terminate", testTerminate},
		{"terminate at once", testTerminateAtOnce},
		{"kinds of error", testKinds},
		{"context cancelled", testCancelled},
		{"notices", testNotices},
		{"assign", testAssign},
		{"evict", testEvict},
		{"account", testAccount},
		{"census", testCensus},
		{"image", testImage},
		{"image, answer lost", testImageLost},
		{"image, removal cut off", testImageCut},
	} {
		gap, known := gaps[tt.name]
		delete(gaps, tt.name)
		t.Run(tt.name, func(t *testing.T) {
			if known {
				t.Logf("not tested: %s", gap)
				return
			}
			if h.Apart {
				t.Parallel()
			}
			run := func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), 6*h.Timeout)
				s := &subject{T: t, Cloud: h.New(t), ctx: ctx, h: h, cluster: "c-" + rand.Text()}
				t.Cleanup(func() {
					s.end()
					cancel()
				})
				tt.run(s)
			}
			if h.Bubble {
				synctest.Test(t, run)
				return
			}
			run(t)
		})
	}
	for name := range gaps {
		t.Errorf("the harness has a gap in %q, which is no subtest", name)
	}
}

// subject is one subtest's cloud and cluster.
type subject struct {
	*testing.T
	Cloud
	ctx     context.Context
	h       Harness
	cluster string
}

// lacks says that the harness cannot inject what the subtest needs.
func (s *subject) lacks(cannot bool, what string) bool {
	s.Helper()
	if cannot {
		s.Logf("not tested: the harness has no %s", what)
	}
	return cannot
}

func (s *subject) request(count int) cloud.LaunchRequest {
	r := s.Request
	r.Token, r.Cluster, r.Pool, r.Count = "t-"+rand.Text(), s.cluster, "pool", count
	return r
}

// launch starts count instances that must all come, and gives them nodes.
func (s *subject) launch(count int) (cloud.LaunchRequest, []string) {
	s.Helper()
	r := s.request(count)
	instances, err := s.Provider.Launch(s.ctx, r)
	if err != nil || len(instances) != count {
		s.Fatalf("launching %d: got %d, %v", count, len(instances), err)
	}
	found := ids(instances)
	s.assign(found)
	return r, found
}

func (s *subject) assign(ids []string) {
	s.Helper()
	a, ok := s.Provider.(cloud.Assigner)
	if !ok {
		return
	}
	nodes := map[string]string{}
	for i, id := range ids {
		nodes[id] = fmt.Sprintf("node-%d", i+1)
	}
	if err := a.Assign(s.ctx, nodes); err != nil {
		s.Fatalf("assigning %v: %v", nodes, err)
	}
}

func (s *subject) list(f cloud.Filter) []cloud.Instance {
	s.Helper()
	f.Cluster = s.cluster
	found, err := s.Provider.List(s.ctx, f)
	if err != nil {
		s.Fatalf("listing: %v", err)
	}
	return found
}

func (s *subject) terminate(ids ...string) {
	s.Helper()
	if err := s.Provider.Terminate(s.ctx, ids); err != nil {
		s.Fatalf("terminating %v: %v", ids, err)
	}
}

// within polls until ok, for at most the time given and the harness's.
func (s *subject) within(d time.Duration, what string, ok func() bool) {
	s.Helper()
	deadline := time.Now().Add(d + s.h.Timeout)
	for !ok() {
		if time.Now().After(deadline) {
			s.Fatalf("%s: not within %s; the list is %+v", what, d+s.h.Timeout, s.list(cloud.Filter{}))
		}
		time.Sleep(s.h.Poll)
	}
}

// settled waits until the token's live instances are listed, waits the lag
// out if their number is right, and fails if it is not exactly count.
func (s *subject) settled(token string, count int) []string {
	s.Helper()
	var found []string
	look := func() bool {
		found = ids(live(s.list(cloud.Filter{Tokens: []string{token}})))
		return len(found) == count
	}
	lag := s.Provider.Limits().Lag
	s.within(lag, fmt.Sprintf("%d live instances of token %s", count, token), look)
	for until := time.Now().Add(lag); time.Now().Before(until); time.Sleep(s.h.Poll) {
		if !look() {
			s.Fatalf("token %s has %d live instances, want %d", token, len(found), count)
		}
	}
	return found
}

// gone waits until the ids are Terminated or forgotten.
func (s *subject) gone(ids ...string) {
	s.Helper()
	s.within(s.Provider.Limits().Lag, fmt.Sprintf("end of %v", ids), func() bool {
		return len(live(s.list(cloud.Filter{IDs: ids}))) == 0
	})
}

// end leaves nothing behind.
func (s *subject) end() {
	left, err := s.Provider.List(s.ctx, cloud.Filter{Cluster: s.cluster})
	if err == nil {
		err = s.Provider.Terminate(s.ctx, ids(live(left)))
	}
	if err != nil {
		s.Errorf("ending what the subtest launched: %v", err)
	}
}

func live(all []cloud.Instance) []cloud.Instance {
	return slices.DeleteFunc(slices.Clone(all), func(i cloud.Instance) bool { return !i.State.Live() })
}

func ids(all []cloud.Instance) []string {
	out := make([]string, len(all))
	for i, in := range all {
		out[i] = in.ID
	}
	slices.Sort(out)
	return out
}
