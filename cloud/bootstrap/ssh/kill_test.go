package ssh_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/bootstrap/ssh"
)

var errKilled = errors.New("killed by the test")

// TestKilledAtEachPoint has a Runner die wherever it touches a host, in turn,
// and another, which knows nothing of it, go on: the script runs once.
func TestKilledAtEachPoint(t *testing.T) {
	w := newWorld(t)
	// life runs until it has died at the named point, "" for none, and returns the points that it passed.
	life := func(w *world, h ssh.Host, at string) (passed []string, err error) {
		ctx, kill := context.WithCancel(w.within(time.Minute))
		defer kill()
		var mu sync.Mutex
		times := map[string]int{}
		cfg := w.cfg
		cfg.Step = func(name string) error {
			mu.Lock()
			defer mu.Unlock()
			times[name]++
			p := fmt.Sprintf("%s #%d", name, times[name])
			passed = append(passed, p)
			if p == at {
				kill()
				return errKilled
			}
			return ctx.Err()
		}
		return passed, ssh.New(cfg).Run(ctx, h, ssh.Work{Script: lasting(1), Limit: time.Minute})
	}
	m := w.net.Host(w.opt)
	points, err := life(w, w.host(m, "points"), "")
	if err != nil {
		t.Fatal(err)
	}
	// On a busy machine a connection may be given up and made again: that is no other point.
	want := []string{"ssh dial #1", "ssh pin #1", "ssh look #1", "ssh upload #1", "ssh start #1", "ssh started #1", "ssh look #2"}
	for _, p := range points {
		if name, _, _ := strings.Cut(p, " #"); !slices.Contains(want, name+" #1") {
			t.Errorf("%s is passed, and not tried here", name)
		}
	}
	for i, at := range want {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := &world{T: t, net: w.net, cfg: w.cfg, opt: w.opt}
			m := w.net.Host(w.opt)
			h := w.host(m, fmt.Sprint("k", i))
			if passed, err := life(w, h, at); !errors.Is(err, context.Canceled) || !slices.Contains(passed, at) {
				t.Fatalf("it did not die: %v, %q", err, passed)
			}
			if _, err := life(w, h, ""); err != nil {
				t.Error(err)
			}
			if got := m.Read("/var/log/runs"); got != ranOnce {
				t.Errorf("it ran %q", got)
			}
		})
	}
}

// TestTwoAtOnce: two Runners that know nothing of each other, as when a killed
// burstd's last command is still on its way, run the script once.
func TestTwoAtOnce(t *testing.T) {
	w := newWorld(t)
	m := w.net.Host(w.opt)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := ssh.New(w.cfg).Run(w.within(time.Minute), w.host(m, "c1"), ssh.Work{Script: lasting(2), Limit: time.Minute}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := m.Read("/var/log/runs"); got != ranOnce {
		t.Errorf("it ran %q", got)
	}
}
