package srun

import (
	"context"
	"errors"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm/directive"
)

// PathBefore is asked before a job's steps begin: Asking -> Before. It is beside
// session's paths, and needs no session.
const PathBefore = "/v1/job/before"

// Asking names an attempt of a job, a step of which is about to begin.
type Asking struct {
	Job     uint32 `json:"job"`
	Attempt int    `json:"attempt"`
}

// Before is what burstd knows before a step begins.
type Before struct {
	Site directive.Defaults `json:"site"` // what the site says of the job
	// Blessed has, by step, the last good generation that is on record.
	Blessed map[string]ckpt.ID `json:"blessed,omitempty"`
}

// How long a step waits for burstd before it begins without its word.
const (
	beforeTime = 8 * time.Second
	// Later attempts wait for a burstd that is restarted: it knows which checkpoint
	// counts. And longer if the site's word may be all that asks for checkpoints:
	// without it the step would begin anew.
	restartTime = 15 * time.Second
	silentTime  = 2 * time.Minute
	beforePause = 2 * time.Second
)

// askBefore asks burstd, for so long while it says that it does not know the
// attempt yet, and in later attempts while it is away. An error says that its word
// is not known.
func askBefore(ctx context.Context, t session.Transport, a Asking, most time.Duration) (Before, error) {
	whole, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		one, cancel := context.WithTimeout(whole, beforeTime)
		var b Before
		err := t.Do(one, PathBefore, a, &b)
		cancel()
		if err == nil || !again(err, a.Attempt) || !pause(whole, beforePause) {
			return b, err
		}
	}
}

// again says whether to ask again may bring an answer that is worth the wait.
func again(err error, attempt int) bool {
	var r *refusal
	if errors.As(err, &r) {
		return r.kind == nil && r.after > 0
	}
	return attempt > 0
}

// noting is a Transport that notes which generations burstd has on record.
type noting struct {
	session.Transport
	attempt int
	note    func(ckpt.ID)
}

// Do implements session.Transport.
func (n noting) Do(ctx context.Context, path string, in, out any) error {
	err := n.Transport.Do(ctx, path, in, out)
	if err != nil {
		return err
	}
	switch v := in.(type) {
	case session.Given:
		n.saw(v.Answer)
	case session.Hello:
		n.saw(v.Last)
	}
	return nil
}

func (n noting) saw(a session.Answer) {
	if a.Generation != "" {
		n.note(ckpt.ID{Attempt: n.attempt, N: a.N})
	}
}
