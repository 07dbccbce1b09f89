package aws

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"github.com/burst-hpc/burst/cloud"
)

// EC2 throttles each account and region by token buckets: one for the requests
// of an action, or of a class of actions, and for some actions one more for
// the instances (resources) that the requests name.
// https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html
// We keep the same buckets on our side and wait before a call, so that a burst
// of launches is never refused, nor others of the same account for our sake.

// rate is a bucket's size and its refill per second.
type rate struct{ size, perSecond float64 }

const (
	describeClass = "Describe"
	mutateClass   = "mutating"
)

var requestRates = map[string]rate{
	describeClass:                 {100, 20},
	mutateClass:                   {50, 5}, // CreateFleet among them
	"RunInstances":                {5, 2},
	"TerminateInstances":          {100, 5},
	"CreateTags":                  {100, 10},
	"CreateLaunchTemplateVersion": {100, 5},
}

var resourceRates = map[string]rate{
	"RunInstances":       {1000, 2},
	"TerminateInstances": {1000, 20},
}

// bucket is filled as time goes. Its level may be below zero: those are the
// tokens of the calls that wait, in the order in which they came.
type bucket struct {
	rate
	level float64
	last  time.Time
}

func (b *bucket) refill(now time.Time) {
	if !b.last.IsZero() {
		b.level = min(b.size, b.level+now.Sub(b.last).Seconds()*b.perSecond)
	}
	b.last = now
}

// wait is how long a call for n tokens waits if it comes now. A call for more
// than the bucket holds waits for a full bucket.
func (b *bucket) wait(now time.Time, n float64) time.Duration {
	b.refill(now)
	lacking := min(n, b.size) - b.level
	if lacking <= 0 {
		return 0
	}
	return time.Duration(lacking / b.perSecond * float64(time.Second))
}

// limits are the buckets of one account in one region.
type limits struct {
	mu        sync.Mutex
	requests  map[string]*bucket
	resources map[string]*bucket
}

func newLimits() *limits {
	l := &limits{requests: map[string]*bucket{}, resources: map[string]*bucket{}}
	for name, r := range requestRates {
		l.requests[name] = &bucket{rate: r, level: r.size}
	}
	for name, r := range resourceRates {
		l.resources[name] = &bucket{rate: r, level: r.size}
	}
	return l
}

// shared holds the limits that providers of the same account and region in
// this process share.
var shared = struct {
	sync.Mutex
	limits map[string]*limits
}{limits: map[string]*limits{}}

// limitsOf finds the buckets for a configuration. A profile stands for its
// account, which is not known before the first call.
func limitsOf(c Config) *limits {
	endpoint := c.Endpoint
	if e := c.Endpoints["ec2"]; e != "" {
		endpoint = e
	}
	key := strings.Join([]string{c.Profile, c.Region, endpoint}, "\n")
	shared.Lock()
	defer shared.Unlock()
	if shared.limits[key] == nil {
		shared.limits[key] = newLimits()
	}
	return shared.limits[key]
}

// class is the request bucket that an action draws from.
func class(action string) string {
	if _, own := requestRates[action]; own {
		return action
	}
	if strings.HasPrefix(action, "Describe") || strings.HasPrefix(action, "Get") {
		return describeClass
	}
	return mutateClass
}

// room says whether a call of action for n instances would go at once, and
// lays its tokens aside in ahead, so that calls planned together add up.
func (l *limits) room(action string, n int, ahead map[string]int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	requests, instances := ahead[action]+1, ahead[action+" resources"]+n
	if l.requests[class(action)].wait(now, float64(requests)) > 0 || requests > int(l.requests[class(action)].size) {
		return false
	}
	if b := l.resources[action]; b != nil && (b.wait(now, float64(instances)) > 0 || instances > int(b.size)) {
		return false
	}
	ahead[action], ahead[action+" resources"] = requests, instances
	return true
}

// wait takes the tokens of one call for n instances, and returns when they are
// there. If they will not be before the deadline of ctx, it says so at once:
// Throttled, with the time after which it is worth another try.
func (l *limits) wait(ctx context.Context, action string, n int) error {
	d := l.take(action, n)
	if d == 0 {
		return ctx.Err()
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		l.giveBack(action, 1, n)
		return &cloud.Error{
			Kind: cloud.Throttled, Op: action, RetryAfter: d,
			Err: fmt.Errorf("held back: EC2's limits for this account and region allow it in %s", d.Round(time.Millisecond)),
		}
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		l.giveBack(action, 1, n)
		return ctx.Err()
	}
}

// take takes the tokens and says when they will be there.
func (l *limits) take(action string, n int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	r := l.requests[class(action)]
	d := r.wait(now, 1)
	r.level--
	if b := l.resources[action]; b != nil && n > 0 {
		d = max(d, b.wait(now, float64(n)))
		b.level -= float64(n)
	}
	return d
}

// giveBack returns tokens that were not used: of requests and of n instances.
func (l *limits) giveBack(action string, requests, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests[class(action)].level += float64(requests)
	if b := l.resources[action]; b != nil && n > 0 {
		b.level += float64(n)
	}
}

// empty is called when EC2 says RequestLimitExceeded to a call for n instances:
// others use the account too, and its buckets are emptier than ours. Where EC2
// says that it was the rate of requests, the instances' bucket is as it was: a
// large launch need not wait minutes for it.
func (l *limits) empty(action string, n int, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	requests, instances := l.requests[class(action)], l.resources[action]
	requests.refill(now)
	requests.level = min(requests.level, 0)
	if instances == nil {
		return
	}
	instances.refill(now)
	instances.level = min(instances.level+float64(n), instances.size)
	if !strings.Contains(message, "exceeded its request rate limit") {
		instances.level = min(instances.level, 0)
	}
}

// middleware makes every call of an EC2 client wait for its tokens.
func (l *limits) middleware(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("BurstLimits", func(
		ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
	) (middleware.InitializeOutput, middleware.Metadata, error) {
		action, n := awsmiddleware.GetOperationName(ctx), resources(in.Parameters)
		if err := l.wait(ctx, action, n); err != nil {
			return middleware.InitializeOutput{}, middleware.Metadata{}, err
		}
		out, metadata, err := next.HandleInitialize(ctx, in)
		var api smithy.APIError
		if errors.As(err, &api) {
			switch kindOfCode(api.ErrorCode()) {
			case cloud.Throttled:
				l.empty(action, n, api.ErrorMessage())
			case cloud.Invalid: // refused as a whole: it costs the request alone
				l.giveBack(action, 0, n)
			}
		}
		return out, metadata, err
	}), middleware.After)
}

// resources is how many instances a call names.
func resources(input any) int {
	switch in := input.(type) {
	case *ec2.RunInstancesInput:
		if in.MaxCount != nil && (in.DryRun == nil || !*in.DryRun) {
			return int(*in.MaxCount)
		}
	case *ec2.TerminateInstancesInput:
		return len(in.InstanceIds)
	}
	return 0
}
