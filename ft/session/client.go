package session

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"sync"
	"time"
)

// Transport carries what burst-srun says to burstd.
type Transport interface {
	// Do sends in to the path and reads the answer into out, unless that is nil.
	// An error wraps one of this package's if burstd has refused with it; with any
	// other, in may or may not have come. One that has a method RetryAfter says
	// when to ask again.
	Do(ctx context.Context, path string, in, out any) error
}

// ClientConfig is what a Client needs. Its functions may be called from several
// goroutines; Do is called by one at a time.
type ClientConfig struct {
	Transport Transport
	Hello     Hello // without Token, Began and Last; Cost as earlier attempts have it
	// Do carries out a request, Cancel excepted, and says what came of it; ID is
	// filled in. By is by the clock of this host, and ctx ends then. It ends earlier
	// when the same is asked again by a nearer time, and with ErrReplaced as its cause
	// when something else is, or with ErrCancelled.
	Do func(ctx context.Context, r Request) Answer
	// Advise has the interval that burstd advises, when it changes; nil: not wanted.
	Advise func(interval time.Duration)
	// Progress says how far the step is; nil: it does not say.
	Progress func() Progress
	// Summary says how the step went, when Close is called; nil: it does not say.
	Summary func() Summary
	// Say tells the user something in a line; it is called two or three times in all.
	Say func(text string)
}

// ErrCancelled is the cause with which a request ends that burstd has called off.
var ErrCancelled = errors.New("the request was called off")

// How a client goes on.
const (
	patience    = 5 * time.Second  // before the user is told that burstd is away
	callTimeout = 20 * time.Second // for what burstd answers at once
	pollSlack   = 10 * time.Second // for an answer, beyond the question's wait
	busyPoll    = 5 * time.Second  // while it is known how far a checkpoint is
	firstPause  = 2 * time.Second  // after a failure, at most; thousands come back at once
	mostPause   = 15 * time.Second // an order must not be missed for long
	slowPause   = 5 * time.Minute  // after a refusal that will hardly change
	quick       = time.Second      // no two questions within it that bring nothing
)

// Client is burst-srun's end of a session. It never blocks the step: whatever
// burstd does, or does not, it goes on asking.
type Client struct {
	cfg   ClientConfig
	began time.Time

	opening chan struct{} // full while the session is opened

	mu       sync.Mutex
	changed  chan struct{} // closed, and made anew, at every change of what follows
	epoch    int           // how often it was opened; 0: never
	open     bool
	interval time.Duration
	failed   bool // a question has failed
	told     struct{ away, back, refused bool }
	have     string // the last request that has come
	held     bool
	next     *Request // the one to carry out now, or when its turn comes
	current  *underway
	last     []Answer // to the last requests
	costs    []time.Duration
	outbox   []Answer
	closing  bool
}

// NewClient makes a client, which says nothing until Run.
func NewClient(c ClientConfig) *Client {
	c.Hello.Token, c.Hello.Began = rand.Text(), time.Now()
	return &Client{cfg: c, began: time.Now(), opening: make(chan struct{}, 1), changed: make(chan struct{})}
}

// Run keeps the session until ctx ends, which leaves it as it is: Close ends it.
// It is called once.
func (c *Client) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { c.work(ctx) })
	wg.Go(func() { c.deliver(ctx) })
	wg.Go(func() {
		listening, stop := context.WithCancel(ctx)
		wg.Go(func() {
			_ = c.until(ctx, func() bool { return c.closing })
			stop()
		})
		c.listen(listening)
	})
	wg.Wait()
}

// Close ends the session when the step has ended: a request that is being
// carried out is waited for, and its answer delivered, until ctx ends. The
// caller then ends Run's context. The answer is zero if burstd has given none.
func (c *Client) Close(ctx context.Context) (said Closed) {
	c.mu.Lock()
	c.closing, c.next = true, nil
	c.signal()
	c.mu.Unlock()
	opened := false
	idle := c.until(ctx, func() bool {
		opened = c.open
		return c.current == nil && (len(c.outbox) == 0 || c.epoch == 0)
	})
	if idle == nil && opened {
		// If this is lost, burstd forgets the session after a while.
		e := End{Key: c.cfg.Hello.Key, Token: c.cfg.Hello.Token}
		if c.cfg.Summary != nil {
			s := c.cfg.Summary()
			e.Summary = &s
		}
		_ = c.call(ctx, PathClose, e, &said)
	}
	c.mu.Lock()
	never := c.epoch == 0 && c.failed && !c.told.away && !c.told.refused
	c.mu.Unlock()
	if never {
		c.cfg.Say("burstd has not answered: this step was not protected against evictions")
	}
	return said
}

