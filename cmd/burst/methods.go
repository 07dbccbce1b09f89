package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/ft/ckpt/methods"
)

func checkpointMethodsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "methods",
		Short: "List the methods of checkpointing, and whether they work here",
		Long: "List the methods that ckpt= may name, and whether each can work on this host, with the PATH\n" +
			"of this shell; if not, why. Run it where jobs run: in a batch script or below srun.\n\n" +
			"Exit codes: 0 done, 1 failed, 2 wrong usage.",
		Example: "  burst checkpoint methods\n  srun -p cloud burst checkpoint methods --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runMethods(cmd.Context(), cmd.OutOrStdout(), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// methodLine is one line of burst checkpoint methods.
type methodLine struct {
	Method string `json:"method"`
	Preset string `json:"preset,omitempty"`
	Usable bool   `json:"usable"`
	Why    string `json:"why,omitempty"` // not
	About  string `json:"about"`
}

func runMethods(ctx context.Context, w io.Writer, asJSON bool) error {
	var lines []methodLine
	for _, k := range methods.All(ctx) {
		l := methodLine{Method: k.Name, Preset: k.Preset, Usable: k.Err == nil, About: k.About}
		if k.Err != nil {
			l.Why = k.Err.Error()
		}
		lines = append(lines, l)
	}
	if err := ctx.Err(); err != nil {
		return err // what they say then is of this
	}
	if asJSON {
		return writeJSON(w, lines)
	}
	rows := [][]string{{"CKPT", "USABLE", "WHAT IT IS, OR WHY NOT"}}
	for _, l := range lines {
		name, usable, text := l.Method, "yes", l.About
		if l.Preset != "" {
			name += " preset=" + l.Preset
		}
		if !l.Usable {
			usable, text = "no", l.Why
		}
		rows = append(rows, []string{name, usable, text})
	}
	return writeTable(w, rows)
}
