package vultr_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
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

// between is a way to the fake on which something is done each time after the first page
// of a list of instances, before it is answered.
func between(t *testing.T, c *vultrtest.Cloud, do func()) string {
	t.Helper()
	at, err := url.Parse(c.URL())
	if err != nil {
		t.Fatal(err)
	}
	way := httputil.NewSingleHostReverseProxy(at)
	way.ModifyResponse = func(r *http.Response) error {
		if q := r.Request; q.Method == http.MethodGet && q.URL.Path == "/v2/instances" && q.URL.Query().Get("cursor") == "" {
			do()
		}
		return nil
	}
	s := httptest.NewServer(way)
	t.Cleanup(s.Close)
	return s.URL
}

// others changes what is not Burst's in the fake's account.
func others(t *testing.T, c *vultrtest.Cloud, method, path, body string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, c.URL()+"/v2/instances"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Error(err)
		return
	}
	q.Header.Set("Authorization", "Bearer "+vultrtest.Key)
	r, err := http.DefaultClient.Do(q)
	if err != nil || r.Body.Close() != nil || r.StatusCode >= 300 {
		t.Errorf("%s %s: %v, %v", method, path, r, err)
	}
}

const another = `{"region":"` + vultrtest.Region + `","plan":"` + vultrtest.Plan2 + `","os_id":2136,"label":"another's"}`

func destroyAnother(t *testing.T, c *vultrtest.Cloud) {
	t.Helper()
	all := c.Machines()
	if n := slices.IndexFunc(all, func(m vultrtest.Machine) bool { return m.Label == "another's" }); n >= 0 {
		others(t, c, http.MethodDelete, "/"+all[n].ID, "")
	}
}

// Where another instance is destroyed between two pages of a list, the later ones begin later, and one that
// lives is on none. Such a list is read again, and is no list if that happens again.
func TestDestroyedBetweenPages(t *testing.T) {
	t.Parallel()
	for _, times := range []int{1, 2} {
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			t.Parallel()
			c := fakeCloud(t, vultrtest.Options{PageSize: 2})
			for range times {
				others(t, c, http.MethodPost, "", another)
			}
			var mu sync.Mutex
			left := 0
			way := between(t, c, func() {
				mu.Lock()
				defer mu.Unlock()
				if left > 0 {
					left--
					destroyAnother(t, c)
				}
			})
			p := over(t, c, func(v *vultr.Config) { v.Endpoint = way })
			got, err := p.Launch(t.Context(), ask("t-1", 4))
			if err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			left = times
			mu.Unlock()
			all, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1"})
			if times == 2 {
				if cloud.KindOf(err) != cloud.Transient || len(all) > 0 || !strings.Contains(err.Error(), "not whole") {
					t.Errorf("shown are %v, %v, want a transient error alone", ids(all), err)
				}
				all, err = p.List(t.Context(), cloud.Filter{Cluster: "c-1"})
			}
			found, want := ids(all), ids(got)
			slices.Sort(found)
			slices.Sort(want)
			if err != nil || !slices.Equal(found, want) {
				t.Errorf("shown are %v, %v, want %v", found, err, want)
			}
		})
	}
}

