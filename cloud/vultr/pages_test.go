package vultr_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

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
