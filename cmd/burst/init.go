package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
)

//go:embed burst.toml
var sample string

type initOptions struct {
	config string
	output string
	stdout bool
	force  bool
}

func initCommand() *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init [--stdout | -o FILE]",
		Short: "Write a commented configuration to start from",
		Long: "Write a commented configuration to start from: one pool of instances that are processes on this host.\n\n" +
			"Exit codes: 0 written, 1 failed, 2 wrong usage.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.config = configFlag(cmd)
			return runInit(cmd.OutOrStdout(), o)
		},
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "`file` to write (default: the configuration file)")
	cmd.Flags().BoolVar(&o.stdout, "stdout", false, "print it instead")
	cmd.Flags().BoolVar(&o.force, "force", false, "overwrite an existing file")
	cmd.MarkFlagsMutuallyExclusive("output", "stdout")
	return cmd
}

func runInit(w io.Writer, o initOptions) error {
	if o.stdout {
		_, err := io.WriteString(w, sample)
		return err
	}
	path := o.output
	if path == "" {
		path = endpoint.Path(o.config)
	}
	err := outFile{path: path, text: sample, mode: 0o644, replace: o.force}.write()
	if errors.Is(err, fs.ErrExist) {
		return cli.WithHint(err, "--force overwrites it, --stdout prints the new one")
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s written: change it to your site's, then run \"burst check\"\n", path)
	return err
}

// configFlag is --config, "" if it was not given.
func configFlag(cmd *cobra.Command) string {
	return cmd.Flag("config").Value.String()
}
