package srun

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/jobword"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/session"
)

// How long a step waits for burstd before it begins without its word.
const (
	beforeTime = 8 * time.Second
	// Later attempts wait for a burstd that is restarted: it knows which checkpoint
	// counts. And much longer, BURST_WAIT, if without its word the step would begin anew.
	restartTime = 15 * time.Second
	beforePause = 2 * time.Second
	latePause   = 15 * time.Second // beyond restartTime
)

// askBefore asks burstd, for so long while it says that it does not know the
// attempt yet, and in later attempts while it is away. An error says that its word
// is not known.
func askBefore(ctx context.Context, t session.Transport, a jobword.Asking, most time.Duration) (jobword.Before, error) {
	whole, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for began := time.Now(); ; {
		one, cancel := context.WithTimeout(whole, beforeTime)
		var b jobword.Before
		err := t.Do(one, jobword.Path, a, &b)
		cancel()
		wait := beforePause
		if time.Since(began) > restartTime {
			wait = latePause
		}
		if err == nil || !again(err, a.Attempt) || !pause(whole, wait) {
			return b, err
		}
	}
}

// again says whether to ask again may bring an answer that is worth the wait.
func again(err error, attempt int) bool {
	var r *refusal
	if errors.As(err, &r) {
		return r.kind == nil && (r.after > 0 || attempt > 0 && r.status >= http.StatusInternalServerError)
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