// signal wakes what waits. The lock is held.
func (c *Client) signal() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// until waits for what holds under the lock.
func (c *Client) until(ctx context.Context, holds func() bool) error {
	for {
		c.mu.Lock()
		ok, changed := holds(), c.changed
		c.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// listen asks what is to be done, again and again.
func (c *Client) listen(ctx context.Context) {
	var b backoff
	for ctx.Err() == nil {
		q := c.question()
		sent := time.Now()
		var w Word
		err := c.callFor(ctx, q.Wait+pollSlack, message{PathPoll, q, &w})
		if err == nil {
			c.advise(w.Interval)
			if !c.take(w, sent) && time.Since(sent) < min(quick, q.Wait) {
				pause(ctx, quick)
			}
			b = backoff{}
			continue
		}
		if ctx.Err() == nil {
			c.trouble(err)
			b.pause(ctx, err)
		}
	}
}

func (c *Client) question() Question {
	q := Question{Key: c.cfg.Hello.Key, Token: c.cfg.Hello.Token, Wait: Poll - mathrand.N(Poll/5)} // not all at the same moment
	if c.cfg.Progress != nil {
		p := c.cfg.Progress()
		q.Progress = &p
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	q.Have, q.Held = c.have, c.held
	if c.current != nil && q.Progress != nil && q.Progress.Done >= 0 {
		q.Wait = busyPoll
	}
	return q
}

// message is something to say, and where the answer goes.
type message struct {
	path    string
	in, out any
}

func (c *Client) call(ctx context.Context, path string, in, out any) error {
	return c.callFor(ctx, callTimeout, message{path, in, out})
}

// callFor says something within the session, which it opens if it must.
func (c *Client) callFor(ctx context.Context, most time.Duration, m message) error {
	for again := true; ; again = false {
		epoch, err := c.ensure(ctx)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, most, errors.New("burstd does not answer in time"))
		err = c.cfg.Transport.Do(ctx, m.path, m.in, m.out)
		cancel()
		if !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrReplaced) {
			return err
		}
		c.mu.Lock()
		if c.epoch == epoch {
			c.open = false
		}
		c.mu.Unlock()
		if !again || errors.Is(err, ErrReplaced) {
			return err
		}
	}
}

// ensure opens the session if it is not open.
func (c *Client) ensure(ctx context.Context) (epoch int, err error) {
	select {
	case c.opening <- struct{}{}:
		defer func() { <-c.opening }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	c.mu.Lock()
	open, epoch, hello := c.open, c.epoch, c.cfg.Hello
	if len(c.last) > 0 {
		hello.Last = c.last[len(c.last)-1]
	}
	if len(c.costs) > 0 {
		hello.Cost = longest(c.costs)
	}
	c.mu.Unlock()
	if open {
		return epoch, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errors.New("burstd does not answer in time"))
	defer cancel()
	var w Word
	if err := c.cfg.Transport.Do(ctx, PathOpen, hello, &w); err != nil {
		return 0, err
	}
	c.mu.Lock()
	c.open = true
	c.epoch++
	epoch = c.epoch
	back := (c.told.away || c.told.refused) && !c.told.back
	c.told.back = c.told.back || back
	c.mu.Unlock()
	if back {
		c.cfg.Say("burstd answers: the job is protected from now on")
	}
	c.advise(w.Interval)
	return epoch, nil
}

func (c *Client) advise(interval time.Duration) {
	c.mu.Lock()
	same := interval == c.interval
	c.interval = interval
	c.mu.Unlock()
	if !same && c.cfg.Advise != nil {
		c.cfg.Advise(interval)
	}
}
