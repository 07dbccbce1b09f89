package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/srun"
	"github.com/burst-hpc/burst/ft/session"
)

// sessionGap is between the starts of two clients: one munged serves them all
// and burstd, where on a site each node has its own.
const sessionGap = 5 * time.Millisecond

// sessionHosts is how many addresses the clients speak from, as nodes do.
const sessionHosts = 250

// clients are the ends of many burst-sruns, one of each job from 1 on.
type clients struct {
	cancel context.CancelFunc
	runs   sync.WaitGroup

	mu    sync.Mutex
	first map[uint32]time.Time // when each had a request
	said  []string
	fails int   // questions that failed, and were asked again
	last  error // of them
}

// newClients are those of n jobs, which have been restarted so often.
func newClients(ctx context.Context, n, attempt int, link srun.Link) *clients {
	c := &clients{first: map[uint32]time.Time{}}
	ctx, c.cancel = context.WithCancel(ctx)
	for i := range n {
		job := uint32(i + 1)
		own := link
		dialer := net.Dialer{Timeout: 3 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(1+i%sessionHosts/100), byte(1+i%sessionHosts%100))}}
		own.Dial = dialer.DialContext
		client := session.NewClient(session.ClientConfig{
			Transport: listening{own.Transport(), c, job},
			Hello:     session.Hello{Key: session.Key{Job: job, Attempt: attempt, Step: "0"}, Host: "node", Method: "dmtcp", Strategy: "both", Dir: fmt.Sprintf("/shared/%d", job), Cost: 5 * time.Second, Retries: ordersRuns},
			Do: func(context.Context, session.Request) session.Answer {
				return session.Answer{Iteration: -1, Error: "it is a benchmark", Stopped: true}
			},
			Progress: func() session.Progress {
				return session.Progress{Done: -1, Iteration: 1, Of: 1000, Generation: 1, Since: time.Minute}
			},
			Say: c.say,
		})
		c.runs.Go(func() {
			if pause(ctx, time.Duration(i)*sessionGap) == nil {
				client.Run(ctx)
			}
		})
	}
	return c
}

func (c *clients) say(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = append(c.said, text)
}

func (c *clients) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fails, c.last = c.fails+1, err
}

func (c *clients) failures() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fails
}

// trouble is what a client has told its user.
func (c *clients) trouble() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.said) == 0 {
		return nil
	}
	return fmt.Errorf("%d clients were not served; the first says: %s", len(c.said), c.said[0])
}

func (c *clients) stop() { c.cancel(); c.runs.Wait() }

// await waits until something holds.
func (c *clients) await(ctx context.Context, holds func() (bool, error)) error {
	for {
		ok, err := holds()
		if err == nil && !ok {
			err = c.trouble()
		}
		if ok || err != nil {
			return err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			return fmt.Errorf("%w; %d questions failed, the last: %w", err, c.fails, errors.Join(c.last))
		}
	}
}

// heard waits until all have a request, and says when the last had it.
func (c *clients) heard(ctx context.Context) (last time.Time, err error) {
	err = c.await(ctx, func() (bool, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, at := range c.first {
			if at.After(last) {
				last = at
			}
		}
		return len(c.first) == ordersJobs, nil
	})
	return last, err
}

// listening notes when its client has a request.
type listening struct {
	session.Transport
	all *clients
	job uint32
}

func (l listening) Do(ctx context.Context, path string, in, out any) error {
	err := l.Transport.Do(ctx, path, in, out)
	w, ok := out.(*session.Word)
	if err != nil && ctx.Err() == nil {
		l.all.failed(fmt.Errorf("job %d: %w", l.job, err))
	}
	if err != nil || !ok || w.Request == nil {
		return err
	}
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	if _, known := l.all.first[l.job]; !known {
		l.all.first[l.job] = time.Now()
	}
	return nil
}
