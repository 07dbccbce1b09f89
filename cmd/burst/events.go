package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
)

type eventsOptions struct {
	last     int
	follow   bool
	timeline bool
	json     bool
	eventFilter
	warn io.Writer
}

func eventsCommand() *cobra.Command {
	var o eventsOptions
	var nodes, kinds, since string
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happened",
		Long: "Show the last events of burstd's history, and with --follow the next ones as they\n" +
			"come, also over a restart of burstd: each once. --node, --job, --kind and --since\n" +
			"leave out what they do not mean. With --timeline, show instead how many seconds\n" +
			"each stage of the last nodes' ways up took, and the medians.\n\nExit codes: 0 done, 1 burstd does not answer, 2 wrong usage.",
		Example: "  burst events --follow --kind notice,evict,requeue,evicted\n  burst events --node c[1-4] --since 12h\n  burst events --follow --json --job 4711",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(nodes, kinds, since); err != nil {
				return cli.UsageError(err, "see burst events --help")
			}
			client, err := dial(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			o.warn = cmd.ErrOrStderr()
			if o.timeline {
				return runTimeline(cmd.Context(), cmd.OutOrStdout(), client, o)
			}
			return runEvents(cmd.Context(), cmd.OutOrStdout(), client, o)
		},
	}
	cmd.Flags().IntVarP(&o.last, "last", "n", 50, "show the last `N` events, at most 1000, or ways up, at most 10000")
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on with new events until interrupted")
	cmd.Flags().BoolVar(&o.timeline, "timeline", false, "show the seconds of each stage of nodes' ways up")
	cmd.Flags().Uint32Var(&o.job, "job", 0, "only of the job `ID`; with --timeline, only nodes that were raised for it")
	cmd.Flags().StringVar(&nodes, "node", "", "only of the nodes of the host list `NODES`")
	cmd.Flags().StringVar(&kinds, "kind", "", "only of these `KINDS`, as in notice,evict")
	cmd.Flags().StringVar(&since, "since", "", "only of the last `TIME`, as in 12h or 7d")
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object per line; with --timeline, one list")
	return cmd
}

func (o *eventsOptions) validate(nodes, kinds, since string) error {
	switch {
	case o.last < 1:
		return fmt.Errorf("--last is %d, not at least 1", o.last)
	case o.timeline && o.last > api.MaxBoots:
		return fmt.Errorf("--last is %d, not at most %d", o.last, api.MaxBoots)
	case !o.timeline && o.last > maxEvents:
		return fmt.Errorf("--last is %d, not at most %d", o.last, maxEvents)
	case o.timeline && o.follow:
		return errors.New("--timeline does not --follow")
	case o.timeline && nodes+kinds+since != "":
		return errors.New("--timeline takes none of --node, --kind and --since")
	}
	return o.parse(nodes, kinds, since)
}

// maxEvents is the most that burstd answers at once.
const maxEvents = 1000

func runEvents(ctx context.Context, w io.Writer, client *api.Client, o eventsOptions) error {
	events, after, err := lastEvents(ctx, client, o.last, o.eventFilter)
	if err != nil {
		return explain(err)
	}
	for {
		for _, e := range events {
			if after = max(after, e.Seq); !o.match(e) {
				continue
			}
			if err := writeEvent(w, e, o.json); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
		}
		if !o.follow {
			return nil
		}
		if events, after, err = nextEvents(ctx, client, after, o.warn); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil // interrupted: that is how following ends
		}
	}
}

// nextEvents waits for events, over restarts of burstd, until ctx ends. It
// returns after which event they come: 0 if burstd has a new history, all of
// which is news.
func nextEvents(ctx context.Context, client *api.Client, after int64, warn io.Writer) ([]api.Event, int64, error) {
	away := false
	for {
		events, err := client.Events(ctx, after, api.MaxWait)
		if err == nil && away {
			fmt.Fprintln(warn, "burst: burstd is back")
			away = false
		}
		if err == nil && len(events) == 0 { // a burstd may also have come back unnoticed
			var last []api.Event
			if last, err = client.Events(ctx, -1, 0); err == nil && len(last) > 0 && last[0].Seq < after {
				fmt.Fprintln(warn, "burst: warning: burstd has a new history, or one from a backup: all of it follows")
				after = 0
				continue
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil, after, nil
		case err == nil:
			return events, after, nil
		case !passing(err):
			return nil, after, explain(err)
		case !away:
			fmt.Fprintf(warn, "burst: warning: %v: waiting for it\n", err)
			away = true
		}
		select {
		case <-time.After(500*time.Millisecond + rand.N(time.Second)):
		case <-ctx.Done():
			return nil, after, nil
		}
	}
}

// passing says whether waiting helps: burstd is away, fails, stops, or wants fewer requests.
func passing(err error) bool {
	var refused *api.Error
	if errors.As(err, &refused) {
		return refused.Status >= 500 || refused.Status == http.StatusTooManyRequests
	}
	return errors.Is(err, api.ErrAway)
}

func writeEvent(w io.Writer, e api.Event, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(e)
	}
	line := fmt.Sprintf("%s  %-10s", stamp(e.Time), e.Kind)
	for _, about := range []struct{ key, value string }{
		{"node", e.Node}, {"instance", e.Instance}, {"pool", e.Pool}, {"job", jobID(e.Job)},
	} {
		if about.value != "" {
			line += " " + about.key + "=" + about.value
		}
	}
	_, err := fmt.Fprintln(w, strings.TrimRight(printable(line+"  "+e.Text), " "))
	return err
}

func jobID(id uint32) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprint(id)
}
