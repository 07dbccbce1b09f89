package srun

import (
	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/ckpt"
)

// identity tells the job from an earlier one of its id.
func (k known) identity() ckpt.Identity {
	i := ckpt.Identity{Origin: ckpt.Origin{Script: steprecord.Sum(k.script)}, First: k.word.First}
	if k.state.Restarts == k.job.Attempt {
		i.Submitted = k.state.Submitted
	}
	if k.job.Attempt == 0 {
		i.First = i.Submitted
	}
	return i
}
