package ssh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"
)

// maxStarts is how often a run is started that is gone without having said how
// it ended: its host was restarted, or lacks memory or disk.
const maxStarts = 3

// stopTime is how long a host may take to end a run for which there is no more time.
const stopTime = 30 * time.Second

// Run does the work on the host, once, and returns nil when its run has ended well:
// also where an earlier Run, of this process or another, has begun it, or seen it end. It
// tries until ctx ends, or its deadline comes; with that, the run is ended too, while a
// ctx that is cancelled leaves it to a later Run. Errors are a *Failure or wrap
// ErrGivenUp, or are ctx's.
func (r *Runner) Run(ctx context.Context, h Host, w Work) error {
	if err := h.check(); err != nil {
		return err
	}
	log, err := openLog(r.cfg.Logs, h.Node)
	if err != nil {
		r.cfg.Log.Warn("the output of a node's setup is not kept", "node", h.Node, "error", err)
	}
	defer log.close()
	log.note("setting up %s", h)
	s := &setup{runner: r, host: h, work: w, log: log}
	err = s.run(ctx, s.try)
	switch {
	case err == nil:
		log.note("the setup has ended well")
	case ctx.Err() == nil || errors.Is(err, context.DeadlineExceeded):
		log.note("FAILED: %v", err)
	}
	return err
}

// setup is the way of one host.
type setup struct {
	runner *Runner
	host   Host
	work   Work
	log    *log

	tries   int       // since something went well
	refused time.Time // since when in a row; zero: it is not
	last    error     // why the last try failed
	running bool      // it was when it was looked at last
	seen    int64     // bytes of the run's output
	tail    []byte    // the end of it
}

// run tries until there is no use in it.
func (s *setup) run(ctx context.Context, try func(context.Context) error) error {
	for {
		err := try(ctx)
		var failed *Failure
		var no refused
		var never final
		switch {
		case err == nil, errors.As(err, &failed):
			return err
		case over(ctx):
			return s.late(ctx, err)
		case errors.As(err, &never):
			return fmt.Errorf("%s: %w: %w", s.host, ErrGivenUp, err)
		case errors.Is(err, ErrNoLogin):
			s.refused = time.Time{} // while we have no key, the host is not asked
		case errors.As(err, &no):
			if s.refused.IsZero() {
				s.refused = time.Now()
			}
			if most := s.runner.cfg.Refused; time.Since(s.refused) >= most {
				return fmt.Errorf("%s: %w after %s: %w", s.host, ErrGivenUp, most, err)
			}
		}
		if s.last == nil || err.Error() != s.last.Error() {
			s.log.note("will try again: %v", err)
			level := slog.LevelDebug
			if errors.Is(err, ErrNoLogin) {
				level = slog.LevelError // which an admin can mend while the host waits
			}
			s.runner.cfg.Log.Log(ctx, level, "a host is tried again", "node", s.host.Node, "instance", s.host.Instance, "error", err)
		}
		s.last = err
		s.tries++
		if err := sleep(ctx, s.pause()); err != nil {
			return s.late(ctx, s.last)
		}
	}
}

// over says that no time is left. A connection's own deadline, which is the same, may fire
// a moment before: its error says nothing of the host.
func over(ctx context.Context) bool {
	if by, ok := ctx.Deadline(); ok && !time.Now().Before(by) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// pause grows with each failure, with jitter.
func (s *setup) pause() time.Duration {
	most := s.runner.cfg.Pause
	p := min(most, time.Second<<min(s.tries-1, 10))
	return p/2 + rand.N(p/2+1)
}

// late is the error when no time is left; a run on the host is ended then.
func (s *setup) late(ctx context.Context, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	if s.last != nil {
		err = s.last
	}
	if s.running {
		s.stop(context.WithoutCancel(ctx))
		if s.last == nil {
			err = fmt.Errorf("its setup still ran and was ended%s", s.ending())
		}
	}
	return fmt.Errorf("%s: %w, no time is left: %w", s.host, ErrGivenUp, err)
}

// stop ends the run on the host.
func (s *setup) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	c, err := s.runner.dial(ctx, s.host)
	if err == nil {
		_, err = c.verb(ctx, s.host, "stop")
		c.close()
	}
	if err != nil {
		s.runner.cfg.Log.Warn("a setup without time left could not be ended on its host; its own limit ends it", "node", s.host.Node, "instance", s.host.Instance, "error", err)
	}
}

