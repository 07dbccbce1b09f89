// Package session is what burst-srun and burstd say to each other: which step
// of which job runs under which method, that it is to checkpoint by some time,
// and what came of it. It has the words and the two ends, a Client and a Hub;
// authentication and transport are the caller's.
//
// burst-srun opens a session and then asks, again and again, for what is to be
// done: each question waits up to Poll for an answer, and names the last request
// that has come, so that one whose answer was lost on the way is given again. A
// burstd that restarts knows no session: the next question is refused with
// ErrUnknown, and burst-srun opens it anew, with what came of its last request.
//
//	burst-srun                                burstd
//	  open {hello}                      ->      journal: the step has a session
//	  poll {have ""}                    ->      ... nothing for up to Poll
//	                                    <-      {}
//	  poll {have ""}                    ->      journal: the request; then
//	                                    <-      {request r1, left 110s}
//	  poll {have r1}                    ->      ... (progress goes with it)
//	  answer {r1, generation}           ->      journal: the generation is blessed; then
//	                                    <-      {}
//	  close {summary}                   ->      journal: the step has ended, and how it went; then
//	                                    <-      {cost}
package session

import (
	"errors"
	"time"
)

// Poll is the longest that a question waits: below the minute after which
// firewalls and NAT gateways forget a silent connection.
const Poll = 27 * time.Second

// WaitTime is for how long beyond a request's time a step that has ended for it waits
// to be requeued, and burstd for its answer: it may still be bringing its generation
// to disk.
const WaitTime = 10 * time.Minute

// The paths of the four things that burst-srun says.
const (
	PathOpen   = "/v1/job/open"   // Hello -> Word
	PathPoll   = "/v1/job/poll"   // Question -> Word
	PathAnswer = "/v1/job/answer" // Given -> {}
	PathClose  = "/v1/job/close"  // End -> Closed
)

// Why burstd refuses. Any other error is none of the step's: it asks again.
var (
	// ErrUnknown: there is no such session, as after a restart of burstd: open it.
	ErrUnknown = errors.New("burstd knows no such session")
	// ErrReplaced: a later burst-srun of the same step has opened one, or the job
	// has been started anew.
	ErrReplaced = errors.New("a later burst-srun has taken the session over")
	// ErrNotYours: the session or the job is another user's.
	ErrNotYours = errors.New("the job is another user's")
	// ErrInvalid: what was said cannot be.
	ErrInvalid = errors.New("burstd does not take this")
	// ErrFull: too many sessions, of all or of this job.
	ErrFull = errors.New("burstd has too many sessions")
)

// Key names a session.
type Key struct {
	Job     uint32 `json:"job"`
	Attempt int    `json:"attempt"` // SLURM_RESTART_COUNT
	Step    string `json:"step"`
}

// Hello opens a session.
type Hello struct {
	Key
	// Token is this burst-srun's own, at random; Client makes it.
	Token string `json:"token"`
	// Began is when this burst-srun did: of two with one key the later counts.
	Began    time.Time `json:"began"`
	Host     string    `json:"host"`
	Method   string    `json:"method"`
	Strategy string    `json:"strategy"`
	Dir      string    `json:"dir"` // where generations go; absolute, or empty
	// Interval is the time between periodic checkpoints; zero: burstd is asked for
	// one (auto), or there are none.
	Interval time.Duration `json:"interval"`
	Cost     time.Duration `json:"cost"` // the longest of this step's last three checkpoints; 0: none yet
	// Retries is how often in a row the job is requeued without a new generation.
	Retries int `json:"retries"`
	// Together: the step's checkpoints are of worth only with those of the job's other
	// steps that say so, made by the same request.
	Together bool   `json:"together,omitempty"`
	Label    string `json:"label,omitempty"` // for the runs of the program; empty: none was given
	Last     Answer `json:"last"`            // to the last request, delivered or not; zero: none
}

// Question asks what is to be done.
type Question struct {
	Key
	Token string `json:"token"`
	// Have is the ID of the last request that has come, and Held whether it came
	// as one that waits for its turn.
	Have     string        `json:"have,omitempty"`
	Held     bool          `json:"held,omitempty"`
	Wait     time.Duration `json:"wait"` // how long at most; never above Poll
	Progress *Progress     `json:"progress,omitempty"`
}

// Word is burstd's answer to a Hello or a Question.
type Word struct {
	Request *Request `json:"request,omitempty"` // nil: go on
	// Waited is for how long the question did: Request.Left counts from so long
	// after the question was sent, at the earliest.
	Waited time.Duration `json:"waited,omitempty"`
	// Interval is the time between periodic checkpoints that burstd advises to
	// those that asked for one; 0: none.
	Interval time.Duration `json:"interval,omitempty"`
}

// Request is what burstd asks of a step. A later one replaces an earlier one; of the
// same kind it only shortens the time of what is under way.
type Request struct {
	ID   string    `json:"id"`
	Kind Kind      `json:"kind"`
	By   time.Time `json:"by"` // by burstd's clock; after that the answer is worth nothing
	// Left is the time until By when the request was handed out: nodes' clocks may
	// be wrong. Client sets By from it, by the clock of its own host.
	Left time.Duration `json:"left"`
	Why  string        `json:"why"`
	// Held: not yet, too many write at once. It is given again when its turn comes.
	Held bool `json:"held,omitempty"`
}

// Kind of a Request.
type Kind string

const (
	Checkpoint Kind = "checkpoint"          // and go on
	Stop       Kind = "checkpoint-and-stop" // the step is to end with it
	Leave      Kind = "stop"                // no time for a checkpoint: end; the last generation counts
	Cancel     Kind = "cancel"              // the last request is off
)

// Given is an answer on its way.
type Given struct {
	Key
	Token  string `json:"token"`
	Answer Answer `json:"answer"`
}

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

// End closes a session: the step has ended.
type End struct {
	Key
	Token   string   `json:"token"`
	Summary *Summary `json:"summary,omitempty"` // nil: burst-srun does not say
}

// Closed is burstd's answer to an End.
type Closed struct {
	// Cost is a line for the user, of what the job has cost so far; empty: burstd does not say.
	Cost string `json:"cost,omitempty"`
}

// Summary is how a step went, over all attempts of its job, as its burst-srun has it.
type Summary struct {
	Label       string        `json:"label,omitempty"`
	Method      string        `json:"method,omitempty"`
	Exit        int           `json:"exit"`
	Ranks       int           `json:"ranks,omitempty"` // tasks; 0: not known
	Ran         time.Duration `json:"ran"`
	Checkpoints int           `json:"checkpoints"`
	Writing     time.Duration `json:"writing"` // checkpoints
	Restarts    int           `json:"restarts"`
	Lost        time.Duration `json:"lost"`         // work that was done again
	LostUnknown int           `json:"lost_unknown"` // restarts of which the work lost is not known
	Iteration   int64         `json:"iteration"`    // the last one; -1: not known
}

// Progress is what a step says while it runs: of a checkpoint under way, or of itself.
type Progress struct {
	Done      float64 `json:"done"`         // of the checkpoint under way, 0 to 1; -1: not known
	Iteration int64   `json:"iteration"`    // -1: not known
	Of        int64   `json:"of,omitempty"` // the last iteration that there will be; 0: not known
	// The step's last checkpoint: its generation, the attempt that made it, and how
	// long ago it was begun. Generation is 0 if there is none.
	Generation int           `json:"generation,omitempty"`
	Attempt    int           `json:"attempt,omitempty"`
	Since      time.Duration `json:"since,omitempty"`
}
