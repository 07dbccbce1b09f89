package srun

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/burst-hpc/burst/slurm/step"
)

// prepare finds what is put to the step's command line and environment: what its
// container and its MPI need. An error that is wrongError's is the user's to change;
// nothing was started.
func (p *program) prepare(ctx context.Context, k *known) error {
	if k.put != nil {
		return nil
	}
	put, err := p.container(ctx, k)
	if err != nil {
		return err
	}
	more, err := p.mpi(ctx, k)
	if err != nil {
		return err
	}
	k.put = append(append(step.Settings{}, put...), more...) // not nil: it is prepared
	return nil
}

// prepares says whether the step is one that anything is put to: srun is to have all
// else as it is.
func (p *program) prepares(k known) bool {
	if k.garbled != nil || len(k.call.Parts) == 0 || p.env("BURST_SRUN_OFF") == "1" || within(p.env, k.job) || k.helps(k.garbled) {
		return false
	}
	if k.job.Place != step.Batch && k.job.Place != step.Interactive {
		return false
	}
	n := k.call.Nature(p.env)
	return n == step.Step || n == step.Terminal
}

// unprepared reports why the step is not started.
func (p *program) unprepared(err error) int {
	var wrong wrongError
	if errors.As(err, &wrong) {
		return p.wrong(err)
	}
	return p.failed(err)
}

// explainSettings are the lines of --explain about what is put to a step.
func explainSettings(put step.Settings) string {
	var b strings.Builder
	for _, s := range put {
		what := "sets"
		if s.Kept != "" {
			what = "keeps"
		}
		fmt.Fprintf(&b, "%s %s: %s\n", what, s.Text(), s.Why)
	}
	return b.String()
}
