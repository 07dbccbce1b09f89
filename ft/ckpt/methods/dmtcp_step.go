package methods

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

const (
	// dmtcpFailed is the exit code of DMTCP's own failures, also of those that it
	// has inside of the application.
	dmtcpFailed = 99
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
	tools        dmtcpTools
	coordinator  *coordinator
	process      *process
	work, images string
	turn         chan struct{} // full while a checkpoint is under way

	over    chan struct{} // closed when code and err are set
	code    int
	err     error
	stopped bool // set before the step is killed by us
	writing bool // images are being written; of the holder of turn
}

// watch waits for the end of the step, and leaves nothing of it behind.
func (s *dmtcpStep) watch() {
	code, err := s.process.wait()
	s.coordinator.goneWithin(context.Background(), time.Second) // it leaves with its last client
	died := s.coordinator.died()
	ended := s.coordinator.end(context.Background())
	s.turn <- struct{}{} // a checkpoint that was under way sees the end
	s.code, s.err = s.verdict(code, died), errors.Join(err, ended)
	if why := s.lost(code, died); why != "" && s.err == nil {
		s.err = fmt.Errorf("dmtcp: %w: %s (exit code %d)", ErrLost, why, code)
	}
	os.RemoveAll(s.images) // the generations are elsewhere; the log stays
	close(s.over)
	<-s.turn
}

func (s *dmtcpStep) verdict(code int, died bool) int {
	if s.stopped && !died {
		return endedByUs
	}
	return code
}

// lost says why the exit code is not the application's; "": it is.
func (s *dmtcpStep) lost(code int, died bool) string {
	switch {
	case s.stopped:
		return ""
	case died && code == dmtcpFailed:
		return fmt.Sprintf("the coordinator was killed (code %d), and DMTCP ends the processes that lose it", s.coordinator.code)
	case s.writing && code == dmtcpFailed:
		return "DMTCP failed while it wrote a checkpoint; is the folder or the quota full?"
	case code == 0:
		if log, err := s.coordinator.logAfter(0); err == nil && killedByOther(log) {
			return "somebody has told the coordinator to end it"
		}
	}
	return ""
}

func (s *dmtcpStep) Wait() (int, error) {
	<-s.over
	return s.code, s.err
}

// Signal passes a signal on, but for SIGUSR2: DMTCP uses it itself.
func (s *dmtcpStep) Signal(sig os.Signal) error {
	if sig == syscall.SIGUSR2 {
		return errors.New("dmtcp: SIGUSR2 is DMTCP's own and is not passed on")
	}
	return s.process.signal(sig)
}

func (s *dmtcpStep) Checkpoint(ctx context.Context, into string, stop bool) (ckpt.Made, error) {
	select {
	case s.turn <- struct{}{}:
	default:
		return ckpt.Made{}, fmt.Errorf("dmtcp: %w", ckpt.ErrBusy)
	}
	defer func() { <-s.turn }()
	made, err := s.checkpoint(ctx, into, stop)
	if err != nil && !s.process.running() {
		err = errors.Join(err, ckpt.ErrFinishing)
	}
	if err != nil {
		return ckpt.Made{}, fmt.Errorf("dmtcp: %w", err)
	}
	return made, nil
}

func (s *dmtcpStep) checkpoint(ctx context.Context, into string, stop bool) (ckpt.Made, error) {
	if err := s.alive(); err != nil {
		return ckpt.Made{}, err
	}
	if err := s.room(ctx, into); err != nil {
		return ckpt.Made{}, err
	}
	from, err := s.order(ctx)
	if err != nil {
		return ckpt.Made{}, err
	}
	s.writing = true
	script, err := s.written(ctx, from)
	if err != nil {
		return ckpt.Made{}, err
	}
	s.writing = false
	names, n, err := s.proved(script)
	if err != nil {
		return ckpt.Made{}, err
	}
	for _, name := range names {
		if err := move(ctx, filepath.Join(s.images, name), filepath.Join(into, name)); err != nil {
			return ckpt.Made{}, fmt.Errorf("moving the image %s: %w", name, err)
		}
	}
	if stop {
		if err := s.stop(ctx); err != nil {
			return ckpt.Made{}, err
		}
	}
	return ckpt.Made{Tool: "dmtcp " + s.tools.version, Ranks: n, Iteration: -1}, nil
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

// order tells the coordinator to begin, and returns where its log was before.
// While an earlier checkpoint still runs, late, or a process comes or goes, it
// says no, and is asked again until ctx ends.
func (s *dmtcpStep) order(ctx context.Context) (int64, error) {
	for {
		if err := clean(s.images); err != nil {
			return 0, err
		}
		from, err := s.coordinator.logSize()
		if err != nil {
			return 0, err
		}
		code, out, err := s.coordinator.command(ctx, "-c")
		if err != nil {
			return 0, err
		}
		if code == 0 {
			return from, nil
		}
		if err := s.alive(); err != nil {
			return 0, err
		}
		if !pause(ctx, 200*time.Millisecond) {
			return 0, fmt.Errorf("the coordinator did not begin a checkpoint in time (%s): %w", lastLine(out), ctx.Err())
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

// imageMagic is what an image begins with.
var imageMagic = []byte("DMTCP_CHECKPOINT_IMAGE")

// proved returns the names in the images' folder that belong to the checkpoint,
// and the number of images. They are those that the script names, all of them;
// others are of a checkpoint before that was late.
func (s *dmtcpStep) proved(scriptPath string) (names []string, n int, err error) {
	text, err := os.ReadFile(scriptPath)
	if err != nil {
		return nil, 0, fmt.Errorf("the coordinator's restart script: %w", err)
	}
	script := string(text)
	entries, err := os.ReadDir(s.images)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range entries {
		image, _ := strings.CutSuffix(e.Name(), "_files")
		image, _ = strings.CutSuffix(image, ".dmtcp")
		switch {
		case strings.HasSuffix(e.Name(), ".temp"):
			return nil, 0, fmt.Errorf("the image %s is not complete", e.Name())
		case !strings.Contains(script, image+".dmtcp"):
			continue
		case isImage(e):
			if err := isWhole(filepath.Join(s.images, e.Name())); err != nil {
				return nil, 0, err
			}
			n++
		}
		names = append(names, e.Name())
	}
	if want := parseProcesses(script); n == 0 || n != want {
		return nil, 0, fmt.Errorf("%d images are there of %d processes", n, want)
	}
	slices.Sort(names)
	return names, n, nil
}

// isWhole looks at an image's first bytes.
func isWhole(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, len(imageMagic))
	if _, err := io.ReadFull(f, head); err != nil || !bytes.Equal(head, imageMagic) {
		return fmt.Errorf("%s is no image of DMTCP", filepath.Base(path))
	}
	return nil
}

// stop ends a step whose images are safe. -k and not -kc: should the images not
// be complete, the step is to go on.
func (s *dmtcpStep) stop(ctx context.Context) error {
	s.stopped = true
	code, out, err := s.coordinator.command(ctx, "-k")
	if err == nil && code == 0 && s.process.goneWithin(ctx, dmtcpLeaveTime) {
		return nil
	}
	// The images are good, so nothing is lost by force.
	if err := s.process.end(ctx, dmtcpLeaveTime); err != nil {
		return fmt.Errorf("the step does not end (dmtcp_command -k: %s): %w", lastLine(out), err)
	}
	return nil
}
