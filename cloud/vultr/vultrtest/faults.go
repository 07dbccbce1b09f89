package vultrtest

import "time"

// Fault makes requests of an operation fail.
type Fault struct {
	Status     int           // 0: 500
	Message    string        // "": "injected"
	RetryAfter time.Duration // sent as a header, in whole seconds
	Skip       int           // requests that succeed first
	Times      int           // requests that fail; 0 is one
	Done       bool          // the request has its effect, whatever Status is answered
	Lost       bool          // the request has its effect, and its connection is cut
	Twice      bool          // the request has its effect twice, and its connection is cut
	Body       string        // sent with status 200 in place of the answer
	Late       time.Duration // the answer is what is so now, and comes so late
	Hang       bool          // there is no answer until the caller gives up, and no effect
}

// Fail makes a later request of the operation, as "POST instances", meet the
// fault. Faults of one operation are met one after the other.
func (c *Cloud) Fail(op string, f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.Times = max(f.Times, 1)
	c.faults[op] = append(c.faults[op], f)
}

func (c *Cloud) nextFault(op string) (Fault, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	queue := c.faults[op]
	if len(queue) == 0 {
		return Fault{}, false
	}
	f := &queue[0]
	if f.Skip > 0 {
		f.Skip--
		return Fault{}, false
	}
	if f.Times--; f.Times == 0 {
		c.faults[op] = queue[1:]
	}
	return *f, true
}

// SetCapacity gives a plan room for n more machines; negative: no limit.
func (c *Cloud) SetCapacity(plan string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n < 0 {
		delete(c.capacity, plan)
		return
	}
	c.capacity[plan] = n
}

// Hide has the lists of machines count one that they do not show; "" ends that.
func (c *Cloud) Hide(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hidden = id
}

// tooMany counts a request, and says whether it is above the rate.
func (c *Cloud) tooMany() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for len(c.requests) > 0 && now.Sub(c.requests[0]) >= time.Second {
		c.requests = c.requests[1:]
	}
	c.requests = append(c.requests, now)
	return c.options.PerSecond > 0 && len(c.requests) > c.options.PerSecond
}
