package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cloud/local"
	"github.com/burst-hpc/burst/cmd/internal/cli"
)

const defaultLocalDir = "/var/lib/burst/local"

type localOptions struct {
	control local.Control
	json    bool
	lead    time.Duration
	room    int
	lift    bool
}

func localCommand() *cobra.Command {
	var o localOptions
	cmd := &cobra.Command{
		Use:   "local list|evict|kill|refuse|boot",
		Short: "Play the cloud behind a local provider: evict, kill, refuse capacity",
		Long: "Play the cloud behind a provider of kind \"local\", whose instances are slurmd processes on this host.\n" +
			"It is a drill: what is evicted here is really gone, with all that runs on it.\n\n" +
			"Exit codes: 0 done, 1 failed, 2 wrong usage.",
		Example: "  burst local list\n" +
			"  burst local evict c3 --lead 2m      # notice now, death in two minutes\n" +
			"  burst local kill c4                 # no notice\n" +
			"  burst local refuse 'c6i.*/*/spot'   # no more spot capacity of these types\n" +
			"  burst local boot 45s                # later instances boot this slowly",
		Args: localArgs(0, 0),
		RunE: func(*cobra.Command, []string) error {
			return cli.UsageError(errors.New("local needs a command"), "list, evict, kill, refuse or boot: see burst local --help")
		},
	}
	cmd.PersistentFlags().StringVar(&o.control.Dir, "dir", defaultLocalDir, "the provider's dir in burst.toml: a `folder`")

	list := &cobra.Command{
		Use:   "list",
		Short: "List the instances, those that ended within the last hour too",
		Args:  localArgs(0, 0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return runLocalList(cmd.OutOrStdout(), o) },
	}
	list.Flags().BoolVar(&o.json, "json", false, "print JSON")

	evict := &cobra.Command{
		Use:     "evict NODE|INSTANCE...",
		Short:   "Give notice of an eviction; the instance is killed when the lead time is over",
		Example: "  burst local evict c3 c4 --lead 30s\n  burst local evict i-0a1b2c3d4e --lead 0s   # bring it forward to now",
		Args:    localArgs(1, -1),
		RunE: func(_ *cobra.Command, args []string) error {
			return runLocalEach(args, func(name string) error { return o.control.Evict(name, o.lead) })
		},
	}
	evict.Flags().DurationVar(&o.lead, "lead", 2*time.Minute, "`time` from the notice to the death")

	kill := &cobra.Command{
		Use:     "kill NODE|INSTANCE...",
		Short:   "Kill instances at once and without a notice",
		Example: "  burst local kill c3",
		Args:    localArgs(1, -1),
		RunE: func(_ *cobra.Command, args []string) error {
			return runLocalEach(args, o.control.Kill)
		},
	}

	refuse := &cobra.Command{
		Use:   "refuse [OFFERING]",
		Short: "Refuse capacity to an offering, or list what is refused",
		Long: "Refuse capacity to the offerings that match TYPE, TYPE/ZONE or TYPE/ZONE/MARKET, where * stands for anything.\n" +
			"Instances that run are not touched. Without an argument: list what is refused.",
		Example: "  burst local refuse 'c6i.*/*/spot'\n  burst local refuse c6i.large --room 3   # three more, then none\n  burst local refuse c6i.large --lift",
		Args:    localArgs(0, 1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runLocalRefuse(cmd.OutOrStdout(), o, args) },
	}
	refuse.Flags().IntVar(&o.room, "room", 0, "`number` of instances still granted")
	refuse.Flags().BoolVar(&o.lift, "lift", false, "grant capacity again")
	refuse.Flags().BoolVar(&o.json, "json", false, "print what is refused as JSON")

	boot := &cobra.Command{
		Use:     "boot DELAY",
		Short:   "Slow the boot of instances that are launched from now on",
		Example: "  burst local boot 45s\n  burst local boot 0s    # as fast as slurmd starts",
		Args:    localArgs(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			delay, err := time.ParseDuration(args[0])
			if err != nil {
				return cli.UsageError(err, "DELAY is a time, such as 45s or 2m")
			}
			return explainLocal(o.control.SetBoot(delay))
		},
	}
	cmd.AddCommand(list, evict, kill, refuse, boot)
	return cmd
}

// localArgs wants at least low arguments and at most high; below 0 there is no most.
func localArgs(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < low || high >= 0 && len(args) > high {
			return cli.UsageError(fmt.Errorf("%s does not take %d arguments", cmd.CommandPath(), len(args)), "see "+cmd.CommandPath()+" --help")
		}
		return nil
	}
}

func runLocalList(w io.Writer, o localOptions) error {
	all, err := o.control.List()
	if err != nil {
		return explainLocal(err)
	}
	if o.json {
		return writeJSON(w, append([]local.Machine{}, all...)) // [] and not null
	}
	rows := [][]string{{"INSTANCE", "NODE", "STATE", "OFFERING", "ADDR", "PID", "LAUNCHED", "EVICTION", "ACKED", "REASON"}}
	for _, m := range all {
		var eviction time.Time
		if m.Notice != nil {
			eviction = m.Notice.Deadline
		}
		pid := ""
		if m.State.Live() && m.PID > 0 {
			pid = strconv.Itoa(m.PID)
		}
		rows = append(rows, []string{m.ID, cmp.Or(m.Node, "-"), string(m.State), m.Offering.String(), m.Addr,
			cmp.Or(pid, "-"), stamp(m.Launched), stamp(eviction), stamp(m.Acked), m.Reason})
	}
	return writeTable(w, rows)
}

// runLocalEach does the same to several instances and reports all that failed.
func runLocalEach(names []string, do func(name string) error) error {
	var failed error
	for _, name := range names {
		failed = errors.Join(failed, do(name))
	}
	return explainLocal(failed)
}

func runLocalRefuse(w io.Writer, o localOptions, args []string) error {
	if len(args) > 0 {
		if o.room < 0 {
			return cli.UsageError(fmt.Errorf("--room %d is negative", o.room), "--lift grants capacity again")
		}
		if o.lift {
			o.room = -1
		}
		return explainLocal(o.control.Refuse(args[0], o.room))
	}
	all, err := o.control.Refusals()
	if err != nil {
		return explainLocal(err)
	}
	if o.json {
		return writeJSON(w, append([]local.Refusal{}, all...))
	}
	rows := [][]string{{"OFFERING", "ROOM"}}
	for _, r := range all {
		rows = append(rows, []string{r.Pattern, strconv.Itoa(r.Room)})
	}
	return writeTable(w, rows)
}

// explainLocal adds the hint that a missing folder calls for.
func explainLocal(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return cli.WithHint(err, "--dir names the dir of the local provider in burst.toml; burstd makes it when it starts")
	}
	return err
}
