package vultr_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
)

const posts = "POST instances"

// ask is a request of count instances under a token.
func ask(token string, count int) cloud.LaunchRequest {
	r := request(vultrtest.Plan)
	r.Token, r.Cluster, r.Pool, r.Count = token, "c-1", "pool", count
	return r
}

// labels of the machines that exist, sorted.
func labels(c *vultrtest.Cloud) []string {
	var all []string
	for _, m := range c.Machines() {
		all = append(all, m.Label)
	}
	slices.Sort(all)
	return all
}

func ids(all []cloud.Instance) []string {
	var out []string
	for _, i := range all {
		out = append(out, i.ID)
	}
	return out
}

// The outcome of a request is unknown when its answer is lost, and when Vultr
// says 500, whether it had its effect or not. At each of a launch's requests one of them
// happens, and a new process goes on: in the end exactly what was asked for is there.
func TestUnknownOutcomes(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]vultrtest.Fault{
		"answer lost": {Lost: true},
		"500":         {Status: 500},
		"502":         {Status: http.StatusBadGateway},
		"504, done":   {Done: true, Status: http.StatusGatewayTimeout},
		"5xx, a word": {Done: true, Status: http.StatusServiceUnavailable, Message: "Server add failed: the plan is out of stock"},
		"no JSON":     {Body: "<html>"},
		"empty JSON":  {Body: "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const count = 5
			for at := range count {
				c := fakeCloud(t, vultrtest.Options{Lag: lag / 2})
				f := fault
				f.Skip = at
				c.Fail(posts, f)
				dir := t.TempDir()
				r := ask("t-1", count)
				_, err := over(t, c, func(v *vultr.Config) { v.Dir = dir }).Launch(t.Context(), r)
				if cloud.KindOf(err) != cloud.Transient {
					t.Fatalf("request %d: %v, want a transient error", at, err)
				}
				if e := cloud.Errors(err); slices.ContainsFunc(e, func(e *cloud.Error) bool { return e.Settled }) {
					t.Errorf("request %d: %v is settled, though something may still come", at, err)
				}
				got, err := over(t, c, func(v *vultr.Config) { v.Dir = dir }).Launch(t.Context(), r)
				if err != nil || len(got) != count {
					t.Fatalf("request %d: again: %v, %v", at, ids(got), err)
				}
				want := []string{"burst-t-1-0", "burst-t-1-1", "burst-t-1-2", "burst-t-1-3", "burst-t-1-4"}
				if all := labels(c); !slices.Equal(all, want) {
					t.Errorf("request %d: there are %v, want %v", at, all, want)
				}
			}
		})
	}
}

// A request that makes something is never repeated by itself; one that reads or
// destroys is.
func TestRepeats(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	p := over(t, c)
	c.Fail(posts, vultrtest.Fault{Status: http.StatusServiceUnavailable})
	if _, err := p.Launch(t.Context(), ask("t-1", 1)); cloud.KindOf(err) != cloud.Transient || c.Count(posts) != 1 {
		t.Errorf("%v after %d requests, want a transient error after one", err, c.Count(posts))
	}
	c.Fail("GET instances", vultrtest.Fault{Status: http.StatusServiceUnavailable, Times: tries - 1})
	if _, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1"}); err != nil {
		t.Errorf("a list that fails twice: %v", err)
	}
	got, err := p.Launch(t.Context(), ask("t-2", 1))
	if err != nil {
		t.Fatal(err)
	}
	c.Fail("DELETE instances", vultrtest.Fault{Lost: true})
	if err := p.Terminate(t.Context(), ids(got)); err != nil || len(labels(c)) != 0 {
		t.Errorf("destroying, whose answer is lost: %v; left are %v", err, labels(c))
	}
}

