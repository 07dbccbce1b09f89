package ec2test

import (
	"strings"
	"time"
)

// Pool is one instance type in one zone on one market: the unit of capacity.
type Pool struct {
	Type, Zone string
	Spot       bool
}

// Fault makes calls of an action fail.
type Fault struct {
	Code    string
	Message string
	Skip    int  // calls that succeed first
	Times   int  // calls that fail; 0 is one
	Lost    bool // the call has its effect, and its connection is cut; Code does not matter
}

func (f Fault) failure() *failure {
	if f.Message == "" {
		f.Message = "injected"
	}
	return fail(f.Code, "%s", f.Message)
}

// Boot is what becomes of an instance after its launch.
type Boot int

const (
	Boots       Boot = iota
	NeverRuns        // stays pending
	NoNetwork        // runs, but nobody can reach it: for tests that play the node
	DiesAtBirth      // is terminated at once, by the cloud
	NoKey            // is terminated when it should run: its volume cannot be decrypted
)

// Fail makes a later call of the action meet the fault. Faults of one action are met
// one after the other.
func (c *Cloud) Fail(action string, f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.Times = max(f.Times, 1)
	c.faults[action] = append(c.faults[action], f)
}

func (c *Cloud) nextFault(action string) (Fault, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	queue := c.faults[action]
	if len(queue) == 0 {
		return Fault{}, false
	}
	f := &queue[0]
	if f.Skip > 0 {
		f.Skip--
		return Fault{}, false
	}
	if f.Times--; f.Times == 0 {
		c.faults[action] = queue[1:]
	}
	return *f, true
}

// SetCapacity gives a pool room for n more instances; negative: no limit.
func (c *Cloud) SetCapacity(p Pool, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n < 0 {
		delete(c.capacity, p)
		return
	}
	c.capacity[p] = n
}

// FailPool makes all launches from a pool fail with a code: that of
// RunInstances' answer, one of the errorSet of CreateFleet's. "" ends it.
func (c *Cloud) FailPool(p Pool, code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.poolFaults[p] = code
}

// SetQuota limits the vCPUs of a market; negative: no limit.
func (c *Cloud) SetQuota(spot bool, vcpus int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if vcpus < 0 {
		delete(c.quota, spot)
		return
	}
	c.quota[spot] = vcpus
}

// Refuse answers every call with a code ("AuthFailure", "ExpiredToken"); "" ends it.
func (c *Cloud) Refuse(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.account = code
}

// SetSkew puts the cloud's clock ahead of this host's, or behind it. Beyond 5
// minutes a call is RequestExpired.
func (c *Cloud) SetSkew(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew = d
}

// NextBoots says what becomes of the next n instances.
func (c *Cloud) NextBoots(n int, b Boot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range n {
		c.boots = append(c.boots, b)
	}
}

const maxSkew = 5 * time.Minute

// admit checks what EC2 checks of any call: the account, the time, the buckets.
func (c *Cloud) admit(action string, p *params, date string) *failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.account != "" {
		return fail(c.account, "%s", accountMessages[c.account])
	}
	if c.skew != 0 {
		at, err := time.Parse("20060102T150405Z", date)
		if d := time.Now().Add(c.skew).Sub(at); err == nil && d.Abs() > maxSkew {
			return fail("RequestExpired", "Request has expired. Timestamp date is %s", at.Format(time.RFC3339))
		}
	}
	if c.o.Throttle && !c.draw(action, p) {
		return fail("RequestLimitExceeded", "Request limit exceeded.")
	}
	return nil
}

var accountMessages = map[string]string{
	"AuthFailure":    "AWS was not able to validate the provided access credentials",
	"ExpiredToken":   "The security token included in the request is expired",
	"RequestExpired": "Request has expired.",
}

// rate is a token bucket's size and what comes back per second.
type rate struct{ size, perSecond float64 }

// EC2's buckets. https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html
var (
	describeRate   = rate{100, 20}
	unfilteredRate = rate{50, 10}
	mutatingRate   = rate{50, 5}
	requestRates   = map[string]rate{
		"RunInstances":                {5, 2},
		"TerminateInstances":          {100, 5},
		"CreateTags":                  {100, 10},
		"CreateLaunchTemplateVersion": {100, 5},
	}
	resourceRates = map[string]rate{"RunInstances": {1000, 2}, "TerminateInstances": {1000, 20}}
)

type bucket struct {
	rate
	level float64
	at    time.Time
}

// bucket finds a bucket, filled up to now.
func (c *Cloud) bucket(name string, r rate) *bucket {
	b := c.buckets[name]
	now := c.now()
	if b == nil {
		b = &bucket{rate: r, level: r.size, at: now}
		c.buckets[name] = b
	}
	b.level = min(b.size, b.level+now.Sub(b.at).Seconds()*b.perSecond)
	b.at = now
	return b
}

// draw takes a call's tokens, or none.
func (c *Cloud) draw(action string, p *params) bool {
	name, r := "mutating", mutatingRate
	own, ok := requestRates[action]
	switch {
	case p == nil || action == "GetCallerIdentity":
		return true // other services
	case ok:
		name, r = action, own
	case strings.HasPrefix(action, "Describe") && len(p.list("Filter")) == 0 && p.get("MaxResults") == "" && action == "DescribeInstances":
		name, r = "unfiltered", unfilteredRate
	case strings.HasPrefix(action, "Describe"), strings.HasPrefix(action, "Get"):
		name, r = "describe", describeRate
	}
	need := 0.0
	switch action {
	case "RunInstances":
		need = float64(p.number("MaxCount"))
	case "TerminateInstances":
		need = float64(len(p.list("InstanceId")))
	}
	requests := c.bucket(name, r)
	if requests.level < 1 {
		return false
	}
	if need > 0 {
		b := c.bucket(action+" resources", resourceRates[action])
		if b.level < need {
			return false
		}
		b.level -= need
	}
	requests.level--
	return true
}
