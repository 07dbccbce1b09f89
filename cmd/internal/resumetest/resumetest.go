// Package resumetest brings one cloud node up and takes it down again, by the way that a job's
// nodes go: Slurm's own POWER_UP and POWER_DOWN, so that slurmctld calls burst-resume and
// burst-suspend. It tells of each step when it is done, with its time.
//
//	check -> order -> launch -> boot … -> registered -> job -> power down -> ended -> off -> cost
//
// Whatever ends it in between, the node is Slurm's: it is powered down when it is idle for its
// partition's SuspendTime, or given up after ResumeTimeout.
package resumetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/slurm"
)

// Options say what is tested, and by whom Slurm and burstd are asked.
type Options struct {
	Node, Pool, Partition string
	Job                   bool          // run a job on the node
	Keep                  bool          // leave the node up
	Timeout               time.Duration // of all
	Runner                slurm.Runner  // of Slurm's commands
	API                   *api.Client
	// Price asks what an hour of an offering costs; with an error, or 0, it is not known.
	Price func(ctx context.Context, provider, offering string) (float64, error)
	Step  func(Step)        // is told each step when it is done
	Live  func(what string) // is told now and again what is waited for
}

// Step is one part of the way, done.
type Step struct {
	Name    string  `json:"name"`
	State   string  `json:"state"`   // OK, Failed or Skipped
	At      float64 `json:"at"`      // seconds from the beginning to its end
	Seconds float64 `json:"seconds"` // that it took
	Text    string  `json:"text"`
}

// States of a Step.
const (
	OK      = "ok"
	Failed  = "failed"
	Skipped = "skipped"
)

// Result is all that came of a test.
type Result struct {
	Node       string   `json:"node"`
	Pool       string   `json:"pool"`
	Partition  string   `json:"partition"`
	OK         bool     `json:"ok"`
	Steps      []Step   `json:"steps"`
	Provider   string   `json:"provider,omitempty"`
	Instance   string   `json:"instance,omitempty"`
	Offering   string   `json:"offering,omitempty"` // type, zone and market
	USDPerHour float64  `json:"usd_per_hour,omitempty"`
	Job        uint32   `json:"job,omitempty"`
	USD        *float64 `json:"usd"` // null: not known
	Error      string   `json:"error,omitempty"`
	Next       string   `json:"next,omitempty"`   // what to do about Error
	Events     []string `json:"events,omitempty"` // of burstd, about the node, where it has failed
}

// failure is why a step did not end well, and what to do.
type failure struct{ why, next string }

func (f *failure) Error() string { return f.why }

func fails(next, format string, args ...any) error {
	return &failure{fmt.Sprintf(format, args...), next}
}

const look = time.Second // between two questions to burstd and Slurm

// test is one under way.
type test struct {
	Result
	o      Options
	slurm  *slurm.Client
	began  time.Time
	last   time.Time // the end of the last step
	step   string    // under way
	waits  string    // what it waits for
	seen   string    // of what it waits for, last
	events int64     // the last before the test
	asked  bool      // Slurm has been asked to power up
	keep   bool      // leave the node up
}

// Run tests the node. An error of the node's is a Refusal, before anything was done, or in the
// Result: then all else has been said by Step, and what Run returns is why.
func Run(ctx context.Context, o Options) (*Result, error) {
	outer := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("not done within %s", o.Timeout))
	defer cancel()
	t := &test{o: o, keep: o.Keep, slurm: slurm.New(o.Runner), began: time.Now(),
		Result: Result{Node: o.Node, Pool: o.Pool, Partition: o.Partition, Steps: []Step{}}}
	t.last = t.began
	err := t.play(ctx)
	t.OK = err == nil
	if err == nil || !t.asked {
		return &t.Result, err
	}
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w: %s", cause, cmp.Or(t.seen, t.waits))
	}
	if outer.Err() != nil {
		err = errors.New("interrupted")
	}
	t.Error = err.Error()
	whole := fmt.Errorf("testing node %s: %s: %w", t.Node, t.step, err)
	t.done(Failed, "%s", t.Error)
	t.help(context.WithoutCancel(ctx), err, outer.Err() != nil)
	t.leave(context.WithoutCancel(ctx), outer.Err() != nil)
	return &t.Result, whole
}

