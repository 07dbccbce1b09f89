package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/hostlist"
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
	path    string     // of slurm.conf
	files   conf.Files // what file is of
	file    conf.Site
	running conf.Site
	fileErr error                    // why there is no file
	askErr  error                    // why there is no running
	waits   map[string]time.Duration // how long slurmctld lets nodes boot; lacks those of which it is not known

	said       map[string]string   // what slurmctld says of its settings, as it says it; nil where it does not answer
	partitions []map[string]string // that slurmctld has; none where it does not say
	connected  map[string]bool     // nodes that it may give to jobs by its topology; nil: all, or it does not say
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
	if askErr == nil {
		s.said = settings
		if partitions, err := client.ShowPartitions(ctx); err == nil {
			s.waits, s.partitions = slurm.ResumeTimeouts(settings, partitions), partitions
		}
		if connected, err := client.Connected(ctx); err == nil {
			s.connected = connected
		}
	}
	s.files, s.fileErr = readConf(s.path)
	s.files.Release = releaseOf(ctx, client, s.running)
	s.file = s.files.Site
	if s.askErr != nil && s.fileErr != nil {
		return s, cli.WithHint(fmt.Errorf("%w; %w", s.askErr, s.fileErr), "run it on the host of slurmctld, or set conf under [slurm] in %s", cfg.Path)
	}
	return s, nil
}

// releaseOf is the running slurmctld's, or that of the commands here. What they cannot tell is not known, and taken for the oldest.
func releaseOf(ctx context.Context, client *slurm.Client, running conf.Site) conf.Release {
	if running.Release != (conf.Release{}) {
		return running.Release
	}
	version, err := client.Version(ctx)
	if err != nil {
		return conf.Release{}
	}
	return conf.ParseRelease(version)
}

// readConf gives a file system up that does not answer.
func readConf(path string) (conf.Files, error) {
	type read struct {
		files conf.Files
		err   error
	}
	done := make(chan read, 1)
	go func() {
		files, err := conf.ReadFiles(path)
		done <- read{files, err}
	}()
	late := time.NewTimer(askTimeout)
	defer late.Stop()
	select {
	case r := <-done:
		return r.files, r.err
	case <-late.C:
		return conf.Files{}, fmt.Errorf("reading Slurm's configuration: %s: no answer within %s: its file system hangs", path, askTimeout)
	}
}

// apart finds pools whose nodes the running slurmctld has in no switch or block, where topology.conf has them, or is not
// known: found says what it lacks.
func (s sites) apart(in conf.Input, found []conf.Finding) (all []conf.Finding) {
	if s.connected == nil || slices.ContainsFunc(found, func(f conf.Finding) bool {
		return f.MustChange() && slices.Contains([]string{"SwitchName", "BlockName", "topology.yaml"}, f.Key)
	}) {
		return nil
	}
	for _, p := range in.Pools {
		lacks := slices.DeleteFunc(slices.Clone(p.Nodes), func(n string) bool { return s.connected[n] })
		if !p.Server && len(lacks) > 0 {
			all = append(all, conf.Finding{Level: conf.Wrong, Key: "TopologyPlugin", Have: s.running.Get("TopologyPlugin"), Why: fmt.Sprintf(
				"slurmctld has %s of pool %s in no switch or block, and gives no job such nodes. Where its topology.conf has them, run \"scontrol reconfigure\".", hostlist.Fold(lacks), p.Name)})
		}
	}
	return all
}

// unknown finds nodes and partitions that slurm.conf has and the running slurmctld does not: it takes
// them in when it starts.
func (s sites) unknown(in conf.Input) (all []conf.Finding) {
	has := map[string]map[string]bool{} // nodes by partition
	for _, p := range s.partitions {
		nodes, err := hostlist.Expand(p["Nodes"])
		if p["PartitionName"] == "" || err != nil && p["Nodes"] != "" {
			return nil // what cannot be read proves nothing
		}
		has[p["PartitionName"]] = map[string]bool{}
		for _, n := range nodes {
			has[p["PartitionName"]][n] = true
		}
	}
	written := map[string]bool{}
	for _, l := range s.file.Partitions {
		written[l.Name] = true
	}
	for _, p := range in.Pools {
		nodes, known := has[p.Partition]
		lacks := slices.DeleteFunc(slices.Clone(p.Nodes), func(n string) bool { return nodes[n] })
		if len(has) == 0 || !written[p.Partition] || len(lacks) == 0 {
			continue
		}
		f := conf.Finding{Level: conf.Wrong, Key: "PartitionName", Have: p.Partition, Why: fmt.Sprintf("slurmctld does not have %s in it, and slurm.conf does: restart slurmctld.", hostlist.Fold(lacks))}
		if !known {
			f.Why = "slurmctld has no such partition, and slurm.conf does: restart slurmctld."
		}
		all = append(all, f)
	}
	return all
}
