package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

type evictOptions struct {
	lead                      time.Duration
	noNotice, yes, wait, json bool
	in                        io.Reader
}

func evictCommand() *cobra.Command {
	var o evictOptions
	cmd := &cobra.Command{
		Use:   "evict NODE|INSTANCE... [--lead TIME] [--no-notice] [--yes] [--wait]",
		Short: "Take nodes' instances away, as the cloud does: a drill",
		Long: "Take nodes' instances away, as the cloud does: a drill. burstd hears a notice now, and\n" +
			"the instance is terminated when the lead time is over, whatever still runs there, also\n" +
			"if burstd was restarted meanwhile. With --no-notice it is terminated at once and burstd\n" +
			"has to find out. Nodes may be host lists. Root and SlurmUser may.\n\n" +
			"Exit codes: 0 done, 1 burstd does not answer, or refused, or it was not confirmed,\n" +
			"2 wrong usage.",
		Example: "  burst evict c6i-001\n  burst evict c6i-[001-010] --lead 30s --yes --wait\n  burst evict i-0a1b2c3d4e5f60718 --no-notice",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.in = cmd.InOrStdin()
			if err := o.validate(cmd.Flags().Changed("lead")); err != nil {
				return cli.UsageError(err, "see burst evict --help")
			}
			if !o.yes && !isTerminal(o.in) {
				return errNoTerminal("burst evict " + strings.Join(args, " "))
			}
			client, err := dial(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			return runEvict(cmd.Context(), streams{cmd.OutOrStdout(), cmd.ErrOrStderr()}, client, o, strings.Join(args, ","))
		},
	}
	cmd.Flags().DurationVar(&o.lead, "lead", 2*time.Minute, "`time` from the notice to the end, at most 24h")
	cmd.Flags().BoolVar(&o.noNotice, "no-notice", false, "terminate at once, without a notice")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&o.wait, "wait", false, "show what happens until the instances are gone")
	cmd.Flags().BoolVar(&o.json, "json", false, "print which instances go, and when, as JSON; events then go to standard error")
	return cmd
}

func (o evictOptions) validate(lead bool) error {
	switch {
	case o.noNotice && lead:
		return errors.New("--lead is for a notice, and there is none with --no-notice")
	case o.lead < 0 || o.lead > api.MaxLead:
		return fmt.Errorf("--lead is %s, not from 0s to %s", o.lead, api.MaxLead)
	}
	return nil
}

func runEvict(ctx context.Context, s streams, client *api.Client, o evictOptions, names string) error {
	if now, err := client.Status(ctx); err == nil {
		list, _ := hostlist.Expand(names) // burstd says what is wrong with it
		for _, f := range now.Files {
			if slices.Contains(list, f.Node) || slices.Contains(list, f.Instance) {
				fmt.Fprintf(s.err, "%s (%s) serves files: they are lost with it.\n", printable(f.Node), f.Instance)
			}
		}
	}
	if !o.yes {
		how := fmt.Sprintf("get a notice now and are terminated in %s", o.lead)
		if o.noNotice {
			how = "are terminated at once"
		}
		fmt.Fprintf(s.err, "The instances of %s %s. Jobs on them lose what they do not save.\n", printable(names), how)
		if err := confirm(ctx, o.in, s.err, "yes"); err != nil {
			return err
		}
	}
	last, err := client.Events(ctx, -1, 0)
	if err != nil {
		return explain(err)
	}
	all, err := client.Evict(ctx, api.EvictRequest{Names: names, Lead: o.lead, NoNotice: o.noNotice})
	var refused *api.Error
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return cli.WithHint(err, "burst nodes shows which instance serves which node")
	}
	if err != nil {
		return explain(err)
	}
	events := s.out
	if o.json {
		events = s.err
		err = writeJSON(s.out, all)
	} else {
		rows := [][]string{{"NODE", "INSTANCE", "POOL", "PROVIDER", "ENDS", "BY"}}
		for _, e := range all {
			rows = append(rows, []string{orDash(e.Node), e.Instance, e.Pool, e.Provider, stamp(e.Deadline), e.Way})
		}
		err = writeTable(s.out, rows)
	}
	if err != nil || !o.wait {
		return err
	}
	w := &watching{client: client, open: all, after: 0, jobs: map[uint32]bool{}}
	for _, e := range last {
		w.after = e.Seq
	}
	return w.run(ctx, events, o.lead+evictPatience)
}

// evictPatience is how long after its end --wait waits for an instance to be gone.
const evictPatience = 15 * time.Minute

// watching follows a drill.
type watching struct {
	client *api.Client
	open   []api.Evicted // not gone yet
	after  int64         // the last event that was seen
	jobs   map[uint32]bool
}

// run prints what is said of the instances, their nodes and the jobs that
// those had, until all are gone.
func (w *watching) run(ctx context.Context, out io.Writer, most time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("not gone within %s", most))
	defer cancel()
	about := map[string]bool{}
	for _, e := range w.open {
		about[e.Instance], about[e.Node] = true, e.Node != ""
	}
	for {
		// The nodes are read before the events, so that the last events are seen.
		nodes, err := w.client.Nodes(ctx)
		if err == nil {
			w.open = slices.DeleteFunc(w.open, func(e api.Evicted) bool {
				return !slices.ContainsFunc(nodes, func(n api.NodeStatus) bool { return n.Instance == e.Instance })
			})
		}
		var events []api.Event
		if err == nil {
			events, err = w.client.Events(ctx, w.after, time.Second)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("watching the drill, which goes on: %w", context.Cause(ctx))
		}
		if err != nil && !passing(err) {
			return explain(err)
		}
		for _, e := range events {
			w.after = e.Seq
			ours := about[e.Instance] || about[e.Node] || w.jobs[e.Job]
			if !ours {
				continue
			}
			if e.Job != 0 {
				w.jobs[e.Job] = true
			}
			if err := writeEvent(out, e, false); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
		}
		if err == nil && len(w.open) == 0 && len(events) == 0 {
			return nil
		}
		if err != nil { // burstd restarts: it is asked again
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}
