package power

import (
	"context"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
)

// OrderKind is what Slurm asked.
type OrderKind string

const (
	Resume     OrderKind = "resume"
	Suspend    OrderKind = "suspend"
	ResumeFail OrderKind = "resume-fail"
)

// Order is what Slurm asked, durable once accepted. Its id is made by the
// client, so that an order that comes by socket and by spool is one.
type Order struct {
	ID         string
	Kind       OrderKind
	Nodes      string // hostlist
	ResumeFile string // as slurmctld wrote it; empty if it wrote none
	Made       time.Time
	// Taken: the order has been turned into node records and dooms. It stays
	// open until they are settled.
	Taken bool
}

// Phase is how far a node has come.
//
//	wanted -> launching -> booting -> up
//	   ^          |           |       |
//	   +----------+-----------+       |
//	   |      no capacity, died       |
//	   v                              v
//	freeing ----------------------> (no record)
//
// A suspend order ends any phase: the record goes and its instance is doomed.
type Phase string

const (
	Wanted    Phase = "wanted"    // Slurm powers it up, no launch yet
	Launching Phase = "launching" // part of the launch Token
	Booting   Phase = "booting"   // has Instance, not registered yet
	Up        Phase = "up"        // registered with slurmctld
	Freeing   Phase = "freeing"   // to be given back to Slurm by power_down_force
)

// Node is the journal's record of a node that Slurm asked for.
type Node struct {
	Name     string
	Pool     string
	Phase    Phase
	Since    time.Time // of the phase
	Order    string    // the resume order
	Made     time.Time // when that order was made
	Job      uint32    // for which Slurm raised it; 0: none, or unknown
	Whole    bool      // the job needs several nodes: all or nothing
	Token    string    // of the launch
	Instance string
	AddrSet  bool   // Slurm has been told the address
	Tries    int    // instances that died before they registered
	Reason   string // of Freeing; of Up: why it is to go when its jobs have; of Wanted: why some jobs have to leave it before it is launched
}

// LaunchState is how much is known of a launch's outcome.
type LaunchState string

const (
	Uncalled  LaunchState = "uncalled"  // to be called: nobody has, or without any effect
	Written   LaunchState = "written"   // called, or about to be, with its outcome unknown
	Abandoned LaunchState = "abandoned" // not wanted any more, its outcome still to be learnt
)

// Launch is one attempt to fill part of an order from one pool. Only
// unresolved launches are in the journal's State.
type Launch struct {
	Token    string
	Provider string
	Account  string // of the provider (cloud.Accountant), in which it may have had its effect; empty: it has had none, or that is not known
	Request  cloud.LaunchRequest
	Nodes    []string
	State    LaunchState
	Created  time.Time
	Resolved time.Time
	Error    string
}

// Instance is the journal's record of an instance that may still live.
type Instance struct {
	cloud.Instance
	Provider string
	Account  string // of the provider (cloud.Accountant), where it was launched or last seen; empty: not known
	Shown    bool   // a list of Account has shown it; else it is where its launch was asked for, as far as was known
	Assigned string // the node; empty: none
	Doomed   string // why it is being terminated; empty: it is not
	Failed   bool   // it did not become a node: a boot failure
	Console  bool   // of a Failed one: its console is to be kept before it ends
	// Serves: its node is, or was, a server of files (Pool.Serves), which are on its disk. It stays, so that
	// this is known when the pool has left the configuration.
	Serves bool
	Gone   time.Time // confirmed by the cloud; then it is no longer in State
	// Guessed: the cloud never said when the instance ended; Ended is when that was learned of.
	Guessed bool
}

// CloudEnded is why an instance is Doomed that the cloud ended without our asking.
const CloudEnded = "the cloud ended it"

// Hold is a job whose launch failed: it is told why, and starts again at Start.
type Hold struct {
	Job   uint32
	Start time.Time
	Why   string
	Tries int // launches in a row that failed for this job
	// NoRequeue: the job was submitted with --no-requeue. It has not begun, so to
	// requeue it repeats nothing; it may be requeued until it waits again.
	NoRequeue bool
	Released  bool // Slurm has taken Start; kept for Tries
}

