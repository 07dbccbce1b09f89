package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestUnbroken: a part that keeps no promise begins anew after a panic, and ends as it would.
func TestUnbroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := &Daemon{log: slog.New(slog.NewTextHandler(&out, nil))}
		var began []time.Time
		part := d.unbroken("overflow", func(context.Context) error {
			if began = append(began, time.Now()); len(began) < 3 {
				_ = []int{}[len(began)]
			}
			return errors.New("its end")
		})
		if err := part(t.Context()); err == nil || err.Error() != "its end" || len(began) != 3 {
			t.Errorf("%v, begun %d times", err, len(began))
		}
		for _, rest := range []time.Duration{began[1].Sub(began[0]), began[2].Sub(began[1])} {
			if rest < partAgain/2 || rest > 2*partAgain {
				t.Errorf("it rested %s", rest)
			}
		}
		if text := out.String(); strings.Count(text, "level=ERROR") != 2 || !strings.Contains(text, "part=overflow") || !strings.Contains(text, "index out of range") || !strings.Contains(text, "serve_test.go") {
			t.Errorf("the log says %s", text)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := d.unbroken("overflow", func(context.Context) error { panic("again") })(ctx); err != nil {
			t.Error(err)
		}
	})
}
