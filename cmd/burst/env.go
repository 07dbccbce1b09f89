package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/cli"
)

func envCommand() *cobra.Command {
	var csh bool
	cmd := &cobra.Command{
		Use:   "env",
		Short: "Print shell code that makes srun burst-srun",
		Long: "Print shell code that puts a folder first on PATH in which srun is burst-srun, so that scripts need no change.\n" +
			"It is for a batch script, a profile, or a module. It does no harm twice.\n\n" +
			"Exit codes: 0 done, 1 failed, 2 wrong usage.",
		Example: "  eval \"$(burst env)\"          # sh, bash, zsh, ksh\n" +
			"  eval `burst env --csh`       # csh, tcsh",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			if exe, err = filepath.EvalSymlinks(exe); err != nil {
				return err
			}
			dir, err := shimFolder(filepath.Join(filepath.Dir(exe), "../lib/burst/shim"), "/usr/lib/burst/shim")
			if err != nil {
				return err
			}
			code := shCode(dir)
			if csh {
				code = cshCode(dir)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), code)
			return err
		},
	}
	cmd.Flags().BoolVar(&csh, "csh", false, "code for csh and tcsh")
	return cmd
}

// shimFolder is the first of the folders in which srun is burst-srun.
func shimFolder(dirs ...string) (string, error) {
	for _, dir := range dirs {
		to, err := filepath.EvalSymlinks(filepath.Join(dir, "srun"))
		if err == nil && filepath.Base(to) == "burst-srun" {
			return filepath.Clean(dir), nil
		}
	}
	return "", cli.WithHint(errors.New("no folder has burst-srun as srun"), "the packages and make install have it: %s/srun, a link to burst-srun", dirs[0])
}

func shCode(dir string) string {
	return fmt.Sprintf(`case ":$PATH:" in *:%[1]s:*) ;; *) PATH=%[1]s:$PATH; export PATH ;; esac`, quoted(dir))
}

// cshCode is one plain command: csh expands patterns in what eval `…` gives it.
func cshCode(dir string) string { return "setenv PATH " + quoted(dir) + `:"$PATH"` }

// quoted is a text as one word of a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
