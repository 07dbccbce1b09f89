package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
)

const poolExits = "\n\nExit codes: 0 done, 1 burstd does not answer, or refused, 2 wrong usage."

func poolCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pool",
		Short: "List the pools, stop one, start it again",
		Long: "List the pools, stop one, start it again. A pool is stopped by burstd when as many\n" +
			"instances in a row as max_boot_failures says did not become nodes." + poolExits,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return cli.UsageError(errors.New("burst pool needs list, stop or start"), "see burst pool --help")
		},
	}
	cmd.AddCommand(poolListCommand(), poolStopCommand(), poolStartCommand())
	return cmd
}

func poolListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the pools, and which are stopped and why",
		Long:  "List the pools, and which are stopped and why." + poolExits,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := dial(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			return runPoolList(cmd.Context(), cmd.OutOrStdout(), client, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func poolStopCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "stop POOL",
		Short: "Have a pool launch nothing",
		Long: "Have a pool launch nothing: jobs that need its nodes are told why, and try again\n" +
			"later. What is on its way or up goes on. Root and SlurmUser may." + poolExits,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return cli.UsageError(errors.New("--reason is missing: the jobs' users are told it"), "see burst pool stop --help")
			}
			return changePool(cmd, api.PoolChange{Pool: args[0], Stop: true, Reason: reason})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, in a few `words`; users and admins read it")
	return cmd
}

func poolStartCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "start POOL",
		Short: "Have a stopped pool launch again",
		Long: "Have a stopped pool launch again, and count its boot failures anew. Jobs that wait\n" +
			"for it start now. Root and SlurmUser may." + poolExits,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changePool(cmd, api.PoolChange{Pool: args[0]})
		},
	}
}

func changePool(cmd *cobra.Command, c api.PoolChange) error {
	client, err := dial(cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	err = client.ChangePool(cmd.Context(), c)
	var refused *api.Error
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return cli.WithHint(err, "burst pool list shows them")
	}
	return explain(err)
}

func runPoolList(ctx context.Context, w io.Writer, client *api.Client, asJSON bool) error {
	pools, err := client.Pools(ctx)
	if err != nil {
		return explain(err)
	}
	if asJSON {
		return writeJSON(w, append([]api.PoolStatus{}, pools...)) // [] in JSON, not null
	}
	rows := [][]string{{"POOL", "PROVIDER", "PARTITION", "NODES", "BOOT FAILURES", "STOPPED", "WHY"}}
	for _, p := range pools {
		failures := strconv.Itoa(p.Failures)
		if p.MaxFailures > 0 {
			failures = fmt.Sprintf("%d of %d", p.Failures, p.MaxFailures)
		}
		rows = append(rows, []string{p.Pool, p.Provider, cmp.Or(p.Partition, "-"), strconv.Itoa(p.Nodes), failures, stamp(p.Stopped), p.Why})
	}
	return writeTable(w, rows)
}
