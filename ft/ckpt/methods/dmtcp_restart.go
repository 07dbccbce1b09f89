package methods

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// restartTime is how long the processes of a restart may take until they run.
	restartTime = 10 * time.Minute
	// settledTime is how long, after one process has left, the others may take to
	// be seen running. If the one left because its image is bad, they wait for ever.
	settledTime = 10 * time.Second
)

// restarted waits until all processes run again: the coordinator lets none go on
// before all have come. When it returns an error nothing runs.
func (s *dmtcpStep) restarted(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, restartTime)
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
		if code, out, err := s.coordinator.command(limit, "-s"); err == nil && code == 0 && parseRunning(out) {
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
	if code == dmtcpFailed || code >= 128 || !joinedLine.MatchString(log) {
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
