package srun

import (
	"strconv"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/session"
)

// outcome is the step's entry at its end, the same for all who ask.
func (r *runner) outcome(code int) steprecord.Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.final == nil {
		e := r.entry
		e.Stats, e.Ended, e.Done = r.total(), time.Now().UTC(), code == 0
		e.Runs = false
		r.final = &e
	}
	return *r.final
}

// sum is what burstd is told of a step that has ended: the numbers of its last line.
func (r *runner) sum(code, ranks int) session.Summary {
	e := r.outcome(code)
	s := session.Summary{Label: r.merged.Label, Method: r.merged.Method, Exit: code, Ranks: ranks, Ran: max(0, e.Ran), Checkpoints: e.Checkpoints,
		Writing: max(0, e.Writing), Restarts: e.Restarts, Lost: max(0, e.Lost), LostUnknown: e.LostUnknown, Iteration: -1}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stats.Checkpoints > 0:
		s.Iteration = r.iteration
	case r.from != nil:
		s.Iteration = r.from.Iteration
	}
	return s
}

// tasks is how many the step was asked to have; 0: srun says, or several components.
func (k known) tasks(env func(string) string) int {
	if len(k.call.Parts) != 1 {
		return 0
	}
	text, _ := k.call.Value("ntasks", env)
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return max(0, n)
}
