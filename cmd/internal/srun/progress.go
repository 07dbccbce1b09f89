package srun

import (
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/ckpt/methods"
	"github.com/burst-hpc/burst/ft/session"
)

// telling is what is known of how far the step is.
type telling struct {
	output  methods.Output
	since   time.Time // the start of the step that output follows
	reading chan struct{}
	now, of int64
}

// readTime is how long a question to burstd waits for a file system that may hang.
const readTime = 300 * time.Millisecond

// progress is what burstd is told with each question: the last checkpoint, and the
// iteration where the step tells it, or writes it to its output.
func (r *runner) progress() session.Progress {
	r.mu.Lock()
	t := &r.told
	if t.reading == nil {
		done := make(chan struct{})
		t.reading = done
		go r.readOutput(r.started, done)
	}
	reading := t.reading
	r.mu.Unlock()
	select {
	case <-reading:
	case <-time.After(readTime): // what was read before counts
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := session.Progress{Done: -1, Iteration: -1}
	if t.since.Equal(r.started) {
		p.Iteration, p.Of = t.now, t.of
	}
	if teller, ok := r.step.(ckpt.Teller); ok {
		if now, of := teller.Iteration(); now >= 0 {
			p.Iteration, p.Of = now, of
		}
	}
	if g := r.last(); g != nil {
		p.Generation, p.Attempt, p.Since = g.N, g.Attempt, max(0, time.Since(g.Began))
	}
	return p
}

// readOutput reads how far the step that was started then is.
func (r *runner) readOutput(started time.Time, done chan struct{}) {
	r.mu.Lock()
	o, fresh := r.told.output, !r.told.since.Equal(started)
	r.mu.Unlock()
	if fresh {
		o = methods.Follow(r.launch.Stdout)
	}
	now, of := o.Iteration()
	r.mu.Lock()
	r.told = telling{output: o, since: started, now: now, of: of}
	r.mu.Unlock()
	close(done)
}
