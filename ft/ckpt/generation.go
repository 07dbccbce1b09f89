package ckpt

import "time"

// Generation is one complete checkpoint: a folder gen-<n> with its manifest.
type Generation struct {
	Dir string // absolute
	Manifest
}

// manifestName is the file that makes a folder a generation; it is written last.
const manifestName = "manifest.json"

// Manifest says what a generation is. It is JSON, indented, for admins to read.
type Manifest struct {
	Format    int               `json:"format"` // 1
	N         int               `json:"n"`      // from 1, counted over all attempts of the step
	Cluster   string            `json:"cluster,omitempty"`
	Job       string            `json:"job"`     // "17", "17_3" for an array's task
	Attempt   int               `json:"attempt"` // the job's restarts when it was made
	Step      string            `json:"step"`    // "0", or the name of burst-srun --once
	Method    string            `json:"method"`
	Tool      string            `json:"tool,omitempty"`
	Ranks     int               `json:"ranks,omitempty"`
	Nodes     int               `json:"nodes,omitempty"`
	Iteration int64             `json:"iteration"` // -1: not known
	Began     time.Time         `json:"began"`
	Took      time.Duration     `json:"took_ns"`
	Stopped   bool              `json:"stopped"` // the step was ended with it
	Machine   Machine           `json:"machine"`
	Extra     map[string]string `json:"extra,omitempty"`
	Files     []File            `json:"files"` // of the folder, sorted by name, without the manifest
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
