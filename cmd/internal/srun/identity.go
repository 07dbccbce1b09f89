package srun

import (
	"strings"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// identity tells the job from an earlier one of its id.
func (k known) identity() ckpt.Identity {
	// slurmctld and slurmd need not agree on how a script ends.
	i := ckpt.Identity{Origin: ckpt.Origin{Script: sum(strings.TrimRight(k.script, "\x00\r\n"))}, First: k.word.First}
	if k.state.Restarts == k.job.Attempt {
		i.Submitted = k.state.Submitted
	}
	if k.job.Attempt == 0 {
		i.First = i.Submitted
	}
	return i
}
