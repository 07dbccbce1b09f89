package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/rehearse"
	"github.com/burst-hpc/burst/ft/ckpt/methods"
)

func checkpointMethodsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "methods",
		Short: "List the methods of checkpointing, and whether they work here",
		Long: "List the methods that ckpt= may name, and whether each can work on this host, with the PATH\n" +
			"of this shell; if not, why. Run it where jobs run: in a batch script or below srun.\n" +
			"Below a method are the programs that were rehearsed with it and whose verdicts are in --dir.\n\n" +
			"Exit codes: 0 done, 1 failed, 2 wrong usage.",
		Example: "  burst checkpoint methods\n  srun -p cloud burst checkpoint methods --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := cmd.Flags().GetString("dir")
			if err != nil {
				return err
			}
			return runMethods(cmd.Context(), cmd.OutOrStdout(), dir, asJSON)
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
	// Rehearsed are the verdicts of rehearse on programs with it, newest first.
	Rehearsed []methodVerdict `json:"rehearsed,omitempty"`
}

// methodVerdict is what a rehearsal has shown.
type methodVerdict struct {
	Program string    `json:"program"`
	Verdict string    `json:"verdict"`
	At      time.Time `json:"at"`
}

func runMethods(ctx context.Context, w io.Writer, dir string, asJSON bool) error {
	known, err := rehearse.Known(dir)
	if err != nil {
		fmt.Fprintf(os.Stderr, "burst: what was rehearsed is not all known: %v\n", err)
	}
	var lines []methodLine
	for _, k := range methods.All(ctx) {
		l := methodLine{Method: k.Name, Preset: k.Preset, Usable: k.Err == nil, About: k.About}
		if k.Err != nil {
			l.Why = k.Err.Error()
		}
		for _, r := range known {
			if r.Method == k.Name && k.Preset == "" {
				l.Rehearsed = append(l.Rehearsed, methodVerdict{r.Program.Name, r.Verdict, r.At})
			}
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
		for _, v := range l.Rehearsed {
			rows = append(rows, []string{"", "", fmt.Sprintf("%s: %s, rehearsed on %s", v.Program, v.Verdict, stamp(v.At))})
		}
	}
	return writeTable(w, rows)
}
