package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/conf"
)

// defaultPrograms is where packages install what slurmctld starts.
const defaultPrograms = "/usr/sbin"

// programsDir is the folder of what slurmctld starts: dir if it is given, else
// where they lie beside this program.
func programsDir(dir string) (string, error) {
	if dir != "" {
		return filepath.Abs(dir)
	}
	if self, err := os.Executable(); err == nil {
		for _, near := range []string{filepath.Dir(self), filepath.Join(filepath.Dir(self), "..", "sbin")} {
			if _, err := os.Stat(conf.ProgramsIn(near).Gate); err == nil {
				return near, nil
			}
		}
	}
	return defaultPrograms, nil
}

// wanted loads the configuration and says what slurm.conf should say.
func wanted(configFlag, programs string) (*config.Config, conf.Input, error) {
	cfg, err := config.Load(endpoint.Path(configFlag))
	if err != nil {
		return nil, conf.Input{}, err
	}
	dir, err := programsDir(programs)
	if err != nil {
		return nil, conf.Input{}, fmt.Errorf("finding the programs: %w", err)
	}
	return cfg, cfg.Slurm(dir), nil
}

// askTimeout is long enough for a busy slurmctld, and short for who waits.
const askTimeout = 10 * time.Second

// sites are the two views of the site's configuration; at least one is there.
type sites struct {
	path    string // of slurm.conf
	file    conf.Site
	running conf.Site
	fileErr error                    // why there is no file
	askErr  error                    // why there is no running
	waits   map[string]time.Duration // how long slurmctld lets nodes boot; lacks those of which it is not known
}

// tooSoon finds partitions whose nodes the running slurmctld gives up sooner than burst.toml has it, but for
// those of which that is found already.
func (s sites) tooSoon(in conf.Input, found []conf.Finding) (all []conf.Finding) {
	done := map[string]bool{}
	for _, f := range found {
		done[f.Have] = done[f.Have] || f.Key == "PartitionName" && f.MustChange()
	}
	for _, p := range in.Pools {
		for _, n := range p.Nodes {
			if wait, known := s.waits[n]; known && wait < p.ResumeTimeout && !done[p.Partition] {
				done[p.Partition] = true
				all = append(all, conf.Finding{Level: conf.Wrong, Key: "PartitionName", Have: p.Partition, Why: fmt.Sprintf(
					"slurmctld gives up its node %s after %s (ResumeTimeout), not after %s: restart slurmctld when slurm.conf has what \"burst genconf\" writes.", n, wait, p.ResumeTimeout)})
			}
		}
	}
	return all
}

// readSites asks slurmctld and reads slurm.conf: the one that cfg or the
// environment names, the one that slurmctld says, or the usual one.
func readSites(ctx context.Context, cfg *config.Config) (sites, error) {
	client := slurm.New(slurm.Exec{Conf: cfg.Endpoint.SlurmConf, BinDir: cfg.Endpoint.SlurmBin, Timeout: askTimeout})
	settings, askErr := client.ShowConfig(ctx)
	s := sites{
		path:    cmp.Or(cfg.Endpoint.SlurmConf, os.Getenv("SLURM_CONF"), settings["SLURM_CONF"], "/etc/slurm/slurm.conf"),
		running: conf.Running(settings),
		askErr:  askErr,
	}
	if partitions, err := client.ShowPartitions(ctx); askErr == nil && err == nil {
		s.waits = slurm.ResumeTimeouts(settings, partitions)
	}
	s.file, s.fileErr = conf.Read(s.path)
	if s.askErr != nil && s.fileErr != nil {
		return sites{}, cli.WithHint(errors.Join(s.askErr, s.fileErr), "run it on the host of slurmctld, or set conf under [slurm] in %s", cfg.Path)
	}
	return s, nil
}
