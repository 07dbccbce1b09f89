package cli

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestAStormIsFewLines: a thousand nodes that die at once, and as many errors
// that are alike, do not bury what else is logged.
func TestAStormIsFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(newCalm(slog.NewTextHandler(&out, nil))).With("provider", "east")
		for i := range 1000 {
			log.Info(fmt.Sprintf("instance i-%d has gone", i), "event", "died", "node", fmt.Sprint("c", i))
			log.Warn("will be tried again", "error", errors.New(fmt.Sprint(i)))
		}
		log.Info("something else", "event", "paused")
		if n := strings.Count(out.String(), "\n"); n != 2*calmLines+1 {
			t.Errorf("%d lines, want %d", n, 2*calmLines+1)
		}
		out.Reset()
		time.Sleep(calmWindow + time.Second)
		synctest.Wait()
		text := out.String()
		if strings.Count(text, "\n") != 2 || !strings.Contains(text, "and 980 more of this kind") || !strings.Contains(text, "event=died") ||
			!strings.Contains(text, `level=WARN msg="and 980 more: will be tried again" provider=east`) {
			t.Errorf("the sum is\n%s", text)
		}
		out.Reset()
		log.Info("instance i-1 has gone", "event", "died") // the next storm is another
		time.Sleep(2 * calmWindow)
		synctest.Wait()
		if strings.Count(out.String(), "\n") != 1 {
			t.Errorf("one line is\n%s", &out)
		}
	})
}
