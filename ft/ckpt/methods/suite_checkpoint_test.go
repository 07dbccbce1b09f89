package methods

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

func testGoOn(t *testing.T, c candidate) {
	p := newPlace(t, c)
	const to = 250
	r := p.counting(to, nil)
	r.awaitAt(20)
	first := p.checkpoint(r, false)
	r.awaitAt(r.out.last() + 5)
	second := p.checkpoint(r, false)
	r.finish(0)
	r.done(to)
	p.restart(to, first)
	p.restart(to, second)
}

func testStop(t *testing.T, c candidate) {
	p := newPlace(t, c)
	r := p.counting(1000, nil)
	r.awaitAt(30)
	g := p.checkpoint(r, true)
	select {
	case <-r.ended:
	case <-time.After(5 * time.Second):
		t.Fatal("the checkpoint is over, and the step runs")
	}
	if r.err != nil || r.code == 0 || strings.Contains(r.out.String(), "done") {
		t.Errorf("it ended with %d, %v as if it had done its work:\n%s", r.code, r.err, r.out.end())
	}
	if left := awaitNone(r.mark); len(left) > 0 {
		t.Errorf("left behind by the stop: %v", left)
	}
	at := r.out.last()
	p.restart(at+20, g)
	p.restart(at+20, g)
}

// testChain takes checkpoints of restarts, over three attempts.
func testChain(t *testing.T, c candidate) {
	p := newPlace(t, c)
	var g *ckpt.Generation
	at := 0
	for attempt := range 3 {
		if err := c.wipe(p.dir); err != nil {
			t.Fatal(err)
		}
		r := p.counting(100_000, g)
		r.awaitAt(at + 15)
		if first := r.out.first(); attempt > 0 && (first < 2 || first > at+1) {
			t.Fatalf("attempt %d began at %d, the one before it ended at %d", attempt, first, at)
		}
		p.checkpoint(r, false)
		g = p.checkpoint(r, true)
		r.wait()
		at = r.out.last()
	}
	p.restart(at+20, g)
}

func testDeafStop(t *testing.T, c candidate) {
	p := newPlace(t, c)
	r := p.counting(1_000_000, nil, "-deaf")
	r.awaitAt(5)
	limit := 10 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	began, into := time.Now(), p.folder()
	if _, err := r.step.Checkpoint(ctx, into, true); err != nil {
		t.Fatalf("%v\n%s", err, r.out.end())
	}
	if took := time.Since(began); took > limit+4*time.Second { // a busy machine is late itself
		t.Errorf("it took %v of %v", took, limit)
	}
	r.wait()
	if left := awaitNone(r.mark); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// testDeaf wants the deadline met with a step that cannot be checkpointed, which
// goes on. A method that needs nothing of the step may succeed.
func testDeaf(t *testing.T, c candidate) {
	p := newPlace(t, c)
	r := p.started("deaf")
	for _, stop := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		began := time.Now()
		_, err := r.step.Checkpoint(ctx, p.folder(), stop)
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("stop %v: the deadline was missed: %v, %v", stop, took, err)
		}
		cancel()
		if err == nil {
			continue
		}
		select {
		case <-r.ended:
			t.Fatalf("stop %v: no checkpoint (%v), and yet the step was ended with %d, %v", stop, err, r.code, r.err)
		default:
		}
	}
}

// testBusy has several want a checkpoint at the same time.
func testBusy(t *testing.T, c candidate) {
	p := newPlace(t, c)
	r := p.counting(1_000_000, nil)
	r.awaitAt(5)
	ctx, cancel := context.WithTimeout(t.Context(), longEnough)
	defer cancel()
	var good, busy int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		into := p.folder()
		wg.Go(func() {
			_, err := r.step.Checkpoint(ctx, into, false)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				good++
			case errors.Is(err, ckpt.ErrBusy):
				busy++
			default:
				t.Errorf("neither good nor busy: %v", err)
			}
		})
	}
	wg.Wait()
	if good == 0 || busy == 0 {
		t.Errorf("%d good, %d busy", good, busy)
	}
	p.checkpoint(r, true) // and it is not busy for ever
}

func testFinishing(t *testing.T, c candidate) {
	p := newPlace(t, c)
	r := p.start(p.launch("exit", "0"))
	r.finish(0)
	for _, stop := range []bool{false, true} {
		if _, err := r.step.Checkpoint(t.Context(), p.folder(), stop); !errors.Is(err, ckpt.ErrFinishing) {
			t.Errorf("stop %v: %v, want ErrFinishing", stop, err)
		}
	}
}

// testKilled kills the program at several times of a checkpoint. Whatever is
// then said to be a checkpoint must be one.
func testKilled(t *testing.T, c candidate) {
	for _, after := range []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond, 600 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, c)
			r := p.counting(200, nil)
			pid := r.pid()
			r.awaitAt(5)
			go func() {
				time.Sleep(after)
				syscall.Kill(pid, syscall.SIGKILL)
			}()
			ctx, cancel := context.WithTimeout(t.Context(), longEnough)
			defer cancel()
			into := p.folder()
			made, err := r.step.Checkpoint(ctx, into, false)
			r.wait()
			if r.code == 0 && r.err == nil {
				t.Error("exit code 0 of a step that was killed")
			}
			if left := awaitNone(r.mark); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			switch {
			case err == nil:
				p.restart(200, p.generation(into, made))
			case !errors.Is(err, ckpt.ErrFinishing):
				t.Errorf("%v, want ErrFinishing", err)
			}
		})
	}
}
