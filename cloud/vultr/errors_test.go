package vultr

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

func TestKindOf(t *testing.T) {
	for _, tt := range []struct {
		status int
		said   string
		want   cloud.Kind
	}{
		{400, "Invalid plan chosen.", cloud.Invalid},
		{400, "The plan is not available in the selected location", cloud.Capacity},
		{400, "This plan is temporarily sold out", cloud.Capacity},
		{412, "You have reached the maximum number of active virtual machines for this account. Please contact our support team to have the limit raised", cloud.Quota},
		{500, "Server add failed: You have reached the maximum number of active virtual machines for this account", cloud.Quota},
		{402, "", cloud.Quota},
		{401, "Unauthorized IP address: 2001:db8::1", cloud.Auth},
		{401, "Invalid API token.", cloud.Auth},
		{403, "You have reached the maximum number of nothing", cloud.Auth},
		{404, "Instance not found", cloud.Invalid},
		{408, "", cloud.Transient},
		{429, "Rate limit exceeded", cloud.Throttled},
		{503, "Rate limit exceeded", cloud.Throttled},
		{500, "Unable to destroy server: Unable to remove VM: Server is currently locked", cloud.Transient},
		{502, "<html>", cloud.Transient},
		{302, "", cloud.Transient},
		{422, "something new", cloud.Invalid},
	} {
		if got := kindOf(tt.status, tt.said); got != tt.want {
			t.Errorf("%d %q is %s, want %s", tt.status, tt.said, got, tt.want)
		}
	}
}

func TestFailure(t *testing.T) {
	lost := errors.New("gave up after 1 attempts")
	for name, tt := range map[string]struct {
		a       answer
		kind    cloud.Kind
		refused bool // by Vultr's word
		unsent  bool
		text    string
	}{
		"refusal":         {answer{status: 400, said: "Invalid hostname"}, cloud.Invalid, true, false, "making it: Invalid hostname"},
		"hint":            {answer{status: 401, said: "Unauthorized IP address: 192.0.2.1"}, cloud.Auth, true, false, "access control"},
		"other auth":      {answer{status: 403}, cloud.Auth, true, false, "Forbidden; check the API key"},
		"quota by 500":    {answer{status: 500, said: "maximum number of servers"}, cloud.Quota, false, false, "raise the account's limit"},
		"500":             {answer{status: 500, said: "oops"}, cloud.Transient, false, false, "oops"},
		"network":         {answer{err: errors.New("connection refused")}, cloud.Transient, false, false, "making it: connection refused"},
		"cancelled":       {answer{status: 400, err: context.Canceled}, cloud.Transient, false, false, "context canceled"},
		"our own limit":   {answer{err: &cloud.Error{Kind: cloud.Throttled, Err: errors.New("held back")}}, cloud.Throttled, false, true, "held back"},
		"no key":          {answer{err: noKey(errors.New("none"))}, cloud.Auth, false, true, "docs/vultr.md"},
		"good, not JSON":  {answer{status: 202}, cloud.Transient, false, false, "cannot be read"},
		"nothing came of": {answer{}, cloud.Transient, false, false, "cannot be read"},
	} {
		e := failure("launch", "making it", tt.a, lost)
		if e.Kind != tt.kind || refused(e) != tt.refused || unsent(e) != tt.unsent || e.Op != "launch" || !strings.Contains(e.Error(), tt.text) {
			t.Errorf("%s: %v, refused %v, unsent %v", name, e, refused(e), unsent(e))
		}
		if errors.Is(tt.a.err, context.Canceled) != errors.Is(e, context.Canceled) {
			t.Errorf("%s: %v lost that it was cancelled", name, e)
		}
	}
	if !notFound(failure("x", "y", answer{status: 404}, lost)) || notFound(failure("x", "y", answer{status: 400}, lost)) {
		t.Error("notFound is not that of 404")
	}
}

func TestRetryAfterHeader(t *testing.T) {
	now := time.Date(2026, 11, 22, 5, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "3": 3 * time.Second, " 3 ": 3 * time.Second, "-1": 0, "soon": 0, "99999999": longestWait,
		now.Add(5 * time.Second).Format(http.TimeFormat): 5 * time.Second, now.Add(-time.Hour).Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(header, now); got != want {
			t.Errorf("%q is %s, want %s", header, got, want)
		}
	}
}

func TestSaidIn(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":"Invalid plan chosen.","status":400}`: "Invalid plan chosen.",
		"<html>\n <h1>502</h1>":                         "<html> <h1>502</h1>",
		"":                                              "",
		strings.Repeat("x", 300):                        strings.Repeat("x", 200) + "…",
		strings.Repeat("é", 300):                        strings.Repeat("é", 100) + "…",
	} {
		if got := saidIn([]byte(body)); got != want {
			t.Errorf("%.40q says %q, want %q", body, got, want)
		}
	}
}

// The rate never lets more than Vultr's 30 through in one second.
func TestLimitsAreVultrs(t *testing.T) {
	if most := allowed.perSecond + allowed.atOnce; most > 30 || allowed.counted != time.Second {
		t.Errorf("%d requests may go in one second, and Vultr answers 30", most)
	}
	one, same, other := limitsOf("http://a"), limitsOf("http://a"), limitsOf("http://b")
	if one != same || one == other {
		t.Error("the limit is not one for each address")
	}
	l := limitsOf("http://c")
	l.pause(time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var e *cloud.Error
	if err := l.wait(ctx); !errors.As(err, &e) || e.Kind != cloud.Throttled || e.RetryAfter < 59*time.Minute {
		t.Errorf("a paused limit says %v", err)
	}
	done, stop := context.WithCancel(t.Context())
	stop()
	if err := l.wait(done); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled wait says %v", err)
	}
	if s := strings.Join([]string{resultOf(context.Canceled, 0), resultOf(nil, 202), resultOf(nil, 404), resultOf(nil, 429), resultOf(errors.New("lost"), 0)}, " "); s != "cancelled ok unknown throttled transient" {
		t.Errorf("the results are counted as %q", s)
	}
}

// Those that have waited for the end of a pause go at the rate, not all at once.
func TestAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimits(allowed)
		l.pause(0)
		began := time.Now()
		var mu sync.Mutex
		var gone []time.Duration
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if err := l.wait(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				gone = append(gone, time.Since(began))
			})
		}
		wg.Wait()
		slices.Sort(gone)
		if gone[0] < time.Second {
			t.Errorf("the first went after %s, in the pause", gone[0])
		}
		for i := 30; i < len(gone); i++ {
			if gone[i]-gone[i-30] < time.Second {
				t.Fatalf("31 requests went within %s", gone[i]-gone[i-30])
			}
		}
	})
}
