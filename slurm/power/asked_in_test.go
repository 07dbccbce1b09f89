package power

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// owned is a provider that says whose its credentials are, or why not.
type owned struct {
	still
	account string
	err     error
}

func (o owned) Account(context.Context) (string, error) { return o.account, o.err }

func TestStillAt(t *testing.T) {
	down := errors.New("no route to host")
	denied := &cloud.Error{Kind: cloud.Auth, Op: "account", Err: errors.New("denied")}
	for _, tt := range []struct {
		name    string
		account string // of the launch
		age     time.Duration
		p       cloud.Provider
		open    bool
	}{
		{"the same", "A", 0, owned{account: "A"}, true},
		{"another", "A", 0, owned{account: "B"}, false},
		{"another for days", "A", 48 * time.Hour, owned{account: "B"}, false},
		{"not known where it was", "", 0, owned{account: "B"}, true},
		{"no answer", "A", time.Minute, owned{err: down}, false},
		{"no answer for long", "A", 2 * time.Hour, owned{err: down}, true},
		{"no right to ask", "A", time.Minute, owned{err: denied}, false},
		{"nobody to ask", "A", time.Minute, still{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := stillAt(t.Context(), Launch{Account: tt.account, Created: time.Now().Add(-tt.age)}, tt.p)
			if (err == nil) != tt.open {
				t.Fatal(err)
			}
			// It stays in doubt, and no other launch waits for our credentials.
			if err != nil && (settled(err) || !begun(nil, err) || cloud.KindOf(err) != cloud.Transient) {
				t.Errorf("settled %v, begun %v, %v", settled(err), begun(nil, err), err)
			}
		})
	}
}

// TestPlaceLaunches: a launch was asked for where a list shows what it has made.
func TestPlaceLaunches(t *testing.T) {
	launch := func(token, account string, s LaunchState) Launch {
		return Launch{Token: token, Provider: "east", Account: account, State: s, Created: at, Nodes: []string{"c1"}}
	}
	west := launch("of west", "A", Abandoned)
	west.Provider = "west"
	e, _ := testEngine(State{Launches: []Launch{launch("shown", "A", Written), launch("unknown", "", Written), launch("refused", "", Written),
		launch("same", "B", Written), launch("waits", "A", Written), launch("doubted", "A", Written), launch("abandoned", "A", Abandoned), west}})
	e.loaded = at.Add(-time.Minute)
	for _, token := range []string{"shown", "unknown", "doubted"} {
		e.doubt[token] = true
	}
	place := func(account string) (c Change) {
		l := newListing(at)
		l.lists["east"] = []cloud.Instance{{ID: "i-1", Token: "shown", State: cloud.Running}}
		if account != "" {
			l.accounts["east"] = account
		}
		e.placeLaunches(&c, l, "east")
		return c
	}
	if c := place(""); !c.Empty() {
		t.Errorf("without an answer: %+v", c)
	}
	c := place("B")
	if len(c.Launches) != 2 || c.Launches[0].Token != "shown" || c.Launches[1].Token != "unknown" || c.Launches[0].Account != "B" || c.Launches[1].Account != "B" {
		t.Errorf("placed: %+v", c.Launches)
	}
	const said = "provider east: the credentials show account B, and 2 launches (of c1 is one) were asked for in A: nothing is concluded about them, and what came of them is neither watched nor ended until the credentials of that account are back"
	if len(c.Events) != 1 || c.Events[0].Kind != "other-account" || c.Events[0].Text != said || e.bad["east"] == "" {
		t.Errorf("events: %+v", c.Events)
	}
	if c := place("B"); len(c.Events) != 0 {
		t.Errorf("said again: %+v", c.Events)
	}
	place("A")
	if c := place("B"); len(c.Events) != 1 {
		t.Errorf("not said of the next time: %+v", c.Events)
	}
}
