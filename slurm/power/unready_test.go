package power

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

// What a pool's nodes need to be set up is missing: nothing is launched, the job is
// told why, and it starts when the thing is there. A stop by hand stays.
func TestUnready(t *testing.T) {
	const why = "open /etc/burst/id_ed25519: no such file or directory"
	st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Wanted, Job: 7, Whole: true}}}
	inSlurm(t, st, map[string]string{"c1": "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"}, nil, func(t *testing.T, e *Engine, _ *scripted) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { // what Run does with it
			defer close(done)
			for {
				select {
				case f := <-e.results:
					f(ctx)
				case <-ctx.Done():
					return
				}
			}
		}()
		defer func() { cancel(); <-done }()
		for range 2 {
			if err := e.SetUnready(ctx, "p", "east", why); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		p, _ := e.planning()
		out := p.plan()
		if len(out.drafts) != 0 || len(out.Holds) != 1 || !strings.Contains(out.Holds[0].Why, why) {
			t.Errorf("planned are %d launches, and holds %+v", len(out.drafts), out.Holds)
		}
		if err := e.commit(ctx, out.Change); err != nil {
			t.Fatal(err)
		}
		if err := e.StopPool(ctx, "p", "repairs", "root"); err != nil {
			t.Fatal(err)
		}
		if err := e.SetUnready(ctx, "p", "east", ""); err != nil {
			t.Fatal(err)
		}
		if text, stopped := e.mem.stopped("p", "east"); !stopped || !strings.Contains(text, "repairs") {
			t.Errorf("stopped by hand and ready again: %q, %v", text, stopped)
		}
		if err := errors.Join(e.SetUnready(ctx, "p", "east", why), e.StartPool(ctx, "p", "root")); err != nil {
			t.Fatal(err)
		}
		if text, stopped := e.mem.stopped("p", "east"); !stopped || !strings.Contains(text, why) {
			t.Errorf("started by hand and not ready: %q, %v", text, stopped)
		}
		if err := e.SetUnready(ctx, "p", "east", ""); err != nil {
			t.Fatal(err)
		}
		if _, stopped := e.mem.stopped("p", "east"); stopped || e.mem.holds[7].Why != "pool p launches again" {
			t.Errorf("ready again: stopped %v, the job's hold is %+v", stopped, e.mem.holds[7])
		}
		if err := e.SetUnready(ctx, "z", "east", why); !errors.Is(err, ErrNoPool) {
			t.Errorf("pool z: %v", err)
		}
	})
}
