// Command burstd carries out what Slurm's power saving asks for cloud nodes,
// and acts on the cloud's notices. It runs on the controller, under systemd.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/burst-hpc/burst/cloud/local"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/daemon"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
)

func main() {
	local.Main() // an instance of the local provider is this program again
	cli.Main(run)
}

func run(ctx context.Context) error {
	path := flag.String("config", "", "configuration `file` (default $BURST_CONFIG, then "+endpoint.DefaultPath+")")
	show := flag.Bool("version", false, "print the version and exit")
	check := flag.Bool("check-config", false, "read the configuration, say what is wrong with it, and exit")
	unended := flag.Bool("unended", false, "print what the journal has of instances that may live, and exit")
	clusterID := flag.Bool("cluster-id", false, "print the cluster's id, which is made if there is none, and exit")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "Usage: burstd [flags]\n\nCarries out resume and suspend orders of Slurm in the cloud. Set BURST_DEBUG=1 for\nevery command that it runs. Exit codes: 0 stopped, 1 failed, 2 wrong usage or configuration.\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *show {
		fmt.Println("burstd", cli.Version)
		return nil
	}
	if flag.NArg() > 0 {
		return cli.UsageError(fmt.Errorf("unexpected argument %q", flag.Arg(0)), "see burstd --help")
	}
	if *unended {
		return printUnended(ctx, endpoint.Path(*path))
	}
	if *clusterID {
		return printClusterID(ctx, endpoint.Path(*path))
	}
	cfg, err := config.Load(endpoint.Path(*path))
	if err != nil {
		return err
	}
	if *check {
		return nil
	}
	return daemon.Run(ctx, daemon.Options{Config: cfg, Version: cli.Version, Log: cli.Log(os.Stderr), Point: crashPoint()})
}
