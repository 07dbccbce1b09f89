package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
)

// hung is how long the engine's loop may take for one turn. Each command that a
// hung slurmctld does not answer takes its 30 s, and a turn may need several:
// that is no reason to be killed.
const hung = 10 * time.Minute

// startLong is for how long systemd waits at least for burstd to be ready after each message that it is still starting.
const startLong = time.Minute

// whileStarting has systemd wait until f has ended, also beyond TimeoutStartSec: after an update a large journal may take
// minutes, and burstd, killed, would begin anew.
func whileStarting(every time.Duration, log *slog.Logger, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for told := false; ; {
		if _, err := sd.SdNotify(false, fmt.Sprint("EXTEND_TIMEOUT_USEC=", startLong.Microseconds())); err != nil && !told {
			log.Warn("systemd could not be told that burstd is starting", "error", err)
			told = true
		}
		select {
		case err := <-done:
			return err
		case <-tick.C:
		}
	}
}

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
