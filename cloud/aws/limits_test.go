package aws

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

func TestWait(t *testing.T) {
	type call struct {
		action string
		n      int // instances
		times  int
	}
	for _, tt := range []struct {
		name  string
		calls []call
		want  time.Duration // of the last
	}{
		{"bucket of RunInstances", []call{{"RunInstances", 1, 5}}, 0},
		{"past the bucket, 2 a second", []call{{"RunInstances", 1, 20}}, 7500 * time.Millisecond},
		{"fleets", []call{{"CreateFleet", 0, 50}}, 0},
		{"past the fleets, 5 a second", []call{{"CreateFleet", 0, 55}}, time.Second},
		{"mutating calls share a bucket", []call{{"CreateFleet", 0, 30}, {"CreatePlacementGroup", 0, 25}}, time.Second},
		{"describing calls share a bucket", []call{{"DescribeInstances", 0, 60}, {"DescribeImages", 0, 60}}, time.Second},
		{"actions do not disturb each other", []call{{"RunInstances", 1, 5}, {"CreateFleet", 0, 1}}, 0},
		{"instances of RunInstances", []call{{"RunInstances", 1000, 1}, {"RunInstances", 100, 1}}, 50 * time.Second},
		{"instances of TerminateInstances", []call{{"TerminateInstances", 1000, 1}, {"TerminateInstances", 100, 1}}, 5 * time.Second},
		{"tags", []call{{"CreateTags", 0, 110}}, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, start := newLimits(), time.Now()
				var wg sync.WaitGroup
				for _, c := range tt.calls {
					for range c.times {
						wg.Go(func() {
							if err := l.wait(t.Context(), c.action, c.n); err != nil {
								t.Error(err)
							}
						})
					}
				}
				wg.Wait()
				if d := time.Since(start) - tt.want; d < 0 || d > time.Millisecond {
					t.Errorf("waited %s, want %s", time.Since(start), tt.want)
				}
			})
		})
	}
}

func TestWaitCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimits()
		for range 5 {
			if err := l.wait(t.Context(), "RunInstances", 1); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		if err := l.wait(ctx, "RunInstances", 1); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled wait: %v", err)
		}
		start := time.Now()
		if err := l.wait(t.Context(), "RunInstances", 1); err != nil || time.Since(start) > 400*time.Millisecond {
			t.Errorf("the cancelled call keeps its tokens: waited %s, %v", time.Since(start), err)
		}
	})
}

// A call that could not go before its deadline is told so at once.
func TestWaitTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, start := newLimits(), time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := l.wait(ctx, "RunInstances", 1000); err != nil {
			t.Fatal(err)
		}
		err := l.wait(ctx, "RunInstances", 500)
		var e *cloud.Error
		if !errors.As(err, &e) || e.Kind != cloud.Throttled || e.Settled || e.RetryAfter != 250*time.Second || time.Since(start) != 0 {
			t.Errorf("after %s: %+v", time.Since(start), e)
		}
		if err := l.wait(ctx, "RunInstances", 20); err != nil || time.Since(start) > 10*time.Second+time.Millisecond {
			t.Errorf("after %s: %v: the refused call keeps its tokens", time.Since(start), err)
		}
	})
}

func TestEmpty(t *testing.T) {
	for _, tt := range []struct {
		name, message string
		n             int
		wait          time.Duration
	}{
		{"of what is not said", "Request limit exceeded.", 1, 500 * time.Millisecond},
		{"of instances", "Request limit exceeded. Account 1 has been throttled on ec2:RunInstances because it exceeded its resource rate limit.", 20, 10 * time.Second},
		{"of requests", "Request limit exceeded. Account 1 has been throttled on ec2:RunInstances because it exceeded its request rate limit.", 500, 500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, start := newLimits(), time.Now()
				l.take("RunInstances", tt.n)
				l.empty("RunInstances", tt.n, tt.message)
				if err := l.wait(t.Context(), "RunInstances", tt.n); err != nil {
					t.Fatal(err)
				}
				if d := time.Since(start); (d - tt.wait).Abs() > time.Millisecond {
					t.Errorf("waited %s after RequestLimitExceeded, want %s", d, tt.wait)
				}
			})
		})
	}
}

// Two controllers share an account's buckets, and neither counts the other's
// calls: the refusals make both slower until all is through.
func TestTwoShareTheBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		account := newLimits() // EC2's own
		start := time.Now()
		var wg sync.WaitGroup
		for range 2 {
			l := newLimits()
			for range 30 {
				wg.Go(func() {
					for {
						if err := l.wait(t.Context(), "RunInstances", 10); err != nil {
							t.Error(err)
							return
						}
						if account.room("RunInstances", 10, map[string]int{}) {
							account.take("RunInstances", 10)
							return
						}
						l.empty("RunInstances", 10, "exceeded its request rate limit")
						time.Sleep(500 * time.Millisecond)
					}
				})
			}
		}
		wg.Wait()
		if d := time.Since(start); d > 2*time.Minute { // 60 calls at 2/s: 27.5 s alone
			t.Errorf("60 launches took %s", d)
		}
	})
}

func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name   string
			before int   // instances launched just before
			counts []int // planned together
			want   []bool
		}{
			{"five calls", 0, []int{1, 1, 1, 1, 1, 1}, []bool{true, true, true, true, true, false}},
			{"a thousand and a hundred", 0, []int{1000, 100}, []bool{true, false}},
			{"one that does not fit leaves room", 0, []int{600, 600, 400}, []bool{true, false, true}},
			{"after others", 950, []int{100, 50}, []bool{false, true}},
		} {
			l, ahead := newLimits(), map[string]int{}
			if tt.before > 0 {
				if err := l.wait(t.Context(), "RunInstances", tt.before); err != nil {
					t.Fatal(err)
				}
			}
			for i, n := range tt.counts {
				if got := l.room("RunInstances", n, ahead); got != tt.want[i] {
					t.Errorf("%s: launch %d of %d: room %v, want %v", tt.name, i+1, n, got, tt.want[i])
				}
			}
		}
	})
}

func TestLimitsShared(t *testing.T) {
	a := Config{Name: "a", Region: "us-east-1", Endpoint: "http://" + t.Name()}
	b := a
	b.Name = "b"
	if limitsOf(a) != limitsOf(b) {
		t.Error("two providers of one account and region have buckets of their own")
	}
	b.Region = "us-east-2"
	if limitsOf(a) == limitsOf(b) {
		t.Error("two regions share buckets")
	}
}
