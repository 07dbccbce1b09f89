package cloudtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

var small = cloud.Offering{Type: "small", Zone: "a", Market: cloud.Spot}

func TestConformance(t *testing.T) {
	for name, options := range map[string]Options{
		"at once":     {PageSize: 4},
		"with choice": {PageSize: 4, Choice: true, Prepare: true},
		"with delays": {
			Latency: map[Op]time.Duration{Launch: 2 * time.Millisecond, List: time.Millisecond, Terminate: time.Millisecond},
			Boot:    20 * time.Millisecond, AddrDelay: 30 * time.Millisecond, Lag: 15 * time.Millisecond,
			Shutdown: 10 * time.Millisecond, Retry: time.Millisecond, PageSize: 4, MaxLaunch: 8,
			Image: 25 * time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			Conformance(t, Harness{
				Poll: time.Millisecond, Choice: options.Choice, Bubble: true,
				New: func(t *testing.T) Cloud {
					f := NewFake(options)
					return Cloud{
						Provider:    f,
						Request:     cloud.LaunchRequest{Offering: small},
						Reopen:      func() cloud.Provider { return f },
						PageSize:    options.PageSize,
						FailPage:    func() { f.Inject(List, Fault{Err: fail(List, cloud.Transient, "page 2"), Skip: 1}) },
						LoseAnswer:  func() { f.LoseAnswer(Launch) },
						SetCapacity: func(n int) { f.SetCapacity(small, n) },
						Or:          []cloud.Offering{{Type: "small", Zone: "b", Market: cloud.Spot}, {Type: "big", Zone: "b", Market: cloud.Spot}},
						SetRoom:     f.SetCapacity,
						Throttle:    func(o cloud.Offering) { f.Throttle(o, 1) },
						Fail:        f.Fail,
						LoseImage:   func() { f.LoseAnswer(MakeImage) },
						Announce:    func(id string) { f.Announce(interruption(id, time.Minute)) },
					}
				},
			})
		})
	}
}

func interruption(id string, lead time.Duration) cloud.Notice {
	return cloud.Notice{Instance: id, Kind: cloud.SpotInterruption, Deadline: time.Now().Add(lead)}
}

func request(token string, count int) cloud.LaunchRequest {
	return cloud.LaunchRequest{Token: token, Cluster: "c", Pool: "p", Offering: small, Count: count}
}

func TestLifeOfAnInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFake(Options{
			Latency: map[Op]time.Duration{Launch: time.Second}, Boot: 30 * time.Second,
			AddrDelay: 10 * time.Second, Lag: 5 * time.Second, Shutdown: 20 * time.Second, Keep: time.Minute,
		})
		begun := time.Now()
		at := func(d time.Duration) string {
			time.Sleep(time.Until(begun.Add(d)))
			found, err := f.List(t.Context(), cloud.Filter{Cluster: "c"})
			if err != nil {
				t.Fatal(err)
			}
			var sb strings.Builder
			for _, i := range found {
				fmt.Fprintf(&sb, "%s %s %t %t", i.ID, i.State, i.Addr != "", !i.Ended.IsZero())
			}
			return sb.String()
		}
		if _, err := f.Launch(t.Context(), request("t", 1)); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			after time.Duration
			want  string
		}{
			{time.Second, ""},
			{5 * time.Second, ""},
			{6 * time.Second, "i-00000001 pending false false"},
			{11 * time.Second, "i-00000001 pending true false"},
			{31 * time.Second, "i-00000001 running true false"},
		} {
			if got := at(tt.after); got != tt.want {
				t.Errorf("after %s: %q, want %q", tt.after, got, tt.want)
			}
		}
		f.Announce(interruption("i-00000001", 9*time.Second))
		for _, tt := range []struct {
			after time.Duration
			want  string
		}{
			{39 * time.Second, "i-00000001 running true false"},
			{40 * time.Second, "i-00000001 terminating true false"},
			{60 * time.Second, "i-00000001 terminated true true"},
			{120 * time.Second, "i-00000001 terminated true true"},
			{121 * time.Second, ""},
		} {
			if got := at(tt.after); got != tt.want {
				t.Errorf("after %s: %q, want %q", tt.after, got, tt.want)
			}
		}
	})
}

func TestNoticeComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFake(Options{Retry: time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		var calls []time.Duration
		begun := time.Now()
		go func() {
			_ = f.Notices(ctx, func(_ context.Context, n cloud.Notice) error {
				calls = append(calls, time.Since(begun))
				if len(calls) < 3 {
					return errors.New("not yet")
				}
				return nil
			})
		}()
		time.Sleep(10 * time.Second)
		f.Announce(interruption("i-1", time.Minute))
		time.Sleep(10 * time.Second)
		cancel()
		synctest.Wait()
		want := []time.Duration{10 * time.Second, 11 * time.Second, 12 * time.Second}
		if !slices.Equal(calls, want) {
			t.Errorf("delivered at %v, want %v", calls, want)
		}
	})
}

