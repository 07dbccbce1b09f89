package srun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/jobword"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm/step"
)

const (
	// waitName says how long a later attempt waits for who knows how the job goes on.
	waitName    = "BURST_WAIT"
	defaultWait = 10 * time.Minute
	mostWait    = 24 * time.Hour
)

// waitOf is how long that is.
func waitOf(env func(string) string) (time.Duration, error) {
	text := env(waitName)
	if text == "" {
		return defaultWait, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > mostWait {
		return 0, fmt.Errorf("%s=%.40q is no time from 0s to %v, as 10m", waitName, text, mostWait)
	}
	return d, nil
}

// hear asks burstd what it knows before the step begins. An error says that its
// word is not known.
func (p *program) hear(ctx context.Context, k *known, most time.Duration) error {
	last := lastError{Transport: k.transport}
	said := time.AfterFunc(beforeTime+time.Second, func() {
		p.say("%s: it may know how this job goes on, and is waited for up to %v", silent(last.get()), most)
	})
	defer said.Stop()
	word, err := askBefore(ctx, &last, jobword.Asking{Job: k.job.ID, Attempt: k.job.Attempt}, most)
	if k.silence = err; err == nil {
		k.word, k.heard = word, true
	} else if told := last.get(); told != nil {
		k.silence = told
	}
	return err
}

// lastError is a Transport that keeps what went wrong last, but for its time.
type lastError struct {
	session.Transport
	mu  sync.Mutex
	err error
}

// Do implements session.Transport.
func (l *lastError) Do(ctx context.Context, path string, in, out any) error {
	err := l.Transport.Do(ctx, path, in, out)
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() == nil {
		l.err = err
	}
	return err
}

func (l *lastError) get() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// silent says what burstd does instead of saying what it knows.
func silent(err error) string {
	var no *refusal
	var unbelieved unbelievedError
	switch {
	case errors.As(err, &unbelieved):
		return fmt.Sprintf("what answers in burstd's place is not believed (%v)", err)
	case errors.As(err, &no) && no.status < http.StatusInternalServerError && no.after == 0:
		return fmt.Sprintf("burstd refuses to say what it knows (%v)", err)
	}
	return "burstd does not answer"
}

func (k known) silent() string { return silent(k.silence) }

// hearSoon is hear for as long as is worth it for any step. While burstd is away what
// it has said before another step of this attempt counts: one attempt's steps are not
// to go to different folders.
func (p *program) hearSoon(ctx context.Context, k *known) error {
	most := beforeTime
	switch {
	case k.job.Attempt == 0 && left(os.TempDir(), k.job, isAway, time.Now().Add(-stillAway)):
		most = glanceTime
	case k.job.Attempt > 0 && !k.away && !k.siteNone:
		most = restartTime
	}
	err := p.hear(ctx, k, most)
	if err == nil {
		k.memorize()
	} else {
		k.heard, k.glanced = k.recall(), most == glanceTime
	}
	return err
}

// Other steps of a first attempt do not wait again for a burstd that was away a moment
// ago.
const (
	stillAway  = time.Minute
	glanceTime = 500 * time.Millisecond
)

// memorize leaves burstd's word for the next steps of the attempt on this host. They
// ask for it again: what cannot be left is not missed.
func (k known) memorize() {
	if text, err := json.Marshal(k.word); err == nil {
		writeSign(os.TempDir(), k.job, lastWord, text)
	}
}

// recall takes the word that another step of the attempt has left.
func (k *known) recall() bool {
	if !left(os.TempDir(), k.job, lastWord, k.began) {
		return false
	}
	text, ok := readSign(os.TempDir(), k.job, lastWord)
	var b jobword.Before
	if !ok || json.Unmarshal(text, &b) != nil {
		return false
	}
	k.word = b
	return true
}

// hearLate is hear for a step that would begin anew without burstd's word; why says
// why. If another step has waited before it, it does not.
func (p *program) hearLate(ctx context.Context, k *known, why error) error {
	most := k.wait - restartTime
	if k.away || most <= 0 || k.silence != nil && !again(k.silence, k.job.Attempt) {
		return nil
	}
	p.say("%v: it is waited for up to %v", why, k.wait)
	word, err := askBefore(ctx, k.transport, jobword.Asking{Job: k.job.ID, Attempt: k.job.Attempt}, most)
	if k.silence = err; err == nil {
		k.word, k.heard = word, true
		k.memorize()
	}
	return err
}

// look asks what the job asks for. In a later attempt Slurm is waited for: what the
// job's comment says may be all that leads to its checkpoints. In a first one no longer
// than it may be busy.
func (p *program) look(ctx context.Context, j step.Job, most time.Duration) (seen, error) {
	said, wait := j.Attempt == 0, lookAgain
	if j.Attempt == 0 {
		most, wait = busyTime, busyAgain
	}
	for end := time.Now().Add(most); ; {
		s, err := look(ctx, p.slurm(), j, "/proc")
		missing := errors.Join(err, s.unread)
		over := ctx.Err() != nil || !time.Now().Before(end)
		switch {
		case missing == nil || over && j.Attempt == 0:
			return s, err
		case over:
			return s, fmt.Errorf("the step is not begun anew without what the job asks for: %w", missing)
		}
		if !said {
			p.say("Slurm does not say what the job asks for (%v): it is waited for up to %v", missing, most)
			said = true
		}
		pause(ctx, wait)
	}
}

// Between two questions to a Slurm that does not answer, and how long it may be busy.
const (
	lookAgain = 5 * time.Second
	busyAgain = time.Second
	busyTime  = 10 * time.Second
)

// heardOf leaves what the next steps of the attempt need not find out again.
func (k known) heardOf() {
	switch {
	case !k.burstd || k.trial != nil:
	case k.silence == nil:
		remove(os.TempDir(), k.job, isAway)
	case !k.glanced:
		renew(os.TempDir(), k.job, isAway)
	}
}
