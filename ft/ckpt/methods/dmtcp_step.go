package methods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

const (
	// dmtcpFailed is the exit code of DMTCP's own failures, also of those that it
	// has inside of the application.
	dmtcpFailed = 99
	// joinTime is how long a step may take until its program is under DMTCP.
	joinTime = time.Minute
	// endedByUs is what a step returns that a checkpoint has stopped: 128+SIGTERM.
	// DMTCP itself ends such processes with 0, as if they were done.
	endedByUs = 128 + int(syscall.SIGTERM)
)

// dmtcpStep is a step below a coordinator.
//
// DMTCP writes a checkpoint's images over the last ones, into the folder that
// the processes were started with. So they are moved away each time, whole and
// proved, into the generation's folder.
type dmtcpStep struct {
	dmtcpRoom
	method      string // its name
	tools       dmtcpTools
	coordinator *coordinator
	process     *process
	own         syscall.Signal // DMTCP's, in the step's processes
	turn        chan struct{}  // full while a checkpoint is under way

	over chan struct{} // closed when code and err are set
	code int
	err  error

	began time.Time
	ranks int // processes of the step, all of which make an image of their rank; 0: as many as there are
	floor int // of mana: the lowest descriptor that MPI's own were given at this start

	// Of the holder of turn:
	joined  bool // a process of the step is under DMTCP
	writing bool // images are being written
	stopped bool // it is ended by us, its images are safe
	halved  bool // it was to be, but did not end in time
}

// watch waits for the end of the step, and leaves nothing of it behind.
func (s *dmtcpStep) watch() {
	code, err := s.process.wait()
	s.coordinator.goneWithin(context.Background(), time.Second) // it leaves with its last client
	died := s.coordinator.died()
	ended := s.coordinator.end(context.Background())
	s.turn <- struct{}{} // a checkpoint that was under way sees the end
	s.code, s.err = code, err
	if s.stopped {
		s.code = endedByUs
	} else if why := s.lost(code, died); why != "" && err == nil {
		s.err = fmt.Errorf("%s: %w: %s", s.method, ErrLost, why)
	}
	if ended != nil && s.err == nil {
		s.err = fmt.Errorf("%s: the step's coordinator: %w", s.method, ended)
	}
	s.clear() // the generations are elsewhere
	close(s.over)
	<-s.turn
}

// lost says why the exit code is not the application's; "": it is.
func (s *dmtcpStep) lost(code int, died bool) string {
	switch {
	case s.halved:
		return fmt.Sprintf("it was killed after a checkpoint, and did not end in time (exit code %d)", code)
	case s.ranks > 0 && s.writing && code != 0 && !s.allWritten():
		// MANA's own calls of MPI may meet the application's.
		return fmt.Sprintf("MPI failed while MANA made a checkpoint (exit code %d): its message is in the step's output", code)
	case code == dmtcpFailed && died:
		return fmt.Sprintf("the coordinator was killed (code %d), and DMTCP ends the processes that lose it", s.coordinator.code)
	case code == dmtcpFailed && s.writing:
		return "DMTCP failed while it wrote a checkpoint; is the folder or the quota full?"
	case code != 0 && code != dmtcpFailed:
		return ""
	}
	log, err := s.coordinator.logAfter(0)
	switch {
	case err != nil && code == 0:
		return fmt.Sprintf("whether it ended by itself is not known: %v", err)
	case err != nil:
		return ""
	case code == 0 && killedByOther(log):
		return "somebody has told the coordinator to end it"
	case code == dmtcpFailed && execLine.MatchString(log):
		return fmt.Sprintf("DMTCP failed (exit code %d): its message is in the step's output", code)
	}
	return ""
}

func (s *dmtcpStep) Wait() (int, error) {
	<-s.over
	return s.code, s.err
}

// Signal passes a signal on, but for DMTCP's own.
func (s *dmtcpStep) Signal(sig os.Signal) error {
	if sig == s.own {
		return fmt.Errorf("%s: %v is DMTCP's own and is not passed on; DMTCP_SIGCKPT=NUMBER gives it another", s.method, sig)
	}
	return s.process.signal(sig)
}

func (s *dmtcpStep) Checkpoint(ctx context.Context, into string, stop bool) (ckpt.Made, error) {
	select {
	case s.turn <- struct{}{}:
	default:
		if !s.process.running() {
			return ckpt.Made{}, fmt.Errorf("%s: %w", s.method, ckpt.ErrFinishing)
		}
		return ckpt.Made{}, fmt.Errorf("%s: %w", s.method, ckpt.ErrBusy)
	}
	defer func() { <-s.turn }()
	made, err := s.checkpoint(ctx, into, stop)
	switch {
	case err == nil:
		return made, nil
	case s.stopped:
		return ckpt.Made{}, fmt.Errorf("%s: %w", s.method, err)
	case s.alive() != nil: // without a coordinator too the processes end
		return ckpt.Made{}, fmt.Errorf("%s: %w: %w", s.method, ckpt.ErrFinishing, err)
	}
	return ckpt.Made{}, fmt.Errorf("%s: %w", s.method, err)
}

