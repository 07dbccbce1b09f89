package methods

import (
	"context"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// TestLibburstWants: who wants a checkpoint is answered when it is asked for, and at once
// where nobody hears it or one is asked for already.
func TestLibburstWants(t *testing.T) {
	t.Parallel()
	s := listening(t)
	one, two := s.call(t), s.call(t)
	one.want("hello 1", "welcome")
	two.want("hello 1", "welcome")
	began := time.Now()
	one.want("want", "no unasked")
	if took := time.Since(began); took > libWantTime/2 || len(s.wanted) != 0 {
		t.Errorf("where nobody hears it, it waits for %s, and is to be heard later: %v", took, len(s.wanted) != 0)
	}
	wishes := s.wishes()
	dir := filled(t)
	answered := make(chan string, 2)
	for _, c := range []caller{one, two} {
		go func() { answered <- c.says("want") }()
	}
	<-wishes
	select {
	case got := <-answered:
		t.Errorf("%q before it is asked for", got)
	case <-time.After(20 * time.Millisecond):
	}
	o := s.order(dir, false)
	for range 2 {
		if got := <-answered; got != "asked" {
			t.Errorf("%q, and it is asked for", got)
		}
	}
	one.want("want", "asked")
	one.want("begin 4096", "folder "+dir)
	two.want("want", "asked") // which begin denies
	two.want("begin 4096", "no busy")
	one.want("commit", "kept")
	if <-o.over; o.err != nil {
		t.Error(o.err)
	}
}

// TestLibburstWantsInVain: the wish waits for so long and no longer, is heard by whoever
// comes later, and keeps no server from its end.
func TestLibburstWantsInVain(t *testing.T) {
	t.Parallel()
	s, err := listenLib(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := s.call(t)
	c.want("hello 1", "welcome")
	wishes := s.wishes()
	waits := func(d time.Duration) {
		s.mu.Lock()
		s.patience = d
		s.mu.Unlock()
	}
	waits(10 * time.Millisecond)
	c.want("want", "no unasked")
	if len(wishes) != 1 {
		t.Error("nobody hears of it later")
	}
	waits(longEnough)
	closed := make(chan error)
	go func() {
		<-wishes // of before
		<-wishes
		closed <- s.close()
	}()
	if got := c.says("want"); got != "" && got != "no unasked" {
		t.Errorf("after the end: %q", got)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestLibburstOwnMoment: a program that wants checkpoints gets them at just those
// iterations, and restarts from one.
func TestLibburstOwnMoment(t *testing.T) {
	t.Parallel()
	p := byLibburst(t, "-wants=20", "-pace=1")
	r := p.counting(1_000_000, nil)
	asker, ok := r.step.(ckpt.Asker)
	if !ok {
		t.Fatal("the step hears nothing")
	}
	wishes := asker.Asked()
	var made ckpt.Made
	var into string
	for i := range 2 {
		select {
		case <-wishes:
		case <-time.After(longEnough):
			t.Fatalf("nothing is wanted:\n%s", r.out.end())
		}
		var err error
		if made, into, err = p.order(r, false, longEnough); err != nil {
			t.Fatal(err)
		}
		if made.Iteration%20 != 0 || made.Iteration < int64(20*(i+1)) {
			t.Errorf("checkpoint %d is of iteration %d", i+1, made.Iteration)
		}
	}
	r.awaitText("want 1")
	ctx, cancel := context.WithTimeout(t.Context(), longEnough)
	defer cancel()
	if _, err := r.step.Checkpoint(ctx, p.folder(), true); err != nil {
		t.Fatal(err)
	}
	r.wait()
	p.c.count = nil
	p.restart(int(made.Iteration)+20, p.generation(into, made))
}