func TestFaults(t *testing.T) {
	f := NewFake(Options{})
	f.Inject(Terminate, Fault{Err: errors.New("one"), Skip: 1, Times: 2})
	f.Fail(Terminate, cloud.Throttled)
	var got []string
	for range 5 {
		got = append(got, fmt.Sprint(f.Terminate(t.Context(), nil)))
	}
	want := []string{"<nil>", "one", "one", "terminate: throttled (Fake): injected", "<nil>"}
	if !slices.Equal(got, want) {
		t.Errorf("answers are %q, want %q", got, want)
	}
	if n := f.Calls(Terminate); n != 5 {
		t.Errorf("%d calls counted, want 5", n)
	}
}

func TestTokenOfAnotherRequest(t *testing.T) {
	f := NewFake(Options{})
	if _, err := f.Launch(t.Context(), request("t", 1)); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Launch(t.Context(), request("t", 2)); cloud.KindOf(err) != cloud.Invalid || len(got) != 0 {
		t.Errorf("got %v, %v, want an error of kind invalid", got, err)
	}
}

func TestLatencyIsCutByContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFake(Options{Latency: map[Op]time.Duration{Launch: time.Hour}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := f.Launch(ctx, request("t", 1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %v", err)
		}
		if n := len(f.Instances()); n != 0 {
			t.Errorf("%d instances after a launch that was cut off", n)
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	f := NewFake(Options{})
	begun := time.Now()
	var wg sync.WaitGroup
	for n := range 10 {
		wg.Go(func() {
			if got, err := f.Launch(t.Context(), request(fmt.Sprint("t", n), 100)); err != nil || len(got) != 100 {
				t.Errorf("launch %d: %d instances, %v", n, len(got), err)
			}
		})
	}
	wg.Wait()
	if d := time.Since(begun); d > time.Second {
		t.Errorf("1,000 instances took %s", d)
	}
	if n := len(f.Instances()); n != 1000 {
		t.Errorf("%d instances, want 1,000", n)
	}
}

func BenchmarkLaunch1000(b *testing.B) {
	for b.Loop() {
		f := NewFake(Options{})
		if _, err := f.Launch(b.Context(), request("t", 1000)); err != nil {
			b.Fatal(err)
		}
	}
}

func TestWhatTheFakeWasTold(t *testing.T) {
	f := NewFake(Options{Shutdown: time.Hour})
	got, err := f.Launch(t.Context(), request("t", 2))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Assign(t.Context(), map[string]string{got[0].ID: "n1"}); err != nil {
		t.Fatal(err)
	}
	if nodes := f.Nodes(); len(nodes) != 1 || nodes[got[0].ID] != "n1" {
		t.Errorf("nodes are %v", nodes)
	}
	n := interruption(got[0].ID, time.Minute)
	if err := f.Acknowledge(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if acked := f.Acknowledged(); !slices.Equal(acked, []cloud.Notice{n}) {
		t.Errorf("acknowledged are %v", acked)
	}
	f.Kill(got[1].ID)
	if all := f.Instances(); all[0].State != cloud.Running || all[1].State != cloud.Terminated {
		t.Errorf("after the death of the second: %+v", all)
	}
}

func TestPrepare(t *testing.T) {
	f := NewFake(Options{Prepare: true})
	refused := errors.New("no such image")
	f.RefusePool("q", refused)
	other := request("u", 1)
	other.Pool = "q"
	all := []cloud.LaunchRequest{request("t", 1), other}
	if errs := f.Prepare(t.Context(), all); errs[0] != nil || errs[1] != refused || len(all[0].Spec) == 0 || len(all[1].Spec) != 0 {
		t.Errorf("%v, %+v", errs, all)
	}
	f.Fail(Prepare, cloud.Auth)
	for _, err := range f.Prepare(t.Context(), all) {
		if cloud.KindOf(err) != cloud.Auth {
			t.Errorf("%v, want one of kind auth", err)
		}
	}
	got, err := f.Launch(t.Context(), all[0])
	if err != nil || string(f.Request(got[0].ID).Spec) != `{"pool":"p"}` || f.Calls(Prepare) != 2 {
		t.Errorf("%v, %v, %d calls", got, err, f.Calls(Prepare))
	}
}

func TestNeverBoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFake(Options{Boot: time.Second})
		f.NeverBoot(1)
		if _, err := f.Launch(t.Context(), request("t", 2)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		if all := f.Instances(); all[0].State != cloud.Pending || all[1].State != cloud.Running {
			t.Errorf("%+v", all)
		}
	})
}
