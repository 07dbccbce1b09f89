// Command burst-agent runs on every cloud node, under systemd and as root. It
// reads the instance's metadata for notices, tells burstd, and reports the
// node's health.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/burst-hpc/burst/cloud/aws/imds"
	"github.com/burst-hpc/burst/cmd/internal/agent"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/munge"
)

const help = `Usage: burst-agent [flags]

Runs on a cloud node, as root: reads the instance's metadata for notices (spot
interruption, rebalance, scheduled maintenance), brings each to burstd, however
long that takes, and tells burstd every 20 s, or as often as burstd asks, how
the node is.
The bootstrap of the node writes /etc/burst/agent.env, which its unit reads.

  --urls LIST          URLs of burstd's listener for nodes, by blanks or commas
                       (default $BURST_URLS)
  --daemon-uid UID     uid of burstd, whose answers are believed beside root's
                       (default $BURST_DAEMON_UID, then 0)
  --spool DIR          slurmd's spool, whose file system is looked at
                       (default $BURST_SPOOL, then that of a configless
                       slurmd, then /var/spool/slurmd)
  --state FILE         what has to outlive a restart
                       (default $STATE_DIRECTORY/told.json, or none)
  --munge-socket PATH  munged's socket (default $BURST_MUNGE_SOCKET, then the
                       system's)
  --imds URL           the metadata service, for emulators
                       (default $BURST_IMDS, then http://169.254.169.254)
  --check              look once at all that the agent needs, send burstd a
                       beat, print what was found, and exit
  --json               print --check's findings as JSON
  --help               this text
  --version            the version

Set BURST_DEBUG=1 for every failure in the log, rather than now and then.
Exit codes: 0 stopped, or the check has found nothing wrong; 1 failed; 2 wrong
usage or configuration.
`

func main() { cli.Main(run) }

func run(ctx context.Context) error {
	o, err := parse(os.Args[1:], os.Getenv)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(help)
		return nil
	case err != nil:
		return err
	case o.version:
		fmt.Println("burst-agent", cli.Version)
		return nil
	}
	c := o.Config
	c.Log, c.Version = cli.Log(os.Stderr), cli.Version
	if o.check {
		return check(ctx, c, o.json)
	}
	c.Notify = func(state string) error {
		_, err := sd.SdNotify(false, state)
		return err
	}
	if c.Watchdog, err = sd.SdWatchdogEnabled(false); err != nil {
		c.Log.Warn("the watchdog's interval cannot be read", "error", err)
	}
	return agent.Run(ctx, c)
}

func check(ctx context.Context, c agent.Config, asJSON bool) error {
	all, err := agent.Check(ctx, c)
	if asJSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return errors.Join(err, e.Encode(all))
	}
	return errors.Join(err, agent.Print(os.Stdout, all))
}

type options struct {
	agent.Config
	check, json, version bool
}

// parse reads flags, and the environment for what they do not say.
func parse(args []string, env func(string) string) (o options, err error) {
	def := func(name, otherwise string) string {
		if v := env(name); v != "" {
			return v
		}
		return otherwise
	}
	fs := flag.NewFlagSet("burst-agent", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	urls := fs.String("urls", env("BURST_URLS"), "")
	uid := fs.String("daemon-uid", def("BURST_DAEMON_UID", "0"), "")
	fs.StringVar(&o.Spool, "spool", env("BURST_SPOOL"), "")
	fs.StringVar(&o.State, "state", "", "")
	socket := fs.String("munge-socket", env("BURST_MUNGE_SOCKET"), "")
	service := fs.String("imds", env("BURST_IMDS"), "")
	fs.BoolVar(&o.check, "check", false, "")
	fs.BoolVar(&o.json, "json", false, "")
	fs.BoolVar(&o.version, "version", false, "")
	const see = "see burst-agent --help"
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, cli.UsageError(err, see)
	}
	if o.version {
		return o, nil
	}
	if fs.NArg() > 0 {
		return o, cli.UsageError(fmt.Errorf("unexpected argument %q", fs.Arg(0)), see)
	}
	if o.json && !o.check {
		return o, cli.UsageError(errors.New("--json is for --check"), see)
	}
	if dir, _, _ := strings.Cut(env("STATE_DIRECTORY"), ":"); o.State == "" && dir != "" {
		o.State = dir + "/told.json"
	}
	if o.URLs, err = parseURLs(*urls); err != nil {
		return o, cli.UsageError(err, "the node's bootstrap writes BURST_URLS into /etc/burst/agent.env; or use --urls")
	}
	if o.DaemonUID, err = strconv.Atoi(*uid); err != nil || o.DaemonUID < 0 {
		return o, cli.UsageError(fmt.Errorf("%q is no uid: write burstd's as a number", *uid), see)
	}
	client, err := imds.New(imds.Options{URL: *service})
	if err != nil {
		return o, cli.UsageError(err, see)
	}
	o.IMDS, o.Munge = client, munge.New(munge.Options{Socket: *socket})
	return o, nil
}

func parseURLs(list string) ([]string, error) {
	all := strings.FieldsFunc(list, func(r rune) bool { return r == ' ' || r == ',' })
	if len(all) == 0 {
		return nil, errors.New("no URL of burstd is given")
	}
	for _, s := range all {
		u, err := url.Parse(s)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
			return nil, fmt.Errorf("%q is no URL of burstd: write it as in \"http://10.0.0.5:9811\"", s)
		}
	}
	return all, nil
}
