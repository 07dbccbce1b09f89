package ckpt

import (
	"fmt"
	"time"
)

// Generation is one complete checkpoint: a folder gen-<n> with its manifest.
type Generation struct {
	Dir string // absolute
	Manifest
}

// ID says which one it is of its step.
func (g Generation) ID() ID { return ID{g.Attempt, g.N} }

// Bytes is the size of its files.
func (g Generation) Bytes() int64 {
	var sum int64
	for _, f := range g.Files {
		sum += f.Size
	}
	return sum
}

// ID names a generation of a step. The zero ID names none.
type ID struct {
	Attempt int `json:"attempt"`
	N       int `json:"n"`
}

// Before says whether id is older than b. A later attempt began from what an
// earlier one had made, so whatever it makes is newer, even than what the earlier
// one writes when it is cut off and goes on.
func (id ID) Before(b ID) bool {
	if id.Attempt != b.Attempt {
		return id.Attempt < b.Attempt
	}
	return id.N < b.N
}

func (id ID) String() string { return fmt.Sprintf("generation %d of attempt %d", id.N, id.Attempt) }

// Manifest says what a generation is. It is JSON, indented, for admins to read.
type Manifest struct {
	Format    int           `json:"format"` // 1
	N         int           `json:"n"`      // from 1, counted over all attempts of the step
	Cluster   string        `json:"cluster,omitempty"`
	Job       string        `json:"job"`     // "17", "17_3" for an array's task
	Attempt   int           `json:"attempt"` // the job's restarts when it was made
	Step      string        `json:"step"`    // "0", or the name of burst-srun --once
	Method    string        `json:"method"`
	Tool      string        `json:"tool,omitempty"`
	Ranks     int           `json:"ranks,omitempty"`
	Nodes     int           `json:"nodes,omitempty"`
	Iteration int64         `json:"iteration"` // -1: not known
	Began     time.Time     `json:"began"`
	Took      time.Duration `json:"took_ns"` // from Began until all files were on disk
	Stopped   bool          `json:"stopped"` // the step was ended with it
	// Together: it is worth something with those only that the other steps of its
	// attempt were stopped with, as of a heterogeneous job.
	Together bool              `json:"together,omitempty"`
	Machine  Machine           `json:"machine"`
	Extra    map[string]string `json:"extra,omitempty"`
	Files    []File            `json:"files"` // of the folder, sorted by name, without the manifest
}

// File is one file of a generation.
type File struct {
	Name   string `json:"name"` // slash-separated, below the folder
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // hex
	Mode   uint32 `json:"mode"`   // permission bits
}

// Machine is what images of a process need of the node that they restart on.
type Machine struct {
	Arch     string   `json:"arch"`
	Features []string `json:"cpu_features,omitempty"` // of /proc/cpuinfo, sorted
	Glibc    string   `json:"glibc,omitempty"`        // "2.36"
	Kernel   string   `json:"kernel,omitempty"`
}
