package srun

import (
	"fmt"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/slurm/step"
)

// last is the step's newest generation: of this attempt, or the one that it was started
// from; nil: there is none. The lock is held.
func (r *runner) last() *ckpt.Generation {
	if r.saved != nil {
		return r.saved
	}
	return r.from
}

// unsaved is the work since the last checkpoint of a step that ended with code because
// its job is moved or ended: nobody has it.
func (r *runner) unsaved(code int) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if code == 0 || !r.ending && !r.cut {
		return 0
	}
	was := r.entry
	if was.Ended = time.Now(); !r.stopped.IsZero() && !r.halted.IsZero() {
		was.Ended = r.halted
	}
	if r.started.After(was.Began) {
		was.Began = r.started // what was lost before is counted
	}
	return lostWork(was, r.last())
}

// summary is the last line about a step. Unsaved is work that is in no checkpoint.
func summary(j step.Job, e steprecord.Step, unsaved time.Duration) string {
	lost := "no work lost"
	switch {
	case e.Lost > 0:
		lost = fmt.Sprintf("%s of work lost", shortly(e.Lost))
	case e.LostUnknown > 0:
		lost = "work lost"
	}
	if e.LostIterations > 0 {
		lost += fmt.Sprintf(" (%d iterations)", e.LostIterations)
	}
	if e.LostUnknown > 0 {
		lost += fmt.Sprintf(" (not known for %d of the restarts)", e.LostUnknown)
	}
	if unsaved > 0 {
		lost = strings.TrimPrefix(lost+", ", "no work lost, ") + shortly(unsaved) + " of work in no checkpoint"
	}
	return fmt.Sprintf("job %s step %s: ran %s, %d checkpoints (%s), %d restarts, %s",
		j.Folder(), e.Name, shortly(e.Ran), e.Checkpoints, shortly(e.Writing), e.Restarts, lost)
}
