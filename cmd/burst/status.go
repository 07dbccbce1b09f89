package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

type statusOptions struct{ json bool }

func statusCommand() *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what burstd is doing",
		Long:  "Show what burstd is doing, in numbers.\n\nExit codes: 0 done, 1 burstd does not answer, 2 wrong usage.",
		Args:  cobra.NoArgs,
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
	slurm := "ok"
	switch {
	case s.SlurmError != "":
		slurm = "does not answer: " + s.SlurmError
	case !s.SlurmOK:
		slurm = "has not answered yet"
	}
	rows := [][]string{
		{"cluster", s.Cluster},
		{"burstd", fmt.Sprintf("%s, since %s", s.Version, stamp(s.Started))},
		{"slurm", slurm},
	}
	for _, name := range slices.Sorted(maps.Keys(s.Providers)) {
		rows = append(rows, []string{"provider " + name, s.Providers[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Stopped)) {
		rows = append(rows, []string{"pool " + name, "stopped: " + s.Stopped[name]})
	}
	rows = append(rows,
		[]string{"nodes", counts(s.Nodes)},
		[]string{"instances", strconv.Itoa(s.Instances)},
		[]string{"orders", fmt.Sprintf("%d open, %d in the spool", s.Orders, s.Spooled)},
		[]string{"evictions", fmt.Sprintf("%d under way", s.Evictions)},
	)
	return writeTable(w, rows)
}

// counts writes {"up": 2, "booting": 1} as "1 booting, 2 up".
func counts(by map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		all = append(all, fmt.Sprintf("%d %s", by[name], name))
	}
	if len(all) == 0 {
		return "none powered up"
	}
	return strings.Join(all, ", ")
}
