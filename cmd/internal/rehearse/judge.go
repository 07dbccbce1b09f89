package rehearse

import (
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/slurm"
)

// failure is why a rehearsal has failed.
type failure struct {
	text string
	vain bool // it says nothing of the program's checkpoints: an earlier verdict stands
}

func (f *failure) Error() string { return f.text }

func fail(format string, args ...any) error { return &failure{text: fmt.Sprintf(format, args...)} }

func vain(format string, args ...any) error {
	return &failure{text: fmt.Sprintf(format, args...), vain: true}
}

// view is what is known of an attempt at a moment.
type view struct {
	job     slurm.Job
	attempt int // that it should be
	reports []Report
	ran     time.Duration // since it was seen running; 0: it has not been
}

// overStates are the states of a job that has ended.
var overStates = []string{"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}

func (v view) over() bool { return slices.Contains(overStates, v.job.State) }

// foreign says that somebody else has a hand in the job.
func (v view) foreign() error {
	switch {
	case v.job.Restarts > v.attempt:
		return vain("the job was requeued in the middle, though not by the rehearsal: rehearse again")
	case v.job.State == "TIMEOUT":
		return vain("the job ran into its time limit: say more with --sbatch=--time, or --run-for")
	case slices.Contains([]string{"CANCELLED", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE"}, v.job.State):
		return vain("the job ended as %s: rehearse again", v.job.State)
	}
	return nil
}

// how a job has ended.
func (v view) how() string {
	switch {
	case v.job.ExitSignal != 0:
		return fmt.Sprintf("%s, by signal %d", v.job.State, v.job.ExitSignal)
	case v.job.ExitCode != 0 || v.job.State == "COMPLETED":
		return fmt.Sprintf("with exit code %d", v.job.ExitCode)
	}
	return v.job.State
}

// grace is what a report may take to be seen after what it tells.
const grace = time.Minute

// first judges the job's first attempt: the report with the checkpoint, nil while
// there is none.
func first(v view, o Options) (*Report, error) {
	for i, r := range v.reports {
		if r.Made != nil {
			return &v.reports[i], nil
		}
	}
	for _, r := range v.reports {
		if r.Error != "" {
			return nil, fail("no checkpoint of step %s: %s", r.Step, r.Error)
		}
	}
	if err := v.foreign(); err != nil {
		return nil, err
	}
	last := Report{}
	if n := len(v.reports); n > 0 {
		last = v.reports[n-1]
	}
	switch {
	case v.over() && len(v.reports) == 0:
		return nil, vain("the job ended (%s), and no step of it ran under burst-srun with a method of checkpoints", v.how())
	case v.over() && last.Code != 0:
		return nil, vain("step %s ended with exit code %d before its checkpoint after %v", last.Step, last.Code, o.For)
	case v.over():
		return nil, vain("the job ended (%s) before its checkpoint: give it more to do, or say less than --for %v", v.how(), o.For)
	case len(v.reports) == 0 && v.ran > o.Within:
		return nil, vain("no step of the job ran under burst-srun within %v: say more with --within if one begins later", o.Within)
	}
	return nil, nil
}

// again judges an attempt that is to restart from a checkpoint: the step's report
// when it has restarted, and whether the job has ended.
func again(v view, step string, from ckpt.ID, o Options) (r *Report, over bool, err error) {
	if i := slices.IndexFunc(v.reports, func(r Report) bool { return r.Step == step }); i >= 0 {
		r = &v.reports[i]
	}
	switch {
	case r != nil && r.Error != "":
		return r, false, fail("step %s does not restart: %s", step, r.Error)
	case r != nil && r.From == ckpt.ID{}:
		return r, false, fail("step %s started from its beginning, not from its checkpoint", step)
	case r != nil && r.From != from:
		return r, false, fail("step %s restarted from %v, not from %v", step, r.From, from)
	}
	if err := v.foreign(); err != nil {
		return r, false, err
	}
	switch {
	case v.over() && r == nil:
		return nil, true, fail("the job ended (%s) without a restart of step %s", v.how(), step)
	case v.over() && !r.Ended.IsZero() && r.Code != 0:
		return r, true, fail("step %s ended with exit code %d", step, r.Code)
	case v.over() && (v.job.State != "COMPLETED" || v.job.ExitCode != 0):
		return r, true, fail("the job ended %s", v.how())
	case v.over():
		return r, true, nil
	case r == nil && v.ran > o.Within+grace:
		return nil, false, fail("step %s was not started again within %v", step, o.Within)
	}
	return r, false, nil
}
