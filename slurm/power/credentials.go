package power

import (
	"fmt"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// The calls whose refusal holds back launches.
const (
	opLaunch  = "launch"
	opPrepare = "prepare"
	opList    = "list"
)

// gate names the backoff of a provider whose credentials are not accepted.
func gate(provider string) string { return "credentials of " + provider }

// denial is that a provider does not take our credentials.
type denial struct {
	op    string    // the call that they do not open
	since time.Time // when it was refused first
	last  time.Time // and last
}

// credentials plans the one event with which a provider begins to refuse our
// credentials, and the one with which it accepts them again: the call that was
// refused has to succeed for that. In between its launches wait, and one of them
// at a time tries.
func (e *Engine) credentials(c *Change, provider, op string, err error) {
	now := time.Now()
	d, is := e.market.denied[provider]
	switch {
	case err != nil && cloud.KindOf(err) == cloud.Auth:
		if !is {
			c.Events = append(c.Events, Event{Time: now, Kind: "credentials-refused",
				Text: fmt.Sprintf("%s does not accept our credentials: %v; renew them: launches wait and then go on by themselves", provider, err)})
		}
		if op != opList {
			e.refused(gate(provider), err)
		} else if is {
			return
		}
		if d.op == "" || d.op == opList {
			d.op, d.since = op, now
		}
		d.last = now
		e.market.denied[provider] = d
	case is && d.op == op && (err == nil || cloud.KindOf(err) != cloud.Transient && cloud.KindOf(err) != cloud.Throttled):
		delete(e.market.denied, provider)
		delete(e.backoff, gate(provider))
		c.Events = append(c.Events, Event{Time: now, Kind: "credentials-accepted", Text: provider + " accepts our credentials again"})
	case is && op == opList && err == nil && e.market.unheard[provider] == cloud.Auth:
		d.last = time.Time{} // they have been renewed, it seems: a launch may try
		e.market.denied[provider] = d
	}
}

// refuses says that the provider does not take our credentials for launches. Nobody tells when they have been
// renewed: when the last refusal is as old as a cooldown gets it has room again, for one job that
// tries, and until that is answered for no other.
func (m market) refuses(provider string, now time.Time) bool {
	d := m.denied[provider]
	return d.op != "" && d.op != opList && (now.Sub(d.last) < maxRetry || m.calling[provider] > 0 || m.preparing[provider])
}

// deaf says that the provider does not tell what becomes of instances, or not us: its lists have no answer, or
// our credentials open neither these nor terminations. Nor does one that is not configured any more.
func (e *Engine) deaf(provider string) bool {
	return e.providers[provider] == nil || e.market.silent[provider] || e.market.unheard[provider] == cloud.Auth ||
		time.Since(e.market.unended[provider]) < maxRetry
}

// shut is how long the provider's launches have to wait for its credentials.
func (e *Engine) shut(provider string) time.Duration { return max(0, e.until(gate(provider))) }
