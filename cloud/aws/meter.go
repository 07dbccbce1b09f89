package aws

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"

	"github.com/burst-hpc/burst/cloud"
)

var _ cloud.Meter = (*Provider)(nil)

// Counts implements cloud.Meter: the calls of all of AWS's services, and what
// else was counted.
func (p *Provider) Counts() []cloud.Count { return p.meter.counts() }

// meter counts. What, Which and Result must be few: they become labels.
type meter struct {
	mu sync.Mutex
	n  map[cloud.Count]uint64 // N is 0 in the keys
}

// add counts n more. It may be called concurrently.
func (m *meter) add(what, which, result string, n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.n == nil {
		m.n = map[cloud.Count]uint64{}
	}
	m.n[cloud.Count{What: what, Which: which, Result: result}] += n
}

func (m *meter) counts() []cloud.Count {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]cloud.Count, 0, len(m.n))
	for c, n := range m.n {
		c.N = n
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b cloud.Count) int {
		return strings.Compare(a.What+a.Which+a.Result, b.What+b.Which+b.Result)
	})
	return all
}

// middleware counts every call of a client that goes out to AWS, by operation
// and result: not those that our own limits hold back.
func (m *meter) middleware(stack *middleware.Stack) error {
	return stack.Finalize.Add(middleware.FinalizeMiddlewareFunc("BurstMeter", func(
		ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
	) (middleware.FinalizeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleFinalize(ctx, in)
		m.add("api", awsmiddleware.GetOperationName(ctx), resultOf(err), 1)
		return out, metadata, err
	}), middleware.Before)
}

// resultOf is how a call went: "ok", a kind of error, or "cancelled" by us.
func resultOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	return string(callError("", err).Kind)
}
