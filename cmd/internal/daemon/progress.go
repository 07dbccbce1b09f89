package daemon

import (
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/ft/session"
)

// running adds to a status the steps that run under burst-srun.
func (d *Daemon) running(s *api.Status) {
	s.Running, _ = d.hub.Count()
	s.Steps = stepsOf(d.hub.Oldest(api.MaxListed))
}

func stepsOf(all []session.Seen) []api.Step {
	var steps []api.Step
	for _, s := range all {
		steps = append(steps, stepOf(s))
	}
	return steps
}

func stepOf(s session.Seen) api.Step {
	p := s.Progress
	a := api.Step{Job: s.Job, Attempt: s.Attempt, Step: s.Step, Host: s.Host, Method: s.Method, Strategy: s.Strategy,
		Iteration: known(p.Iteration), Heard: s.At, Silent: s.Lost}
	if p.Iteration >= 0 && p.Of > 0 {
		a.Iterations = &p.Of
	}
	if p.Generation > 0 {
		a.Checkpoint = &api.LastCheckpoint{Attempt: p.Attempt, Generation: p.Generation, SinceSeconds: p.Since.Seconds()}
	}
	return a
}
