// Package demo shows Burst at work on one host: jobs wait for the one node of a
// real Slurm cluster, a rule takes them to the cloud, within a budget; an MPI job
// is evicted there twice, each time goes on from its checkpoint on other nodes,
// and the idle nodes are ended. It prints a timeline and a report, and fails if
// anything is not as it must be.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/rig"
)

// Options say how the demo runs. Zero values take the defaults in brackets.
type Options struct {
	Dir  string // of the site
	Bin  string // folder of burstd and the others
	Heat string // the MPI program [heat beside Bin, then in PATH]
	Keep bool   // leave the cluster up
	JSON string // file for the report; empty: none
	Out  io.Writer
	TTY  bool // Out is a terminal: draw a progress bar

	Nodes       int           // cloud nodes [7]
	JobNodes    int           // of the MPI job: that many, of a CPU each; the site's one node has as many CPUs [4]
	Cells       int64         // of the grid's side [400]
	Iterations  int64         // [1800]
	Pace        time.Duration // least time of an iteration [20 ms]
	Lead        time.Duration // of a notice [30 s]
	SuspendTime time.Duration // until an idle node is powered down [8 s]
	Limit       time.Duration // of the whole demo [4 min]
}

func (o Options) withDefaults() Options {
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.Pace, 20*time.Millisecond)
	def(&o.Lead, 30*time.Second)
	def(&o.SuspendTime, 8*time.Second)
	def(&o.Limit, 4*time.Minute)
	if o.Nodes == 0 {
		o.Nodes, o.JobNodes = 7, 4
	}
	if o.Iterations == 0 {
		o.Cells, o.Iterations = 400, 1800
	}
	return o
}

func (o Options) run() run { return run{cells: o.Cells, iterations: o.Iterations, seed: 1} }

// policy is in burst.toml: what overflows, and what it may cost.
const policy = `
[[overflow]]
name = "busy"
from = ["onprem"]
to = ["cloud"]
after = "1s"

[budget]
day = 0.25
`

// evictions is how many the demo orders, evenly over the job's iterations.
const evictions = 2

// Run runs the demo. Unless Keep, nothing of it is left but, after a failure,
// the logs in a folder beside Dir.
func Run(ctx context.Context, o Options) (err error) {
	o = o.withDefaults()
	ctx, cancel := context.WithTimeoutCause(ctx, o.Limit, fmt.Errorf("the demo is not done after %s", o.Limit))
	defer cancel()
	heat, err := findHeat(o)
	if err != nil {
		return err
	}
	began := time.Now()
	site, err := rig.Start(ctx, rig.Options{
		Dir: o.Dir, Bin: o.Bin, Outlive: o.Keep, Nodes: o.Nodes, CPUs: 1, OnPrem: 1, OnPremCPUs: o.JobNodes, Gate: true,
		SuspendTime: o.SuspendTime, DemoPrices: true, ExtraToml: policy,
	})
	if err != nil {
		return cli.WithHint(interrupted(ctx, err), "make deps installs what the demo needs; a demo that was kept is ended with burst demo --end %s", o.Dir)
	}
	s := newShow(o, site, heat, began)
	r, err := s.play(ctx)
	s.line.setBar("")
	if err == nil {
		err = s.conclude(ctx, r)
	}
	return s.leave(ctx, interrupted(ctx, err))
}

var errInterrupted = errors.New("interrupted")

// interrupted says so instead of whatever failed because ctx was cancelled.
func interrupted(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return errInterrupted
	}
	return err
}

func findHeat(o Options) (string, error) {
	if o.Heat != "" {
		return filepath.Abs(o.Heat)
	}
	near := filepath.Join(filepath.Dir(o.Bin), "heat")
	if _, err := os.Stat(near); err == nil {
		return filepath.Abs(near)
	}
	path, err := exec.LookPath("heat")
	if err != nil {
		return "", cli.WithHint(fmt.Errorf("the demo's MPI program is neither %s nor in PATH", near), "make build builds it; --heat names another place")
	}
	return filepath.Abs(path)
}

// conclude prints and writes the report, and fails if the demo has.
func (s *show) conclude(ctx context.Context, r *Report) error {
	prices, err := price.Local()
	if err != nil {
		return err
	}
	all, err := s.site.Control.List()
	if err != nil {
		return err
	}
	if err := r.bill(all, prices, time.Now()); err != nil {
		return err
	}
	if err := s.settle(ctx, r); err != nil {
		return err
	}
	s.line.flushAll()
	r.judge(evictions)
	s.line.print(r.text())
	if s.o.JSON != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
		if err := os.WriteFile(s.o.JSON, append(text, '\n'), 0o644); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	if len(r.Failures) > 0 {
		return fmt.Errorf("the demo has failed: %s", r.Failures[0])
	}
	s.line.print("The demo has succeeded.")
	return nil
}

// leave ends the site, or leaves it up; of a demo that has failed it keeps the logs.
func (s *show) leave(ctx context.Context, err error) error {
	if err != nil && !errors.Is(err, errInterrupted) {
		logs := s.site.Dir + "-logs"
		if e := s.site.SaveLogs(logs); e != nil {
			err = errors.Join(err, e)
		} else {
			err = cli.WithHint(err, "the logs are in %s", logs)
		}
	}
	if s.o.Keep && ctx.Err() == nil && s.line.err == nil {
		s.line.print(s.usage())
		return errors.Join(err, s.site.Release())
	}
	return errors.Join(err, s.site.Close())
}

// usage says how to use a cluster that was kept.
func (s *show) usage() string {
	self := filepath.Join(s.o.Bin, "burst")
	return fmt.Sprintf(`
The cluster is still up, with burstd and its cloud. To use it:
  export SLURM_CONF=%[1]s
  export BURST_CONFIG=%[2]s
  sinfo -N
  sbatch -p cloud -N 2 -t 5 -D %[3]s --wrap "srun hostname; sleep 60"
  sbatch -N 1-%[6]d -n %[6]d -t 5 -D %[3]s --array 1-2 --wrap "srun hostname; sleep 60"
  %[4]s overflow
  %[4]s budget
  %[4]s events --follow
To end it:
  %[4]s demo --end %[5]s`, s.site.Cluster.Conf, s.site.Config, s.site.Work, self, s.site.Dir, s.o.JobNodes)
}

// End ends a demo that was kept, or whose process was killed.
func End(dir string, out io.Writer) error {
	if _, err := os.Stat(dir); err != nil {
		return cli.WithHint(fmt.Errorf("ending the demo: %w", err), "give the folder that burst demo --keep printed")
	}
	if err := rig.Reap(dir); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "The demo in %s has been ended and removed.\n", dir)
	return err
}
