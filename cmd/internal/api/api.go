// Package api is burstd's HTTP API over its unix socket: the types, the
// server and the client. It imports nothing heavy, because burst-resume
// links it and must be done in milliseconds.
//
//	POST /v1/orders   an Order                      SlurmUser, root
//	POST /v1/gate     a GateRequest -> GateAnswer   SlurmUser, root
//	GET  /v1/status   -> Status                     anybody on the host
//	GET  /v1/nodes    -> []NodeStatus (node)        anybody on the host
//	GET  /v1/events   -> []Event (after, wait)      anybody on the host
//	GET  /v1/boots    -> []Boot (node, job, last)   anybody on the host
//	GET  /v1/pools    -> []PoolStatus               anybody on the host
//	POST /v1/pools    a PoolChange                  SlurmUser, root
//	POST /v1/pause    a PauseChange                 SlurmUser, root
//	POST /v1/evict    an EvictRequest -> []Evicted  SlurmUser, root
//	POST /v1/reconcile a ReconcileRequest -> []Planned  SlurmUser, root
//	GET  /v1/usage    -> []Usage (since, until, by) anybody, of own jobs; SlurmUser, root: of all
//	GET  /v1/bills    -> []Bill (since)             SlurmUser, root
//	GET  /v1/budget   -> []BudgetRow                anybody, of own caps; SlurmUser, root: of all
//	GET  /v1/jobs     -> []Job (job, user, label, since, last)  the same
//	POST /v1/overflow an OverflowAsk -> []OverflowJob           the same
//	GET  /v1/overflow -> []Overflowed (last)                    the same
//	POST /v1/explain  an ExplainAsk -> []Explained              the same
package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// What Slurm can ask.
const (
	Resume     = "resume"
	Suspend    = "suspend"
	ResumeFail = "resume-fail"
)

// Order is what Slurm asked, as handed over. The client makes its ID, so that
// an order that comes twice is one.
type Order struct {
	ID         string    `json:"id"`                    // 32 hex digits, random
	Kind       string    `json:"kind"`                  // Resume, Suspend or ResumeFail
	Nodes      string    `json:"nodes"`                 // hostlist, as Slurm gave it
	ResumeFile string    `json:"resume_file,omitempty"` // text of SLURM_RESUME_FILE, unparsed
	Made       time.Time `json:"made"`
}

// NewOrder makes an order with a fresh ID, made now.
func NewOrder(kind, nodes, resumeFile string) Order {
	var id [16]byte
	rand.Read(id[:]) // never fails
	return Order{ID: hex.EncodeToString(id[:]), Kind: kind, Nodes: nodes, ResumeFile: resumeFile, Made: time.Now()}
}

// Validate says what is wrong with the order's form. Whether its nodes exist
// is for burstd to say.
func (o Order) Validate() error {
	if id, err := hex.DecodeString(o.ID); err != nil || len(id) != 16 || strings.ToLower(o.ID) != o.ID {
		return fmt.Errorf("order id %.40q is not 32 lower-case hex digits", o.ID)
	}
	switch o.Kind {
	case Resume, Suspend, ResumeFail:
	default:
		return fmt.Errorf("order kind %.40q is none of %q, %q, %q", o.Kind, Resume, Suspend, ResumeFail)
	}
	if strings.TrimSpace(o.Nodes) == "" {
		return errors.New("order names no nodes")
	}
	if i := strings.IndexFunc(o.Nodes, func(r rune) bool { return r <= ' ' || r == 0x7f }); i >= 0 {
		return fmt.Errorf("order's node list has %q at byte %d", o.Nodes[i], i)
	}
	if o.Made.IsZero() {
		return errors.New("order has no time")
	}
	return nil
}

// Event is one line of burstd's history.
type Event struct {
	Seq      int64           `json:"seq"` // grows by at least 1, also over restarts
	Time     time.Time       `json:"time"`
	Kind     string          `json:"kind"`
	Node     string          `json:"node,omitempty"`
	Instance string          `json:"instance,omitempty"`
	Pool     string          `json:"pool,omitempty"`
	Job      uint32          `json:"job,omitempty"`
	Text     string          `json:"text"`
	Data     json.RawMessage `json:"data,omitempty"`
}

// NodeStatus is one of our nodes: as Slurm, the journal and the cloud have it.
type NodeStatus struct {
	Node     string    `json:"node"`
	Pool     string    `json:"pool"`
	Slurm    string    `json:"slurm"` // Slurm's state string; empty: not known
	Journal  string    `json:"journal"`
	Instance string    `json:"instance,omitempty"`
	Offering string    `json:"offering,omitempty"`
	Provider string    `json:"provider,omitempty"` // of the instance
	Addr     string    `json:"addr,omitempty"`
	Since    time.Time `json:"since,omitzero"` // of the journal's state
	Reason   string    `json:"reason,omitempty"`
}

