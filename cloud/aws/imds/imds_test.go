package imds

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud/aws/imds/imdstest"
)

func newClient(t *testing.T, s *imdstest.Service, o Options) *Client {
	t.Helper()
	o.Transport = imdstest.Direct{Service: s}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOneTokenForMany(t *testing.T) {
	s := imdstest.New("i-1")
	c := newClient(t, s, Options{})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if id, err := c.InstanceID(t.Context()); id != "i-1" || err != nil {
				t.Errorf("InstanceID = %q, %v", id, err)
			}
		})
	}
	wg.Wait()
	if puts, gets, refused := s.Count(); puts != 1 || gets != 20 || refused != 0 {
		t.Errorf("%d tokens for %d reads, %d of them refused", puts, gets, refused)
	}
}

func TestTokenIsReplaced(t *testing.T) {
	for _, tt := range []struct {
		name    string
		between func(*imdstest.Service)
		refused int
	}{
		{"before it expires", func(*imdstest.Service) { time.Sleep(55 * time.Second) }, 0},
		{"when the service has forgotten it", func(s *imdstest.Service) { s.Expire() }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := imdstest.New("i-1")
				s.LimitTTL(time.Minute) // less than the client asks for
				c := newClient(t, s, Options{})
				for range 2 {
					if _, err := c.InstanceID(t.Context()); err != nil {
						t.Fatal(err)
					}
					tt.between(s)
				}
				if puts, _, refused := s.Count(); puts != 2 || refused != tt.refused {
					t.Errorf("%d tokens, %d reads refused; want 2, %d", puts, refused, tt.refused)
				}
			})
		})
	}
}

// TestAlways401: one new token and one more try for each call, no more, and no
// request without a token.
func TestAlways401(t *testing.T) {
	s := imdstest.New("i-1")
	s.Fail("/latest/meta-data", imdstest.Fault{Status: http.StatusUnauthorized})
	c := newClient(t, s, Options{})
	for range 5 {
		if _, err := c.InstanceID(t.Context()); err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("InstanceID: %v", err)
		}
	}
	if puts, gets, refused := s.Count(); puts != 10 || gets != 10 || refused != 10 {
		t.Errorf("%d tokens, %d reads, %d refused, want 10 each", puts, gets, refused)
	}
}

// TestNoWayBack: a service that gives no token is not asked without one, as
// version 1 would be.
func TestNoWayBack(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 405, 500, 301} {
		s := imdstest.New("i-1")
		s.Fail("/latest/api/token", imdstest.Fault{Status: status, Body: "AQAE"})
		_, err := newClient(t, s, Options{}).InstanceID(t.Context())
		if puts, gets, _ := s.Count(); err == nil || errors.Is(err, ErrNone) || puts != 1 || gets != 0 {
			t.Errorf("a token is answered with %d: %v, %d PUTs, %d GETs", status, err, puts, gets)
		}
	}
}

func TestBadAnswers(t *testing.T) {
	const data, token = "/latest/meta-data", "/latest/api/token"
	for _, tt := range []struct {
		name, path string
		fault      imdstest.Fault
		want       string
	}{
		{"500", data, imdstest.Fault{Status: 500}, "it answers 500"},
		{"503 for the token", token, imdstest.Fault{Status: 503}, "asking for a token: it answers 503"},
		{"cut off", data, imdstest.Fault{Cut: true}, "did not come whole"},
		{"cut off token", token, imdstest.Fault{Cut: true}, "did not come whole"},
		{"hangs", data, imdstest.Fault{Hang: true}, "Timeout"},
		{"the token hangs", token, imdstest.Fault{Hang: true}, "Timeout"},
		{"endless", data, imdstest.Fault{Status: 200, Body: strings.Repeat("x", 1<<20)}, "more than 65536 bytes"},
		{"empty token", token, imdstest.Fault{Status: 200, Body: " \n"}, "no token"},
		{"a page for a token", token, imdstest.Fault{Status: 200, Body: "<html>\n<body>"}, "no token"},
		{"a long token", token, imdstest.Fault{Status: 200, Body: strings.Repeat("x", 5000)}, "no token"},
		{"no id", data, imdstest.Fault{Status: 200, Body: "<html>"}, "which is no id"},
		{"redirect", data, imdstest.Fault{Status: 302}, "it answers 302"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := imdstest.New("i-1")
			url, err := s.Serve(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c, err := New(Options{URL: url, Timeout: 500 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			s.Fail(tt.path, tt.fault)
			if id, err := c.InstanceID(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("InstanceID = %q, %v; want %q", id, err, tt.want)
			}
			s.Fail(tt.path, imdstest.Fault{})
			for range 2 { // what was bad has left nothing behind
				if id, err := c.InstanceID(t.Context()); id != "i-1" || err != nil {
					t.Errorf("afterwards InstanceID = %q, %v", id, err)
				}
			}
		})
	}
}

func TestNothingThere(t *testing.T) {
	c := newClient(t, imdstest.New("i-1"), Options{})
	if _, err := c.Get(t.Context(), "no/such"); !errors.Is(err, ErrNone) {
		t.Errorf("Get: %v", err)
	}
	for _, topic := range Topics() {
		if all, err := c.Notices(t.Context(), topic); len(all) > 0 || err != nil {
			t.Errorf("%s: %v, %v", topic.Kind, all, err)
		}
	}
}

func TestCancelled(t *testing.T) {
	s := imdstest.New("i-1")
	s.Fail("/latest/api/token", imdstest.Fault{Hang: true})
	c := newClient(t, s, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for range 3 { // one hangs with the token, the others wait for it
		wg.Go(func() {
			if _, err := c.InstanceID(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("InstanceID: %v", err)
			}
		})
	}
	wg.Wait()
}

func TestURL(t *testing.T) {
	for _, url := range []string{"169.254.169.254", "ftp://h", "http://", "http://u:p@h", "http://h?q=1", ":"} {
		if _, err := New(Options{URL: url}); err == nil {
			t.Errorf("%q is taken", url)
		}
	}
}
