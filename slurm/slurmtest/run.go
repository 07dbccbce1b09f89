package slurmtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Run carries out one command line; it makes Controller a slurm.Runner. A
// command that this controller does not simulate is an error other than ExitError.
func (c *Controller) Run(ctx context.Context, name string, args ...string) (stdout, stderr []byte, err error) {
	call := Call{Name: name, Args: slices.Clone(args), At: time.Now()}
	c.locked(func() { c.calls = append(c.calls, call) })
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	lost, err := c.fault(ctx, call)
	if err != nil {
		return nil, nil, err
	}
	out, err := c.retried(ctx, name, args)
	if err != nil {
		return nil, nil, err
	}
	if lost != nil {
		return nil, nil, lost
	}
	switch {
	case out.unknown:
		return nil, nil, fmt.Errorf("slurmtest: %q is not simulated", call.line())
	case out.code != 0:
		err = &ExitError{out.code}
	}
	return []byte(out.stdout), []byte(out.stderr), err
}

// retried is command, repeated as scancel repeats itself: after 5, 6, … 13 s.
func (c *Controller) retried(ctx context.Context, name string, args []string) (out answer, err error) {
	for wait := 5 * time.Second; ; wait += time.Second {
		c.locked(func() { out = c.command(name, args) })
		if !out.again || wait > 13*time.Second {
			return out, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return answer{}, context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// fault asks Options.Fail: err is the result at once, lost after the effect.
func (c *Controller) fault(ctx context.Context, call Call) (lost, err error) {
	if c.opt.Fail == nil {
		return nil, nil
	}
	err = c.opt.Fail(call.line())
	var f *Fault
	if !errors.As(err, &f) {
		return nil, err
	}
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
			if f.After {
				return err, nil
			}
			return nil, err
		case <-timer.C:
		}
	}
	if f.After {
		return f.Err, nil
	}
	return nil, f.Err
}

// answer is what a command printed.
type answer struct {
	stdout, stderr string
	code           int
	unknown        bool // not simulated
	again          bool // the command itself tries again, later
}

func failure(code int, format string, args ...any) answer {
	return answer{code: code, stderr: fmt.Sprintf(format, args...) + "\n"}
}

const noController = "Unable to contact slurm controller (connect failure)"

func (c *Controller) command(name string, args []string) answer {
	switch name {
	case "scontrol":
		for len(args) > 0 && (args[0] == "-o" || args[0] == "--oneliner") {
			args = args[1:]
		}
		if len(args) > 0 {
			return c.scontrol(strings.ToLower(args[0]), args[1:])
		}
	case "squeue":
		return c.squeue(args)
	case "scancel":
		return c.scancel(args)
	}
	return answer{unknown: true}
}

func (c *Controller) scontrol(verb string, args []string) answer {
	switch {
	case verb == "ping":
		if c.down {
			return answer{code: 1, stdout: "Slurmctld(primary) at ctl is DOWN\n"}
		}
		return answer{stdout: "Slurmctld(primary) at ctl is UP\n"}
	case verb == "show" && len(args) > 0:
		return c.show(strings.ToLower(args[0]), strings.Join(args[1:], ","))
	case verb == "create" && len(args) > 0 && args[0] == "reservation":
		return c.reserve(args[1:])
	case verb == "delete" && len(args) == 1 && strings.HasPrefix(args[0], reservationName):
		return c.unreserve(args[0])
	case verb == "update":
		return c.update(args)
	case verb == "requeue" && len(args) == 1:
		return c.requeue(args[0])
	case verb == "requeue" && len(args) == 2 && args[0] == "incomplete":
		return c.requeueActive(args[1])
	case verb == "uhold" && len(args) == 1:
		return c.setHeld(args[0], true)
	case verb == "release" && len(args) == 1:
		return c.setHeld(args[0], false)
	case verb == "write" && len(args) == 3 && args[0] == "batch_script" && args[2] == "-":
		return c.script(args[1])
	}
	return answer{unknown: true}
}

func (c *Controller) requeue(id string) answer {
	if c.down {
		return failure(1, "Unexpected message received for job %s", id)
	}
	j := c.job(id)
	switch {
	case j == nil:
		return failure(1, "Invalid job id specified for job %s", id)
	case j.Salloc:
		return failure(1, "Only batch jobs are accepted or processed for job %s", id)
	case !j.Requeue:
		return failure(1, "Requested operation is presently disabled for job %s", id)
	case j.state == completing:
		return failure(1, "Job/step already completing or completed for job %s", id)
	case j.state == pending:
		return failure(1, "Job is pending execution for job %s", id)
	case j.active():
		c.finish(j, pending, 0, 0)
	default: // a finished job may run again
		j.restarts++
		j.next = pending
		c.completed(j)
	}
	return answer{}
}

// setHeld holds a pending job, or lets it start at its time.
func (c *Controller) setHeld(id string, held bool) answer {
	j := c.job(id)
	switch {
	case c.down:
		return failure(1, "Unexpected message received for job %s", id)
	case j == nil:
		return failure(1, "Invalid job id specified for job %s", id)
	case j.over():
		return failure(1, "Job has already finished for job %s", id)
	case j.active():
		return failure(1, "Job is no longer pending execution for job %s", id)
	}
	if j.held = held; !held {
		j.givenUp = false
		c.kick()
	}
	return answer{}
}

// requeueActive is requeue with the option that passes over, without a word,
// what is not configuring or running.
func (c *Controller) requeueActive(id string) answer {
	if j := c.job(id); !c.down && j != nil && !j.active() {
		return answer{}
	}
	return c.requeue(id)
}

func (c *Controller) script(id string) answer {
	if c.down {
		return answer{stderr: "job script retrieval failed: " + noController + "\n"}
	}
	j := c.job(id)
	if j == nil || j.Script == "" {
		return answer{stderr: "job script retrieval failed: Invalid job id specified\n"} // with exit code 0
	}
	return answer{stdout: j.Script}
}

// scancel ends or signals jobs.
func (c *Controller) scancel(args []string) answer {
	signal := ""
	var ids []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case (a == "-s" || a == "--signal") && i+1 < len(args):
			i++
			signal = args[i]
		case strings.HasPrefix(a, "--signal="):
			signal = a[len("--signal="):]
		case a == "--batch" || a == "-b" || a == "--full" || a == "-f" || a == "--quiet" || a == "-Q":
		case strings.HasPrefix(a, "-"):
			return answer{unknown: true}
		default:
			ids = append(ids, a)
		}
	}
	for _, id := range ids {
		text := ""
		j := c.job(id)
		switch {
		case c.down:
			text = noController
		case j == nil && signal != "":
			text = "Invalid job id specified"
		case j == nil: // silent, and exit code 0
		case signal == "":
			c.cancel(j)
		case j.state == pending || j.state == configuring:
			out := failure(228, "scancel: error: Kill job error on job id %s: Job can not be altered now, try again later", id)
			out.again = true
			return out
		case j.over():
			text = "Job/step already completing or completed"
		default:
			c.signal(j, strings.TrimPrefix(signal, "SIG"))
		}
		if text != "" {
			return failure(1, "scancel: error: Kill job error on job id %s: %s", id, text)
		}
	}
	return answer{}
}

func (c *Controller) signal(j *job, name string) {
	j.signals = append(j.signals, name)
	if j.state == running && j.OnSignal != nil {
		go j.OnSignal(j.id, name)
	}
}
