// Package conf writes and checks what slurm.conf says of Burst: the cloud
// nodes, their partitions with power saving of their own, and the settings of
// the controller. It is pure but for Read.
package conf

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Input is what Burst wants slurm.conf to say.
type Input struct {
	Pools    []Pool
	Programs Programs
	User     string   // the SlurmUser that burstd takes orders from
	Expand   bool     // jobs may take in more nodes while they run
	Mixed    []string // partitions of the site that are to hold nodes of pools
	Source   string   // the burst.toml that Pools come from; for the fragment's head
}

// Pool is what slurm.conf says of a pool's nodes. Pools that share a partition
// have the same three times.
type Pool struct {
	Name       string
	Nodes      []string // expanded
	Partition  string
	CPUs       int    // 0: not known, as RealMemory; nothing is then written or compared
	RealMemory int    // MiB
	Cores      int    // 0: not known, as Threads
	Threads    int    // of each core
	GPUs       []GPU  // that jobs may ask for
	GPUNote    string // what the nodes have of GPUs that GPUs does not tell, and why; empty: nothing
	Ports      string // "17001-17006", one for each node; empty: slurmd's own
	Addr       string // NodeAddr before burstd sets it; empty: the hostname
	Hostname   string // NodeHostname; empty: the node's name
	Features   []string
	Sources    []string // features by which jobs are kept to a provider, of a pool with several; of Features
	Options    string   // raw text for the end of the NodeName line
	Configless bool     // its nodes fetch their configuration from slurmctld
	OneHost    bool     // its nodes are slurmds of one host, that of slurmctld
	EFA        bool     // its nodes have EFA devices, with which MPI locks memory
	// Server: its node serves files and runs no job. It has its partition for itself, which takes no
	// jobs, and is never powered down for being idle: SuspendTime is not looked at. In no partition
	// it would have the cluster's ResumeTimeout, 60 s, and slurmctld 22.05 notes its registration
	// half a minute late.
	Server bool

	SuspendTime    time.Duration // idle for so long: powered down
	SuspendWhy     string        // why SuspendTime is what it is; empty: it is the usual, or the site's
	ResumeTimeout  time.Duration // from power-up to registration
	SuspendTimeout time.Duration // from power-down to power-up again
}

// GPU is a kind of generic resource gpu.
type GPU struct {
	Type  string // "a100"
	Count int
}

// Programs are the absolute paths of what slurmctld starts. They take no
// arguments there, so a call that needs any is a script.
type Programs struct {
	Resume, Suspend, ResumeFail string
	Gate                        string
	// Chain is the script that calls the gate and then the PrologSlurmctld
	// that the site has already; used only where it has one.
	Chain string
}

// ProgramsIn names the programs in the folder dir.
func ProgramsIn(dir string) Programs {
	return Programs{
		Resume:     filepath.Join(dir, "burst-resume"),
		Suspend:    filepath.Join(dir, "burst-suspend"),
		ResumeFail: filepath.Join(dir, "burst-resume-fail"),
		Gate:       filepath.Join(dir, "burst-gate"),
		Chain:      "/etc/burst/prolog-slurmctld",
	}
}

// Level is what a finding asks of the admin.
type Level string

const (
	OK      Level = "ok"
	Missing Level = "missing" // must be added
	Wrong   Level = "wrong"   // must be changed
	Advice  Level = "advice"  // works, but look at it
	Unknown Level = "unknown" // could not be told
)

// Finding is one thing that slurm.conf says, or should say.
type Finding struct {
	Level Level  `json:"level"`
	Key   string `json:"key"`
	Have  string `json:"have"`
	Want  string `json:"want"` // empty: nothing to write, Why says what to do
	Why   string `json:"why"`
}

// MustChange says whether the finding stands in the way of bursting.
func (f Finding) MustChange() bool { return f.Level == Missing || f.Level == Wrong }

// CheckOptions says why text cannot be the Options of a Pool.
func CheckOptions(text string) error {
	if strings.ContainsAny(text, "\r\n#\\") {
		return errors.New("holds a line break, a # or a backslash: write key=value words for one line of slurm.conf")
	}
	for _, kv := range pairs(text) {
		switch kv[0] {
		case "nodename", "nodeaddr", "nodehostname", "port", "cpus", "procs", "realmemory", "state", "feature", "features":
			return fmt.Errorf("sets %s, which has a key of its own or is Burst's to write: remove it", kv[0])
		}
	}
	return nil
}
