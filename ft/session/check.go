package session

import (
	"fmt"
	"math"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// What a step's words may be; each is a user's, and suspect.
const (
	maxWord    = 64      // bytes of a step, token, method, strategy
	maxID      = 128     // bytes of a request's ID
	maxHost    = 255     // bytes
	maxPath    = 4 << 10 // bytes
	maxError   = 1 << 10 // bytes that are kept
	maxAttempt = 1 << 20
	maxTime    = 366 * 24 * time.Hour
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// word says whether s is one printable word of a bounded length.
func word(s string, most int) bool {
	return s != "" && len(s) <= most && utf8.ValidString(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return r == '/' || unicode.IsSpace(r) || !unicode.IsPrint(r) })
}

func (k Key) check(token string) error {
	switch {
	case k.Job == 0:
		return invalid("0 is no job")
	case k.Attempt < 0 || k.Attempt > maxAttempt:
		return invalid("%d is no count of restarts", k.Attempt)
	case !word(k.Step, maxWord):
		return invalid("%.40q is no step's name", k.Step)
	case !word(token, maxWord):
		return invalid("%.40q is no token", token)
	}
	return nil
}

func (h Hello) check() error {
	if err := h.Key.check(h.Token); err != nil {
		return err
	}
	for _, w := range []struct {
		what, text string
		most       int
	}{{"method", h.Method, maxWord}, {"strategy", h.Strategy, maxWord}, {"label", h.Label, maxWord}, {"host", h.Host, maxHost}} {
		if w.text != "" && !word(w.text, w.most) {
			return invalid("%.40q is no %s", w.text, w.what)
		}
	}
	switch {
	case h.Dir != "" && !folder(h.Dir):
		return invalid("%.80q is no absolute path of a folder", h.Dir)
	case !duration(h.Interval):
		return invalid("an interval of %s", h.Interval)
	case !duration(h.Cost):
		return invalid("a checkpoint that takes %s", h.Cost)
	case h.Retries < 0 || h.Retries > maxAttempt:
		return invalid("%d retries", h.Retries)
	case h.Last == (Answer{}):
		return nil
	}
	return h.Last.check(h.Dir)
}

// folder says whether s is a clean absolute path without odd characters.
func folder(s string) bool {
	return len(s) <= maxPath && path.IsAbs(s) && path.Clean(s) == s && utf8.ValidString(s) &&
		!strings.ContainsFunc(s, unicode.IsControl)
}

func duration(d time.Duration) bool { return d >= 0 && d <= maxTime }

// check says whether an answer can be one of a step whose generations go to dir.
func (a Answer) check(dir string) error {
	switch {
	case a.ID != "" && !word(strings.ReplaceAll(a.ID, "/", "."), maxID):
		return invalid("%.40q is no request's ID", a.ID)
	case a.Generation != "" && (!folder(a.Generation) || dir == "" || !strings.HasPrefix(a.Generation, strings.TrimSuffix(dir, "/")+"/")):
		return invalid("%.80q is no folder below %.80q", a.Generation, dir)
	case a.Generation != "" && a.N < 1:
		return invalid("%d is no generation's number", a.N)
	case a.Generation == "" && a.ID == "":
		return invalid("neither a generation nor an answer to a request")
	case a.N < 0 || a.N > math.MaxInt32 || a.Bytes < 0 || a.Iteration < -1:
		return invalid("generation %d of %d bytes at iteration %d", a.N, a.Bytes, a.Iteration)
	case !duration(a.Took):
		return invalid("a checkpoint that took %s", a.Took)
	case len(a.Error) > maxPath:
		return invalid("an error of %d bytes", len(a.Error))
	}
	return nil
}

func (s *Summary) check() error {
	if s == nil {
		return nil
	}
	for _, w := range []struct{ what, text string }{{"label", s.Label}, {"method", s.Method}} {
		if w.text != "" && !word(w.text, maxWord) {
			return invalid("%.40q is no %s", w.text, w.what)
		}
	}
	for _, d := range []time.Duration{s.Ran, s.Writing, s.Lost} {
		if !duration(d) {
			return invalid("a step that ran %s, wrote for %s and lost %s", s.Ran, s.Writing, s.Lost)
		}
	}
	for _, n := range []int{s.Exit, s.Ranks, s.Checkpoints, s.Restarts, s.LostUnknown} {
		if n < 0 || n > math.MaxInt32 {
			return invalid("%d of a step's exit code, tasks, checkpoints or restarts", n)
		}
	}
	if s.Iteration < -1 {
		return invalid("a step that ended at iteration %d", s.Iteration)
	}
	return nil
}

func (p Progress) check() error {
	if !(p.Done == -1 || p.Done >= 0 && p.Done <= 1) || p.Iteration < -1 {
		return invalid("progress %g at iteration %d", p.Done, p.Iteration)
	}
	if p.Of < 0 || p.Generation < 0 || p.Generation > math.MaxInt32 || p.Attempt < 0 || p.Attempt > maxAttempt || !duration(p.Since) {
		return invalid("progress to iteration %d, generation %d of attempt %d, %s ago", p.Of, p.Generation, p.Attempt, p.Since)
	}
	return nil
}

// check says whether o can be asked now; it is the caller's own error if not.
func (o Order) check(now time.Time) error {
	r := o.Request
	switch {
	case o.Job == 0 || o.Attempt < 0:
		return fmt.Errorf("asking attempt %d of job %d: there is none", o.Attempt, o.Job)
	case !word(strings.ReplaceAll(r.ID, "/", "."), maxID):
		return fmt.Errorf("asking job %d: %.40q is no request's ID", o.Job, r.ID)
	case !r.By.After(now):
		return fmt.Errorf("asking job %d to %s: %w: it was to be done by %s", o.Job, r.Kind, ErrLate, r.By.Format(time.RFC3339))
	}
	switch r.Kind {
	case Checkpoint, Stop, Leave, Cancel:
		return nil
	}
	return fmt.Errorf("asking job %d: %.40q is no kind of request", o.Job, r.Kind)
}

// oneLine makes a step's text fit for a log and an event.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "?"))
	if len(text) <= maxError {
		return text
	}
	end := maxError
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