// Launches side by side make the list of several pages grow that each of them reads first, and reconciliation
// reads: nothing goes, so each list is one.
func TestGrowsBetweenPages(t *testing.T) {
	if testing.Short() {
		t.Skip("ten seconds; TestGrowsEachTime is the short one")
	}
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{PageSize: 10, Latency: 20 * time.Millisecond})
	p := over(t, c)
	if _, err := p.Launch(t.Context(), ask("t-0", 16)); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for n := range 6 {
		wg.Go(func() {
			for m := range 4 {
				r := []cloud.LaunchRequest{ask(fmt.Sprint("t-", n+1, "-", m), 2)}
				if err := p.Prepare(t.Context(), r)[0]; err != nil {
					t.Error(err)
				} else if got, err := p.Launch(t.Context(), r[0]); err != nil || len(got) != 2 {
					t.Errorf("launch %s: %d came, %v", r[0].Token, len(got), err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for going := true; going; {
		select {
		case <-done:
			going = false
		default:
		}
		all, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1"})
		if err != nil || len(all) < 16 || !going && len(all) != 64 {
			t.Errorf("shown are %d, %v", len(all), err)
		}
	}
}

// TestGrowsEachTime: something comes after the first page whenever a list is read.
func TestGrowsEachTime(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{PageSize: 2})
	way := between(t, c, func() { others(t, c, http.MethodPost, "", another) })
	p := over(t, c, func(v *vultr.Config) { v.Endpoint = way })
	for range 3 {
		others(t, c, http.MethodPost, "", another)
	}
	got, err := p.Launch(t.Context(), ask("t-1", 4)) // of which nobody knows whether it was asked for
	if err != nil {
		t.Fatal(err)
	}
	all, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1"})
	found, want := ids(all), ids(got)
	slices.Sort(found)
	slices.Sort(want)
	if err != nil || !slices.Equal(found, want) {
		t.Errorf("shown are %v, %v, want %v", found, err, want)
	}
}

// What goes between the pages of the list that a new launch reads is none of its own: it begins.
func TestNewLaunchNeedsNoWholeList(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{PageSize: 2})
	for range 4 {
		others(t, c, http.MethodPost, "", another)
	}
	var mu sync.Mutex
	left := 2
	way := between(t, c, func() {
		mu.Lock()
		defer mu.Unlock()
		if left > 0 {
			left--
			destroyAnother(t, c)
		}
	})
	p := over(t, c, func(v *vultr.Config) { v.Endpoint = way })
	r := []cloud.LaunchRequest{ask("t-1", 2)}
	if err := p.Prepare(t.Context(), r)[0]; err != nil {
		t.Fatal(err)
	}
	if got, err := p.Launch(t.Context(), r[0]); err != nil || len(got) != 2 || left != 0 {
		t.Errorf("%v, %v", ids(got), err)
	}
	// One of which an answer was lost is looked for in a whole list.
	c.Fail("POST instances", vultrtest.Fault{Status: http.StatusBadGateway, Times: 1e6})
	r[0] = ask("t-2", 1)
	if err := p.Prepare(t.Context(), r)[0]; err != nil {
		t.Fatal(err)
	}
	if got, err := p.Launch(t.Context(), r[0]); err == nil {
		t.Errorf("%v came", ids(got))
	}
	mu.Lock()
	left = 2
	mu.Unlock()
	if got, err := p.Launch(t.Context(), r[0]); err == nil || !strings.Contains(err.Error(), "not whole") {
		t.Errorf("%v, %v, want that the list is not whole", ids(got), err)
	}
}

// Where between two pages one comes, too, the count stays, and no list can tell that it lacks a
// live one. A launch that is repeated does not take that one for ended: of all or nothing the rest would be destroyed.
func TestUnshownLives(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{PageSize: 2})
	others(t, c, http.MethodPost, "", another)
	dir, r := t.TempDir(), ask("t-1", 5)
	r.AllOrNothing = true
	open := func(at string) *vultr.Provider {
		return over(t, c, func(v *vultr.Config) { v.Dir, v.Endpoint = dir, at })
	}
	got, err := open(c.URL()).Launch(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	c.Change(got[2].ID, func(m *vultrtest.Machine) { m.Label = "mine" })
	way := between(t, c, func() {
		destroyAnother(t, c)
		others(t, c, http.MethodPost, "", another)
	})
	// The same count, and each page with what none before has shown.
	again, err := open(way).Launch(t.Context(), r) // as after kill -9
	if err != nil || !slices.Equal(ids(again), ids(got)) {
		t.Errorf("the launch is %v, and again %v, %v", ids(got), ids(again), err)
	}
	for _, id := range ids(got) {
		if !slices.ContainsFunc(c.Machines(), func(m vultrtest.Machine) bool { return m.ID == id }) {
			t.Errorf("%s was destroyed", id)
		}
	}
	// What Vultr does not know is at its end, and what it does not say is not.
	c.Fail("GET instances", vultrtest.Fault{Skip: 4, Status: http.StatusInternalServerError, Times: tries})
	others(t, c, http.MethodDelete, "/"+got[4].ID, "")
	if again, err = open(c.URL()).Launch(t.Context(), r); len(again) > 0 || cloud.KindOf(err) != cloud.Transient || len(c.Machines()) != 5 {
		t.Errorf("without a word of it: %v, %v, and %d are there", ids(again), err, len(c.Machines()))
	}
	if again, err = open(c.URL()).Launch(t.Context(), r); len(again) > 0 || cloud.KindOf(err) != cloud.Capacity || len(c.Machines()) != 1 {
		t.Errorf("after its end: %v, %v, and %d are there", ids(again), err, len(c.Machines()))
	}
}

// Lists of what Vultr offers and of what the account has are believed, too, when their count has been wrong for
// long. But no key is given to the account since such a list lacks it.
func TestOtherCountsStayWrong(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "id.pub")
	if err := os.WriteFile(file, []byte(ed25519), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := `{"ssh_keys":[{"id":"k-1","name":"admin","ssh_key":"ssh-rsa AAAA admin"}],"meta":{"total":2,"links":{"next":"","prev":""}}}`
	for name, tt := range map[string]struct {
		op, body, image string
		pool            vultr.Pool
		never           string // what the error says for ever
	}{
		"plans": {op: "GET plans", image: "os:2136",
			body: `{"plans":[{"id":"` + vultrtest.Plan + `","vcpu_count":8,"ram":16384,"locations":["lhr"]}],"meta":{"total":2,"links":{"next":"","prev":""}}}`},
		"systems": {op: "GET os", image: vultrtest.OSName,
			body: `{"os":[{"id":2136,"name":"` + vultrtest.OSName + `"}],"meta":{"total":2,"links":{"next":"","prev":""}}}`},
		"snapshots": {op: "GET snapshots", image: "snapshot:mpi",
			body: `{"snapshots":[{"id":"e3f2a3de-8e57-4a0b-b9a0-3a3f4d4b7c55","description":"mpi","status":"complete"}],"meta":{"total":2,"links":{"next":"","prev":""}}}`},
		"keys":      {op: "GET ssh-keys", image: "os:2136", body: keys, pool: vultr.Pool{SSHKeys: []string{"admin"}}},
		"key, none": {op: "GET ssh-keys", image: "os:2136", body: keys, pool: vultr.Pool{SSHPublicKey: file}, never: "not whole, and does not show SHA256:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fakeCloud(t, vultrtest.Options{})
			c.Fail(tt.op, vultrtest.Fault{Body: tt.body, Times: 1e6})
			var log bytes.Buffer
			p := over(t, c, func(v *vultr.Config) {
				v.Pools = map[string]vultr.Pool{"pool": tt.pool}
				v.Log = slog.New(slog.NewTextHandler(&log, nil))
			})
			began := time.Now()
			for {
				r := []cloud.LaunchRequest{ask("t-1", 1)}
				r[0].Image = tt.image
				err := p.Prepare(t.Context(), r)[0]
				took := time.Since(began)
				if err == nil || tt.never != "" && strings.Contains(err.Error(), tt.never) {
					if (err == nil) != (tt.never == "") || took < 10*lag || cloud.KindOf(err) != cloud.Transient && err != nil {
						t.Errorf("after %s: %v", took, err)
					}
					break
				}
				if cloud.KindOf(err) != cloud.Transient || took > time.Minute {
					t.Fatalf("after %s: %v", took, err)
				}
			}
			if n := strings.Count(log.String(), "has not been whole for long"); n != 1 || c.Count("POST ssh-keys") != 0 {
				t.Errorf("it is said %d times, and %d keys were given:\n%s", n, c.Count("POST ssh-keys"), log.String())
			}
		})
	}
}
