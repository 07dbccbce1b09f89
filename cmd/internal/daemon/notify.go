package daemon

import (
	"context"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
)

// hung is how long the engine's loop may take for one turn. Each command that a
// hung slurmctld does not answer takes its 30 s, and a turn may need several:
// that is no reason to be killed.
const hung = 10 * time.Minute

// notify tells systemd that burstd is ready, that it lives (as long as the
// engine's loop turns), and that it stops.
func (d *Daemon) notify(ctx context.Context) error {
	if _, err := sd.SdNotify(false, sd.SdNotifyReady); err != nil {
		d.log.Warn("systemd could not be told that burstd is ready", "error", err)
	}
	interval, err := sd.SdWatchdogEnabled(false)
	if err != nil {
		d.log.Warn("the watchdog's interval cannot be read", "error", err)
	}
	if interval > 0 {
		tick := time.NewTicker(interval / 3)
		defer tick.Stop()
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-tick.C:
				if time.Since(d.engine.Turned()) < max(interval, hung) {
					if _, err := sd.SdNotify(false, sd.SdNotifyWatchdog); err != nil {
						d.log.Warn("systemd's watchdog could not be told", "error", err)
					}
				}
			}
		}
	}
	<-ctx.Done()
	_, err = sd.SdNotify(false, sd.SdNotifyStopping)
	return err
}
