package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/cmd/internal/rehearse"
	"github.com/burst-hpc/burst/slurm/directive"
)

func checkpointRehearseCommand() *cobra.Command {
	var o rehearse.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rehearse SCRIPT [ARGUMENT ...]",
		Short: "Try whether a job's checkpoints can be restarted from",
		Long: "Submit the script as a job; when its step under burst-srun has run for a while, take a checkpoint and kill the\n" +
			"job; restart it twice, each time from this checkpoint and with its files as they were when it was killed; have\n" +
			"a command of yours judge the results after each restart. The verdict is\n\n" +
			"  trusted     the job ended well after both restarts, and --verify found the results right both times\n" +
			"  unverified  it restarted twice, but without --verify, or that found the results not right\n" +
			"  failed      there was no checkpoint, or no restart from it\n\n" +
			"The job runs in a new folder, which is its working directory and SLURM_SUBMIT_DIR, so that it touches no results\n" +
			"of yours that it names relative to these; what it reads there has to be named with --copy. A script that writes\n" +
			"to an absolute path, or changes to one, does so in a rehearsal too. With --chdir it runs where you say, and what\n" +
			"is there is not protected. The folder must be on storage that all nodes share; a trusted one is deleted.\n\n" +
			"The --verify command is run here by /bin/sh, in the job's folder, with BURST_REHEARSE_RESTART (1 or 2),\n" +
			"BURST_REHEARSE_OUTPUT (the file of the job's output), BURST_REHEARSE_FROM (this directory) and\n" +
			"BURST_REHEARSE_JOB (its id); its output goes to standard error.\n\n" +
			"When it is interrupted, the job is cancelled.\n\n" +
			"Exit codes: 0 trusted, 1 failed or broken off, 2 wrong usage, 3 unverified.",
		Example: "  burst checkpoint rehearse job.sh --copy ./simulate --copy input --verify 'cmp result.dat $BURST_REHEARSE_FROM/right.dat'\n" +
			"  burst checkpoint rehearse job.sh --for 5m --run-for 2m --partition cloud --method dmtcp\n" +
			"  burst checkpoint rehearse job.sh --copy . --sbatch=-N2 --verify 'grep checksum=42 $BURST_REHEARSE_OUTPUT' --json",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Script, o.Args = args[0], args[1:]
			if dir := cmd.Flags().Lookup("dir"); dir.Changed { // of the other commands
				return cli.UsageError(errors.New("--dir is not for rehearse"), "the job's dir= says where its checkpoints go, and --folder where it runs")
			}
			o.Site = siteOf(configFlag(cmd), o)
			return runRehearse(cmd.Context(), cmd.OutOrStdout(), o, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Verify, "verify", "", "judge the results of a restart by this shell `command`: right if it exits with 0")
	f.DurationVar(&o.For, "for", time.Minute, "let the step run for this `time` before its checkpoint")
	f.DurationVar(&o.Within, "within", 10*time.Minute, "so much `time` may pass before a step begins, and until a checkpoint is done")
	f.DurationVar(&o.RunFor, "run-for", 0, "let a restarted step run for this `time` only; by default to the job's end")
	f.StringVar(&o.Method, "method", "", "a `method` in place of the job's, or more, as in burst-srun --ckpt")
	f.StringVar(&o.Partition, "partition", "", "the job's partition, in place of what the script `names`")
	f.StringArrayVar(&o.Sbatch, "sbatch", nil, "one more `option` of sbatch, as --sbatch=--time=20; may be repeated")
	f.StringArrayVar(&o.Copy, "copy", nil, "copy this file or folder at `path` into the job's folder; may be repeated")
	f.StringVar(&o.Dir, "folder", "burst-rehearsals", "make the job's folder below this `directory`")
	f.StringVar(&o.Chdir, "chdir", "", "run the job in this `directory`, which is not protected")
	f.BoolVar(&o.Keep, "keep", false, "leave the folder also when the job is trusted")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// siteOf is what burst.toml says of the script's job; nil: it cannot be read here, or
// which pool the job gets is not known. What is wrong with the script others say.
func siteOf(path string, o rehearse.Options) *directive.Defaults {
	cfg, err := config.Load(endpoint.Path(path))
	if err != nil {
		return nil
	}
	j, err := readJob(strings.NewReader(""), explainOptions{}, []string{o.Script})
	var e explained
	if err != nil || e.place(cfg, explainOptions{partition: o.Partition}, j) != nil {
		return nil
	}
	site := cfg.Defaults(e.Partition, e.Pool)
	if e.Partition == "" && len(site.Layers) < len(cfg.Checkpoint.Layers) {
		return nil
	}
	return &site
}

// verdictError is a verdict that is not trusted.
type verdictError struct{ rehearse.Result }

func (e verdictError) Error() string { return e.Verdict + ": " + e.Reason }

func (e verdictError) Hint() string {
	if e.Folder == "" {
		return ""
	}
	return "the job's files are in " + e.Folder + ": delete it when you have seen them"
}

// ExitCode is 3 where it restarted at least.
func (e verdictError) ExitCode() int {
	if e.Verdict == rehearse.Unverified {
		return 3
	}
	return cli.Failed
}

func runRehearse(ctx context.Context, w io.Writer, o rehearse.Options, asJSON bool) error {
	switch {
	case o.For <= 0 || o.Within <= 0 || o.RunFor < 0:
		return cli.UsageError(errors.New("--for, --within and --run-for are times, as in 90s or 5m"), "see burst checkpoint rehearse --help")
	case o.Chdir != "" && len(o.Copy) > 0:
		return cli.UsageError(errors.New("--copy is for a folder of the rehearsal's own, not for that of --chdir"), "name one of them")
	}
	result, err := rehearse.Run(ctx, o, func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "rehearse: %s\n", strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; "))
	})
	if wrong := new(rehearse.UsageError); errors.As(err, &wrong) {
		return cli.UsageError(err, "see burst checkpoint rehearse --help")
	}
	if err != nil {
		return err
	}
	if asJSON {
		err = writeJSON(w, result)
	} else {
		err = writeResult(w, result)
	}
	if err == nil && result.Verdict != rehearse.Trusted {
		return verdictError{result}
	}
	return err
}

