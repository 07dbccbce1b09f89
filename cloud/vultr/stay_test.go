package vultr_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
)

// A server's fault whose words name a reason that stays is no refusal at first: what was
// asked for may still come. Once it has not, the launch is over for that reason, also
// for the next process, and nothing is asked for again. One that says nothing is worth
// three requests.
func TestFaultsThatStay(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct { // the first wave is one that succeeds, the next are two, and then one by each process
		said  string
		kind  cloud.Kind
		posts int
	}{
		"quota":         {"Server add failed: You have reached the maximum number of active virtual machines for this account", cloud.Quota, 2},
		"no capacity":   {"Server add failed: the plan is out of stock", cloud.Capacity, 2},
		"nothing known": {"Internal error 0x17", cloud.Capacity, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fakeCloud(t, vultrtest.Options{})
			c.Fail(posts, vultrtest.Fault{Status: http.StatusInternalServerError, Message: tt.said, Skip: 1, Times: 1e6})
			dir := t.TempDir()
			r := ask("t-1", 4)
			var got []cloud.Instance
			var err error
			for n := range 10 { // each is another process
				got, err = over(t, c, func(v *vultr.Config) { v.Dir = dir }).Launch(t.Context(), r)
				if e := cloud.Errors(err); len(e) > 0 && e[0].Settled {
					break
				}
				if cloud.KindOf(err) != cloud.Transient || n == 9 {
					t.Fatalf("call %d: %v, want a transient error first", n, err)
				}
			}
			var e *cloud.Error
			if !errors.As(err, &e) || e.Kind != tt.kind || !strings.Contains(err.Error(), tt.said) || len(got) != 1 || tt.kind == cloud.Capacity && e.Offering != r.Offering {
				t.Errorf("%v, %v, want one instance and a settled error of %s", ids(got), err, tt.kind)
			}
			faulty := 0
			for _, call := range c.Calls() {
				if call.Op == posts && call.Status == http.StatusInternalServerError {
					faulty++
				}
			}
			if faulty != tt.posts {
				t.Errorf("%d requests met it, want %d", faulty, tt.posts)
			}
			if again, err := over(t, c, func(v *vultr.Config) { v.Dir = dir }).Launch(t.Context(), r); len(again) != 1 || cloud.KindOf(err) != tt.kind || len(c.Machines()) != 1 {
				t.Errorf("again: %v, %v", ids(again), err)
			}
		})
	}
}

// Something that came of a fault after all is taken, whatever the words were.
func TestFaultThatWasNone(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{Lag: lag / 2})
	p := over(t, c)
	c.Fail(posts, vultrtest.Fault{Done: true, Status: http.StatusServiceUnavailable, Message: "the plan is out of stock"})
	r := ask("t-1", 1)
	if _, err := p.Launch(t.Context(), r); cloud.KindOf(err) != cloud.Transient {
		t.Fatal(err)
	}
	if got, err := p.Launch(t.Context(), r); err != nil || len(got) != 1 || c.Count(posts) != 1 {
		t.Errorf("%v, %v, after %d requests", ids(got), err, c.Count(posts))
	}
}

// A list that was asked for in the Lag shows what was so then, however late its answer
// comes: it proves nothing.
func TestSlowListIsNoProof(t *testing.T) {
	t.Parallel()
	const lag = 400 * time.Millisecond
	c := fakeCloud(t, vultrtest.Options{Lag: lag / 2})
	p := over(t, c, func(v *vultr.Config) { v.Lag = lag })
	r := ask("t-1", 1)
	prepared := []cloud.LaunchRequest{r}
	if err := p.Prepare(t.Context(), prepared)[0]; err != nil {
		t.Fatal(err)
	}
	c.Fail(posts, vultrtest.Fault{Lost: true})
	if _, err := p.Launch(t.Context(), prepared[0]); cloud.KindOf(err) != cloud.Transient {
		t.Fatal(err)
	}
	c.Fail("GET instances", vultrtest.Fault{Late: 2 * lag})
	if got, err := p.Launch(t.Context(), prepared[0]); err != nil || len(got) != 1 || c.Count(posts) != 1 {
		t.Errorf("%v, %v, after %d requests", ids(got), err, c.Count(posts))
	}
}

// How long Vultr wants to be left alone is told, whatever else its fault has said.
func TestFaultWithAWish(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"Rate limit exceeded", "the plan is out of stock", "Service unavailable"} {
		c := fakeCloud(t, vultrtest.Options{})
		c.Fail(posts, vultrtest.Fault{Status: http.StatusServiceUnavailable, Message: said, RetryAfter: 90 * time.Second})
		_, err := over(t, c).Launch(t.Context(), ask("t-1", 1))
		if e := cloud.Errors(err); len(e) != 1 || e[0].Kind != cloud.Transient || e[0].RetryAfter != 90*time.Second {
			t.Errorf("%s: %v", said, err)
		}
	}
}
