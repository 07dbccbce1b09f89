package methods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

const (
	// restartTime is how long the processes of a restart may take until they run,
	// and restartRate the bytes of images that are read in a second at the least. DMTCP
	// may have written an image that never runs again, without a word.
	restartTime = time.Minute
	restartRate = 20 << 20
	// settledTime is how long, after one process has left, the others may take to
	// be seen running. If the one left because its image is bad, they wait for ever.
	settledTime = 10 * time.Second
)

// extraImages is where a manifest has the folder that DMTCP wrote the images into.
const extraImages = "images"

// oldPlace puts what an image has beside it where it was when it was written,
// until undo is called: the image has the path of that folder, of files that its
// process had mapped or deleted. It is a copy, as an attempt that was cut off may
// still write there.
func oldPlace(ctx context.Context, g *ckpt.Generation) (undo func(), err error) {
	old := g.Extra[extraImages]
	beside, err := filepath.Glob(filepath.Join(g.Dir, "ckpt_*_files"))
	if err != nil || old == "" || len(beside) == 0 {
		return func() {}, err
	}
	if !filepath.IsAbs(old) {
		return nil, fmt.Errorf("the folder that the images were written into is said to be %q", old)
	}
	var made []string // innermost first
	for dir := old; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil || dir == "/" {
			break
		}
		made = append(made, dir)
	}
	undo = func() {
		for _, folder := range beside {
			os.RemoveAll(filepath.Join(old, filepath.Base(folder)))
		}
		for _, dir := range made {
			os.Remove(dir) // not, if something else is in it by now
		}
	}
	err = os.MkdirAll(old, 0o700)
	for _, folder := range beside {
		to := filepath.Join(old, filepath.Base(folder))
		if err == nil {
			err = os.RemoveAll(to)
		}
		if err == nil {
			err = copyTree(ctx, folder, to)
		}
	}
	if err != nil {
		undo()
		return nil, fmt.Errorf("what belongs to the images must be in %s again: %w", old, err)
	}
	return undo, nil
}

// restarted waits until all processes run again: the coordinator lets none go on
// before all have come. When it returns an error nothing runs.
func (s *dmtcpStep) restarted(ctx context.Context, images []string) error {
	within := restartTime
	for _, image := range images {
		st, err := os.Stat(image)
		if err != nil {
			return s.giveUp(err)
		}
		within += time.Duration(st.Size()/restartRate) * time.Second
	}
	limit, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var left time.Time // when a process was first seen to have left
	for s.process.running() {
		if !s.coordinator.running() {
			// dmtcp_restart may wait for ever without.
			if !s.process.goneWithin(limit, dmtcpLeaveTime) {
				return s.giveUp(errors.New("the coordinator ended before the processes ran: is an image damaged?"))
			}
			break
		}
		if s.allRun(limit) {
			return nil
		}
		if log, err := s.coordinator.logAfter(0); err == nil && left.IsZero() && leftLine.MatchString(log) {
			left = time.Now()
		}
		if !left.IsZero() && time.Since(left) > settledTime {
			return s.giveUp(errors.New("a process ended before all of them ran: is an image damaged?"))
		}
		if !pause(limit, 100*time.Millisecond) {
			return s.giveUp(fmt.Errorf("the processes did not run again in time: %w", limit.Err()))
		}
	}
	return s.endedEarly()
}

// endedEarly is of a restart that has ended before it was seen to run: a short
// rest of work is done by then.
func (s *dmtcpStep) endedEarly() error {
	code, err := s.process.wait()
	if err != nil {
		return err
	}
	log, err := s.coordinator.logAfter(0)
	if err != nil {
		return err
	}
	bad := code == dmtcpFailed || code >= 128
	if s.ranks > 0 { // mpiexec says in its own way that ranks have crashed
		bad = code != 0
	}
	if bad || !joinedLine.MatchString(log) {
		return fmt.Errorf("the restart failed with code %d: its message is in the step's output", code)
	}
	return nil
}

// giveUp ends what has been started, and returns why.
func (s *dmtcpStep) giveUp(why error) error {
	// The processes go with the coordinator, wherever they are.
	ended := s.coordinator.end(context.Background())
	return withMore(withMore(why, ended), s.process.end(context.Background(), dmtcpLeaveTime))
}
