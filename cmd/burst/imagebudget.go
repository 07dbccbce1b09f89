package main

import (
	"context"
	"fmt"
	"io"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
)

// roomForBuild says why a builder must not be launched for the cluster's budget: a cap has nothing left, or burstd does
// not say how they stand. What it costs is not compared: nobody knows how long it lives. With over that is only said, on w.
func roomForBuild(ctx context.Context, w io.Writer, cfg *config.Config, over bool) error {
	client := api.NewClient(cfg.Endpoint.Socket)
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, burstdTimeout)
	defer cancel()
	rows, err := client.Budget(ctx, -1)
	if err != nil {
		err = fmt.Errorf("how the cluster's budget stands is not known: %w", explain(err))
	}
	for _, r := range rows {
		if r.Of == string(budget.Cluster) && r.Left < 0.005 {
			err = fmt.Errorf("the cluster's budget of %.2f USD a %s has nothing left: %.2f are spent, and %.2f committed", r.Cap, r.Period, r.Spent, r.Committed)
			break
		}
	}
	switch {
	case err == nil:
		return nil
	case over:
		fmt.Fprintf(w, "%s; the image is built all the same\n", printable(err.Error()))
		return nil
	}
	return cli.WithHint(fmt.Errorf("nothing is launched: %w", err), "burst budget shows how it stands; --over-budget builds all the same, and the builder counts to it")
}
