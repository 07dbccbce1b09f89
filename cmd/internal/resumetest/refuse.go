package resumetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// known is what is known of a node before anything is done to it.
type known struct {
	pool   string
	node   slurm.Node
	jobs   []slurm.Job // all of the cluster
	ours   api.NodeStatus
	status api.Status

	reservations []slurm.Reservation
	until        time.Time // when the test is over at the latest
}

// Refusal is why a node is left alone, and what to do next.
type Refusal struct{ Why, Next string }

func (r *Refusal) Error() string { return r.Why }

// Hint is for cli.Report.
func (r *Refusal) Hint() string { return r.Next }

// refuse says why the node cannot be tested now; nil: it can.
func refuse(k known) error {
	name, state := k.node.Name, k.node.State
	no := func(next, format string, args ...any) error {
		return &Refusal{name + ": " + fmt.Sprintf(format, args...), next}
	}
	if job, any := jobOn(k.jobs, name, 0); any {
		return no("test another node of its pool", "job %d of %s has it (%s)", job.ID, job.User, state)
	}
	for _, f := range []string{slurm.Drain, "FAIL"} {
		if state.Has(f) {
			return no("scontrol update NodeName="+name+" State=RESUME gives it back to jobs", "somebody keeps it from jobs: it is %s (%s)", state, k.node.Reason)
		}
	}
	for _, f := range []string{slurm.Reserved, slurm.Maintenance, "MAINT"} {
		if state.Has(f) {
			return no("scontrol show reservation says for whom; test another node of its pool", "it is kept for others: it is %s", state)
		}
	}
	// Slurm shows it of a node that is off only later, or never.
	for _, r := range k.reservations {
		if slices.Contains(r.Nodes, name) && r.Start.Before(k.until) && r.End.After(time.Now()) {
			return no("scontrol show reservation "+r.Name+" says for whom; test another node of its pool", "it is kept for others: reservation %s has it", r.Name)
		}
	}
	switch {
	case state.Base == "DOWN":
		return no("burst nodes "+name+" says what burstd knows; scontrol update NodeName="+name+" State=RESUME gives it back to jobs", "it is %s (%s)", state, k.node.Reason)
	case state.Has(slurm.PoweringDown) || state.Has(slurm.PowerDown):
		return no("wait until it is off: sinfo -n "+name, "it is being powered down: it is %s", state)
	case state.Has(slurm.PoweringUp) || state.Has(slurm.PowerUp):
		return no("test another node of its pool", "it is being powered up already: it is %s", state)
	case !state.Has(slurm.PoweredDown) || state.Base != "IDLE" || k.node.AllocCPUs > 0:
		return no("test another node of its pool, or wait until Slurm has powered it down", "it is not off: it is %s", state)
	}
	s := k.status
	switch {
	case k.ours.Journal != "" || k.ours.Instance != "":
		return no("burst nodes "+name+" says more; wait until it is gone", "burstd still has it: %s %s", k.ours.Journal, k.ours.Instance)
	case s.Paused != nil:
		return no("burst resume", "burstd is paused, and launches nothing")
	case !s.SlurmOK && s.SlurmError != "":
		return no("journalctl -u burstd", "burstd has no answer of Slurm: %s", s.SlurmError)
	}
	if why := s.Stopped[k.pool]; why != "" {
		return no("burst pool start "+k.pool, "its pool %s launches nothing: %s", k.pool, why)
	}
	return nil
}

// jobOn finds a job that has the node now, but for one.
func jobOn(jobs []slurm.Job, node string, but uint32) (slurm.Job, bool) {
	for _, j := range jobs {
		if j.ID == but || !slices.Contains([]string{"RUNNING", "CONFIGURING", "SUSPENDED", "COMPLETING", "STAGE_OUT"}, j.State) {
			continue
		}
		if names, err := hostlist.Expand(j.Nodes); err == nil && slices.Contains(names, node) {
			return j, true
		}
	}
	return slurm.Job{}, false
}
