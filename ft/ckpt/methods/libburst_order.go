package methods

import (
	"errors"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// How an order ends without a checkpoint.
var (
	errLibWithdrawn = errors.New("the order was withdrawn")
	errLibGone      = errors.New("the program closed its connection before it committed")
	errLibAborted   = errors.New("the program could not write it")
	errLibEmpty     = errors.New("the program committed a checkpoint without content")
)

// libOrder is a checkpoint that is asked for.
//
//	asked --begin--> being written --commit--> kept
//	  |                |-- abort, nothing written, connection closed --> failed
//	  \----------------\-- withdrawn: the time is over, the step has ended
type libOrder struct {
	folder string
	stop   bool
	over   chan struct{} // closed when it is kept or has failed

	// After over, or withdraw:
	err       error
	iteration int64

	writer *libProgram // who writes it; nil: nobody yet
}

// order asks for a checkpoint into the folder.
func (s *libServer) order(folder string, stop bool) *libOrder {
	o := &libOrder{folder: folder, stop: stop, over: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = o
	select {
	case <-s.wanted: // who wants one has it now
	default:
	}
	close(s.came)
	s.came = make(chan struct{})
	if stop {
		s.page.say(orderStop)
	} else {
		s.page.say(orderCheckpoint)
	}
	return o
}

// withdraw takes an order back that is not over, and says whether the program has
// begun it. After it the order's outcome does not change.
func (s *libServer) withdraw(o *libOrder) (begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun = o.writer != nil
	if s.asked != o {
		return begun
	}
	if begun {
		o.writer.late = true
	}
	s.end(errLibWithdrawn)
	return begun
}

// yield withdraws an order without stop that nobody has begun.
func (s *libServer) yield() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.asked; o != nil && !o.stop && o.writer == nil {
		s.end(ckpt.ErrYielded)
	}
}

// unheard says why nobody has begun what was asked for.
func (s *libServer) unheard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.heard && s.strange != 0:
		return fmt.Sprintf("a process of the step is linked with a libburst that speaks version %d, and this burst-srun version %d: link it with the libburst of this Burst", s.strange, libVersion)
	case !s.heard:
		return "no process of the step has called burst_init on this node, the job's batch host: is the program linked with libburst, and its first rank here?"
	case len(s.programs) == 0:
		return libLeft
	case s.looking > 0:
		return "the file system does not answer, in which the program's last checkpoint is looked at"
	}
	return "the program did not begin a checkpoint: it has not asked burst_should_checkpoint since"
}

// want has a checkpoint asked for that a program wants now, and waits until it is. What
// comes too late for that is asked for all the same.
func (s *libServer) want() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil && s.hears {
		select {
		case s.wanted <- struct{}{}:
		default: // another wants it too
		}
		came, patience := s.came, s.patience
		s.mu.Unlock()
		timer := time.NewTimer(patience)
		select {
		case <-came:
		case <-s.over:
		case <-timer.C:
		}
		timer.Stop()
		s.mu.Lock()
	}
	if s.asked == nil {
		return "no unasked"
	}
	return "asked"
}

func (s *libServer) begin(p *libProgram, room int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.asked
	switch {
	case o == nil:
		return "no unasked"
	case o.writer != nil:
		return "no busy"
	case len(o.folder)+1 > room:
		return "no room"
	}
	o.writer, p.late = p, false
	return "folder " + o.folder
}

// writes is the order that a program writes a checkpoint for, or why there is none.
func (s *libServer) writes(p *libProgram) (o *libOrder, why string) {
	switch {
	case s.asked != nil && s.asked.writer == p:
		return s.asked, ""
	case p.late:
		p.late = false
		return nil, "no late"
	}
	return nil, "no unbegun"
}

// commit looks at what was written without the lock: a file system may hang, and the
// time be over meanwhile.
func (s *libServer) commit(p *libProgram) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, why := s.writes(p)
	if o == nil {
		return why
	}
	s.looking++
	s.mu.Unlock()
	err := s.look(o.folder)
	s.mu.Lock()
	s.looking--
	if _, why := s.writes(p); why != "" {
		return why
	}
	if err != nil {
		s.end(fmt.Errorf("%w: %w", errLibEmpty, err))
		return "no empty"
	}
	o.iteration, _ = s.page.told()
	s.end(nil)
	if o.stop {
		return "kept stop"
	}
	return "kept"
}

func (s *libServer) abort(p *libProgram) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, why := s.writes(p); o == nil {
		return why
	}
	s.end(errLibAborted)
	return "aborted"
}

// end ends the order that is asked for. The lock is held.
func (s *libServer) end(err error) {
	s.page.say(orderNone)
	s.asked.err = err
	close(s.asked.over)
	s.asked = nil
}
