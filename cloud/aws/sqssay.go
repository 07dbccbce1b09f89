package aws

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// How long trouble of one kind is not said again: while it goes on, and where
// it comes and goes.
const (
	sayAgain  = 5 * time.Minute
	sayReturn = time.Minute
)

// sayer logs trouble once, and then now and then for as long as it goes on, by
// its kind, of which there are few.
type sayer struct {
	log  *slog.Logger
	mu   sync.Mutex
	said map[string]saying
}

type saying struct {
	at    time.Time // of the last line
	kept  int       // not said since
	quiet bool      // the trouble is over, or was not said: its end needs no word
}

// warn says text, unless it was said a short while ago.
func (s *sayer) warn(kind, text string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.said[kind]
	silence := sayAgain
	if last.quiet {
		silence = sayReturn
	}
	if known && time.Since(last.at) < silence {
		last.kept++
		s.said[kind] = last
		return
	}
	if s.said == nil {
		s.said = map[string]saying{}
	}
	s.said[kind] = saying{at: time.Now()}
	if last.kept > 0 {
		args = append(args, "more", last.kept)
	}
	s.log.Warn(text, args...)
}

// well says text once after a warning of this kind.
func (s *sayer) well(kind, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, known := s.said[kind]; known && !last.quiet {
		last.quiet = true
		s.said[kind] = last
		s.log.Info(text)
	}
}

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