// Status is the daemon's state in numbers.
type Status struct {
	Cluster    string            `json:"cluster"`
	Version    string            `json:"version"`
	Started    time.Time         `json:"started"`
	SlurmOK    bool              `json:"slurm_ok"`
	SlurmError string            `json:"slurm_error,omitempty"`
	Nodes      map[string]int    `json:"nodes"`                     // by journal state
	Orders     int               `json:"orders"`                    // open
	Instances  int               `json:"instances"`                 // live
	Evictions  int               `json:"evictions"`                 // under way
	Spooled    int               `json:"spooled"`                   // orders that wait in the spool
	Providers  map[string]string `json:"providers"`                 // name -> "ok" or its last error
	Places     map[string]string `json:"places,omitempty"`          // of the providers: name -> config.Provider.Place
	Accounts   map[string]string `json:"accounts,omitempty"`        // of the providers: name -> AccountMark of the account; lacks those of which it is not known; for SlurmUser and root
	Stopped    map[string]string `json:"stopped_pools,omitempty"`   // name -> why
	ByHand     []string          `json:"stopped_by_hand,omitempty"` // of Stopped those that an admin has stopped
	Servers    map[string]string `json:"servers,omitempty"`         // of files, by node: what is wrong with those with which something is
	Left       map[string]string `json:"left,omitempty"`            // of providers that are not configured, by name: what nobody watches
	Files      []FilesOn         `json:"files,omitempty"`           // instances that end with files which they serve
	Paused     *Paused           `json:"paused,omitempty"`          // nil: pools launch
	Pools      []PoolLoad        `json:"pools,omitempty"`           // in the order of the file
	USDPerHour *float64          `json:"usd_per_hour,omitempty"`    // of the live instances with a known price; nil: not summed up yet
	Unpriced   int               `json:"unpriced,omitempty"`        // live instances without a known price
	Wait       int               `json:"wait,omitempty"`            // jobs whose nodes could not be had
	Waiting    []Waiting         `json:"waiting,omitempty"`         // of these the next to be tried
	Evicting   []Evicting        `json:"evicting,omitempty"`        // the notices under way with the nearest deadlines
	Running    int               `json:"running_steps,omitempty"`   // steps under burst-srun
	Steps      []Step            `json:"steps,omitempty"`           // of these those with the oldest checkpoint, or none
}

// FilesOn is an instance with files on its disk that it serves; its pool may have left burst.toml.
type FilesOn struct {
	Instance string `json:"instance"`
	Node     string `json:"node"`
	Pool     string `json:"pool"`
}

// GateRequest asks whether a job may start.
type GateRequest struct {
	Job   uint32        `json:"job"`
	Nodes string        `json:"nodes"` // hostlist of the job's allocation
	Wait  time.Duration `json:"wait"`  // longest wait for a Go, nanoseconds in JSON
}

// GateAnswer says whether the job's gate is open, and why or why not.
type GateAnswer struct {
	Go  bool   `json:"go"`
	Why string `json:"why"`
}

// Backend is what the server needs of the daemon. Methods may be called
// concurrently; those that wait return when ctx ends.
type Backend interface {
	// AddOrder returns nil once the order is durable; the same ID again is nil.
	AddOrder(ctx context.Context, o Order) error
	Status(ctx context.Context) (Status, error)
	Nodes(ctx context.Context) ([]NodeStatus, error)
	// Events returns events after the given one, oldest first, a bounded number
	// at a time; after < 0 asks for the last -after of them. If there are none it
	// waits up to wait for one, and returns none without an error.
	Events(ctx context.Context, after int64, wait time.Duration) ([]Event, error)
	// Boots returns the newest boots, at most last of them, oldest first: of all
	// jobs with job 0, else of that one; of all nodes with node "", else of that one.
	Boots(ctx context.Context, node string, job uint32, last int) ([]Boot, error)
	// Pools returns all, by name.
	Pools(ctx context.Context) ([]PoolStatus, error)
	// ChangePool returns nil once the change is durable.
	ChangePool(ctx context.Context, c PoolChange) error
	// Budget tells how the caps stand; uid narrows to one user's, below 0: all.
	Budget(ctx context.Context, uid int) ([]BudgetRow, error)
	// Usage sums the ledger up, the most expensive first.
	Usage(ctx context.Context, q UsageQuery) ([]Usage, error)
	// Bills compares the ledger with the providers' words, for each instance that was gone since a time.
	Bills(ctx context.Context, since time.Time) ([]Bill, error)
	// Jobs returns runs of jobs, oldest first.
	Jobs(ctx context.Context, q JobsQuery) ([]Job, error)
	// Gate returns at once when the gate is open, else after wait at the latest.
	Gate(ctx context.Context, job uint32, nodes string, wait time.Duration) (GateAnswer, error)
	// Explain says what a job waits for, what has become of it, or what would become of one.
	Explain(ctx context.Context, ask ExplainAsk) ([]Explained, error)
	Control
	Overflower
}

// Error is an answer of burstd that is not a success.
type Error struct {
	Status  int    // HTTP status
	Message string // burstd's own words
}

func (e *Error) Error() string { return fmt.Sprintf("burstd: %s (%d)", e.Message, e.Status) }

// ErrAway is wrapped when nobody answers on the socket.
var ErrAway = errors.New("burstd does not answer")

// Limits that client and server keep.
const (
	maxOrder  = 64 << 20         // bytes of an order: 10,000 nodes and their resume file fit many times
	maxBody   = 1 << 20          // bytes of any other request
	maxAnswer = 256 << 20        // bytes of an answer
	MaxWait   = 60 * time.Second // of one long poll; longer waits are cut to it
)
