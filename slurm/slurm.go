// Package slurm talks to a Slurm controller over scontrol, squeue and
// scancel: it reads nodes and jobs, and changes them. The parsers are pure.
package slurm

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// Node is what Slurm says of a node.
type Node struct {
	Name       string    `json:"name"`
	Addr       string    `json:"addr"`
	Hostname   string    `json:"hostname"`
	State      NodeState `json:"state"`
	Partitions []string  `json:"partitions,omitempty"`
	Features   []string  `json:"features,omitempty"`  // active: jobs are given the node by them
	Available  []string  `json:"available,omitempty"` // features of slurm.conf
	CPUs       int       `json:"cpus"`
	AllocCPUs  int       `json:"alloc_cpus"`
	RealMemory int       `json:"real_memory"` // MiB
	Gres       string    `json:"gres,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	BootTime   time.Time `json:"boot_time,omitzero"`
	Started    time.Time `json:"slurmd_start,omitzero"` // slurmd's start
	LastBusy   time.Time `json:"last_busy,omitzero"`
}

// NodeState is a base state (IDLE, ALLOCATED, MIXED, DOWN, …) and its flags
// (POWERED_DOWN, POWERING_UP, NOT_RESPONDING, …), upper case, as
// `scontrol -o show node` joins them with "+"; the one-letter suffix of older
// versions ("*") is read as NOT_RESPONDING.
type NodeState struct {
	Base  string   `json:"base"`
	Flags []string `json:"flags,omitempty"`
}

// Flags that Burst acts on.
const (
	PoweredDown   = "POWERED_DOWN"
	PoweringUp    = "POWERING_UP"
	PoweringDown  = "POWERING_DOWN"
	PowerUp       = "POWER_UP"   // asked for, not begun
	PowerDown     = "POWER_DOWN" // asked for, not begun
	NotResponding = "NOT_RESPONDING"
	Drain         = "DRAIN"
	Completing    = "COMPLETING"
	Reserved      = "RESERVED" // by a reservation that has begun
	Maintenance   = "MAINTENANCE"
)

// Has says whether the state carries the flag.
func (s NodeState) Has(flag string) bool { return slices.Contains(s.Flags, flag) }

func (s NodeState) String() string { return strings.Join(append([]string{s.Base}, s.Flags...), "+") }

// Job is what Slurm says of a job.
type Job struct {
	ID           uint32    `json:"id"`
	ArrayID      uint32    `json:"array_id,omitempty"`   // ArrayJobId, 0 if none
	ArrayTask    string    `json:"array_task,omitempty"` // "5"; "3-5%2" for the tasks not yet begun
	HetID        uint32    `json:"het_id,omitempty"`     // HetJobId, 0 if none
	Name         string    `json:"name"`
	User         string    `json:"user"`
	UID          int       `json:"uid"`
	Account      string    `json:"account,omitempty"`
	Partition    string    `json:"partition"`
	State        string    `json:"state"`  // base state: PENDING, CONFIGURING, RUNNING, COMPLETING, …
	Reason       string    `json:"reason"` // BeginTime, Resources, JobHeldUser, …
	Requeue      bool      `json:"requeue"`
	Batch        bool      `json:"batch"`
	Restarts     int       `json:"restarts"`
	ExitCode     int       `json:"exit_code"` // of the batch script, 0–255
	ExitSignal   int       `json:"exit_signal"`
	NumNodes     int       `json:"num_nodes"`
	Nodes        string    `json:"nodes,omitempty"` // hostlist of the allocation; may be the last one of a PENDING job
	BatchHost    string    `json:"batch_host,omitempty"`
	AdminComment string    `json:"admin_comment,omitempty"`
	Comment      string    `json:"comment,omitempty"`
	Features     string    `json:"features,omitempty"` // the expression of --constraint
	Required     string    `json:"required,omitempty"` // hostlist of --nodelist
	Submitted    time.Time `json:"submitted,omitzero"`
	Eligible     time.Time `json:"eligible,omitzero"` // not started before
	Start        time.Time `json:"start,omitzero"`
	End          time.Time `json:"end,omitzero"`

	TimeLimit time.Duration `json:"time_limit,omitzero"` // 0: none
}

// Snapshot is one reading of the controller. A failed reading is never a Snapshot.
type Snapshot struct {
	Taken time.Time       `json:"taken"` // before the first command was run
	Nodes map[string]Node `json:"nodes"`
	Jobs  map[uint32]Job  `json:"jobs"`
}

// Partitions are those that have one of the nodes meant.
func (s *Snapshot) Partitions(meant func(node string) bool) map[string]bool {
	all := map[string]bool{}
	for name, n := range s.Nodes {
		if !meant(name) {
			continue
		}
		for _, p := range n.Partitions {
			all[p] = true
		}
	}
	return all
}

// Mixed says of jobs that they may begin in the cloud and beside it by one partition, which has nodes of both, and have none
// that has the site's alone: what keeps such a job from the cloud keeps it from the site. Of a heterogeneous one that is so if
// it is so of each part that may have nodes of the cloud.
func (s *Snapshot) Mixed(cloud func(node string) bool) func(Job) bool {
	sides := sync.OnceValues(func() (cloudy, site map[string]bool) {
		return s.Partitions(cloud), s.Partitions(func(n string) bool { return !cloud(n) })
	})
	one := func(j Job) (mixed, may bool) {
		cloudy, site := sides()
		own := false
		for p := range strings.SplitSeq(j.Partition, ",") {
			may = may || cloudy[p]
			mixed = mixed || cloudy[p] && site[p]
			own = own || site[p] && !cloudy[p]
		}
		return mixed && !own, may
	}
	return func(j Job) bool {
		mixed, _ := one(j)
		if j.HetID == 0 {
			return mixed
		}
		some := false
		for _, part := range s.Jobs {
			if part.HetID != j.HetID {
				continue
			}
			if mixed, may := one(part); may && !mixed {
				return false
			} else if mixed {
				some = true
			}
		}
		return some
	}
}
