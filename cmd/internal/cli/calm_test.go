package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pages is what has been written since it was last taken.
type pages struct {
	mu   sync.Mutex
	text strings.Builder
}

func (p *pages) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *pages) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.text.Reset()
	return p.text.String()
}

// TestAStormIsFewLines: a thousand nodes that die at once, and as many errors
// that are alike, do not bury what else is logged.
func TestAStormIsFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out pages
		log := slog.New(newCalm(slog.NewTextHandler(&out, nil))).With("provider", "east")
		for i := range 1000 {
			log.Info(fmt.Sprintf("instance i-%d has gone", i), "event", "died", "node", fmt.Sprint("c", i))
			log.Warn("will be tried again", "error", errors.New(fmt.Sprint(i)))
		}
		log.Info("something else", "event", "paused")
		if n := strings.Count(out.take(), "\n"); n != 2*calmLines+1 {
			t.Errorf("%d lines, want %d", n, 2*calmLines+1)
		}
		time.Sleep(calmWindow + time.Second)
		synctest.Wait()
		text := out.take()
		if strings.Count(text, "\n") != 2 || !strings.Contains(text, "and 980 more of this kind") || !strings.Contains(text, "event=died") ||
			!strings.Contains(text, `level=WARN msg="and 980 more: will be tried again" provider=east`) {
			t.Errorf("the sum is\n%s", text)
		}
		log.Info("instance i-1 has gone", "event", "died") // the next storm is another
		time.Sleep(2 * calmWindow)
		synctest.Wait()
		if text := out.take(); strings.Count(text, "\n") != 1 {
			t.Errorf("one line is\n%s", text)
		}
	})
}
