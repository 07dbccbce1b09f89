package srun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

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
	said := time.AfterFunc(beforeTime+time.Second, func() {
		p.say("burstd does not answer: it may know how this job goes on, and is waited for up to %v", most)
	})
	defer said.Stop()
	var err error
	k.word, err = askBefore(ctx, k.transport, Asking{k.job.ID, k.job.Attempt}, most)
	k.heard = err == nil
	return err
}

// hearSoon is hear for as long as is worth it for any step. While burstd is away what
// it has said before another step of this attempt counts: one attempt's steps are not
// to go to different folders.
func (p *program) hearSoon(ctx context.Context, k *known) error {
	most := beforeTime
	if k.job.Attempt > 0 && !k.away {
		most = restartTime
	}
	err := p.hear(ctx, k, most)
	if err != nil {
		k.silent, k.heard = true, k.recall()
	} else {
		k.memorize()
	}
	return err
}

// memorize leaves burstd's word for the next steps of the attempt on this host. They
// ask for it again: what cannot be left is not missed.
func (k known) memorize() {
	root := signs(os.TempDir())
	if root == nil {
		return
	}
	defer root.Close()
	text, err := json.Marshal(k.word)
	name := signOf(k.job, lastWord)
	temp := fmt.Sprintf("%s-%d", name, os.Getpid())
	if err == nil {
		err = root.WriteFile(temp, text, 0o600)
	}
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		_ = root.Remove(temp) // an old one is deleted some day
	}
}

// recall takes the word that another step of the attempt has left.
func (k *known) recall() bool {
	root := signs(os.TempDir())
	if root == nil || !left(os.TempDir(), k.job, lastWord, k.began) {
		return false
	}
	defer root.Close()
	text, err := root.ReadFile(signOf(k.job, lastWord))
	if err != nil {
		return false
	}
	var b Before
	if json.Unmarshal(text, &b) != nil {
		return false
	}
	k.word = b
	return true
}

// hearLate is hear for a step that would begin anew without burstd's word; why says
// why. If another step has waited before it, it does not.
func (p *program) hearLate(ctx context.Context, k *known, why error) error {
	most := k.wait - restartTime
	if k.away || most <= 0 {
		return nil
	}
	p.say("%v: it is waited for up to %v", why, k.wait)
	var err error
	if k.word, err = askBefore(ctx, k.transport, Asking{k.job.ID, k.job.Attempt}, most); err == nil {
		k.silent, k.heard = false, true
		k.memorize()
	}
	return err
}

// look asks what the job asks for. In a later attempt Slurm is waited for: what the
// job's comment says may be all that leads to its checkpoints.
func (p *program) look(ctx context.Context, j step.Job, most time.Duration) (seen, error) {
	said := false
	for end := time.Now().Add(most); ; {
		s, err := look(ctx, p.slurm(), j, "/proc")
		missing := errors.Join(err, s.unread)
		if missing == nil || j.Attempt == 0 {
			return s, err
		}
		if ctx.Err() != nil || !time.Now().Before(end) {
			return s, fmt.Errorf("the step is not begun anew without what the job asks for: %w", missing)
		}
		if !said {
			p.say("Slurm does not say what the job asks for (%v): it is waited for up to %v", missing, most)
			said = true
		}
		pause(ctx, lookAgain)
	}
}

// lookAgain is the time between two questions to a Slurm that does not answer.
const lookAgain = 5 * time.Second

// heardOf leaves what the next steps of the attempt need not find out again.
func (k known) heardOf() {
	if k.silent && k.trial == nil {
		leave(os.TempDir(), k.job, isAway)
	}
}
