package power

import (
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// TestBelieved: what a list lacks is gone if the list is the right account's,
// or shows an older one.
func TestBelieved(t *testing.T) {
	for _, tt := range []struct {
		name     string
		launched string        // account
		now      string        // account of the list
		oldest   time.Duration // of what it shows, before it began to lack the instance; 0: it shows nothing
		since    time.Duration
		answers  bool
		want     bool
	}{
		{"nothing shown, accounts not known", "", "", 0, 2 * time.Hour, false, false},
		{"nothing shown, of which account is not known now", "A", "", 0, 2 * time.Hour, false, false},
		{"nothing shown, in which account it was is not known", "", "A", 0, 2 * time.Hour, false, false},
		{"nothing shown, the same account", "A", "A", 0, 0, false, true},
		{"nothing shown, the same account, the node answers", "A", "A", 0, 2 * time.Hour, true, false},
		{"an older one shown, the same account, the node answers", "A", "A", time.Minute, 0, true, true},
		{"an older one shown, accounts not known", "", "", time.Minute, 0, false, true},
		{"a newer one shown, accounts not known", "", "", -time.Minute, 10 * time.Minute, false, false},
		{"a newer one shown for long, accounts not known", "", "", -time.Minute, 2 * time.Hour, false, true},
		{"an older one shown, another account", "A", "B", time.Minute, 0, false, false},
		{"a newer one shown for long, another account", "A", "B", -time.Minute, 2 * time.Hour, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newListing(at)
			since := at.Add(-tt.since)
			l.witness = map[string]time.Time{}
			if tt.oldest != 0 {
				l.witness["east"] = since.Add(-tt.oldest)
			}
			if tt.now != "" {
				l.accounts["east"] = tt.now
			}
			if got := l.believed(Instance{Provider: "east", Account: tt.launched}, since, tt.answers); got != tt.want {
				t.Errorf("believed %v", got)
			}
		})
	}
}

// TestPlaceFollowsTheList: an instance is where it was seen last.
func TestPlaceFollowsTheList(t *testing.T) {
	known := func(id, account string, s cloud.State) Instance {
		return Instance{Instance: cloud.Instance{ID: id, State: s}, Provider: "east", Account: account}
	}
	e, _ := testEngine(State{Instances: []Instance{
		known("i-new", "", cloud.Running), known("i-same", "B", cloud.Running), known("i-first", "B", cloud.Running), known("i-moved", "A", cloud.Pending), known("i-missed", "A", cloud.Running),
		{Instance: cloud.Instance{ID: "i-west", State: cloud.Running}, Provider: "west", Account: "A by another way"}}})
	e.mem.instances["i-same"] = func(i Instance) Instance { i.Shown = true; return i }(e.mem.instances["i-same"])
	l := newListing(at)
	for _, id := range []string{"i-new", "i-same", "i-first", "i-moved", "i-stranger", "i-west"} {
		l.lists["east"] = append(l.lists["east"], cloud.Instance{ID: id, State: cloud.Running})
	}
	c := e.learn(l.lists["east"])
	if e.place(&c, l, "east"); len(c.Instances) != 1 || c.Instances[0].Account != "A" {
		t.Errorf("without an answer: %+v", c.Instances)
	}
	l.accounts["east"] = "B"
	e.place(&c, l, "east")
	got := map[string]string{}
	for _, i := range c.Instances {
		if got[i.ID] += i.Account + " " + string(i.State); !i.Shown {
			t.Errorf("%s is not shown", i.ID)
		}
	}
	if have := e.Health().Accounts["east"]; len(got) != 3 || got["i-first"] != "B running" || got["i-new"] != "B running" || got["i-moved"] != "B running" || have != "B" {
		t.Errorf("changes %v, the account is %q", got, have)
	}
}

// TestAnAccountWithAnotherName: what lists show under both names proves that they are one, of what ends, hides and is in
// doubt as well; what only a launch had noted proves nothing, nor does what another provider has.
func TestAnAccountWithAnotherName(t *testing.T) {
	rec := func(id, provider, account string, shown bool) Instance {
		return Instance{Instance: cloud.Instance{ID: id, State: cloud.Running, Launched: at}, Provider: provider, Account: account, Shown: shown, Assigned: "n-" + id}
	}
	ending := func(i Instance) Instance { i.State = cloud.Terminating; return i }
	for _, tt := range []struct {
		name     string
		provider string // of what the journal has
		seen     Instance
		proven   bool
	}{
		{"it ends, as a provider may remember of another account", "east", ending(rec("i-seen", "east", "A", true)), false},
		{"shown by a list of both", "east", rec("i-seen", "east", "A", true), true},
		{"of a provider that has another name, too", "old", rec("i-seen", "old", "A", true), true},
		{"by the word of its launch alone", "east", rec("i-seen", "east", "A", false), false},
		{"of another account", "east", rec("i-seen", "east", "C", true), false},
		{"another provider's", "east", rec("i-seen", "west", "A", true), false},
		{"shown by no list of the new name", "east", rec("i-other", "east", "A", true), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			doomed := rec("i-ends", tt.provider, "A", true)
			doomed.Doomed = "why"
			e, _ := testEngine(State{Instances: []Instance{tt.seen, doomed, rec("i-hidden", tt.provider, "A", false), rec("i-west", "west", "A", true), rec("i-c", tt.provider, "D", true)},
				Launches: []Launch{{Token: "t-1", Provider: tt.provider, Account: "A", State: Abandoned, Nodes: []string{"c1"}}, {Token: "t-2", Provider: tt.provider, Account: "D", State: Abandoned}}})
			l := newListing(time.Now())
			l.lists["east"] = []cloud.Instance{{ID: "i-seen", State: tt.seen.State, Launched: at}}
			l.accounts["east"] = "B"
			var c Change
			e.takeLists(&c, l, reading(nil))
			if err := e.commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			want := tt.provider + " in A"
			if tt.proven {
				want = "east in B"
			}
			for _, id := range []string{"i-ends", "i-hidden"} {
				if i := e.mem.instances[id]; i.Provider+" in "+i.Account != want {
					t.Errorf("%s is of %s in %s, want %s", id, i.Provider, i.Account, want)
				}
			}
			if o := e.mem.launches["t-1"]; o.Provider+" in "+o.Account != want {
				t.Errorf("the launch is of %s in %s, want %s", o.Provider, o.Account, want)
			}
			if i, j, o := e.mem.instances["i-west"], e.mem.instances["i-c"], e.mem.launches["t-2"]; i.Account != "A" || j.Account != "D" || o.Account != "D" {
				t.Errorf("others: %+v, %+v, %+v", i, j, o)
			}
		})
	}
}