func (t *test) play(ctx context.Context) error {
	if err := t.check(ctx); err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{t.order, t.launch, t.boot, t.job, t.down, t.cost} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// begin names the step that is under way.
func (t *test) begin(step, waits string) {
	t.step, t.waits, t.seen = step, waits, ""
}

// done ends the step that is under way, now.
func (t *test) done(state, format string, args ...any) { t.doneAt(time.Now(), state, format, args...) }

func (t *test) doneAt(at time.Time, state, format string, args ...any) {
	if at.Before(t.last) {
		at = t.last
	}
	s := Step{Name: t.step, State: state, At: at.Sub(t.began).Seconds(), Seconds: at.Sub(t.last).Seconds(), Text: fmt.Sprintf(format, args...)}
	t.last = at
	t.Steps = append(t.Steps, s)
	if t.o.Step != nil {
		t.o.Step(s)
	}
}

// until asks now and again until cond says yes or fails. burstd or slurmctld may be away for a while.
func (t *test) until(ctx context.Context, cond func() (bool, error)) error {
	for {
		if t.o.Live != nil {
			t.o.Live(t.waits)
		}
		ok, err := cond()
		var f *failure
		if ok || errors.As(err, &f) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			t.seen = err.Error()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(look):
		}
	}
}

// now is what burstd and Slurm say of the node.
func (t *test) now(ctx context.Context) (api.NodeStatus, slurm.Node, error) {
	ours, known, err := t.o.API.Node(ctx, t.Node)
	if err != nil {
		return api.NodeStatus{}, slurm.Node{}, err
	}
	nodes, err := t.slurm.Nodes(ctx, t.Node)
	if err != nil {
		return api.NodeStatus{}, slurm.Node{}, err
	}
	if known && len(nodes) == 1 {
		return ours, nodes[0], nil
	}
	return api.NodeStatus{}, slurm.Node{}, fmt.Errorf("burstd does not know node %s: its burst.toml is another, or it was started before the pool was written", t.Node)
}

// check refuses what may not be tested.
func (t *test) check(ctx context.Context) error {
	t.begin("check", "looking at the node")
	status, err := t.o.API.Status(ctx)
	if err != nil {
		return err
	}
	ours, node, err := t.now(ctx)
	if err != nil {
		return err
	}
	jobs, err := t.slurm.Jobs(ctx)
	if err != nil {
		return err
	}
	reservations, err := t.slurm.Reservations(ctx)
	if err != nil {
		return err
	}
	if err := refuse(known{t.Pool, node, jobs, ours, status, reservations, t.began.Add(t.o.Timeout)}); err != nil {
		return err
	}
	last, err := t.o.API.Events(ctx, -1, 0)
	if err != nil {
		return err
	}
	for _, e := range last {
		t.events = e.Seq
	}
	t.done(OK, "it is %s's, off, and nobody else's", t.Pool)
	return nil
}

// told are burstd's events about the node and its instance, since the test began; of the
// pool those that say what the cloud has answered.
func (t *test) told(ctx context.Context) []api.Event {
	var all []api.Event
	for after := t.events; ; {
		events, err := t.o.API.Events(ctx, after, 0)
		if err != nil || len(events) == 0 {
			return all
		}
		for _, e := range events {
			after = e.Seq
			ofPool := e.Node == "" && e.Job == 0 && e.Pool == t.Pool && (strings.HasPrefix(e.Kind, "no-") || strings.HasPrefix(e.Kind, "pool-") || e.Kind == "launch")
			if e.Node == t.Node || e.Instance != "" && e.Instance == t.Instance || ofPool {
				all = append(all, e)
			}
		}
	}
}
