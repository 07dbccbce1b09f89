package slurm

import (
	"context"
	"errors"
	"time"
)

// errAgain is EAGAIN from slurmctld, which has done nothing. To a change of a job's partition or account
// it answers, where jobs have no associations (no slurmdbd), with what the last call of the kernel
// has left in errno of the thread that answers, and clears that: in 24.11 EAGAIN as often as not.
var errAgain = errors.New("slurmctld wants it asked again")

const (
	// mostAgain is how often a change is asked for. Of 24.11, 39 of 70 were answered so, six in a row at most.
	mostAgain = 30
	againWait = 20 * time.Millisecond
)

// change runs a command of scontrol that may be repeated, until slurmctld has an answer.
func (c *Client) change(ctx context.Context, args ...string) error {
	for n := 1; ; n++ {
		_, err := c.run(ctx, "scontrol", args...)
		if !errors.Is(err, errAgain) || n == mostAgain {
			return err
		}
		if err := pause(ctx, againWait); err != nil {
			return err
		}
	}
}
