package srun

import (
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/jobword"
	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/step"
)

func TestIdentity(t *testing.T) {
	first, later := time.Unix(1000, 0), time.Unix(2000, 0)
	script := steprecord.Sum("#!/bin/sh")
	for _, test := range []struct {
		name    string
		attempt int
		state   slurm.Job
		told    time.Time // by burstd
		want    ckpt.Identity
	}{
		{"attempt 0", 0, slurm.Job{Submitted: first}, time.Time{}, ckpt.Identity{Origin: ckpt.Origin{Script: script, Submitted: first}, First: first}},
		{"a later attempt", 2, slurm.Job{Submitted: later, Restarts: 2}, first, ckpt.Identity{Origin: ckpt.Origin{Script: script, Submitted: later}, First: first}},
		{"a later attempt, and burstd is away", 2, slurm.Job{Submitted: later, Restarts: 2}, time.Time{}, ckpt.Identity{Origin: ckpt.Origin{Script: script, Submitted: later}}},
		{"Slurm does not answer", 0, slurm.Job{}, time.Time{}, ckpt.Identity{Origin: ckpt.Origin{Script: script}}},
		// What Slurm says is of the attempt after this one.
		{"a cut-off attempt 0", 0, slurm.Job{Submitted: later, Restarts: 1}, time.Time{}, ckpt.Identity{Origin: ckpt.Origin{Script: script}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, end := range []string{"", "\n", "\n\x00"} {
				k := known{facts: facts{job: step.Job{ID: 17, Attempt: test.attempt}}, seen: seen{script: "#!/bin/sh" + end, state: test.state}, word: jobword.Before{First: test.told}}
				if got := k.identity(); got != test.want {
					t.Errorf("with %q at the script's end: %+v, want %+v", end, got, test.want)
				}
			}
		})
	}
}
