package resumetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/slurm"
)

// handTime is how long slurmctld may take to call burst-resume, and that to hand the order over:
// power_save_interval is 1 s, but by default 10.
const handTime = 45 * time.Second

// order has Slurm power the node up, and waits for burstd to hear of it.
func (t *test) order(ctx context.Context) error {
	t.begin("order", "slurmctld calls burst-resume")
	asked := time.Now()
	t.asked = true // also if its answer is lost
	if err := t.slurm.UpdateNodes(ctx, slurm.NodeUpdate{Nodes: []string{t.Node}, State: "power_up"}); err != nil {
		return fails("run it as root or as SlurmUser, whom Slurm lets power nodes up", "Slurm refuses to power it up: %v", err)
	}
	boot := api.Boot{}
	err := t.until(ctx, func() (bool, error) {
		var err error
		if boot, err = t.record(ctx); err != nil || boot.Order != "" {
			return err == nil, err
		}
		if time.Since(asked) > handTime {
			return false, fails("burst check looks at ResumeProgram; slurmctld's log has what burst-resume printed", "slurmctld was asked %s ago, and burstd has no order of it", handTime)
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	t.doneAt(boot.Ordered, OK, "slurmctld has called burst-resume, and burstd has the order")
	return nil
}

// record is burstd's record of the way up; one without an Order is none.
func (t *test) record(ctx context.Context) (api.Boot, error) {
	all, err := t.o.API.Boots(ctx, t.Node, 0, 20)
	if err != nil {
		return api.Boot{}, err
	}
	// Slurm's times are those of the same host; an order is made after it was asked for.
	for _, b := range slices.Backward(all) {
		if b.Node == t.Node && b.Ordered.After(t.began.Add(-time.Second)) {
			return b, nil
		}
	}
	return api.Boot{}, nil
}

// up is a reading of the way up; it fails if that has ended.
func (t *test) up(ctx context.Context) (api.Boot, api.NodeStatus, slurm.Node, error) {
	b, err := t.record(ctx)
	if err != nil {
		return b, api.NodeStatus{}, slurm.Node{}, err
	}
	ours, node, err := t.now(ctx)
	if err != nil {
		return b, ours, node, err
	}
	if b.Outcome != "" && b.Outcome != "up" {
		return b, ours, node, fails(t.nextOf(b.Outcome), "%s", b.Outcome)
	}
	return b, ours, node, nil
}

// nextOf is what to do about what burstd says.
func (t *test) nextOf(why string) string {
	switch lower := strings.ToLower(why); {
	case strings.Contains(lower, "budget"):
		return "burst budget shows how the caps stand"
	case strings.Contains(lower, "capacity") || strings.Contains(lower, "quota") || strings.Contains(lower, "cooldown"):
		return "name more instance_types, zones or another market in [pool." + t.Pool + "], or try later; burst prices lists what the pool may buy"
	case strings.Contains(lower, "credential") || strings.Contains(lower, "auth"):
		return "burst check asks the cloud what is wrong with them"
	case strings.Contains(lower, "resumetimeout") || strings.Contains(lower, "register") || strings.Contains(lower, "slurm gave"):
		return "the instance came and its slurmd did not: its console is in burst events --node " + t.Node + " where the cloud has one; can it reach slurmctld, and has it MUNGE's key?"
	}
	return "burst events --node " + t.Node + " and journalctl -u burstd say more"
}

// launch waits for an instance.
func (t *test) launch(ctx context.Context) error {
	t.begin("launch", "burstd launches an instance")
	boot, ours := api.Boot{}, api.NodeStatus{}
	err := t.until(ctx, func() (bool, error) {
		var err error
		boot, ours, _, err = t.up(ctx)
		t.seen = "burstd has the node " + ours.Journal
		return err == nil && ours.Instance != "", err
	})
	if err != nil {
		return err
	}
	t.Instance, t.Offering, t.Provider = ours.Instance, ours.Offering, ours.Provider
	price := "its price is not known"
	if t.o.Price != nil {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		usd, err := t.o.Price(ctx, t.Provider, t.Offering)
		if err == nil && usd > 0 {
			t.USDPerHour, price = usd, fmt.Sprintf("%.4f USD an hour", usd)
		} else if err != nil {
			price += fmt.Sprintf(" (%v)", err)
		}
	}
	at := time.Now()
	if s, ok := sinceOrder(boot, "launched"); ok {
		at = boot.Ordered.Add(s)
	}
	t.doneAt(at, OK, "%s: %s at %s, %s", t.Instance, t.Offering, t.Provider, price)
	return nil
}

// sinceOrder is how long after the order a stage ended, if that is known.
func sinceOrder(b api.Boot, stage string) (time.Duration, bool) {
	sum := 0.0
	for _, s := range api.BootStages {
		sum += b.Stages[s]
		if s == stage {
			_, ok := b.Stages[s]
			return time.Duration(sum * float64(time.Second)), ok
		}
	}
	return 0, false
}

// stageWords are what the stages of a boot mean.
var stageWords = map[string]string{
	"running":    "the cloud says that it runs",
	"reachable":  "it answers on the network",
	"setup":      "it is set up",
	"ready":      "its agent has asked burstd which node it is",
	"registered": "slurmd answers slurmctld",
}

// boot tells of each stage until the node has registered.
func (t *test) boot(ctx context.Context) error {
	told := map[string]bool{"queued": true, "launched": true, "registered": true, "started": true}
	t.begin("registered", "the instance boots, and its slurmd registers")
	return t.until(ctx, func() (bool, error) {
		b, ours, node, err := t.up(ctx)
		if err != nil {
			return false, err
		}
		if ours.Instance != t.Instance && ours.Instance != "" {
			t.step = "launch"
			t.done(OK, "again: %s has failed, and %s takes its place (%s)", t.Instance, ours.Instance, ours.Offering)
			t.Instance, t.Offering, t.Provider = ours.Instance, ours.Offering, ours.Provider
		}
		for _, stage := range api.BootStages {
			at, known := sinceOrder(b, stage)
			if told[stage] || !known {
				continue
			}
			told[stage] = true
			t.step = stage
			t.doneAt(b.Ordered.Add(at), OK, "%s", stageWords[stage])
		}
		t.begin("registered", "its slurmd registers")
		s := node.State
		t.seen = fmt.Sprintf("Slurm has it %s, and waits for its slurmd", s)
		if b.Outcome != "up" || s.Has(slurm.PoweringUp) || s.Has(slurm.PowerUp) || s.Has(slurm.NotResponding) || s.Base == "DOWN" {
			return false, nil
		}
		at := time.Now()
		if d, ok := sinceOrder(b, "registered"); ok {
			at = b.Ordered.Add(d)
		}
		t.doneAt(at, OK, "%s: Slurm has it %s at %s", stageWords["registered"], s, node.Addr)
		return true, nil
	})
}

// jobLimit is the time limit of the job, in minutes.
const jobLimit = 2

// jobTime is how long the job may take to begin and to end: the node is there for it.
const jobTime = 3 * time.Minute

// job runs a job of one task on the node.
func (t *test) job(ctx context.Context) error {
	t.begin("job", "a job of one task runs on it")
	if !t.o.Job {
		t.done(Skipped, "--no-job")
		return nil
	}
	out, errOut, err := t.o.Runner.Run(ctx, "sbatch", "--parsable", "--job-name=burst-resume-test", "--partition="+t.Partition, "--nodelist="+t.Node,
		"--nodes=1", "--ntasks=1", "--time="+strconv.Itoa(jobLimit), "--no-requeue", "--chdir=/", "--output=/dev/null", "--error=/dev/null", "--wrap=exit 0")
	text, _, _ := strings.Cut(strings.TrimSpace(string(out)), ";") // a cluster's name may follow
	id, numErr := strconv.ParseUint(text, 10, 32)
	if err != nil || numErr != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fails("--no-job leaves the job out, where root and SlurmUser may run none", "sbatch has refused it: %s", strings.Join(strings.Fields(string(errOut)+" "+string(out)), " "))
	}
	t.Job = uint32(id)
	asked := time.Now()
	err = t.until(ctx, func() (bool, error) {
		j, err := t.slurm.Job(ctx, t.Job)
		switch {
		case errors.Is(err, slurm.ErrNoJob):
			return false, fails("", "job %d is not known to Slurm any more", t.Job)
		case err != nil:
			return false, err
		case slices.Contains([]string{"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED"}, j.State):
			t.seen = fmt.Sprintf("job %d is %s (%s)", j.ID, j.State, j.Reason)
			if time.Since(asked) > jobTime {
				return false, fails("squeue -j "+text+" and burst explain "+text+" say why; --no-job leaves the job out", "it has not run within %s: %s", jobTime, t.seen)
			}
			return false, nil
		case j.State != "COMPLETED":
			return false, fails("slurmd's log on the node, and slurmctld's, say more", "job %d has ended as %s, exit code %d (%s)", j.ID, j.State, j.ExitCode, j.Reason)
		}
		return true, nil
	})
	if err != nil {
		if _, _, e := t.o.Runner.Run(context.WithoutCancel(ctx), "scancel", text); e != nil {
			err = fmt.Errorf("%w; and scancel %s: %w", err, text, e)
		}
		return err
	}
	t.done(OK, "job %d has run on it", t.Job)
	return nil
}
