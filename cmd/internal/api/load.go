package api

import "time"

// MaxListed is how many jobs and notices a Status lists at most; their numbers are
// complete.
const MaxListed = 100

// PoolLoad is what a pool has and costs now.
type PoolLoad struct {
	Pool       string         `json:"pool"`
	Nodes      map[string]int `json:"nodes"`     // by journal state
	Instances  int            `json:"instances"` // live
	Ending     int            `json:"ending"`    // of these, being ended
	USDPerHour float64        `json:"usd_per_hour"`
	Unpriced   int            `json:"unpriced"`         // live instances without a known price
	Unused     bool           `json:"unused,omitempty"` // a server of files runs, and no node is there that mounts from it
}

// Waiting is a job whose nodes could not be had.
type Waiting struct {
	Job   uint32    `json:"job"`
	Until time.Time `json:"until"` // when it is tried again
	Why   string    `json:"why"`
	Tries int       `json:"tries"` // so far, in a row
}

// Evicting is a notice that is being acted upon.
type Evicting struct {
	Node     string        `json:"node,omitempty"` // empty: not known yet
	Instance string        `json:"instance"`
	Kind     string        `json:"kind"`
	Deadline time.Time     `json:"deadline,omitzero"` // zero: the cloud names none
	Stage    string        `json:"stage"`
	Jobs     []EvictingJob `json:"jobs,omitempty"`
}

// EvictingJob is a job on the node that goes.
type EvictingJob struct {
	Job   uint32 `json:"job"`
	Stage string `json:"stage"` // "planned", "signalled", "requeued", "done"
}