// ending is the end of the run's output, for an error.
func (s *setup) ending() string {
	if t := lastWords(s.tail); t != "" {
		return "; its last words: " + t
	}
	return ""
}

// try makes a connection and does over it what is left to do.
func (s *setup) try(ctx context.Context) error {
	r := s.runner
	c, err := r.dial(ctx, s.host)
	if err != nil {
		return err
	}
	defer c.close()
	for {
		if err := r.step("ssh look"); err != nil {
			return err
		}
		a, err := c.verb(ctx, s.host, "state", fmt.Sprint(s.seen))
		if err != nil {
			return err
		}
		s.tries, s.last, s.running = 0, nil, a.state == "running"
		s.take(a)
		switch a.state {
		case "ended":
			if len(a.output) == maxOutput {
				continue // there is more of it
			}
			if a.number != 0 {
				return s.failure(a.number)
			}
			return nil
		case "lost":
			if a.number >= maxStarts {
				return &Failure{s.host, -1, fmt.Sprintf("its setup was started %d times and is gone without an end: does the host restart, or lack memory or disk (%d KiB free)?", a.number, a.free), ending(s.tail)}
			}
			fallthrough
		case "none":
			if err := r.start(ctx, c, s.host, s.work); err != nil {
				return err
			}
			s.refused, s.running = time.Time{}, true
			continue
		}
		s.refused = time.Time{}
		if err := sleep(ctx, r.cfg.Poll*4/5+rand.N(r.cfg.Poll*2/5+1)); err != nil {
			return err
		}
	}
}

// keepTail is how much of the end of the output is remembered, in bytes.
const keepTail = 16 << 10

// take adds what has come of the output.
func (s *setup) take(a answer) {
	if a.from > s.seen {
		s.log.note("%d bytes of output are left out", a.from-s.seen)
	}
	if end := a.from + int64(len(a.output)); end != s.seen {
		s.seen = end
		s.log.write(a.output)
		s.tail = append(s.tail, a.output...)
		s.tail = s.tail[max(0, len(s.tail)-keepTail):]
		if s.work.Heard != nil {
			s.work.Heard(s.tail)
		}
	}
}

// spoken finds the bootstrap's own word on what failed.
var spoken = regexp.MustCompile(`(?m)^burst-bootstrap: FAILED: (?:step \w+: )?(.+)$`)

// failure says what a run says of its end.
func (s *setup) failure(code int) *Failure {
	f := &Failure{Host: s.host, Code: code, Tail: ending(s.tail)}
	text := printable(string(s.tail))
	all := spoken.FindAllStringSubmatchIndex(text, -1)
	switch {
	case len(all) > 0 && code != 124:
		m := all[len(all)-1]
		f.Why = oneLine(text[m[2]:m[3]])
		if rest := lastWords([]byte(text[m[1]:])); rest != "" {
			f.Why += ": " + rest
		}
	case code == 124 || code == 137:
		f.Why = fmt.Sprintf("its setup ran longer than %s and was ended%s", s.work.Limit, s.ending())
	default:
		f.Why = fmt.Sprintf("its setup ended with exit code %d%s", code, s.ending())
	}
	return f
}

// ending is the last lines of an output, at most 1500 bytes.
func ending(output []byte) string {
	text := strings.TrimSpace(printable(string(output)))
	if len(text) > 1500 {
		text = strings.ToValidUTF8(text[len(text)-1500:], "")
	}
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}

// lastWords is the end of an output in one line, from a word's beginning.
func lastWords(output []byte) string {
	text := strings.Join(strings.Fields(ending(output)), " ")
	if most := 300; len(text) > most {
		text = strings.ToValidUTF8(text[len(text)-most:], "")
		if _, rest, ok := strings.Cut(text, " "); ok {
			text = rest
		}
		text = "…" + text
	}
	return text
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