// writeResult prints what has been measured, and the verdict.
func writeResult(w io.Writer, r rehearse.Result) error {
	rows := [][]string{}
	if c := r.Checkpoint; c != nil {
		text := fmt.Sprintf("%.1f MB in %.1f s", float64(c.Bytes)/1e6, c.Seconds)
		if c.Iteration != nil {
			text += fmt.Sprintf(", iteration %d", *c.Iteration)
		}
		rows = append(rows, []string{"step", r.Step + ", " + r.Program.Name}, []string{"method", strings.TrimSpace(r.Method + " " + c.Tool)},
			[]string{"machine", machineText(r)}, []string{"checkpoint", text})
	}
	for i, s := range r.Restarts {
		verified := "not verified"
		if s.Verified != nil {
			verified = map[bool]string{true: "results right", false: "results not right"}[*s.Verified]
		}
		rows = append(rows, []string{fmt.Sprintf("restart %d", i+1), fmt.Sprintf("%.2f s on %s, %s", s.Seconds, s.Host, verified)})
	}
	return writeTable(w, append(rows, []string{"verdict", r.Verdict}))
}

func machineText(r rehearse.Result) string {
	text := r.Host
	if r.Nodes > 1 {
		text = fmt.Sprintf("%s and %d more", r.Host, r.Nodes-1)
	}
	if m := r.Machine; m != nil {
		text += fmt.Sprintf(", %s, glibc %s, kernel %s", m.Arch, orDash(m.Glibc), orDash(m.Kernel))
	}
	return text
}
