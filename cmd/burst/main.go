// Command burst is the admin's and the user's view of Burst: configuration,
// status, events, node lists, and the demo.
package main

import (
	"context"
	"os"
	"strings"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/spf13/cobra"
)

func main() { cli.Main(run) }

// newRoot is burst with all of its commands.
func newRoot() *cobra.Command {
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
	strict(root)
	return root
}

func run(ctx context.Context) error {
	root := newRoot()
	err := root.ExecuteContext(ctx)
	// cobra has no types for them.
	if err != nil && (strings.HasPrefix(err.Error(), "unknown command") || strings.HasPrefix(err.Error(), "if any flags in the group")) {
		return cli.UsageError(err, "see burst --help")
	}
	return err
}

// strict makes wrong arguments of any command wrong usage.
func strict(c *cobra.Command) {
	for _, sub := range c.Commands() {
		strict(sub)
	}
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return cli.UsageError(err, "see "+c.CommandPath()+" --help")
			}
			return nil
		}
	}
}
