package aws_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"github.com/burst-hpc/burst/cloud/aws/mototest"
)

// between stands between a provider and moto: it counts the calls, and makes
// pages small.
type between struct {
	url      string
	pageSize int // 0: as asked

	mu    sync.Mutex
	calls map[string]int // by action
}

func newBetween(t *testing.T, m *mototest.Moto, pageSize int) *between {
	t.Helper()
	target, err := url.Parse(m.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	b := &between{pageSize: pageSize, calls: map[string]int{}}
	proxy := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := b.read(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

func (b *between) read(r *http.Request) error {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	action := r.Header.Get("X-Amz-Target") // of the services that speak JSON
	if form, err := url.ParseQuery(string(text)); err == nil && form.Has("Action") {
		action = form.Get("Action")
		if form.Has("MaxResults") && b.pageSize > 0 {
			form.Set("MaxResults", strconv.Itoa(b.pageSize))
			text = []byte(form.Encode())
		}
	}
	b.mu.Lock()
	b.calls[action]++
	b.mu.Unlock()
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	r.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return nil
}

// made returns how often each action was called since the last time.
func (b *between) made(actions ...string) []int {
	calls := b.all()
	var counts []int
	for _, a := range actions {
		counts = append(counts, calls[a])
	}
	return counts
}

// all returns the calls since the last time, by action.
func (b *between) all() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	calls := b.calls
	b.calls = map[string]int{}
	return calls
}
