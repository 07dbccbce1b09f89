// Package handover is what burst-resume, burst-suspend and burst-resume-fail
// share: they read what slurmctld says, give it to burstd as an order, and are
// gone in milliseconds. If burstd does not answer, the order goes into the spool.
// No order is lost while either can be written to; none is carried out
// twice, because it keeps its ID whichever way it goes.
package handover

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/cmd/internal/spool"
)

const (
	// answerTimeout bounds burstd's answer. A slurmctld script should not take
	// longer; the spool takes over.
	answerTimeout = 2 * time.Second
	// maxResumeFile bounds SLURM_RESUME_FILE, in bytes, so that the order fits
	// where it goes: escaped in JSON it may double.
	maxResumeFile = 16 << 20
)

// pauses lie between the attempts when neither socket nor spool takes the
// order: 5 s in all, for a spool that is full or about to be mounted.
var pauses = []time.Duration{100 * time.Millisecond, 400 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second}

// Main is the whole program for one kind of order; it exits.
func Main(kind string) {
	// slurmctld's end must not cut a handover short, nor a closed stderr:
	// the program is gone in seconds at worst.
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	p := program{kind: kind, stdout: os.Stdout, timeout: answerTimeout, pauses: pauses}
	err := p.run(context.Background(), os.Args[1:])
	for _, w := range p.warnings {
		fmt.Fprintf(os.Stderr, "%s: warning: %s\n", p.name(), w)
	}
	code := cli.Report(os.Stderr, err)
	if err != nil {
		p.warn("%v", err)
	}
	Syslog(p.name(), p.warnings...)
	os.Exit(code)
}

type program struct {
	kind     string
	stdout   io.Writer
	timeout  time.Duration // of one answer of burstd
	pauses   []time.Duration
	warnings []string
}

func (p *program) name() string { return "burst-" + p.kind }

func (p *program) warn(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...))
}

func (p *program) run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return cli.UsageError(fmt.Errorf("%d arguments instead of one list of nodes", len(args)), "see "+p.name()+" --help")
	}
	switch args[0] {
	case "--help", "-h":
		_, err := fmt.Fprintf(p.stdout, help, p.name(), setting[p.kind], p.name())
		return err
	case "--version":
		_, err := fmt.Fprintln(p.stdout, p.name(), cli.Version)
		return err
	}
	if strings.HasPrefix(args[0], "-") { // no node is called so
		return cli.UsageError(fmt.Errorf("there is no option %.80q", args[0]), "see "+p.name()+" --help")
	}
	// First of all: the file lives only as long as slurmctld wants.
	resumeFile := p.readResumeFile(os.Getenv("SLURM_RESUME_FILE"))
	order := api.NewOrder(p.kind, args[0], resumeFile)
	if err := order.Validate(); err != nil {
		return cli.UsageError(err, "see "+p.name()+" --help")
	}
	return p.deliver(ctx, p.endpoint(), order)
}

// endpoint is the default when the configuration cannot be read: that may
// well be where burstd is, and must not cost an order.
func (p *program) endpoint() endpoint.Config {
	cfg, err := endpoint.Load(endpoint.Path(""))
	if err != nil {
		p.warn("%v: using socket %s and spool %s", err, cfg.Socket, cfg.Spool)
	}
	return cfg
}

var setting = map[string]string{
	api.Resume:     "ResumeProgram",
	api.Suspend:    "SuspendProgram",
	api.ResumeFail: "ResumeFailProgram",
}

const help = `Usage: %s NODES

For slurmctld, as its %s: gives NODES (a host list) and the
file that SLURM_RESUME_FILE names, if any, to burstd over its socket, or
writes them to the spool when burstd does not answer, and returns.

  --help     this text
  --version  the version

BURST_CONFIG names the configuration (default /etc/burst/burst.toml), of which
only [daemon] is read. Warnings and errors go to stderr and, as %s, to syslog.

Exit codes: 0 order taken, 1 order taken neither by burstd nor by the spool,
2 wrong usage.
`

// readResumeFile returns the text of the file. A file that cannot be read
// costs the order its jobs, not itself.
func (p *program) readResumeFile(path string) string {
	if path == "" {
		return ""
	}
	text, err := readLimited(path)
	if err != nil {
		p.warn("SLURM_RESUME_FILE: %v: the order goes without it", err)
		return ""
	}
	return text
}

func readLimited(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var text strings.Builder
	n, err := io.Copy(&text, io.LimitReader(f, maxResumeFile+1))
	if err == nil && n > maxResumeFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxResumeFile)
	}
	return text.String(), err
}

// deliver gives the order to burstd or, failing that, to the spool, a few times.
func (p *program) deliver(ctx context.Context, cfg endpoint.Config, o api.Order) error {
	client := api.NewClient(cfg.Socket)
	defer client.Close()
	for attempt := 0; ; attempt++ {
		sent := p.send(ctx, client, o)
		if sent == nil {
			return nil
		}
		// Whatever burstd said or did not say: it may have the order or not.
		put := spool.Put(cfg.Spool, o)
		if put == nil {
			p.warn("%v: order %s for %.200s is in the spool %s", sent, o.ID, o.Nodes, cfg.Spool)
			return nil
		}
		if attempt == len(p.pauses) {
			return cli.WithHint(fmt.Errorf("order for %.200s is lost: %w; %w", o.Nodes, sent, put),
				"make room in %s and start burstd: it finds the nodes by Slurm's own state", cfg.Spool)
		}
		pause := p.pauses[attempt]
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *program) send(ctx context.Context, c *api.Client, o api.Order) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return c.AddOrder(ctx, o)
}
