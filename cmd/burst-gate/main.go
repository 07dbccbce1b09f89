// Command burst-gate is slurmctld's PrologSlurmctld: it waits until a job's
// cloud nodes have registered, so that the job starts at once and not at
// slurmctld's next look, which may be 30 s away.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/cmd/internal/handover"
	"github.com/burst-hpc/burst/slurm"
)

const help = `Usage: burst-gate [--then PROGRAM] [--max DURATION] [--config FILE]

For slurmctld, as its PrologSlurmctld: waits until the cloud nodes of the job
SLURM_JOB_ID, those in SLURM_JOB_NODELIST, have registered. It leaves earlier
when the job is no longer being configured, and at once for a job without
cloud nodes, unless an earlier attempt of it may still run on an instance that
Slurm has given up. It asks burstd, and scontrol while burstd is away.

  --then PROGRAM  run the site's own PrologSlurmctld afterwards. slurmctld
                  gives its program no arguments, so name a script there:
                      #!/bin/sh
                      exec /usr/sbin/burst-gate --then /site/prolog
  --max DURATION  longest wait (default nine tenths of PrologTimeout, with
                  Slurm 25.05 and newer, or else of PrologEpilogTimeout, 1h
                  if there is neither, and if a partition has a longer
                  ResumeTimeout, that and 5m)
  --config FILE   configuration (default $BURST_CONFIG, then
                  /etc/burst/burst.toml), of which [daemon] and [slurm] are read
  --help          this text
  --version       the version

Exit codes: always 0, because with any other Slurm would hold the job; with
--then that of PROGRAM, and 1 if it cannot be run. Warnings go to stderr and,
as burst-gate, to syslog.
`

func main() {
	// A closed stderr must not end us. Were it ignored, --then's program would ignore it too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	o, warnings := parse(os.Args[1:])
	if o.print != "" {
		fmt.Print(o.print)
		return
	}
	alone, more := o.wait(ctx)
	warnings = append(warnings, more...)
	code := cli.OK
	if o.then != "" && !alone {
		tell(warnings)
		err := syscall.Exec(o.then, []string{o.then}, os.Environ())
		warnings, code = []string{fmt.Sprintf("running the site's PrologSlurmctld %s: %v", o.then, err)}, cli.Failed
	}
	tell(warnings)
	os.Exit(code)
}

func tell(warnings []string) {
	for _, w := range warnings {
		fmt.Fprintf(os.Stderr, "burst-gate: warning: %s\n", w)
	}
	handover.Syslog("burst-gate", warnings...)
}

type options struct {
	then, config, print string
	max                 time.Duration
}

// parse reads the arguments. What is wrong with them is a warning: a wrong
// word in a script must not hold every job of the cluster.
func parse(args []string) (o options, warnings []string) {
	fs := flag.NewFlagSet("burst-gate", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&o.then, "then", "", "")
	fs.StringVar(&o.config, "config", "", "")
	fs.DurationVar(&o.max, "max", 0, "")
	version := fs.Bool("version", false, "")
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		o.print = help
	case *version:
		o.print = "burst-gate " + cli.Version + "\n"
	case err != nil:
		warnings = append(warnings, fmt.Sprintf("%v: see burst-gate --help", err))
	case fs.NArg() > 0:
		warnings = append(warnings, fmt.Sprintf("argument %q is ignored: see burst-gate --help", fs.Arg(0)))
	}
	return o, warnings
}

// wait waits for the job that the environment names. It returns alone when
// slurmctld is gone, or has ended us: then nobody waits for the job's program.
func (o options) wait(ctx context.Context) (alone bool, warnings []string) {
	job, err := strconv.ParseUint(os.Getenv("SLURM_JOB_ID"), 10, 32)
	nodes := os.Getenv("SLURM_JOB_NODELIST")
	if err != nil || nodes == "" {
		return false, []string{"SLURM_JOB_ID or SLURM_JOB_NODELIST is not set: only slurmctld runs this program"}
	}
	cfg, err := endpoint.Load(endpoint.Path(o.config))
	if err != nil {
		warnings = append(warnings, fmt.Sprintf("%v: using socket %s", err, cfg.Socket))
	}
	client := api.NewClient(cfg.Socket)
	defer client.Close()
	log := cli.Log(os.Stderr).With("job", job)
	err = gate{
		job: uint32(job), nodes: nodes, max: o.max, log: log, burstd: client, parent: os.Getppid,
		slurm: slurm.New(slurm.Exec{Conf: cfg.SlurmConf, BinDir: cfg.SlurmBin, Timeout: lookTimeout, Log: log}),
	}.wait(ctx)
	if errors.Is(err, errAlone) || ctx.Err() != nil {
		return true, warnings
	}
	if err != nil {
		warnings = append(warnings, err.Error())
	}
	return false, warnings
}
