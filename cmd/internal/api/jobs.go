package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// MaxJobs is the most runs that Jobs returns.
const MaxJobs = 10_000

// JobsQuery says which runs of jobs are asked for; zero fields leave none out.
type JobsQuery struct {
	Job   uint32 // also all of an array or of a heterogeneous job
	User  string
	Label string    // or the name of a job without a label
	Since time.Time // that went on since then
	Last  int       // at most so many, those that began last; 1 to MaxJobs
	// UID narrows to the jobs of one user; below 0: all. The server sets it.
	UID int
}

// Job is one run of a job, all attempts of it: one that had a node of ours or a
// burst-srun. What is null is not known.
type Job struct {
	Job       uint32   `json:"job"`
	ArrayJob  uint32   `json:"array_job,omitempty"`
	ArrayTask string   `json:"array_task,omitempty"`
	HetJob    uint32   `json:"het_job,omitempty"`
	Name      string   `json:"name"`
	Label     string   `json:"label,omitempty"`
	Method    string   `json:"method,omitempty"`
	User      string   `json:"user"`
	Account   string   `json:"account,omitempty"`
	Partition string   `json:"partition"`
	Pool      string   `json:"pool,omitempty"`
	Types     []string `json:"instance_types"`
	Nodes     int      `json:"nodes"`      // of the last attempt, as the next two
	VCPUs     int      `json:"vcpus"`      // of its nodes
	MemoryMiB int      `json:"memory_mib"` // of its nodes
	// What the site has measured of the pool.
	NetworkGbit *float64  `json:"network_gbit"` // between two nodes
	StorageIOPS *float64  `json:"storage_iops"` // of the shared storage
	Ranks       int       `json:"ranks,omitempty"`
	Submitted   time.Time `json:"submitted"`
	Started     time.Time `json:"started"`
	Ended       time.Time `json:"ended,omitzero"`
	// State is Slurm's, or UNKNOWN of a job that has ended while nobody looked.
	State    string  `json:"state"`
	Over     bool    `json:"over"` // it has ended for good, and all below is final but the cost
	ExitCode int     `json:"exit_code"`
	Signal   int     `json:"signal,omitempty"`
	Attempts int     `json:"attempts"`
	Seconds  float64 `json:"seconds"` // that it has run, over all attempts
	// ComputingSeconds are those of its steps under burst-srun that have ended.
	ComputingSeconds *float64 `json:"computing_seconds"`
	Checkpoints      int      `json:"checkpoints"`
	WritingSeconds   *float64 `json:"writing_seconds"` // checkpoints
	// SinceCheckpoint is how long ago the last one was, of a job that is not over.
	SinceCheckpoint *float64 `json:"since_checkpoint_seconds"`
	Evictions       int      `json:"evictions"`
	LostSeconds     *float64 `json:"lost_seconds"`    // of work that was done again
	LostUnknown     int      `json:"lost_unknown"`    // restarts for which that is not known
	LostIterations  *int64   `json:"lost_iterations"` // as evictions noted
	Iteration       *int64   `json:"iteration"`       // of the last checkpoint
	// USD is what its share of instances costs of which the price is known; the
	// ledger is booked within a minute.
	USD             *float64 `json:"usd"`
	InstanceSeconds float64  `json:"instance_seconds"`
	UnpricedSeconds float64  `json:"unpriced_seconds,omitempty"` // of these
	// Steps are those that run now under burst-srun, at most MaxSteps.
	Steps []Step `json:"steps,omitempty"`
}

// MaxSteps is how many running steps of a job are listed at most.
const MaxSteps = 16

// Step is a step that runs under burst-srun, as that said last: it speaks twice a
// minute. What is null is not known.
type Step struct {
	Job      uint32 `json:"job"`
	Attempt  int    `json:"attempt"`
	Step     string `json:"step"`
	Host     string `json:"host,omitempty"`
	Method   string `json:"method,omitempty"`
	Strategy string `json:"strategy,omitempty"`
	// Checkpoint is the last one; null: there is none, or it is not known since burstd
	// was started.
	Checkpoint *LastCheckpoint `json:"checkpoint"`
	Iteration  *int64          `json:"iteration"`  // that it is at, where it tells it, or writes it to its output
	Iterations *int64          `json:"iterations"` // of how many
	Heard      time.Time       `json:"heard"`      // when it spoke last
	Silent     bool            `json:"silent"`     // it has not since burstd was started
}

// LastCheckpoint is a step's last one.
type LastCheckpoint struct {
	Attempt      int     `json:"attempt"` // that made it
	Generation   int     `json:"generation"`
	SinceSeconds float64 `json:"since_seconds"` // since it was begun
}

// Jobs is Backend.Jobs; who asks is for the server to see.
func (c *Client) Jobs(ctx context.Context, q JobsQuery) (j []Job, err error) {
	v := url.Values{"job": {strconv.FormatUint(uint64(q.Job), 10)}, "user": {q.User}, "label": {q.Label}, "last": {strconv.Itoa(q.Last)}}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	err = c.call(ctx, http.MethodGet, "/v1/jobs?"+v.Encode(), nil, &j)
	return j, err
}

// getJobs serves users their own jobs, SlurmUser and root all.
func (s *server) getJobs(r *http.Request) (any, error) {
	v := r.URL.Query()
	q := JobsQuery{User: v.Get("user"), Label: v.Get("label"), UID: r.Context().Value(uidKey{}).(int)}
	if s.peers.authz.privileged(q.UID) {
		q.UID = -1
	}
	job, err := strconv.ParseUint(v.Get("job"), 10, 32)
	if err != nil && v.Get("job") != "" {
		return nil, &Error{http.StatusBadRequest, "job is no job's id"}
	}
	q.Job = uint32(job)
	if q.Last, err = strconv.Atoi(v.Get("last")); err != nil || q.Last < 1 || q.Last > MaxJobs {
		return nil, &Error{http.StatusBadRequest, fmt.Sprintf("last is not a number from 1 to %d", MaxJobs)}
	}
	if text := v.Get("since"); text != "" {
		if q.Since, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return nil, &Error{http.StatusBadRequest, "since is not a time as in 2026-01-31T00:00:00Z"}
		}
	}
	return s.backend.Jobs(r.Context(), q)
}
