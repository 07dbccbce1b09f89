package handover

import (
	"log/syslog"
	"time"
)

// syslogTimeout bounds the wait for a syslog that does not read.
const syslogTimeout = 300 * time.Millisecond

// Syslog sends warnings to the host's log: what programs of slurmctld print
// goes nowhere. A host without syslog loses them; nothing else can be done.
func Syslog(program string, warnings ...string) {
	if len(warnings) == 0 {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w, err := syslog.New(syslog.LOG_WARNING|syslog.LOG_DAEMON, program)
		if err != nil {
			return
		}
		defer w.Close()
		for _, text := range warnings {
			if w.Warning(text) != nil {
				return
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(syslogTimeout):
	}
}
