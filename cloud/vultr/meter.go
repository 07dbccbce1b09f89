package vultr

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/burst-hpc/burst/cloud"
)

// meter counts requests that went out. What, Which and Result must be few: they become labels.
type meter struct {
	mu sync.Mutex
	n  map[cloud.Count]uint64 // N is 0 in the keys
}

// Counts implements cloud.Meter.
func (p *Provider) Counts() []cloud.Count {
	p.meter.mu.Lock()
	defer p.meter.mu.Unlock()
	all := make([]cloud.Count, 0, len(p.meter.n))
	for c, n := range p.meter.n {
		c.N = n
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b cloud.Count) int {
		return strings.Compare(a.Which+" "+a.Result, b.Which+" "+b.Result)
	})
	return all
}

func (m *meter) add(r *http.Request, result string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.n == nil {
		m.n = map[cloud.Count]uint64{}
	}
	m.n[cloud.Count{What: "api", Which: r.Method + " " + resource(r.URL.Path), Result: result}]++
}

// resource is what a path is about: "instances" of "/v2/instances/ID".
func resource(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) < 2 {
		return "other"
	}
	return parts[1]
}

// resultOf is how a request went: "ok", a kind of error, "unknown" for an id
// that is not there, or "cancelled" by us.
func resultOf(err error, status int) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case err != nil:
		return string(cloud.Transient)
	case status < 300:
		return "ok"
	case status == http.StatusNotFound:
		return "unknown"
	}
	return string(kindOf(status, ""))
}
