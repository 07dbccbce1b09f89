// Package rig runs a whole site on this host: a private Slurm cluster, burstd,
// and a cloud whose instances are slurmd processes. The demo, the benchmarks and
// the end-to-end tests use it, as root or as an ordinary user.
//
// A site is a folder:
//
//	rig.lock      held by the process that has the site
//	netns         there if the instances have network namespaces
//	slurm/        the cluster (slurm/sandbox)
//	cloud/        the instances (cloud/local)
//	state/ spool/ burstd's
//	run           burstd's socket; a link to a short folder if the path is long
//	burst.toml
//	prices.csv    of the instances, with DemoPrices
//	burstd.log
//	work/         where jobs are submitted
//
// burstd carries the folder in its environment: by that a later process finds
// it when the one that had the site was killed.
package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud/local"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/sandbox"
)

// Options describe a site. Zero values take the defaults in brackets.
type Options struct {
	// Dir is where everything lives; Start makes it, and refuses a folder with
	// foreign files. [a new temporary folder]
	Dir     string
	Bin     string // folder with burstd, burst-resume and the others
	Keep    bool   // Close leaves Dir, with its logs
	Outlive bool   // the site runs on when this process ends without Close; then Reap(Dir) ends it

	Nodes      int    // cloud nodes c1 … cN, in partition cloud
	Pools      int    // the cloud nodes are dealt to so many pools, cloud1 …, in partitions of these names too; 1: one pool, cloud [1]
	OnPrem     int    // o1 … oN, in partition onprem
	CPUs       int    // of each node [2]
	OnPremCPUs int    // of each on-prem node [CPUs]
	Gate       bool   // burst-gate is PrologSlurmctld
	NetNS      bool   // cloud nodes live in network namespaces, also those of another provider; for root only
	SlurmExtra string // more lines for slurm.conf

	SuspendTime    time.Duration // [10 s]
	PaidHours      bool          // burst.toml says no suspend_time; slurm.conf has SuspendTime
	SuspendTimeout time.Duration // [3 s]
	ResumeTimeout  time.Duration // [60 s]
	CredExpire     time.Duration // [Slurm's 120 s]
	SlurmdTimeout  time.Duration // [30 s]

	Market     string   // of the pool [spot]
	Prices     string   // file of the instances' prices; none: the ledger knows none
	DemoPrices bool     // the prices are those that cloud/price has for the demo
	Types      []string // of instances [local.small]
	Zones      []string // [a, b]; "": the cloud has none
	BurstdEnv  []string // NAME=value, beside the cluster's own
	ExtraToml  string   // more sections of burst.toml
	// ProviderToml and PoolToml are lines of [provider.here] and [pool.cloud], for
	// a provider other than cloud/local: its instances are then the caller's.
	ProviderToml, PoolToml string
	DaemonToml             string // more lines of [daemon]
}

func (o Options) withDefaults() Options {
	if o.SuspendTime == 0 {
		o.SuspendTime = 10 * time.Second
	}
	if o.SuspendTimeout == 0 {
		o.SuspendTimeout = 3 * time.Second
	}
	if o.ResumeTimeout == 0 {
		o.ResumeTimeout = time.Minute
	}
	if o.Pools == 0 {
		o.Pools = 1
	}
	if o.CPUs == 0 {
		o.CPUs = 2
	}
	if o.Market == "" {
		o.Market = "spot"
	}
	if len(o.Types) == 0 {
		o.Types = []string{"local.small"}
	}
	if len(o.Zones) == 0 {
		o.Zones = []string{"a", "b"}
	}
	return o
}

// Site is a running site.
type Site struct {
	Dir     string
	Work    string // folder in which Submit runs sbatch
	Config  string // burst.toml
	Cluster *sandbox.Cluster
	API     *api.Client
	Control local.Control

	o      Options
	lock   *os.File
	subnet string // of the instances, with NetNS
	slurm  *slurm.Client
	burstd *child // the last that was started
}

// Start runs a site and returns when burstd answers. ctx bounds the start
// only. What a dead process left in the same folder is ended first. After an
// error nothing is left but, with Keep, the folder.
func Start(ctx context.Context, o Options) (*Site, error) {
	o = o.withDefaults()
	s, err := open(o)
	if err != nil {
		return nil, fmt.Errorf("starting a site: %w", err)
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a site in %s: %w", s.Dir, err), s.Close())
	}
	return s, nil
}

