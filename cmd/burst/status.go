package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

type statusOptions struct{ json bool }

func statusCommand() *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what burstd is doing",
		Long: "Show on one screen what is wrong, which evictions are under way and for how long\n" +
			"still, what runs and costs now, which jobs wait and why, and of the steps that run\n" +
			"under burst-srun those that would lose most. What does not fit is counted; --json\n" +
			"has it, of jobs, notices and steps up to 100.\n\nExit codes: 0 done, 1 burstd does not answer, 2 wrong usage.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := dial(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			return runStatus(cmd.Context(), cmd.OutOrStdout(), client, o)
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func runStatus(ctx context.Context, w io.Writer, client *api.Client, o statusOptions) error {
	s, err := client.Status(ctx)
	if err != nil {
		return explain(err)
	}
	if o.json {
		return writeJSON(w, s)
	}
	return writeLines(w, statusScreen(s, time.Now()))
}
