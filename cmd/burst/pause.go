package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
)

func pauseCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "pause [--reason WORDS]",
		Short: "Have no pool launch any more",
		Long: "Have no pool launch any more, until burst resume: also over restarts of burstd. Jobs\n" +
			"that need new nodes are told why they wait. What is on its way or up goes on, and ends\n" +
			"when it is idle. Root and SlurmUser may." + poolExits,
		Example: "  burst pause --reason 'the bill'\n  burst resume",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if strings.TrimSpace(reason) == "" {
				return cli.UsageError(errors.New("--reason is empty: the jobs' users are told it"), "see burst pause --help")
			}
			return changePause(cmd, api.PauseChange{Pause: true, Reason: reason})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "by an admin", "why, in a few `words`; users and admins read it")
	return cmd
}

func resumeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "resume",
		Short: "Have the pools launch again after burst pause",
		Long: "Have the pools launch again after burst pause or burst stop-all. Jobs that wait for it\n" +
			"start now. Pools that are stopped stay so. Root and SlurmUser may." + poolExits,
		Example: "  burst resume",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return changePause(cmd, api.PauseChange{}) },
	}
}

func changePause(cmd *cobra.Command, c api.PauseChange) error {
	client, err := dial(cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	return explain(client.ChangePause(cmd.Context(), c))
}
