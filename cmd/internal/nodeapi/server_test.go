package nodeapi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cmd/internal/munge"
)

func TestANodeLearnsItsName(t *testing.T) {
	w := newWorld(t, Limits{})
	got := w.ask(request{"POST", whoami, me, "own"})
	if want := `{"instance":"i-1","node":"c1","cluster":"f00d","slurm":"22.05.8"}`; got.status != 200 || got.body != want {
		t.Fatalf("%+v, want %s", got, want)
	}
	sum := sha256.Sum256([]byte(got.body))
	if c := w.munge.made[got.credential]; string(c.Payload) != hex.EncodeToString(sum[:]) {
		t.Errorf("the answer's credential holds %q", c.Payload)
	}
	long := "line 1\r\n\tfailed: \x1b[31m\xff" + strings.Repeat("ä", maxText)
	body := fmt.Sprintf(`{"instance":"i-1","stage":"failed","text":%q}`, strings.ReplaceAll(strings.ReplaceAll(long, "\x1b", "@"), "\xff", "@"))
	if got := w.ask(request{"POST", report, strings.ReplaceAll(body, "@", `\u001b`), "own"}); got.status != 200 || got.body != "{}" {
		t.Fatalf("report: %+v", got)
	}
	r := w.site.reports[0]
	if r.Instance != "i-1" || r.Addr != "127.0.0.1" || r.Stage != Failed || !strings.HasPrefix(r.Text, "line 1 | failed:  [31m ä") || len(r.Text) > maxText || len(r.Text) < maxText-1 {
		t.Errorf("reported: %.40s… (%d bytes) of %+v", r.Text, len(r.Text), r.Stage)
	}
}

func TestRefused(t *testing.T) {
	w := newWorld(t, Limits{Burst: 1000})
	used := request{"POST", whoami, me, w.munge.mint(0, payload("POST", whoami, me))}
	w.ask(used)
	other := `{"instance":"i-2"}`
	for _, tt := range []struct {
		name    string
		request request
		status  int
		says    string
	}{
		{"no credential", request{"POST", whoami, me, ""}, 401, "Authorization: MUNGE"},
		{"no credential of ours", request{"POST", whoami, me, "forged"}, 401, "MUNGE key"},
		{"the same request again", used, 401, "used before"},
		{"a user's", request{"POST", whoami, me, w.munge.mint(1000, payload("POST", whoami, me))}, 403, "uid 1000"},
		{"of another body", request{"POST", whoami, other, w.munge.mint(0, payload("POST", whoami, me))}, 401, "not this request's"},
		{"of another path", request{"POST", report, me, w.munge.mint(0, payload("POST", whoami, me))}, 401, "not this request's"},
		{"of another method", request{"POST", whoami, me, w.munge.mint(0, payload("GET", whoami, me))}, 401, "not this request's"},
		{"another's instance", request{"POST", whoami, other, "own"}, 403, "id and address"},
		{"no JSON", request{"POST", whoami, "instance=i-1", "own"}, 400, "JSON"},
		{"no instance", request{"POST", whoami, "{}", "own"}, 400, "no instance's id"},
		{"an instance that is none", request{"POST", whoami, `{"instance":"i 1"}`, "own"}, 400, "no instance's id"},
		{"no stage", request{"POST", report, me, "own"}, 400, "stage"},
		{"too long", request{"POST", report, strings.Repeat(" ", maxBody+1), "own"}, 413, "16384 bytes"},
		{"by GET", request{"GET", whoami, "", "own"}, 404, "nothing to ask"},
		{"an admin's verb", request{"POST", "/v1/orders", "{}", "own"}, 404, "nothing to ask"},
		{"the socket's", request{"GET", "/v1/status", "", "own"}, 404, "nothing to ask"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := w.ask(tt.request)
			if got.status != tt.status || !strings.Contains(got.body, tt.says) || got.credential != "" {
				t.Errorf("%+v, want %d and %q", got, tt.status, tt.says)
			}
		})
	}
	want := map[string]uint64{"ok": 1, "unauthenticated": 6, "refused": 2, "malformed": 8}
	if diff := cmp.Diff(want, w.Requests()); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

