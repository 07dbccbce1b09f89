package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

type reconcileOptions struct{ dryRun, json bool }

func reconcileCommand() *cobra.Command {
	var o reconcileOptions
	cmd := &cobra.Command{
		Use:   "reconcile [--dry-run]",
		Short: "Compare clouds, Slurm and journal now",
		Long: "Compare the clouds' instances, Slurm's nodes and burstd's journal, show what is to be done\n" +
			"about the differences, and have burstd do it now rather than within half a minute. What\n" +
			"has to be seen for a while before it is believed is shown at once, and done then. Root\n" +
			"and SlurmUser may." + poolExits,
		Example: "  burst reconcile --dry-run\n  burst reconcile --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := dial(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			return runReconcile(cmd.Context(), cmd.OutOrStdout(), client, o)
		},
	}
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "change nothing")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func runReconcile(ctx context.Context, w io.Writer, client *api.Client, o reconcileOptions) error {
	all, err := client.Reconcile(ctx, api.ReconcileRequest{DryRun: o.dryRun})
	if err != nil {
		return explain(err)
	}
	if o.json {
		return writeJSON(w, append([]api.Planned{}, all...))
	}
	if len(all) == 0 {
		if _, err := fmt.Fprintln(w, "Clouds, Slurm and journal agree: there is nothing to do."); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
		return nil
	}
	rows := [][]string{{"ACTION", "NODE", "INSTANCE", "WHEN", "WHY"}}
	for _, p := range all {
		when := "now"
		if p.Settling {
			when = "if it stays so"
		}
		rows = append(rows, []string{p.Action, orDash(p.Node), orDash(p.Instance), when, p.Why})
	}
	return writeTable(w, rows)
}
