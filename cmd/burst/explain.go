package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/sbatch"
)

type explainOptions struct {
	config, partition, pool, comment string
	ckpt                             []string
	named, commented                 bool // config, comment are given
	json                             bool
}

func explainCommand() *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "explain [SCRIPT | JOBID]",
		Short: "Say what a job waits for, what would become of a script, and what holds for its checkpoints",
		Long: "With a job's id (17, or 17_3 of an array) say what the job waits for, or what has become of it: where it runs or may run,\n" +
			"at what price, what forbids it, and until when. Users may ask about their own jobs, root and SlurmUser about all.\n\n" +
			"With a script say whether its job would go to the cloud, where to, when, at what price, and what forbids it, as burstd\n" +
			"sees it now; without burstd as far as burst.toml tells. Before that say what holds for a job's checkpoints, and where it comes from: of each key what the strongest place says, " +
			"which is\nburst-srun --ckpt, then the job's comment, then the script's #BURST lines, then burst.toml's [pool.NAME.checkpoint],\n" +
			"[partition.NAME.checkpoint] and [checkpoint], then Burst's default. It also says what may become of the job other than its\n" +
			"user thinks. The #SBATCH lines are read as sbatch does; sbatch's options and SBATCH_ variables are not seen.\n" +
			"The script - is standard input, ./17 the script 17; without one the job is of salloc or srun.\n\nThe keys:\n" + keysHelp() +
			"\nExit codes: 0 said, also with warnings; 1 failed; 2 wrong usage, a wrong directive, or burst.toml is wrong.",
		Example: "  burst explain 17\n  burst explain job.sh\n  burst explain job.sh --partition cloud --comment 'burst: signal=USR1'\n  scontrol write batch_script 17 - | burst explain - --pool c6i --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && isJobID(args[0]) {
				if o.partition+o.pool+o.comment != "" || len(o.ckpt) > 0 {
					return cli.UsageError(errors.New("--partition, --pool, --comment and --ckpt are for a script, and this is a job's id"), "a script of that name is ./"+args[0])
				}
				client, err := dial(cmd)
				if err != nil {
					return err
				}
				defer client.Close()
				return runExplainJob(cmd.Context(), cmd.OutOrStdout(), client, args[0], o.json)
			}
			o.config, o.commented = configFlag(cmd), cmd.Flags().Changed("comment")
			o.named = o.config != "" || os.Getenv("BURST_CONFIG") != ""
			j, err := readJob(cmd.InOrStdin(), o, args)
			if err != nil {
				return err
			}
			return runExplain(cmd.Context(), cmd.OutOrStdout(), o, j)
		},
	}
	cmd.Flags().StringVar(&o.partition, "partition", "", "the job's partition, in place of what the script `names`")
	cmd.Flags().StringVar(&o.pool, "pool", "", "the pool that the job gets, by its `name`")
	cmd.Flags().StringVar(&o.comment, "comment", "", "the job's comment, in place of the script's, as `text`")
	cmd.Flags().StringArrayVar(&o.ckpt, "ckpt", nil, "what burst-srun --ckpt gets, as `text`; may be repeated")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func keysHelp() string {
	var b strings.Builder
	for _, k := range directive.Keys() {
		fmt.Fprintf(&b, "  %-30s%s\n", k.Name+"="+k.Example, k.Meaning)
	}
	return b.String()
}

// batchJob is what a script says.
type batchJob struct {
	name    string // of the file; empty: there is no script
	script  string
	head    sbatch.Head
	said    directive.Said
	comment sbatch.Option // if the script has the comment
}

// maxScript is what slurmctld takes of a script, by default.
const maxScript = 4 << 20

func readJob(stdin io.Reader, o explainOptions, args []string) (batchJob, error) {
	var j batchJob
	if len(args) > 0 {
		j.name = args[0]
		in := stdin
		if j.name == "-" {
			j.name = "standard input"
		} else {
			f, err := os.Open(j.name)
			if err != nil {
				return j, cli.UsageError(fmt.Errorf("reading the script: %w", err), "see burst explain --help")
			}
			defer f.Close()
			in = f
		}
		text, err := io.ReadAll(io.LimitReader(in, maxScript+1))
		if err != nil {
			return j, fmt.Errorf("reading the script: %w", err)
		}
		if len(text) > maxScript {
			return j, cli.UsageError(fmt.Errorf("%s is longer than the %d MiB that Slurm takes", j.name, maxScript>>20), "name a batch script")
		}
		j.script = string(text)
		if j.head, err = sbatch.Read(j.script); err != nil {
			return j, cli.UsageError(fmt.Errorf("%s: %w", j.name, err), "sbatch(1) describes the #SBATCH lines")
		}
	}
	j.said = directive.Said{Script: j.script, Comment: o.comment, Options: o.ckpt}
	if c, ok := j.head.Last("comment"); ok && !o.commented {
		j.said.Comment, j.comment = c.Value, c
	}
	return j, nil
}

