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

// credentials plans the one event with which a provider begins to refuse our
// credentials, and the one with which it accepts them again: the call that was
// refused has to succeed for that. In between its launches wait, and one of them
// at a time tries.
func (e *Engine) credentials(c *Change, provider, op string, err error) {
	refused, is := e.market.denied[provider]
	switch {
	case err != nil && cloud.KindOf(err) == cloud.Auth:
		if op != opList {
			e.refused(gate(provider), err)
		}
		if is && (refused != opList || op == opList) {
			return
		}
		e.market.denied[provider] = op
		if !is {
			c.Events = append(c.Events, Event{Time: time.Now(), Kind: "credentials-refused",
				Text: fmt.Sprintf("%s does not accept our credentials: %v; renew them: launches wait and then go on by themselves", provider, err)})
		}
	case is && refused == op && (err == nil || cloud.KindOf(err) != cloud.Transient && cloud.KindOf(err) != cloud.Throttled):
		delete(e.market.denied, provider)
		delete(e.backoff, gate(provider))
		c.Events = append(c.Events, Event{Time: time.Now(), Kind: "credentials-accepted", Text: provider + " accepts our credentials again"})
	}
}

// unanswered says that the provider does not take our credentials for launches, nor for lists, which
// alone say that an instance is gone. It is so from the refusal on until that call is accepted,
// while its gate opens from time to time for one that tries.
func (m market) unanswered(provider string) bool { return m.denied[provider] != "" }

// refuses says that the provider does not take our credentials for launches.
func (m market) refuses(provider string) bool {
	op := m.denied[provider]
	return op != "" && op != opList
}

// shut is how long the provider's launches have to wait for its credentials.
func (e *Engine) shut(provider string) time.Duration { return max(0, e.until(gate(provider))) }