// What is no list is not taken for an empty one: all instances would seem gone.
func TestNoList(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	p := over(t, c)
	for _, body := range []string{"{}", "[]", "null", " ", "<html>", `{"instances":[]}`, `{"instances":[{"id":"x"`, `{"error":"Invalid","status":400}`} {
		c.Fail("GET instances", vultrtest.Fault{Body: body})
		if found, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1"}); err == nil || len(found) > 0 {
			t.Errorf("%s: %v, %v, want an error alone", body, found, err)
		}
	}
}

// A list that shows fewer than it says there are is not whole: what it lacks would
// seem gone. It is read once more.
func TestPartialList(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	p := over(t, c)
	got, err := p.Launch(t.Context(), ask("t-1", 2))
	if err != nil {
		t.Fatal(err)
	}
	partial := vultrtest.Fault{Body: `{"instances":[],"meta":{"total":2,"links":{"next":"","prev":""}}}`}
	c.Fail("GET instances", partial)
	if found, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1"}); err != nil || len(found) != len(got) {
		t.Errorf("partial once: %v, %v", ids(found), err)
	}
	partial.Times = 2
	c.Fail("GET instances", partial)
	if found, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1"}); cloud.KindOf(err) != cloud.Transient || len(found) > 0 {
		t.Errorf("partial twice: %v, %v, want a transient error alone", ids(found), err)
	}
}

// One request takes effect twice, and its answer is lost: the launch has what it
// asked for, and the list shows the other one as the cluster's, for reconciliation to end.
func TestDouble(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	p := over(t, c)
	c.Fail(posts, vultrtest.Fault{Twice: true, Skip: 1})
	r := ask("t-1", 3)
	if _, err := p.Launch(t.Context(), r); cloud.KindOf(err) != cloud.Transient {
		t.Fatal(err)
	}
	got, err := p.Launch(t.Context(), r)
	if err != nil || len(got) != 3 {
		t.Fatalf("%v, %v", ids(got), err)
	}
	again, err := p.Launch(t.Context(), r)
	if err != nil || !slices.Equal(ids(again), ids(got)) {
		t.Errorf("the launch is %v once and %v then, %v", ids(got), ids(again), err)
	}
	listed, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1", Tokens: []string{"t-1"}})
	if err != nil || len(listed) != 4 {
		t.Fatalf("listed are %v, %v, want all 4", ids(listed), err)
	}
	for _, i := range listed {
		if !slices.Contains(ids(got), i.ID) && (i.Node != "" || i.Pool != "pool") {
			t.Errorf("the double is %+v", i)
		}
	}
}

// A token of which nothing is written down, as after the loss of the folder, may
// have been asked for by another process until this one began.
func TestStranger(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{Lag: lag / 2})
	first, err := over(t, c).Launch(t.Context(), ask("t-1", 2))
	if err != nil {
		t.Fatal(err)
	}
	// Another folder: the new process must see them by their labels, which it does late.
	got, err := over(t, c).Launch(t.Context(), ask("t-1", 3))
	if err != nil || len(got) != 3 || !slices.Equal(ids(got)[:2], ids(first)) || len(c.Machines()) != 3 {
		t.Errorf("got %v, %v, want %v and one more", ids(got), err, ids(first))
	}
}

// A token that was prepared here is nobody else's: no time is lost for it.
func TestPreparedIsNotAwaited(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	p := over(t, c, func(v *vultr.Config) { v.Lag = time.Hour })
	r := []cloud.LaunchRequest{ask("t-1", 2)}
	if err := p.Prepare(t.Context(), r)[0]; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if got, err := p.Launch(ctx, r[0]); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", ids(got), err)
	}
}

// All or nothing, and Vultr does not yet destroy what it has just made: it is
// returned, for the engine to end.
func TestUndoLocked(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{Locked: time.Hour})
	c.SetCapacity(vultrtest.Plan, 2)
	r := ask("t-1", 3)
	r.AllOrNothing = true
	got, err := over(t, c).Launch(t.Context(), r)
	if len(got) != 2 || cloud.KindOf(err) != cloud.Capacity {
		t.Errorf("got %v, %v, want the two that could not be ended, and an error of capacity", ids(got), err)
	}
}