func runExplain(ctx context.Context, out io.Writer, o explainOptions, j batchJob) error {
	cfg, err := config.Load(endpoint.Path(o.config))
	away := !o.named && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission))
	if err != nil && !away {
		return err
	}
	e := explained{Script: j.name, comment: j.comment, File: endpoint.Path(o.config)}
	if away {
		if o.pool != "" {
			return cli.UsageError(fmt.Errorf("there is no %s here to look up the pool %s in", e.File, o.pool), "burst explain knows pools on slurmctld's host")
		}
		e.note("burst.toml", "%s cannot be read here, and what the site says is left out: ask on slurmctld's host", e.File)
		cfg = &config.Config{Path: e.File, Endpoint: endpoint.Default()}
	} else if err := e.place(cfg, o, j); err != nil {
		return cli.UsageError(err, "burst.toml(5) describes pools and their partitions")
	}
	j.said.Site = cfg.Defaults(e.Partition, e.Pool)
	m, err := j.said.Merge()
	if own, wrong := j.said.Own(); err != nil && away && wrong == nil {
		e.note("burst.toml", "%v: unless the site says what is missing", err)
		m, err = own, nil
	}
	if wrong := new(directive.Error); errors.As(err, &wrong) {
		at := e.origin(directive.Origin{Source: wrong.From, Line: wrong.Line}).At
		return cli.UsageError(fmt.Errorf("%s:%s", at, strings.TrimPrefix(wrong.What(), ":")), "burst explain --help lists the keys")
	}
	if err != nil {
		return err
	}
	e.fill(m)
	e.Advice = append(e.Advice, directive.Overlooked(j.script)...)
	job := jobOf(ctx, cfg, j)
	e.Advice = append(e.Advice, directive.Advise(m, job)...)
	if len(e.silent) > 0 && m.Method != directive.None && m.Strategy == directive.Preemptive {
		e.Advice = append(e.Advice, directive.Advice{Level: directive.Warning, About: "strategy",
			Text: fmt.Sprintf("preemptive makes a checkpoint on a notice alone, and Vultr, where %s, gives none: write strategy=periodic", e.whereSilent(cfg))})
	}
	if len(e.silent) > 0 && m.Method != directive.None && m.Strategy != directive.None && j.head.Parts > 1 {
		one := "burst-srun (a : b)"
		if slices.Contains([]string{directive.DMTCP, directive.MANA, directive.CRIU}, m.Method) || m.Preset != "" {
			one = "burst-srun of one program (--het-group=0,1 ./a)"
		}
		e.Advice = append(e.Advice, directive.Advice{Level: directive.Warning, About: "hetjob",
			Text: fmt.Sprintf("parts in steps of their own are checkpointed on a notice alone, and Vultr, where %s, gives none: start all by one %s, which has a timer", e.whereSilent(cfg), one)})
	}
	if m.Budget > 0 && cfg.Budget == nil && !away {
		e.Advice = append(e.Advice, directive.Advice{Level: directive.Warning, About: "budget",
			Text: "burst.toml has no section [budget]: nothing caps what the job costs"})
	}
	e.rehearsed(m, j)
	if j.name != "" { // one of salloc or srun is moved by no rule
		w := wouldOf(o, j)
		w.NoRequeue = job.Requeue == directive.No
		e.inCloud(ctx, cfg, w, m.Stay == "yes")
	}
	if o.json {
		return writeJSON(out, e)
	}
	return e.print(out)
}

// place finds out which partition and pool the job is for.
func (e *explained) place(cfg *config.Config, o explainOptions, j batchJob) error {
	partitions := split(o.partition)
	if p, ok := j.head.Last("partition"); ok && o.partition == "" {
		partitions = split(p.Value)
	}
	if o.pool == "" && len(partitions) == 0 {
		if len(cfg.Checkpoint.Layers) > len(cfg.Defaults("", "").Layers) {
			e.note("partition", "the job names none, and what burst.toml says of partitions and pools is left out: add --partition")
		}
		return nil
	}
	var fit []config.Pool
	for _, p := range cfg.Pools {
		if o.pool == p.Power.Name || o.pool == "" && slices.Contains(partitions, p.Slurm.Partition) {
			fit = append(fit, p)
			for _, s := range p.Sources() {
				if provider, _ := cfg.Provider(s.Power.Provider); provider.Kind == "vultr" {
					e.silent = append(e.silent, s)
				}
			}
		}
	}
	switch {
	case o.pool != "" && len(fit) == 0:
		return fmt.Errorf("%s has no pool %s", cfg.Path, o.pool)
	case o.pool != "" && o.partition != "" && !slices.Contains(partitions, fit[0].Slurm.Partition):
		return fmt.Errorf("pool %s is in the partition %s, not in %s", o.pool, fit[0].Slurm.Partition, o.partition)
	case o.partition != "" && len(fit) == 0:
		return fmt.Errorf("%s has no pool in the partition %s", cfg.Path, o.partition)
	case len(fit) == 0:
		e.note("partition", "no pool of %s is in the partition %s: Burst does nothing for a job's nodes there", cfg.Path, strings.Join(partitions, ","))
		return nil
	}
	first := cfg.Defaults(fit[0].Slurm.Partition, fit[0].Power.Name)
	for _, p := range fit[1:] {
		if !reflect.DeepEqual(first, cfg.Defaults(p.Slurm.Partition, p.Power.Name)) {
			e.note("pool", "which of the pools %s the job gets is not known yet, and what burst.toml says of them differs; it is left out: add --pool", poolNames(fit))
			return nil
		}
	}
	e.Partition = fit[0].Slurm.Partition
	if len(fit) == 1 {
		e.Pool = fit[0].Power.Name
	}
	return nil
}

// whereSilent says which of the job's pools are on a cloud that gives no notices, and which may be.
func (e *explained) whereSilent(cfg *config.Config) string {
	var all []string
	for _, s := range e.silent {
		words := s.Power.Name + " is"
		for _, p := range cfg.Pools {
			if p.Power.Name == s.Power.Name && len(p.Then) > 0 {
				words = fmt.Sprintf("%s may buy (%s)", s.Power.Name, s.Power.Provider)
			}
		}
		all = append(all, words)
	}
	return strings.Join(all, ", ")
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

func poolNames(pools []config.Pool) string {
	var all []string
	for _, p := range pools {
		all = append(all, p.Power.Name)
	}
	return strings.Join(all, ", ")
}