// open takes the folder and ends what is left in it.
func open(o Options) (*Site, error) {
	if o.Nodes < 1 {
		return nil, errors.New("a site needs at least one cloud node")
	}
	if o.Pools < 1 || o.Pools > o.Nodes {
		return nil, fmt.Errorf("%d pools cannot share %d nodes", o.Pools, o.Nodes)
	}
	bin, err := filepath.Abs(o.Bin)
	if err != nil {
		return nil, err
	}
	o.Bin = bin
	if _, err := os.Stat(filepath.Join(bin, "burstd")); err != nil {
		return nil, fmt.Errorf("finding burstd: %w", err)
	}
	dir, err := makeDir(o.Dir)
	if err != nil {
		return nil, err
	}
	lock, err := take(dir)
	if err != nil {
		return nil, err
	}
	if err := reap(dir); err != nil {
		lock.Close()
		return nil, fmt.Errorf("ending what is left in %s: %w", dir, err)
	}
	return &Site{
		Dir: dir, Work: filepath.Join(dir, workDir), Config: filepath.Join(dir, configFile),
		Control: controlOf(dir), o: o, lock: lock,
	}, nil
}

func (s *Site) start(ctx context.Context) error {
	for _, name := range []string{workDir, cloudDir, stateDir, spoolDir} {
		if err := os.MkdirAll(filepath.Join(s.Dir, name), 0o755); err != nil {
			return err
		}
	}
	socket, err := makeRun(s.Dir)
	if err != nil {
		return err
	}
	if err := s.startSlurm(ctx); err != nil {
		return err
	}
	if err := s.writeConfig(socket); err != nil {
		return err
	}
	s.slurm = slurm.New(slurm.Exec{Conf: s.Cluster.Conf})
	s.API = api.NewClient(socket)
	return s.StartBurstd(ctx)
}

func (s *Site) startSlurm(ctx context.Context) error {
	addr, err := s.hostAddr()
	if err != nil {
		return err
	}
	program := func(name string) string { return filepath.Join(s.o.Bin, name) }
	so := sandbox.Options{
		Dir: filepath.Join(s.Dir, slurmDir), Keep: s.o.Keep, Outlive: s.o.Outlive,
		CloudNodes: s.o.Nodes, OnPrem: s.o.OnPrem, CPUs: s.o.CPUs, OnPremCPUs: s.o.OnPremCPUs,
		ResumeProgram: program("burst-resume"), SuspendProgram: program("burst-suspend"),
		ResumeFailProgram: program("burst-resume-fail"), BurstConfig: s.Config,
		SuspendTime: s.o.SuspendTime, SuspendTimeout: s.o.SuspendTimeout, ResumeTimeout: s.o.ResumeTimeout,
		CredExpire: s.o.CredExpire, SlurmdTimeout: s.o.SlurmdTimeout, Extra: s.partitions() + s.o.SlurmExtra,
		NetNS: s.o.NetNS, CtldAddr: addr,
	}
	if s.o.Gate {
		so.Gate = program("burst-gate")
	}
	s.Cluster, err = sandbox.Start(ctx, so)
	return err
}

// Slurm returns a client of the site's controller.
func (s *Site) Slurm() *slurm.Client { return s.slurm }

// Close ends burstd, the instances and the cluster, jobs included, and removes
// the folder, unless Keep. It may be called again.
func (s *Site) Close() error {
	if s.lock == nil {
		return nil
	}
	err := s.end()
	s.lock.Close()
	s.lock = nil
	if err != nil {
		return fmt.Errorf("closing the site in %s: %w", s.Dir, err)
	}
	return nil
}

func (s *Site) end() error {
	if s.API != nil {
		s.API.Close()
	}
	// burstd first, so that it launches nothing more.
	err := s.StopBurstd()
	err = errors.Join(err, cleanCloud(s.Dir))
	if s.Cluster != nil {
		err = errors.Join(err, s.Cluster.Close())
	}
	if err != nil || s.o.Keep {
		return errors.Join(err, removeRun(s.Dir))
	}
	return remove(s.Dir)
}

// Release lets a site that may outlive this process run on without it.
func (s *Site) Release() error {
	if !s.o.Outlive {
		return errors.New("the site ends with this process: it was started without Outlive")
	}
	s.API.Close()
	return s.lock.Close()
}

// Env is the environment for commands that talk to the site.
func (s *Site) Env() []string { return s.Cluster.Env() }

// Nodes returns the names of the cloud nodes.
func (s *Site) Nodes() []string { return slices.Clone(s.Cluster.CloudNodes()) }
