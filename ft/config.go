package ft

import (
	"context"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/directive"
)

// Config is the site's defaults.
type Config struct {
	Signal string        // for jobs whose directive names none, as "USR1" or "B:USR1"; empty: none
	Grace  time.Duration // given with that signal; 20 s if zero
	// Margin is kept before a deadline for the requeue itself; 5 s if zero.
	Margin time.Duration
	// Parallel bounds the commands of Slurm that are under way at once; 32 if zero.
	Parallel int
	// Pools are the rules of a node's pool; false: the node has none, and only
	// spot interruptions are acted upon. Nil: no node has.
	Pools func(node string) (Pool, bool)
	// Ask is told of an instance whose state is said to have changed: its provider
	// is to be asked soon. It returns at once; nil: nobody is.
	Ask func(instance string)
	// Sessions are those of burst-srun, whose jobs are asked by them, and get no
	// signal; nil: there are none.
	Sessions Sessions
	// Spent is asked about notices of its kind; nil: no job goes for one.
	Spent Purse
	// Afford opens the budget for questions, beside nodes that were raised ahead just now, each in whose place. Why no node may be
	// launched in place of one, for the jobs that it has; empty: one may, and it counts in what is asked next. Nil: there is no budget.
	Afford func(ctx context.Context, raised map[string]string) (ask func(inPlaceOf string) (why string), err error)
	// Scarce says of a job that Slurm has given up (BadConstraints) that it waits for nodes
	// of a provider, which others see to: it is not held. Nil: of none.
	Scarce func(*slurm.Snapshot, slurm.Job) bool
}

// Pool says what is done about notices that are no interruption.
type Pool struct {
	Name  string
	Nodes []string // all of it
	// Site is what the site says of jobs on its nodes; nil: the Config's Signal and Grace alone.
	Site          []directive.Layer
	OnRebalance   string // Ignore, Drain or Replace; empty is Ignore
	OnMaintenance string // Ignore, Drain or Reserve; empty is Ignore
}

// Rules of a Pool.
const (
	Ignore  = "ignore"
	Drain   = "drain"   // no new jobs; those that run stay
	Replace = "replace" // of a rebalance: as Drain, and another node is raised for the jobs
	Reserve = "reserve" // of a maintenance: a reservation of Slurm keeps jobs off that would last into it
)
