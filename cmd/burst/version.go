package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/clouds"
	"github.com/burst-hpc/burst/cmd/internal/store"
)

func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which build this is, of which commit, and what is in it",
		Long: "Say which build this is: its version, the commit, the commit's date (or SOURCE_DATE_EPOCH: the same sources give the same\n" +
			"program), Go, the version of the journal's schema that its burstd writes, and the providers that are built in.\n" +
			"\"burst --version\" is one line.\n\nExit codes: 0 said, 2 wrong usage.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runVersion(cmd.OutOrStdout(), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// version is the answer of version --json.
type version struct {
	cli.Build
	Schema    int      `json:"schema"` // of the journal
	Providers []string `json:"providers"`
}

func runVersion(w io.Writer, asJSON bool) error {
	v := version{cli.ThisBuild(), store.Schema(), clouds.Kinds()}
	if asJSON {
		return writeJSON(w, v)
	}
	commit, date, cgo := cmp.Or(v.Commit, "not known"), "not known", "without cgo"
	if v.Modified {
		commit += ", with changes"
	}
	if !v.Date.IsZero() {
		date = v.Date.UTC().Format(time.RFC3339) + ", of the sources"
	}
	if v.CGO {
		cgo = "with cgo"
	}
	_, err := fmt.Fprintf(w, "version    %s\ncommit     %s\ndate       %s\ngo         %s, %s\nplatform   %s\nschema     %d, of the journal\nproviders  %s\n",
		v.Version, commit, date, v.Go, cgo, v.Platform, v.Schema, strings.Join(v.Providers, ", "))
	return err
}