func TestAskAgain(t *testing.T) {
	for _, tt := range []struct {
		name          string
		backend, mint error
		status        int
		says          string
	}{
		{"not assigned yet", fmt.Errorf("i-1: %w", ErrNotYet), nil, 409, "not known yet"},
		{"the journal fails", errDisk, nil, 500, "its log says why"},
		{"munged is away", nil, munge.ErrAway, 503, "munged"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, Limits{})
			w.site.fail(tt.backend)
			w.munge.err = tt.mint
			got := w.ask(request{"POST", whoami, me, "own"})
			if got.status != tt.status || got.retry == "" || !strings.Contains(got.body, tt.says) || strings.Contains(got.body, "disk") {
				t.Errorf("%+v, want %d and %q", got, tt.status, tt.says)
			}
		})
	}
}

func TestOneAddressAsksSoOften(t *testing.T) {
	w := newWorld(t, Limits{Rate: 1e-6, Burst: 3})
	for i, want := range []int{200, 200, 200, 429, 429} {
		if got := w.ask(request{"POST", whoami, me, "own"}); got.status != want || (want == 429) != (got.retry != "") {
			t.Errorf("request %d: %+v, want %d", i, got, want)
		}
	}
}

func TestQuietAddressesAreForgotten(t *testing.T) {
	r := newRates(1, 2)
	now := time.Now()
	for i := range 3 {
		r.allow(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), now.Add(time.Duration(i)*time.Minute))
	}
	if r.forget(now.Add(2 * time.Minute)); len(r.all) != 1 {
		t.Errorf("%d addresses are known", len(r.all))
	}
	if r.forget(now.Add(time.Hour)); len(r.all) != 0 {
		t.Errorf("%d addresses are known after an hour", len(r.all))
	}
}

// TestStorm: all ask at once; few credentials are opened at once, few wait, the
// others are told to come later, and nobody waits for long.
func TestStorm(t *testing.T) {
	w := newWorld(t, Limits{Rate: 1e6, Burst: 1e6, Opening: 2, Waiting: 3, PerAddr: 1000})
	w.munge.hold = make(chan struct{})
	answers := make(chan response, 100)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { answers <- w.ask(request{"POST", whoami, me, "own"}) })
	}
	for range 95 {
		if got := <-answers; got.status != http.StatusServiceUnavailable || got.retry == "" {
			t.Errorf("one that is too many: %+v", got)
		}
	}
	close(w.munge.hold)
	wg.Wait()
	for range 5 {
		if got := <-answers; got.status != 200 {
			t.Errorf("one that was let in: %+v", got)
		}
	}
}

// TestASlowJournalHoldsNobodyElse: reports that wait for the same write do so together.
func TestASlowJournalHoldsNobodyElse(t *testing.T) {
	w := newWorld(t, Limits{Rate: 1e6, Burst: 1e6, Opening: 1, Waiting: 100, PerAddr: 1000})
	w.site.hold = make(chan struct{})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if got := w.ask(request{"POST", whoami, me, "own"}); got.status != 200 {
				t.Errorf("%+v", got)
			}
		})
	}
	for end := time.Now().Add(10 * time.Second); w.site.count() < 50; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("%d of 50 are asking", w.site.count())
			break
		}
	}
	close(w.site.hold)
	wg.Wait()
}

func TestSlowClientsAreCutOff(t *testing.T) {
	w := newWorld(t, Limits{PerAddr: 2})
	dial := func() net.Conn {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	for range 2 {
		if _, err := dial().Write([]byte("POST /v1/node/whoami HTTP/1.1\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	third := dial()
	if err := third.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if n, err := third.Read(make([]byte, 1)); err == nil || time.Since(begun) > headerTimeout {
		t.Errorf("a third connection of one address read %d bytes: %v", n, err)
	}
}