// Cooling is an offering's cooldown.
type Cooling struct {
	Provider string
	Offering cloud.Offering
	fleet.Cooldown
}

// Breaker is how a pool's boots go: after Pool.MaxBootFailures in a row, or
// by an admin's hand, the pool is stopped and launches nothing.
type Breaker struct {
	Pool     string
	Provider string    // a source of a pool that has several; empty: the pool
	Failures int       // instances in a row that did not become nodes
	Stopped  time.Time // zero: it is not
	Why      string    // of Stopped
	ByHand   bool      // it was an admin who stopped it, at first or since
}

// Boot is one node's way up for one order. A time is zero for as long as it
// is not known. After a failed boot, Called and what follows are the next one's.
type Boot struct {
	Node, Order, Pool string
	Job               uint32
	Instance          string
	Tries             int       // instances before this one
	Ordered           time.Time // Slurm asked
	Called            time.Time // the launch call began
	Launched          time.Time // it was answered
	Running           time.Time // the cloud says that it runs
	Reachable         time.Time // the node's first word
	Setup             time.Time // the site's commands began
	Ready             time.Time // slurmd was started
	Registered        time.Time // with slurmctld
	Started           time.Time // the job for which Slurm asked, as Slurm says
	Ended             time.Time // nothing more will be noted
	Outcome           string    // of Ended: BootUp, or why the node did not come up
}

// BootUp is the outcome of a node that came up.
const BootUp = "up"

// Fence is an attempt of a job that may still run on an instance that Slurm
// has given up: the job's next attempt waits until the instance is gone.
type Fence struct {
	Instance string
	Job      uint32 // 0: any job submitted before Since, as nobody saw what ran there
	Restarts int    // of the attempt; later ones wait
	Node     string
	Since    time.Time
}

// Event is one line of the history that admins and users read.
type Event struct {
	Time                       time.Time
	Kind                       string
	Node, Instance, Pool, Text string
	Job                        uint32
}

// State is all that the journal holds open.
type State struct {
	Orders    []Order
	Nodes     []Node
	Launches  []Launch
	Instances []Instance
	Served    []Instance // that were servers of files and are Gone: a list that shows one again finds files on it
	Ended     []Instance // that are Gone, of Launches: their answers may show them again
	Holds     []Hold
	Coolings  []Cooling
	Breakers  []Breaker
	Boots     []Boot // not ended
	Fences    []Fence
	Heard     []string // providers of whose instances the journal knows; "": all
	Pause     Pause
}

// Change is what one transaction writes: records are put whole, by their key.
type Change struct {
	Orders      []Order
	CloseOrders []string
	Nodes       []Node
	DropNodes   []string
	Launches    []Launch // a Resolved one leaves the State
	Instances   []Instance
	Holds       []Hold
	DropHolds   []uint32
	Coolings    []Cooling // without Failures, and Paid: forgotten
	Breakers    []Breaker // without Failures, and not Stopped: forgotten
	Boots       []Boot
	Fences      []Fence
	Heard       []string // providers whose first list is taken in
	DropFences  []string // instances; one that is Gone loses its fences without
	Pause       *Pause   // with no Since: it ends
	Events      []Event
	Actions     []string // what reconciliation mends by it, a constant of the table each: not written, for who counts
}

// Empty says whether the change writes nothing.
func (c *Change) Empty() bool {
	return len(c.Orders)+len(c.CloseOrders)+len(c.Nodes)+len(c.DropNodes)+len(c.Launches)+
		len(c.Instances)+len(c.Holds)+len(c.DropHolds)+len(c.Coolings)+len(c.Breakers)+len(c.Boots)+len(c.Fences)+len(c.DropFences)+len(c.Heard)+len(c.Events) == 0 && c.Pause == nil
}

// journal is what the engine needs of the store. A Commit is atomic and
// durable when it returns nil.
type journal interface {
	// AddOrder is false for an id that was ever accepted before.
	AddOrder(ctx context.Context, o Order) (bool, error)
	LoadPower(ctx context.Context) (State, error)
	CommitPower(ctx context.Context, c Change) error
	// Known are those of some instances that were ever written, also as gone.
	Known(ctx context.Context, ids []string) (map[string]bool, error)
}
