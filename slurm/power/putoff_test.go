package power

import (
	"testing"
	"time"
)

// TestPutOffOutlivesAStart: who was put off waits on when burstd is started with a budget, until somebody says that there is
// something to spend; without a budget it starts at once.
func TestPutOffOutlivesAStart(t *testing.T) {
	until := at.Add(20 * 24 * time.Hour)
	st := State{Holds: []Hold{{Job: 7, Start: until, Why: overBudget + "user ann's budget for 2026-08" + isSpent, Released: true}}}
	if h := anewBudget(notAfter(st, at), at, true).Holds[0]; !h.Start.Equal(until) || !h.Released || !h.putOff() {
		t.Errorf("with a budget: %+v", h)
	}
	if h := anewBudget(notAfter(st, at), at, false).Holds[0]; !h.Start.Equal(at) || h.Released || h.putOff() {
		t.Errorf("without: %+v", h)
	}
	st.Holds[0].Start = at.Add(1000 * 24 * time.Hour) // by a clock that was wrong
	if h := notAfter(st, at).Holds[0]; h.Start.Sub(at) > longestOff {
		t.Errorf("it waits until %s", h.Start)
	}
}
