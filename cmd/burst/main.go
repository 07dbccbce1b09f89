// Command burst is the admin's and the user's view of Burst: configuration,
// status, events, node lists, and the demo.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
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
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return cli.UsageError(err, seeHelp(c)) })
	root.PersistentFlags().String("config", "", "configuration `file` (default $BURST_CONFIG, then /etc/burst/burst.toml)")
	root.AddCommand(commands()...)
	root.SetOut(os.Stdout)
	for _, c := range root.Commands() {
		strict(c)
	}
	return root
}

func run(ctx context.Context) error {
	root := newRoot()
	ownToCobra(root)
	c, err := root.ExecuteContextC(ctx)
	// cobra has no types for them.
	if err != nil && (strings.HasPrefix(err.Error(), "unknown command") || strings.HasPrefix(err.Error(), "if any flags in the group")) {
		return cli.UsageError(err, seeHelp(c))
	}
	return err
}

// ownToCobra has the commands that cobra adds by itself, which write to where root does now.
func ownToCobra(root *cobra.Command) {
	ours := slices.Clone(root.Commands()) // cobra sorts its own
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if slices.Contains(ours, c) {
			continue
		}
		if c.Name() == "help" {
			c.Args = topic
		}
		strict(c)
	}
}

func seeHelp(c *cobra.Command) string { return "see " + c.CommandPath() + " --help" }

// topic refuses help on what is no command.
func topic(c *cobra.Command, args []string) error {
	found, rest, err := c.Root().Find(args)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("unknown command %q for %q", rest[0], found.CommandPath())
	}
	return err
}

// strict makes wrong arguments of any command wrong usage, and none where another command's name belongs.
func strict(c *cobra.Command) {
	var names []string
	for _, sub := range c.Commands() {
		strict(sub)
		names = append(names, sub.Name())
	}
	if !c.Runnable() {
		c.Args, c.RunE = cobra.NoArgs, func(c *cobra.Command, _ []string) error {
			return cli.UsageError(fmt.Errorf("%s needs %s", c.CommandPath(), oneOf(names)), seeHelp(c))
		}
	}
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return cli.UsageError(err, seeHelp(c))
			}
			return nil
		}
	}
}

// oneOf has "or" before the last of several names.
func oneOf(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
