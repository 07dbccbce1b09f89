package overflow

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// Action is what to do about a job.
type Action string

// What to do. The record of a job is what was written of it before Slurm is told.
//
//	        Add (written)      scontrol, seen
//	leave ──────────────► Adding ───────────► Added ──► Taking ──► (no record)
//	  ▲                     │ another's doing   │ │        ▲ Take (written)
//	  └── no record         └──────► Theirs ◄───┘ └────────┘
//	                                                every record: Forget, when Slurm has forgotten its job
//
// A job that asks for a partition of the cloud itself, beside one of the site, loses it for the time in which a budget has no room for
// it: it goes the same way, but what it is given and what is taken away are the other way round.
const (
	Add    Action = "add"    // give it the partitions, or for a budget take them away, once that is written
	Keep   Action = "keep"   // it has them
	Take   Action = "take"   // undo that, once that is written
	Leave  Action = "leave"  // it stays as it is
	Seen   Action = "seen"   // Slurm shows the partitions that were added: write so
	Gone   Action = "gone"   // Slurm shows that they were taken away: close the record
	Theirs Action = "theirs" // its partitions were changed by others: write so, and leave it alone
	Over   Action = "over"   // the job has ended; Slurm, or burstd, may requeue it for as long as Slurm has it
	Forget Action = "forget" // Slurm has forgotten the job, or it is another: close the record
)

// States of a record.
const (
	Adding    = "adding" // written, and Slurm may not know
	InPlace   = "added"
	Taking    = "taking"
	LeftAlone = "theirs"
)

// Key is a job, or one task of an array.
type Key struct {
	Job  uint32 `json:"job"`  // of a task, the array's
	Task int    `json:"task"` // -1: no task
}

func (k Key) String() string {
	if k.Task < 0 {
		return fmt.Sprint(k.Job)
	}
	return fmt.Sprintf("%d_%d", k.Job, k.Task)
}

// Record is what was written of a job whose partitions Burst changes, or has changed.
type Record struct {
	Key
	UID       int
	Submitted time.Time // as Slurm had it then: a requeue changes it
	Restarts  int
	Rule      string   // "": none, and partitions were taken away, since a budget has no room for the job in the cloud
	Was, To   []string // its own partitions, and those that were added, or taken away
	State     string
	At        time.Time // of the change
	TakenFor  string    // of a move: why it is taken away, once that is written
}

// ForBudget says that the record is of a job that was kept from the cloud for a budget, not of one that a rule has moved: what
// is done to it, and undone, is the reverse.
func (r Record) ForBudget() bool { return r.Rule == "" }

// Changed are the partitions of a job that has these of its own, once to were added by a rule, or taken away for a budget.
func Changed(rule string, was, to []string) []string {
	if rule == "" {
		return without(was, to)
	}
	return append(slices.Clone(was), to...)
}

// ScriptID is whose script it is: tasks have their array's.
type ScriptID struct {
	Job       uint32
	Submitted time.Time
}

// ScriptOf is whose script a pending job has.
func ScriptOf(j slurm.Job) ScriptID { return ScriptID{arrayOr(j), j.Submitted} }

// Snapshot is all that decisions are made of.
type Snapshot struct {
	Now        time.Time
	Rules      []Rule
	OnPrem     OnPrem
	Shared     map[string][]Shared // by partition, its pools; those whose nodes have all that the site has are not in it
	Partitions map[string]Partition
	Closed     map[string]string    // partitions that launch no nodes now, and why
	Cloud      map[string]bool      // partitions that have nodes of pools
	Spot       map[string]bool      // partitions with nodes that a cloud may take back
	Would      uint32               // of Waiting, the job that is not submitted; 0: none
	Aside      map[uint32]time.Time // rows of Waiting with moved jobs: since when each is Aside, as far as it was seen
	Rests      map[ScriptID]Rest    // moved jobs that have given up their places
	Back       map[uint32]Back      // jobs that were given back for want of a cloud's nodes
	Refused    map[ScriptID]string  // what Slurm has refused of a job lately, until it is asked again
	Waiting    []slurm.Waiting
	Jobs       map[uint32]slurm.Job // of a reading not older than the records, and not newer than Waiting
	Records    []Record             // that are not closed
	Scripts    map[ScriptID]Script  // those that were read
}

// KeptText begins what a job is told that its rule would move, and may not. It is package power's, too.
const KeptText = "burst: not moved: "

// How reasons begin that an admin, or the job's user, can change: the job is told.
const (
	noLaunches = "no nodes are launched for "
	noRequeue  = "Slurm may not requeue it, "
)

// mayChange says that the reason is one of those.
func mayChange(why string) bool {
	return strings.HasPrefix(why, noLaunches) || strings.HasPrefix(why, noRequeue) || strings.HasPrefix(why, lacking)
}

// Rest is of a job that gave up its place, since it did not want to start: it is not moved again before.
type Rest struct {
	Until time.Time
	Why   string
}

// Back is a job that had begun on a cloud's nodes which then did not come.
type Back struct {
	Until time.Time // it was given this start, and is not tried there before
	Why   string
	// Of asks for what a budget had no room for, nil: something else was the reason. Cluster: it was the
	// budget of all, not of its user or account.
	Of      *slurm.Waiting
	Cluster bool
	Budget  bool // the reason is a budget, be it its own
	Untold  bool // Slurm may not have the start yet: what the job has is left to it, and nothing more is changed
	Never   bool // the budget has no room for it as it is: Until does not count
}

// Decision is what to do about a job, or tasks of an array, and why.
type Decision struct {
	Job    *slurm.Waiting // nil of a record whose job does not wait
	Keys   []Key
	Action Action
	Rule   string   // "": none; of Add and Take: it is for a budget
	To     []string // that are added, or taken away
	Was    []string // the job's own partitions
	Script bool     // its script must be read first
	Begin  bool     // when it loses those of the cloud: it starts at its own place as soon as there is room, not at the start that it was given
	Why    string   // a sentence for its user
	Aside  string   // of Take: what it waits for while others want its place
	// Kept is of Leave: what keeps a job that its rule would move now, in words that stay the same for as long as that does.
	Kept string
	// Early is of Leave: it is only too early to move the job, as far as Slurm's estimates tell.
	Early bool
}
