package power

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// step begins the names of the engine's own steps.
const step = "step "

// backoff is the wait after failures in a row.
type backoff struct {
	failures int
	until    time.Time
}

// failed notes a failure of what is named and returns the wait before the
// next try: 100 ms doubled each time, less up to a fifth at random. It is at
// most 30 s, for a step 3 s: orders must not wait long for a Slurm that is back.
func (e *Engine) failed(what string) time.Duration {
	const first = 100 * time.Millisecond
	most := 30 * time.Second
	if strings.HasPrefix(what, step) {
		most = 3 * time.Second
	}
	b := e.backoff[what]
	d := min(most, first<<min(b.failures, 9))
	d -= time.Duration(rand.Int64N(int64(d) / 5))
	e.backoff[what] = backoff{b.failures + 1, time.Now().Add(d)}
	return d
}

// refused is failed, after an error in which a cloud may say how long to wait.
func (e *Engine) refused(what string, err error) time.Duration {
	wait := e.failed(what)
	var ce *cloud.Error
	if errors.As(err, &ce) && ce.RetryAfter > wait {
		wait = ce.RetryAfter
		e.backoff[what] = backoff{e.backoff[what].failures, time.Now().Add(wait)}
	}
	return wait
}

// hangs says after a command's failure that Slurm does not answer at all; nil: it does, and has refused that command.
func (e *Engine) hangs(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return err
	}
	_, err = e.slurm.Fresh(ctx, time.Now())
	return err
}

// until is how long what is named still has to wait.
func (e *Engine) until(what string) time.Duration { return time.Until(e.backoff[what].until) }

// sighting is since when, and how often in a row, something has been seen.
type sighting struct {
	what  string
	since time.Time
	times int
	sure  time.Time // since when nothing speaks against it; zero: something does
}

// seen counts one more sighting of what; another what begins anew.
func (s sighting) seen(what string, now time.Time) sighting {
	if s.what != what {
		s = sighting{what: what, since: now}
	}
	s.times++
	return s
}