func TestLocked(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{Locked: time.Hour})
	p := over(t, c)
	got, err := p.Launch(t.Context(), ask("t-1", 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Terminate(t.Context(), ids(got)); cloud.KindOf(err) != cloud.Transient || !strings.Contains(err.Error(), "currently locked") {
		t.Errorf("%v, want a transient error that says why", err)
	}
}

// Nothing is asked for that cannot be written down first.
func TestNowhereToWrite(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := over(t, c, func(v *vultr.Config) { v.Dir = filepath.Join(file, "lon") })
	if _, err := p.Launch(t.Context(), ask("t-1", 1)); cloud.KindOf(err) != cloud.Transient || c.Count(posts) != 0 {
		t.Errorf("%v after %d requests, want an error before the first", err, c.Count(posts))
	}
}

// A launch of a plan that is gone in the meantime asks for few, not for all.
func TestLackIsFoundEarly(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	c.SetCapacity(vultrtest.Plan, 1)
	got, err := over(t, c).Launch(t.Context(), ask("t-1", 100))
	if len(got) != 1 || cloud.KindOf(err) != cloud.Capacity || c.Count(posts) > 3 {
		t.Errorf("%d instances, %v, after %d requests", len(got), err, c.Count(posts))
	}
}

// Vultr's limit is kept: a server that enforces it refuses nothing.
func TestRate(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{PerSecond: 30})
	vultr.Unhurried(c.URL())
	a, b := over(t, c), over(t, c) // two providers on one address
	count := 40
	if testing.Short() {
		count = 12 // as long as more than 30 go
	}
	var wg sync.WaitGroup
	for i, p := range []*vultr.Provider{a, b} {
		wg.Go(func() {
			if _, err := p.Launch(t.Context(), ask([]string{"t-1", "t-2"}[i], count)); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			for range 10 {
				if _, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, call := range c.Calls() {
		if call.Status == http.StatusTooManyRequests {
			t.Fatalf("Vultr refused %+v", call)
		}
	}
	if n := len(c.Machines()); n != 2*count {
		t.Errorf("there are %d machines, want %d", n, 2*count)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	p := over(t, c)
	c.Fail("GET account", vultrtest.Fault{Status: http.StatusTooManyRequests, RetryAfter: 2 * time.Second})
	if _, err := p.Account(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls := c.Calls()
	if d := calls[1].At.Sub(calls[0].At); len(calls) != 2 || d < 2*time.Second {
		t.Errorf("%d calls, the second %s after the first, want 2 with 2 s between", len(calls), d)
	}
	c.Fail("GET account", vultrtest.Fault{Status: http.StatusTooManyRequests, RetryAfter: time.Minute})
	_, err := p.Account(t.Context())
	var e *cloud.Error
	if !errors.As(err, &e) || e.Kind != cloud.Throttled || e.RetryAfter != time.Minute {
		t.Errorf("%v, want a throttled error with Vultr's minute", err)
	}
	// The same minute holds everything else back, and says so at once.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	began := time.Now()
	if _, err := p.List(ctx, cloud.Filter{Cluster: "c-1"}); cloud.KindOf(err) != cloud.Throttled || time.Since(began) > 10*time.Second {
		t.Errorf("%v after %s, want a throttled error at once", err, time.Since(began))
	}
}

// One without an address may have been stopped by somebody, or suspended: it is
// Terminating, and is ended.
func TestSuspended(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	p := over(t, c)
	got, err := p.Launch(t.Context(), ask("t-1", 1))
	if err != nil {
		t.Fatal(err)
	}
	c.Suspend(got[0].ID)
	listed, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1"})
	if err != nil || len(listed) != 1 || listed[0].State != cloud.Terminating {
		t.Errorf("%+v, %v", listed, err)
	}
}
