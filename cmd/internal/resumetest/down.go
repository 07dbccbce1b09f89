package resumetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// down has Slurm power the node down, and waits until its instance has ended and it is off.
func (t *test) down(ctx context.Context) error {
	t.begin("power down", "slurmctld calls burst-suspend")
	if t.keep {
		t.done(Skipped, "--keep: it stays until it has been idle for its partition's SuspendTime")
		return nil
	}
	jobs, err := t.slurm.Jobs(ctx)
	if err != nil {
		return err
	}
	if j, taken := jobOn(jobs, t.Node, t.Job); taken {
		t.done(Skipped, "job %d of %s has it by now: it stays until it has been idle for its partition's SuspendTime", j.ID, j.User)
		t.keep = true
		return nil
	}
	if err := t.powerDown(ctx); err != nil {
		return err
	}
	err = t.until(ctx, func() (bool, error) {
		ours, node, err := t.now(ctx)
		return err == nil && (ours.Journal == "" || ours.Journal == "ending" || ours.Instance != t.Instance) && !node.State.Has(slurm.PowerDown), err
	})
	if err != nil {
		return err
	}
	t.done(OK, "slurmctld has called burst-suspend, and burstd ends the instance")
	t.begin("ended", "the instance ends")
	if err := t.until(ctx, func() (bool, error) { return t.ended(ctx) }); err != nil {
		return err
	}
	t.done(OK, "%s has ended at %s", t.Instance, t.Provider)
	t.begin("off", "Slurm has it off again, after SuspendTimeout")
	state := ""
	err = t.until(ctx, func() (bool, error) {
		_, node, err := t.now(ctx)
		s := node.State
		state = s.String()
		return err == nil && s.Has(slurm.PoweredDown) && !s.Has(slurm.PoweringDown), err
	})
	if err != nil {
		return err
	}
	t.done(OK, "Slurm has it %s: jobs may have it again", state)
	return nil
}

func (t *test) powerDown(ctx context.Context) error {
	if err := t.slurm.UpdateNodes(ctx, slurm.NodeUpdate{Nodes: []string{t.Node}, State: "power_down"}); err != nil {
		return fails("scontrol show node "+t.Node+" says what keeps it", "Slurm refuses to power it down: %v", err)
	}
	return nil
}

// ended says whether the cloud has the instance no longer.
func (t *test) ended(ctx context.Context) (bool, error) {
	n, _, err := t.o.API.Node(ctx, t.Node)
	return err == nil && n.Instance != t.Instance, err
}

// free says whether burstd has nothing of the node any more: also a launch of which is not known
// yet whether an instance comes has ended.
func (t *test) free(ctx context.Context) (bool, error) {
	n, _, err := t.o.API.Node(ctx, t.Node)
	switch {
	case err != nil:
		return false, err
	case n.Instance != "":
		t.seen = fmt.Sprintf("its instance %s has not ended (%s)", n.Instance, n.Journal)
	default:
		t.seen = fmt.Sprintf("burstd still has it %s, and an instance of it may come", n.Journal)
	}
	return n.Journal == "" && n.Instance == "", nil
}

// bookTime is how long the ledger may take to book what has ended: it has a round each half minute.
const bookTime = 75 * time.Second

// cost tells what the instance has cost, when the ledger has it.
func (t *test) cost(ctx context.Context) error {
	t.begin("cost", "the ledger books it, within a minute")
	if t.keep {
		t.done(Skipped, "it goes on costing until it is powered down: burst cost says how much")
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bookTime, errors.New("not booked yet"))
	defer cancel()
	text := ""
	err := t.until(ctx, func() (bool, error) {
		bills, err := t.o.API.Bills(ctx, t.began)
		if err != nil {
			return false, err
		}
		for _, b := range bills {
			if b.Instance != t.Instance || b.Differs {
				continue
			}
			t.USD, text = b.USD, fmt.Sprintf("%.0f s are charged (by the %s); what that costs is not known", b.ChargedSeconds, b.Billing)
			if b.USD != nil {
				text = fmt.Sprintf("%.4f USD: %.0f s are charged (by the %s)", *b.USD, b.ChargedSeconds, b.Billing)
			}
			return true, nil
		}
		return false, nil
	})
	if err != nil { // the node is tested all the same
		t.done(Skipped, "%v; burst cost says it later", err)
		return nil
	}
	t.done(OK, "%s", text)
	return nil
}

// help collects what burstd has noted, for who has to find out why.
func (t *test) help(ctx context.Context, err error, hurry bool) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var f *failure
	if errors.As(err, &f) {
		t.Next = f.next
	} else if !hurry {
		t.Next = t.nextOf(err.Error())
	}
	for _, e := range t.told(ctx) {
		t.Events = append(t.Events, fmt.Sprintf("%s %s: %s", e.Time.Local().Format(time.TimeOnly), e.Kind, e.Text))
	}
	const most = 12
	t.Events = t.Events[max(0, len(t.Events)-most):]
}

// begun is the node when what was asked of Slurm has begun: powered down before that, it would
// be powered up all the same.
func (t *test) begun(ctx context.Context) (node slurm.Node, err error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for {
		nodes, err := t.slurm.Nodes(ctx, t.Node)
		if err == nil && len(nodes) == 1 && !nodes[0].State.Has(slurm.PowerUp) {
			return nodes[0], nil
		}
		select {
		case <-ctx.Done():
			return node, cmp.Or(err, errors.New("slurmctld has not begun to power it up"))
		case <-time.After(look):
		}
	}
}

// endTime is how long a node that has failed is watched until its instance has ended.
const endTime = 2 * time.Minute

// leave has Slurm power down what has failed, and says how it stands. Who interrupts is not kept waiting.
func (t *test) leave(ctx context.Context, hurry bool) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	const inSlurm = "it is Slurm's: idle for its partition's SuspendTime it is powered down, and given up if it does not register within ResumeTimeout"
	t.begin("clean up", "the node is powered down, and no instance left of it")
	if t.keep {
		t.done(Skipped, "--keep: %s", inSlurm)
		return
	}
	node, err := t.begun(ctx)
	if err == nil && !node.State.Has(slurm.PoweredDown) && !node.State.Has(slurm.PoweringDown) {
		var jobs []slurm.Job
		if jobs, err = t.slurm.Jobs(ctx); err == nil {
			if j, taken := jobOn(jobs, t.Node, t.Job); taken {
				t.done(Skipped, "job %d of %s has it by now; %s", j.ID, j.User, inSlurm)
				return
			}
			err = t.powerDown(ctx)
		}
	}
	if err != nil {
		t.done(Failed, "%v; %s", err, inSlurm)
		return
	}
	if hurry {
		t.done(OK, "Slurm has been asked to power it down, which it does when it has booted, or is given up after ResumeTimeout: sinfo -n %s, burst nodes %s", t.Node, t.Node)
		return
	}
	if err := t.until(ctx, func() (bool, error) { return t.free(ctx) }); err != nil {
		t.done(Failed, "after %s: %s; burstd goes on watching it: burst nodes %s", endTime, cmp.Or(t.seen, "burstd does not say how it stands"), t.Node)
		return
	}
	t.done(OK, "no instance is left of it")
}
