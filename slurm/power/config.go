// Package power carries out what Slurm's power saving asks: it turns orders
// into launches and launches into addresses, ends what is suspended, and
// reconciles Slurm's nodes, the clouds' instances and the journal.
package power

import (
	"cmp"
	"context"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm"
)

// Pool is a set of nodes that share rules, and where their instances are bought.
type Pool struct {
	Name      string
	Provider  string   // name of a provider, the first source
	Nodes     []string // expanded
	Partition string
	Fleet     fleet.Config
	Image     string
	UserData  string
	Tags      map[string]string
	// Then are further sources, of one provider each, for when those before have
	// nothing to launch.
	Then []Source
	// MaxBootFailures is how many instances in a row may fail to become nodes
	// before the pool is stopped; 0: no limit.
	MaxBootFailures int
	BootTimeout     time.Duration // ResumeTimeout of its partition; 0: Config's
	// Needs are nodes of other pools, servers of files, that are up before one of this pool's is
	// launched: Slurm is asked to power them up.
	Needs []string
	// Serves: its node serves files that are on its own disk. Its instance ends by an admin's word, by
	// EndUnused, or by the cloud's own doing: never because Slurm's books say that it has ended.
	Serves bool
	// EndUnused is how long a server that no node needs is kept; 0: for ever.
	EndUnused time.Duration
}

// Example is the request that a launch of one of the pool's nodes would make,
// with all that the pool may buy on its first market.
func (p Pool) Example(cluster string) cloud.LaunchRequest {
	all := p.Fleet.Offerings()
	r := cloud.LaunchRequest{Token: "example", Cluster: cluster, Pool: p.Name, Offering: all[0], Count: 1, Image: p.Image, UserData: p.UserData, Tags: p.Tags}
	for _, o := range all[1:] {
		if o.Market == r.Offering.Market {
			r.Or = append(r.Or, o)
		}
	}
	return r
}

// Config is what the engine is told; zero durations take the defaults.
type Config struct {
	Cluster string // the cluster's random id, from the store
	Pools   []Pool
	// Former says what a provider that got another name is to be given of its former one, as a part of a
	// sentence; empty: nothing. nil: nothing of any.
	Former      func(old, name string) string
	Reconcile   time.Duration // between two rounds; 30 s
	BootTimeout time.Duration // Slurm's ResumeTimeout, where a pool has none of its own: 15 min; after it and a margin a booting node is given up
	// ResumeTimeout is what slurmctld has for a pool's nodes, where that is known: if it is less than
	// BootTimeout it counts. It must not block; nil: it is never known.
	ResumeTimeout func(pool string) time.Duration
	// MaxTerminate bounds the instances without an owner that one round ends; 20.
	MaxTerminate int
	// Price is a provider's present price of an offering in USD per hour, Cores a
	// type's number of cores; false where not known. They must not block; nil: none is known.
	Price func(provider string, o cloud.Offering) (float64, bool)
	Cores func(provider, instanceType string) (int, bool)
	// Begun is how much of an instance's time is paid for when it is launched, however soon it
	// ends: the least that the cloud bills. It must not block; nil: nothing.
	Begun func(provider string, o cloud.Offering) time.Duration
	// Paid says that the node of an instance, when it is idle, is kept to the end of what is paid for, and not longer, by
	// who says so. It must not block; nil: none is.
	Paid func(i Instance) bool
	// Held says that an instance of ours, which serves no node, is somebody's who is at
	// work on it: it is left alone for as long. It must not block; nil: none is.
	Held func(i cloud.Instance) bool
	// Kept reads which idle nodes are to stay up, as slurm.conf's SuspendExcNodes and the like say; nil: none.
	Kept func(ctx context.Context) (func(slurm.Node) bool, error)
	// Budget, unless nil, says what may be launched beside what there is, from what is spent now. It
	// is asked before launches are written, by who alone writes the journal.
	Budget func(ctx context.Context, s Standing) (Afford, error)
	// Priced, unless nil, is false for an offering that Budget could only refuse, as it has no price: what has one
	// is launched in its place, of another market or source, too. It must not block.
	Priced func(provider string, o cloud.Offering) bool
	// Tried, unless nil, is told of each answer to a launch. It must not block.
	Tried func(l Launch, got []cloud.Instance, err error)
}

// timeout is how long a pool's nodes may take to boot; 0: for ever. Of a pool that has left the configuration
// it is that of one without a time of its own.
func (c Config) timeout(name string, p Pool) time.Duration {
	t := cmp.Or(p.BootTimeout, c.BootTimeout)
	if c.ResumeTimeout == nil {
		return t
	}
	if s := c.ResumeTimeout(name); s > 0 && (t == 0 || s < t) {
		return s
	}
	return t
}
