// Package config is the only reader of the whole of burst.toml. It composes
// the configuration of each part and reports all errors of the file at once, each
// with its line and what to do.
package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cloud/bootstrap"
	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/power"
)

// Config is a burst.toml without errors.
type Config struct {
	Path       string
	Cluster    string // the site's name for the cluster
	Endpoint   endpoint.Config
	Checkpoint Checkpoint
	Health     Health
	Budget     *Budget // nil: nothing is capped
	Cost       Cost
	Providers  []Provider // in the order of the file
	Pools      []Pool     // in the order of the file
	Overflow   Overflow

	controllers []string // hosts of slurmctld, as nodes of a cloud know them
	expand      bool     // jobs may take in more nodes while they run
	mixed       []string // partitions of the site that are to hold nodes of pools
	checkpoints bool     // some section asks for checkpoints of jobs that say nothing
	servers     map[string]server
}

// Health says when a node that has registered is sick: it is drained then, and
// replaced. A limit of 0 does not judge.
type Health struct {
	SlurmdRestarts int           // so many within SlurmdWindow
	SlurmdWindow   time.Duration //
	SpoolFull      int           // per cent of the file system of slurmd's spool
	AgentSilent    time.Duration // since the last word of its burst-agent
}

// What a pool does about a notice of a rebalance or a maintenance.
const (
	Ignore  = "ignore"
	Drain   = "drain"   // no new jobs; those that run are not moved before a spot notice, or before the maintenance
	Replace = "replace" // of a rebalance: as Drain, and another node is raised ahead
	Reserve = "reserve" // of a maintenance: a Slurm reservation keeps jobs off that would not end before it
)

// Provider is a [provider.NAME] section.
type Provider struct {
	Name       string
	Kind       string // "local", "aws" or "vultr"
	PriceTable string // path of a CSV file; empty: the provider's own prices
	Local      Local  // for kind "local"
	// AWS is for kind "aws", with the launch settings of the provider's pools.
	AWS aws.Config
	// Vultr is the same for kind "vultr".
	Vultr vultr.Config
}

// Local is a provider whose instances are slurmd processes on this host.
type Local struct {
	Dir     string // state, logs and control of the instances
	Slurmd  string // path of slurmd
	Network string // "host" or "netns"
	Subnet  string // for "netns", as "10.77.0.0/24"; empty: the provider's choice
}

// Pool is a [pool.NAME] section: what burstd and what slurm.conf must know of it.
type Pool struct {
	Power power.Pool
	Slurm conf.Pool // without CPUs or memory where the provider's catalog is to say them
	// Boot is what Power.UserData was made of; zero for a provider whose
	// instances do not boot, and where the site has user data of its own.
	Boot bootstrap.Config
	// SSH is how burstd sets the pool's instances up by Boot; nil: it does not, they have user data.
	SSH *SSH
	// Folders are those that all its nodes have of the site's, by mounts and by file_systems; nil: all, as nodes on this host do.
	Folders []string
	Line    int // of the file it stands in, for messages

	// Then are the pool's further sources in the order in which they are tried, each
	// the pool as it would be with that one alone.
	Then []Pool

	OnRebalance   string // Ignore, Drain or Replace
	OnMaintenance string // Ignore, Drain or Reserve

	// PaidUnit: burstd has an idle node of the pool powered down shortly before a unit of
	// this length, from its instance's launch on, ends; 0: SuspendTime alone does.
	PaidUnit time.Duration

	// Measured is what the site has measured of the pool, for the history of runs.
	Measured history.Measured
}

// Error is one error of the file.
type Error struct {
	File string
	Line int    // 0: not known
	Key  string // as it would be written with dots; may be empty
	What string // what is wrong, and what to do
}

func (e Error) Error() string {
	where := e.File
	if e.Line > 0 {
		where = fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	if e.Key != "" {
		where += ": " + e.Key
	}
	return where + ": " + e.What
}

// Errors is all that is wrong with a file.
type Errors []Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	if len(e) == 1 {
		return lines[0]
	}
	return fmt.Sprintf("the configuration has %d errors:\n%s", len(e), strings.Join(lines, "\n"))
}

// ExitCode is that of wrong configuration.
func (Errors) ExitCode() int { return 2 }

// Hint says where to look.
func (Errors) Hint() string { return "burst.toml(5) describes every key" }

type missing struct{ error }

func (missing) ExitCode() int   { return 2 }
func (missing) Hint() string    { return "\"burst init\" writes a commented one to start from" }
func (m missing) Unwrap() error { return m.error }

// Load reads the file at path. An error about what the file says is Errors.
func Load(path string) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, missing{fmt.Errorf("reading the configuration: %w", err)}
	}
	return parse(path, string(text))
}

// Parse reads the text of a file that would be at path.
func Parse(path, text string) (*Config, error) { return parse(path, text) }

func parse(path, text string) (*Config, error) {
	var tree map[string]any
	md, err := toml.Decode(text, &tree)
	if err != nil {
		return nil, syntaxError(path, err)
	}
	f := &file{path: path, lines: linesOf(text, md.Keys())}
	c := f.config(tree)
	if len(f.errs) > 0 {
		slices.SortStableFunc(f.errs, func(a, b Error) int { return a.Line - b.Line })
		return nil, f.errs
	}
	c.Path = path
	return c, nil
}

func syntaxError(path string, err error) error {
	var p toml.ParseError
	if errors.As(err, &p) {
		return Errors{{File: path, Line: p.Position.Line, Key: p.LastKey, What: p.Message}}
	}
	return Errors{{File: path, What: err.Error()}}
}

// Provider returns the named provider; Load has made sure that each pool's exists.
func (c *Config) Provider(name string) (Provider, bool) {
	i := slices.IndexFunc(c.Providers, func(p Provider) bool { return p.Name == name })
	if i < 0 {
		return Provider{}, false
	}
	return c.Providers[i], true
}

// Power returns what burstd's engine is told; cluster is the random id from the store.
func (c *Config) Power(cluster string) power.Config {
	p := power.Config{Cluster: cluster, Former: c.formerFolder}
	for _, pool := range c.Pools {
		pool.Power.BootTimeout = pool.Slurm.ResumeTimeout
		p.Pools = append(p.Pools, pool.Power)
		p.BootTimeout = max(p.BootTimeout, pool.Slurm.ResumeTimeout)
	}
	return p
}

// Slurm returns what slurm.conf should say, with Burst's programs in dir.
func (c *Config) Slurm(dir string) conf.Input {
	in := conf.Input{Programs: conf.ProgramsIn(dir), User: c.Endpoint.SlurmUser, Expand: c.expand, Mixed: c.mixed, Source: c.Path}
	for _, pool := range c.Pools {
		in.Pools = append(in.Pools, pool.Slurm)
	}
	return in
}
