package srun

import (
	"context"
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

// beforeTime is how long a step waits for burstd before it begins without its word.
const beforeTime = 8 * time.Second

// askBefore asks burstd; an error says that its word is not known.
func askBefore(ctx context.Context, t session.Transport, a Asking) (Before, error) {
	ctx, cancel := context.WithTimeout(ctx, beforeTime)
	defer cancel()
	var b Before
	err := t.Do(ctx, PathBefore, a, &b)
	return b, err
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
