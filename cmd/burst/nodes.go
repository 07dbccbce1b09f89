package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

type nodesOptions struct {
	nodes []string // expanded; empty: all
	json  bool
}

func nodesCommand() *cobra.Command {
	var o nodesOptions
	cmd := &cobra.Command{
		Use:   "nodes [NODES...]",
		Short: "List our nodes: as Slurm, the journal and the cloud have them",
		Long: "List the nodes of all pools, or those of the host lists NODES, as Slurm, burstd's\n" +
			"journal and the cloud have them.\n\nExit codes: 0 done, 1 burstd does not answer, or has no such node, 2 wrong usage.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			names, err := hostlist.Expand(strings.Join(args, ","))
			if len(args) > 0 && err != nil {
				return cli.UsageError(err, "NODES is a host list, such as c[1-4]")
			}
			o.nodes = names
			client, err := dial(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			return runNodes(cmd.Context(), cmd.OutOrStdout(), client, o)
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func runNodes(ctx context.Context, w io.Writer, client *api.Client, o nodesOptions) error {
	nodes, err := client.Nodes(ctx)
	if err != nil {
		return explain(err)
	}
	if nodes, err = pick(nodes, o.nodes); err != nil {
		return err
	}
	if o.json {
		return writeJSON(w, nodes)
	}
	rows := [][]string{{"NODE", "POOL", "SLURM", "JOURNAL", "SINCE", "INSTANCE", "OFFERING", "ADDR", "REASON"}}
	for _, n := range nodes {
		row := []string{n.Node, n.Pool, n.Slurm, n.Journal, stamp(n.Since), n.Instance, n.Offering, n.Addr, n.Reason}
		for i := range len(row) - 1 {
			row[i] = cmp.Or(row[i], "-")
		}
		rows = append(rows, row)
	}
	return writeTable(w, rows)
}

// pick keeps the named nodes, in their order in all.
func pick(all []api.NodeStatus, names []string) ([]api.NodeStatus, error) {
	if len(names) == 0 {
		return append([]api.NodeStatus{}, all...), nil // [] in JSON, not null
	}
	wanted := map[string]bool{}
	for _, n := range names {
		wanted[n] = true
	}
	kept := []api.NodeStatus{}
	for _, n := range all {
		if wanted[n.Node] {
			kept = append(kept, n)
			delete(wanted, n.Node)
		}
	}
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !wanted[n] })
	if len(names) > 0 {
		return nil, fmt.Errorf("no pool has the node %s", names[0])
	}
	return kept, nil
}
