package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/cmd/internal/firstfile"
)

//go:embed burst.toml
var sample string

type initOptions struct {
	config  string
	output  string
	stdout  bool
	force   bool
	yes     bool
	answers firstfile.Answers // by flags
	in      io.Reader
}

func initCommand() *cobra.Command {
	o := initOptions{answers: firstfile.Answers{}}
	cmd := &cobra.Command{
		Use:   "init [--yes] [--provider local|aws|vultr ...] [--stdout | -o FILE]",
		Short: "Make a commented configuration of a few answers",
		Long: "Make a commented configuration. In a terminal it asks a few questions, with what it finds on this host as the answers of who\n" +
			"presses Enter; flags answer them before, and --yes leaves all others at their defaults. It says what to do next.\n" +
			"Without a terminal and such flags it writes one that shows every key: a pool of instances that are processes on this host.\n" +
			"A file that is there is kept, but for one as the package has put it there.\n\n" +
			"Exit codes: 0 written, 1 failed, 2 wrong usage or answers.",
		Example: "  burst init\n" +
			"  burst init --yes --provider local\n" +
			"  burst init --yes --provider aws --region eu-north-1 --types c7i.2xlarge --image ami-0123456789abcdef0 \\\n" +
			"    --subnets subnet-0123456789abcdef0 --security-groups sg-0123456789abcdef0 --listen head.example.org:9811",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.config, o.in = configFlag(cmd), cmd.InOrStdin()
			for _, q := range firstfile.Questions {
				if flag := cmd.Flags().Lookup(q.Name); flag.Changed {
					o.answers[q.Name] = flag.Value.String()
				}
			}
			return runInit(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "`file` to write (default: the configuration file)")
	cmd.Flags().BoolVar(&o.stdout, "stdout", false, "print it instead, and ask nothing")
	cmd.Flags().BoolVar(&o.force, "force", false, "overwrite an existing file")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "ask nothing: what no flag says is at its default")
	for _, q := range firstfile.Questions {
		if cmd.Flags().Lookup(q.Name) == nil {
			cmd.Flags().String(q.Name, "", initHelp[q.Name])
		}
	}
	cmd.MarkFlagsMutuallyExclusive("output", "stdout")
	return cmd
}

// initHelp is what --help says of the flags that answer a question.
var initHelp = map[string]string{
	"provider":         "`kind` of provider that nodes come from: local, aws or vultr (default: what this host's environment is set up for)",
	"cluster":          "`name` of the cluster (default: ClusterName of slurm.conf)",
	"region":           "`region` of AWS (default: of the environment or the profile), or of Vultr",
	"profile":          "`profile` of AWS's shared files (default $AWS_PROFILE)",
	"api-key-file":     "`file` with Vultr's API key (default /etc/burst/vultr.key)",
	"types":            "instance types, or plans, a `list` with commas",
	"image":            "`image` of the nodes",
	"subnets":          "AWS's subnets, a `list` with commas",
	"security-groups":  "AWS's security groups, a `list` with commas",
	"munge-key":        "`place` of the MUNGE key: ssm:/path, secretsmanager:name, ssh:/file, image",
	"instance-profile": "AWS's instance `profile` of the nodes (default burst-node)",
	"vpc":              "`id` of Vultr's VPC network",
	"ssh-key":          "`file` of the key by which burstd logs in to nodes of Vultr's (default /etc/burst/id_ed25519)",
	"folders":          "the site's folders that jobs need, a `list` with commas: SERVER:/path[=/target] to mount, /path if the image does (default: this host's NFS mounts)",
	"listen":           "`host:port` where nodes reach burstd (default: this host's name, port 9811)",
	"nodes":            "`names` of the cloud nodes in Slurm (default cloud-[001-010], local try-[1-4])",
	"partition":        "their `partition` (default cloud, local try)",
}

func runInit(ctx context.Context, w io.Writer, o initOptions) error {
	path := o.output
	if path == "" {
		path = endpoint.Path(o.config)
	}
	asks := !o.stdout && !o.yes && isTerminal(o.in) && isTerminal(w)
	if !asks && !o.yes && len(o.answers) == 0 {
		return writeSample(w, path, o)
	}
	if err := free(path, o); err != nil {
		return err
	}
	found := firstfile.Look(ctx, "/", os.Getenv)
	if asks {
		fmt.Fprintf(w, "Burst asks a few questions; Enter takes what is in brackets. Nothing is changed but %s.\nFound here:\n  %s\n", path, strings.Join(found.Said(), "\n  "))
		if err := firstfile.Ask(ctx, o.in, w, found, o.answers); err != nil {
			return err
		}
		fmt.Fprintln(w)
	} else if err := firstfile.Fill(found, o.answers); err != nil {
		return cli.UsageError(err, "in a terminal \"burst init\" asks for each; burst init --help lists the flags")
	}
	text := firstfile.Text(found, o.answers)
	cfg, err := config.Parse(path, text)
	if err != nil {
		return err
	}
	if o.stdout {
		_, err := io.WriteString(w, text)
		return err
	}
	_, missing := os.Lstat(path)
	if err := (outFile{path: path, text: text, mode: 0o644, replace: missing == nil}).write(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s written. Next:\n%s\n", path, strings.Join(firstfile.Next(found, o.answers, path, cfg.Endpoint.SlurmUser), "\n"))
	return err
}

// free says whether the file may be written: there is none, or one that nobody has changed since the package came.
func free(path string, o initOptions) error {
	now, err := os.ReadFile(path)
	if o.stdout {
		return nil
	}
	if o.force || errors.Is(err, fs.ErrNotExist) || err == nil && string(now) == sample {
		return mayWrite(filepath.Dir(path))
	}
	if err != nil {
		return cli.WithHint(fmt.Errorf("writing %s: %w", path, err), elsewhere)
	}
	return cli.WithHint(fmt.Errorf("writing %s: %w", path, fs.ErrExist), "--force overwrites it, --stdout prints the new one")
}

const elsewhere = "run it as root, or name another file with -o, or print it with --stdout"

// mayWrite says that nothing can be written into a folder, before anybody is asked: one that is not there is
// made in the nearest that is.
func mayWrite(dir string) error {
	for ; ; dir = filepath.Dir(dir) {
		err := unix.Access(dir, unix.W_OK|unix.X_OK)
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return cli.WithHint(fmt.Errorf("writing into %s: %w", dir, err), elsewhere)
		}
	}
}

// writeSample writes the file that shows every key.
func writeSample(w io.Writer, path string, o initOptions) error {
	if o.stdout {
		_, err := io.WriteString(w, sample)
		return err
	}
	err := outFile{path: path, text: sample, mode: 0o644, replace: o.force}.write()
	if errors.Is(err, fs.ErrExist) {
		// As the package has put it there.
		if now, rerr := os.ReadFile(path); rerr == nil && string(now) == sample {
			_, err = fmt.Fprintf(w, "%s is there, unchanged: change it to your site's, then run \"burst check\"\n", path)
			return err
		}
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
