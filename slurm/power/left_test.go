package power

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// TestARenamedProviderInherits: what is in the same account is watched and ended by it, also what its list does not show.
func TestARenamedProviderInherits(t *testing.T) {
	rec := func(id, account, doomed string) Instance {
		return Instance{Instance: cloud.Instance{ID: id, State: cloud.Running, Launched: at}, Provider: "old", Account: account, Assigned: "n-" + id, Doomed: doomed}
	}
	launch := func(token, account string) Launch {
		return Launch{Token: token, Provider: "old", Account: account, State: Written, Nodes: []string{"c1"}}
	}
	e, _ := testEngine(State{Instances: []Instance{rec("i-1", "A", ""), rec("i-2", "A", "why"), rec("i-other", "B", "why"), rec("i-unknown", "", ""), rec("i-hidden", "A", "why")},
		Nodes:    []Node{{Name: "c1", Pool: "p", Phase: Launching, Token: "t-1"}},
		Launches: []Launch{launch("t-1", "A"), launch("t-2", "B"), launch("t-3", "A")}})
	for token := range e.mem.launches {
		e.doubt[token] = true // as after a start
	}
	e.cfg.Former = func(old, name string) string { return "keep what " + old + " had for " + name }
	if got, want := e.Health().Left, map[string]Left{"old": {5, 3}}; !maps.Equal(got, want) {
		t.Errorf("before: %v", got)
	}
	round := func() (events map[string]int) {
		l := newListing(time.Now())
		for _, id := range []string{"i-1", "i-2", "i-other", "i-unknown"} {
			l.lists["east"] = append(l.lists["east"], cloud.Instance{ID: id, State: cloud.Running, Launched: at})
		}
		l.accounts["east"] = "A"
		var c Change
		e.takeLists(&c, l, reading(nil))
		events = map[string]int{}
		for _, ev := range c.Events {
			events[ev.Kind]++
			if ev.Kind == "provider-renamed" && !strings.HasSuffix(ev.Text, "the account is the same; keep what old had for east") {
				t.Error(ev.Text)
			}
		}
		if err := e.commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		return events
	}
	if ev := round(); ev["provider-renamed"] != 1 || ev["provider-left"] != 1 {
		t.Errorf("events %v", ev)
	}
	for id, want := range map[string]string{"i-1": "east", "i-2": "east", "i-other": "old", "i-unknown": "old", "i-hidden": "east"} {
		if got := e.mem.instances[id]; got.Provider != want {
			t.Errorf("%s is of %s", id, got.Provider)
		}
	}
	for token, want := range map[string]string{"t-1": "east abandoned", "t-2": "old written", "t-3": "east abandoned"} {
		if l := e.mem.launches[token]; l.Provider+" "+string(l.State) != want {
			t.Errorf("%s is %s of %s", token, l.State, l.Provider)
		}
	}
	if n := e.mem.nodes["c1"]; n.Phase != Wanted {
		t.Errorf("its node is %s", n.Phase)
	}
	if got, want := e.Health().Left, map[string]Left{"old": {2, 1}}; !maps.Equal(got, want) {
		t.Errorf("after: %v", got)
	}
	if ev := round(); len(ev) > 0 {
		t.Errorf("again: %v", ev)
	}
}

// TestTheSourceOfThePoolInherits: two names of the file are of the account.
func TestTheSourceOfThePoolInherits(t *testing.T) {
	rec := func(id, node string) Instance {
		return Instance{Instance: cloud.Instance{ID: id, State: cloud.Running, Launched: at}, Provider: "old", Account: "A", Assigned: node}
	}
	doomed, ends := rec("i-doomed", "d3"), rec("i-ends", "d4")
	doomed.Doomed, ends.State = "why", cloud.Terminating
	for _, tt := range []struct {
		name        string
		listed      bool   // west is
		now, before string // its account
		q           string // who has what is of its pool
		later       string // and a minute later
	}{
		{"it answers", true, "A", "", "west", "west"},
		{"its list has no answer", false, "A", "", "old", "east"},
		{"it does not answer, and has", false, "", "A", "old", "east"},
		{"its list alone has an answer", true, "", "A", "old", "east"},
		{"it does not answer, and was another account's", false, "", "B", "east", "east"},
		{"it has never answered", false, "", "", "east", "east"},
		{"it is another account's now", false, "B", "A", "east", "east"},
	} {
		e, journal := testEngine(State{Instances: []Instance{rec("i-p", "c1"), rec("i-q", "d1"), rec("i-none", ""), doomed, ends},
			Launches: []Launch{{Token: "t-p", Provider: "old", Account: "A", State: Abandoned, Nodes: []string{"c2"}}, {Token: "t-q", Provider: "old", Account: "A", State: Abandoned, Nodes: []string{"d2"}}}})
		began := time.Now()
		round := func(after time.Duration, listed bool) {
			l := newListing(began.Add(after))
			l.accounts["east"] = "A"
			if tt.now != "" {
				l.accounts["west"] = tt.now
			}
			all := []cloud.Instance{doomed.Instance, ends.Instance}
			for _, id := range []string{"i-p", "i-q", "i-none"} {
				all = append(all, cloud.Instance{ID: id, State: cloud.Running, Launched: at})
			}
			l.lists["east"] = all
			if listed {
				l.lists["west"] = all
			}
			var c Change
			e.takeLists(&c, l, reading(nil))
			if err := e.commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		heirs := func(when, q string) {
			t.Helper()
			for id, want := range map[string]string{"i-p": "east", "i-q": q, "i-none": "east"} {
				if got := e.mem.instances[id].Provider; got != want {
					t.Errorf("%s, %s: %s is of %s, want %s", tt.name, when, id, got, want)
				}
			}
			if p, o := e.mem.launches["t-p"].Provider, e.mem.launches["t-q"].Provider; p != "east" || o != q {
				t.Errorf("%s, %s: the launches are of %s and %s", tt.name, when, p, o)
			}
			for _, id := range []string{"i-doomed", "i-ends"} { // whoever can has it end
				if i, there := e.mem.instances[id]; there && i.Provider == "old" {
					t.Errorf("%s, %s: nobody ends %s", tt.name, when, id)
				}
			}
		}
		e.accounts["west"] = tt.before
		round(0, tt.listed)
		heirs("at first", tt.q)
		round(doubtFor-time.Second, tt.listed)
		heirs("before a minute is over", tt.q)
		const waits = "; they wait up to 1m0s for the list of west, which is of the same account"
		told := slices.ContainsFunc(journal.committed, func(c Change) bool {
			return slices.ContainsFunc(c.Events, func(ev Event) bool { return ev.Kind == "provider-left" && strings.HasSuffix(ev.Text, waits) })
		})
		if want := tt.q == "old" && !tt.listed; told != want {
			t.Errorf("%s: that they wait is told: %v", tt.name, told)
		}
		round(doubtFor, tt.listed)
		heirs("then", tt.later)
		if len(e.heirs) > 0 && tt.q != "old" {
			t.Errorf("%s: %v wait still", tt.name, e.heirs)
		}
	}
}
