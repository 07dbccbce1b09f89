// Command burst is the admin's and the user's view of Burst: configuration,
// status, events, node lists, and the demo.
package main

import (
	"context"
	"os"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/spf13/cobra"
)

func main() { cli.Main(run) }

func run(ctx context.Context) error {
	root := &cobra.Command{
		Use:           "burst",
		Short:         "Burst lets a Slurm cluster overflow into the cloud",
		Version:       cli.Version,
		Long:          "Burst lets a Slurm cluster overflow into the cloud.\n\nExit codes: 0 done, 1 failed, 2 wrong usage or configuration.",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return cli.UsageError(err, "see burst --help")
	})
	root.PersistentFlags().String("config", "", "configuration `file` (default $BURST_CONFIG, then /etc/burst/burst.toml)")
	root.AddCommand(commands()...)
	root.SetOut(os.Stdout)
	return root.ExecuteContext(ctx)
}
