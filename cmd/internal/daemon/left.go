package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/stopall"
	"github.com/burst-hpc/burst/slurm/power"
)

// startPaused takes into the journal the pause that burst stop-all has left
// behind while burstd was away, and removes the word, which is not to undo a `burst resume`.
// It comes before the engine reads the journal: nothing is launched in between.
func (d *Daemon) startPaused(ctx context.Context) error {
	w, ok := stopall.Left(d.cfg.Endpoint.PauseFile())
	if !ok {
		return nil
	}
	now := time.Now()
	p := power.Pause{Since: now, By: w.By, Why: power.PauseReason(w.Why, w.By)}
	err := d.store.CommitPower(ctx, power.Change{Pause: &p, Events: []power.Event{power.PausedEvent(now, p.Why)}})
	if err != nil {
		return fmt.Errorf("starting paused, as %s asks for: %w", d.cfg.Endpoint.PauseFile(), err)
	}
	d.log.Warn("burstd starts paused: nothing is launched until `burst resume`", "reason", p.Why)
	if err := d.forgetWord(); err != nil {
		d.log.Warn("the word that burst stop-all has left is still there", "error", err) // heedPause goes on trying
	}
	return nil
}

// heedPause does so in a burstd that runs, and that did not answer, and removes
// the word once the journal has it.
func (d *Daemon) heedPause(ctx context.Context) error {
	w, ok := stopall.Left(d.cfg.Endpoint.PauseFile())
	if !ok {
		return nil
	}
	if since, _, _ := d.engine.Paused(); since.IsZero() {
		if err := d.engine.Pause(ctx, w.By, w.Why); err != nil {
			return err
		}
	}
	return d.forgetWord()
}

func (d *Daemon) forgetWord() error {
	if err := os.Remove(d.cfg.Endpoint.PauseFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("burstd pauses again and again until it is gone: %w", err)
	}
	return nil
}