func (s *dmtcpStep) checkpoint(ctx context.Context, into string, stop bool) (ckpt.Made, error) {
	if err := s.alive(); err != nil {
		return ckpt.Made{}, err
	}
	if err := s.hasJoined(ctx); err != nil {
		return ckpt.Made{}, err
	}
	if err := s.fits(ctx, into); err != nil {
		return ckpt.Made{}, err
	}
	s.writing = true // the step may end before the order is known to have come
	from, err := s.order(ctx)
	if err != nil {
		s.writing = hasDied(s.process)
		return ckpt.Made{}, err
	}
	script, err := s.written(ctx, from)
	if err != nil {
		return ckpt.Made{}, err
	}
	s.writing = false
	names, n, err := s.proved(script, s.ranks)
	if err != nil {
		return ckpt.Made{}, err
	}
	for _, name := range names {
		if err := move(ctx, filepath.Join(s.images, name), filepath.Join(into, name)); err != nil {
			return ckpt.Made{}, fmt.Errorf("moving the image %s: %w", name, err)
		}
	}
	s.forget()
	if stop {
		if err := s.stop(ctx); err != nil {
			return ckpt.Made{}, err
		}
	}
	made := ckpt.Made{Tool: "dmtcp " + s.tools.version, Ranks: n, Iteration: -1, Extra: map[string]string{extraImages: s.images}}
	if s.ranks > 0 {
		made.Tool = "mana, " + made.Tool
		made.Extra[extraFloor] = strconv.Itoa(s.floor)
	}
	return made, nil
}

// alive says why no checkpoint is possible.
func (s *dmtcpStep) alive() error {
	switch {
	case !s.process.running():
		return errors.New("the step has ended")
	case !s.coordinator.running():
		return fmt.Errorf("the coordinator has ended (code %d): no checkpoint is possible", s.coordinator.code)
	}
	return nil
}

// hasJoined waits until a process of the step is under DMTCP. A static program
// never is, and would never answer.
func (s *dmtcpStep) hasJoined(ctx context.Context) error {
	for !s.joined {
		log, err := s.coordinator.logAfter(0)
		if err != nil {
			return fmt.Errorf("the coordinator's log: %w", err)
		}
		s.joined = execLine.MatchString(log) && (s.ranks == 0 || s.allRun(ctx))
		if s.joined {
			break
		}
		if err := s.alive(); err != nil {
			return err
		}
		late := time.Since(s.began) > joinTime || !pause(ctx, 50*time.Millisecond)
		switch {
		case late && s.ranks > 0:
			return fmt.Errorf("not all of the %d ranks have come under MANA", s.ranks)
		case late:
			return errors.New("no process of the step has come under DMTCP: is its program linked statically?")
		}
	}
	return nil
}

// allRun asks the coordinator whether all processes are there and run.
func (s *dmtcpStep) allRun(ctx context.Context) bool {
	code, out, err := s.coordinator.command(ctx, "-s")
	return err == nil && code == 0 && parseRunning(out) && (s.ranks == 0 || parsePeers(out) == s.ranks)
}

// order tells the coordinator to begin, and returns where its log was before.
// While an earlier checkpoint still runs, late, or a process comes or goes, it
// says no, and is asked again until ctx ends. What a late one has left in the
// images' folder is left alone: DMTCP ends a process whose half image is gone.
func (s *dmtcpStep) order(ctx context.Context) (int64, error) {
	for refused := ""; ; {
		from, err := s.coordinator.logSize()
		if err != nil {
			return 0, err
		}
		code, out, err := s.coordinator.command(ctx, "-c")
		if err == nil && code == 0 {
			return from, nil
		}
		if dead := s.alive(); dead != nil {
			return 0, dead
		}
		if err == nil {
			refused = lastLine(out)
		} else if refused == "" {
			return 0, err
		}
		if !pause(ctx, 200*time.Millisecond) {
			return 0, fmt.Errorf("the coordinator did not begin a checkpoint in time (%s): %w", refused, ctx.Err())
		}
	}
}

// written waits for the line in the log that says that all images are written.
func (s *dmtcpStep) written(ctx context.Context, from int64) (script string, err error) {
	for {
		log, err := s.coordinator.logAfter(from)
		if err != nil {
			return "", fmt.Errorf("the coordinator's log: %w", err)
		}
		if script := parseScript(log); script != "" {
			return script, nil
		}
		if err := s.alive(); err != nil {
			return "", fmt.Errorf("while the images were written: %w", err)
		}
		if !pause(ctx, 25*time.Millisecond) {
			return "", fmt.Errorf("the images were not complete in time; the step goes on: %w", ctx.Err())
		}
	}
}

// allWritten says that the checkpoint that began last is complete, be it late.
func (s *dmtcpStep) allWritten() bool {
	log, err := s.coordinator.logAfter(0)
	return err == nil && parseScript(log) != ""
}

// stop ends a step whose images are safe. -k and not -kc: should the images not
// be complete, the step is to go on.
func (s *dmtcpStep) stop(ctx context.Context) error {
	if !s.process.running() {
		return errors.New("the step has ended") // and its exit code is what counts
	}
	s.stopped = true
	code, out, err := s.coordinator.command(ctx, "-k")
	if err == nil && code == 0 && s.process.goneWithin(ctx, dmtcpLeaveTime) {
		return nil
	}
	// The images are good, so nothing is lost by force.
	if err := s.process.end(ctx, killWait); err != nil {
		s.stopped, s.halved = false, true
		return fmt.Errorf("the step does not end (dmtcp_command -k: %s): %w", lastLine(out), err)
	}
	return nil
}
