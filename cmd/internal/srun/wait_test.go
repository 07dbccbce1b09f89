package srun

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm/step"
)

// TestStepsThatWaitAreNotInStep: those that one notice has ended do not all ask Slurm at
// the same times.
func TestStepsThatWaitAreNotInStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asks := func() (at []time.Duration) {
			began := time.Now()
			r := &runner{job: step.Job{ID: 17}, say: func(string, ...any) {}, note: func(steprecord.Step) {}}
			r.runs = func(context.Context) error {
				if at = append(at, time.Since(began)); len(at) < 4 {
					return errors.New("slurmctld is away")
				}
				return errNotRunning
			}
			if !r.wait(t.Context(), began, nil) || r.goOn(t.Context(), nil) {
				t.Error("the step goes on")
			}
			return at
		}
		one, other := asks(), asks()
		for _, at := range [][]time.Duration{one, other} {
			if len(at) != 4 || at[0] < session.WaitTime || at[0] > session.WaitTime+askAgain {
				t.Fatalf("asked at %v", at)
			}
		}
		if one[0] == other[0] || one[2]-one[1] == other[2]-other[1] {
			t.Errorf("in step: %v, %v", one, other)
		}
	})
}
