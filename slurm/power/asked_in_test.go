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

// TestMadeWhereItWasAskedFor: what a launch has made is in its account, though a list has shown another since.
func TestMadeWhereItWasAskedFor(t *testing.T) {
	for account, want := range map[string]string{"A": "A", "": "B"} {
		e, _ := testEngine(State{})
		e.accounts["east"] = "B"
		l := Launch{Token: "t-1", Provider: "east", Account: account, Request: cloud.LaunchRequest{Pool: "p"}}
		node := func(name string) Node { return Node{Name: name, Pool: "p", Phase: Launching, Token: "t-1"} }
		of := func(id string, s cloud.State) cloud.Instance { return cloud.Instance{ID: id, Pool: "p", State: s} }
		c, _ := e.assign(l, []Node{node("c1")}, []cloud.Instance{of("i-node", cloud.Pending), of("i-spare", cloud.Pending)}, nil)
		e.reuse(&c, l, of("i-other", cloud.Pending), node("c2"))
		e.bookEnds(&c, l, []cloud.Instance{of("i-back", cloud.Terminating)}, cameShort)
		if len(c.Instances) != 4 {
			t.Fatalf("%+v", c.Instances)
		}
		for _, i := range c.Instances {
			if i.Account != want {
				t.Errorf("%s of a launch in %q is in %q", i.ID, account, i.Account)
			}
		}
	}
}

// turned is a provider whose key is exchanged for another account's while it lists.
type turned struct {
	still
	at      *string
	becomes string
}

func (p turned) Account(context.Context) (string, error) {
	if *p.at == "" {
		return "", errors.New("denied")
	}
	return *p.at, nil
}

func (turned) Limits() cloud.Limits { return cloud.Limits{MaxLaunch: 1} }

func (p turned) List(context.Context, cloud.Filter) ([]cloud.Instance, error) {
	*p.at = p.becomes
	return nil, nil
}

// TestAListOfTwoAccountsIsNone: neither of a round, nor of a launch that is looked for.
func TestAListOfTwoAccountsIsNone(t *testing.T) {
	for _, tt := range []struct {
		before, after string
		listed        bool
		account       string
	}{{"A", "A", true, "A"}, {"A", "B", false, "A"}, {"A", "", true, ""}, {"", "B", true, ""}} {
		e, _ := testEngine(State{})
		at := tt.before
		p := turned{at: &at, becomes: tt.after}
		e.providers = map[string]cloud.Provider{"east": p}
		l := e.listAll(t.Context())
		if _, listed := l.lists["east"]; listed != tt.listed || (l.errs["east"] == nil) != tt.listed || listed && l.accounts["east"] != tt.account {
			t.Errorf("%+v: listed %v in %q, %v", tt, listed, l.accounts["east"], l.errs["east"])
		}
	}
	e, _ := testEngine(State{Launches: []Launch{{Token: "t-1", Provider: "east", Account: "A", State: Abandoned, Created: time.Now()}}})
	at := "A"
	e.resolve(t.Context(), e.mem.launches["t-1"], turned{at: &at, becomes: "B"})
	(<-e.results)(t.Context())
	if _, open := e.mem.launches["t-1"]; !open {
		t.Error("a launch is over by the list of another account")
	}
}

// TestAskedInKeepsAProvenName: a call notes where it was made, but not over the other name of the account that a list
// has shown while it was under way.
func TestAskedInKeepsAProvenName(t *testing.T) {
	for name, tt := range map[string]struct {
		called, now, want string
	}{
		"it is not known": {"", "", "A"},
		"it is the same":  {"A", "A", "A"},
		"renamed":         {"A", "B", "B"},
	} {
		e, _ := testEngine(State{Launches: []Launch{{Token: "t-1", Provider: "east", Account: tt.now, State: Written}}})
		e.askedIn(t.Context(), Launch{Token: "t-1", Account: tt.called}, "A", true)
		if got := e.mem.launches["t-1"].Account; got != tt.want {
			t.Errorf("%s: it was asked for in %q, want %q", name, got, tt.want)
		}
	}
}
