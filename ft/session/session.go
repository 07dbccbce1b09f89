// Package session is what burst-srun and burstd say to each other: which step
// of which job runs under which method, that it is to checkpoint by some time,
// and what came of it. It has the words and the two ends; authentication and
// transport are the caller's.
//
// burst-srun opens a session and then asks, again and again, for what is to be
// done: each question waits up to Poll for an answer. A burstd that restarts
// knows no session: the next question is refused with ErrUnknown, and burst-srun
// opens it anew, with the last request that it has had and what came of it.
package session

import "time"

// Hello opens a session. Its key is (Job, Attempt, Step).
type Hello struct {
	Job      uint32 `json:"job"`
	Attempt  int    `json:"attempt"` // SLURM_RESTART_COUNT
	Step     string `json:"step"`
	Host     string `json:"host"`
	Method   string `json:"method"`
	Strategy string `json:"strategy"`
	Dir      string `json:"dir"` // where generations go
	// Interval is the time between periodic checkpoints; zero: burstd is asked for
	// one (auto), or there are none.
	Interval time.Duration `json:"interval"`
	Cost     time.Duration `json:"cost"` // the longest of this step's last three checkpoints; 0: none yet
	Last     Answer        `json:"last"` // to the last request, if it was not delivered; zero: none
}

// Request is what burstd asks of a step. A later one replaces an earlier one.
type Request struct {
	ID   string    `json:"id"`
	Kind Kind      `json:"kind"`
	By   time.Time `json:"by"` // after that the answer is worth nothing
	Why  string    `json:"why"`
}

// Kind of a Request.
type Kind string

const (
	Checkpoint Kind = "checkpoint"          // and go on
	Stop       Kind = "checkpoint-and-stop" // the step is to end with it
	Leave      Kind = "stop"                // no time for a checkpoint: end; the last generation counts
	Cancel     Kind = "cancel"              // the last request is off
)

// Answer is what came of a request, or of a periodic checkpoint (ID is empty).
type Answer struct {
	ID         string        `json:"id,omitempty"`
	Generation string        `json:"generation,omitempty"` // its folder; empty: none was made
	N          int           `json:"n,omitempty"`
	Bytes      int64         `json:"bytes,omitempty"`
	Took       time.Duration `json:"took,omitempty"`
	Iteration  int64         `json:"iteration,omitempty"` // -1: not known
	Stopped    bool          `json:"stopped,omitempty"`   // the step has ended with it
	Error      string        `json:"error,omitempty"`     // why there is no generation
}

// Progress is what a step says while it runs: of a checkpoint under way, or of itself.
type Progress struct {
	Done      float64 `json:"done"`      // of the checkpoint under way, 0 to 1; -1: not known
	Iteration int64   `json:"iteration"` // -1: not known
}
