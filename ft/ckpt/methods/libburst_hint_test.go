package methods

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

func (s *libServer) hints(t *testing.T, want string) {
	t.Helper()
	if got := s.unheard(); !strings.Contains(got, want) {
		t.Errorf("the hint is %q, want %q", got, want)
	}
}

// TestLibburstHints: why nobody has begun what was asked for.
func TestLibburstHints(t *testing.T) {
	t.Parallel()
	s := listening(t)
	s.hints(t, "no process of the step has called burst_init")
	s.call(t).want("hello 7", "no version")
	s.hints(t, "speaks version 7, and this burst-srun version 1")
	c := s.call(t)
	c.want("hello 1", "welcome")
	s.hints(t, "has not asked burst_should_checkpoint")

	// The file system hangs while a commit is looked at, until its time is over.
	looks, goOn := make(chan string), make(chan error)
	s.look = func(folder string) error { looks <- folder; return <-goOn }
	o := s.order("/a", true)
	c.want("begin 4096", "folder /a")
	if _, err := c.Write([]byte("commit")); err != nil {
		t.Fatal(err)
	}
	<-looks
	if !s.withdraw(o) || !errors.Is(o.err, errLibWithdrawn) {
		t.Error(o.err)
	}
	s.hints(t, "the file system does not answer")
	next := s.order("/b", true) // while the program waits
	close(goOn)
	answer := make([]byte, 100)
	if n, err := c.Read(answer); err != nil || string(answer[:n]) != "no late" {
		t.Errorf("%q, %v", answer[:n], err)
	}
	go func() { <-looks }()
	c.want("begin 4096", "folder /b")
	c.want("commit", "kept stop")
	if s.withdraw(next); next.err != nil {
		t.Error(next.err)
	}
	s.hints(t, "has not asked burst_should_checkpoint")
}

// TestLibburstYields: an order that nobody has begun makes way, and no other does.
func TestLibburstYields(t *testing.T) {
	t.Parallel()
	s := listening(t)
	s.yield() // nothing
	c := s.call(t)
	c.want("hello 1", "welcome")
	dir := filled(t)
	o := s.order(dir, false)
	s.yield()
	if <-o.over; !errors.Is(o.err, ckpt.ErrYielded) {
		t.Error(o.err)
	}
	o = s.order(dir, true)
	s.yield()
	c.want("begin 4096", "folder "+dir)
	c.want("commit", "kept stop")
	if <-o.over; o.err != nil {
		t.Error(o.err)
	}
	o = s.order(dir, false)
	c.want("begin 4096", "folder "+dir)
	s.yield()
	c.want("commit", "kept")
	if <-o.over; o.err != nil {
		t.Error(o.err)
	}
}

// TestLibburstLeft: the user is told when the last process has left, and not when another
// has come.
func TestLibburstLeft(t *testing.T) {
	before := libLeftTime
	libLeftTime = 200 * time.Millisecond
	t.Cleanup(func() { libLeftTime = before })
	said := make(chan string, 10)
	s, err := listenLib(func(format string, args ...any) { said <- fmt.Sprintf(format, args...) })
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	one, two := s.call(t), s.call(t)
	one.want("hello 1", "welcome")
	two.want("hello 1", "welcome")
	one.Close()
	two.want("begin 4096", "no unasked")
	two.Close()
	select {
	case line := <-said:
		if !strings.Contains(line, "no process of the step is connected any more") {
			t.Error(line)
		}
	case <-time.After(longEnough):
		t.Fatal("nobody is told")
	}
	three := s.call(t)
	three.want("hello 1", "welcome")
	s.sayLeft() // the timer of before, late
	if len(said) > 0 {
		t.Errorf("said again: %s", <-said)
	}
}
