package api

import (
	"context"
	"net/http"
	"time"
)

// ExplainAsk asks what a job waits for, or what would become of one. One of Job and Would is set.
type ExplainAsk struct {
	Job   string `json:"job,omitempty"` // "7", or a task "7_3"; that of an array is about all of its tasks
	Would *Would `json:"would,omitempty"`
	// UID narrows to the jobs of one user; below 0: all. Of the job that would be, it is the owner's. The server sets them.
	UID int `json:"-"`
	By  int `json:"-"`
}

// Would is a job that is not submitted, as its script and sbatch's options in it have it.
type Would struct {
	Script    string        `json:"script"` // its text, or the beginning of a long one
	Comment   string        `json:"comment,omitempty"`
	Partition string        `json:"partition,omitempty"` // names, with commas; empty: Slurm's default
	Account   string        `json:"account,omitempty"`
	QOS       string        `json:"qos,omitempty"`
	Nodes     int           `json:"nodes"` // 0: not said
	Tasks     int           `json:"tasks"`
	CPUs      int           `json:"cpus"`                 // of a task
	MinCPUs   int           `json:"min_cpus,omitempty"`   // of a node; 0: not said
	Memory    int           `json:"memory_mib,omitempty"` // of a node; 0: not said
	AllMemory bool          `json:"all_memory,omitempty"` // of its nodes: --mem=0
	Limit     time.Duration `json:"limit,omitempty"`      // 0: not said
	Features  string        `json:"features,omitempty"`
	Licenses  string        `json:"licenses,omitempty"`
	PerNode   string        `json:"gres,omitempty"`
	PerJob    string        `json:"gres_of_job,omitempty"`
	PerTask   string        `json:"gres_of_task,omitempty"`
	PerSocket string        `json:"gres_of_socket,omitempty"`
	Required  string        `json:"nodelist,omitempty"`
	Reserved  string        `json:"reservation,omitempty"`
	WorkDir   string        `json:"work_dir,omitempty"`
	Stdin     string        `json:"stdin,omitempty"`
	Stdout    string        `json:"stdout,omitempty"`
	Stderr    string        `json:"stderr,omitempty"`
	Whole     bool          `json:"exclusive,omitempty"`
	Het       bool          `json:"het,omitempty"`
	Held      bool          `json:"held,omitempty"`
	NoRequeue bool          `json:"no_requeue,omitempty"` // Slurm may not requeue it, or by default
}

// MaxScript is what of a script is sent at most, in bytes.
const MaxScript = 256 << 10

// Explained is what burstd says of a job: one line, and what it rests on.
type Explained struct {
	Job     string   `json:"job,omitempty"` // empty: it is not submitted
	User    string   `json:"user,omitempty"`
	State   string   `json:"state"` // Slurm's; "SCRIPT" of one that is not submitted
	Line    string   `json:"line"`
	Where   []Place  `json:"where"`   // in the cloud: where it is, or may be
	Details []string `json:"details"` // what else is known
}

// Place is a part of a pool where a job's nodes are, or would be launched now.
type Place struct {
	Partition  string    `json:"partition"`
	Pool       string    `json:"pool"`
	Provider   string    `json:"provider"`
	Offering   string    `json:"offering,omitempty"` // empty: it is not known, or there is none now
	Nodes      int       `json:"nodes"`
	USDPerHour *float64  `json:"usd_per_hour"`        // of all of these nodes; null: not known
	Priced     time.Time `json:"priced,omitzero"`     // when the price was so
	When       string    `json:"when,omitempty"`      // a launch there has to wait, and until when; empty: it has not
	Forbidden  string    `json:"forbidden,omitempty"` // why nothing is launched there now
}

// Explain is Backend.Explain; who asks is for the server to see.
func (c *Client) Explain(ctx context.Context, ask ExplainAsk) (all []Explained, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/explain", ask, &all)
	return all, err
}

// postExplain tells users of their own jobs, SlurmUser and root of all.
func (s *server) postExplain(r *http.Request) (any, error) {
	var ask ExplainAsk
	if err := decode(r.Body, &ask); err != nil {
		return nil, err
	}
	switch {
	case (ask.Job == "") == (ask.Would == nil):
		return nil, &Error{http.StatusBadRequest, "the request is about a job or about a script, one of them"}
	case ask.Would != nil && len(ask.Would.Script) > MaxScript:
		return nil, &Error{http.StatusBadRequest, "the script is too long"}
	}
	ask.By = r.Context().Value(uidKey{}).(int)
	if ask.UID = ask.By; s.peers.authz.privileged(ask.By) {
		ask.UID = -1
	}
	return s.backend.Explain(r.Context(), ask)
}
