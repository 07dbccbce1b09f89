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
		known("i-new", "", cloud.Running), known("i-same", "B", cloud.Running), known("i-moved", "A", cloud.Pending), known("i-missed", "A", cloud.Running),
		{Instance: cloud.Instance{ID: "i-west", State: cloud.Running}, Provider: "west", Account: "A by another way"}}})
	l := newListing(at)
	for _, id := range []string{"i-new", "i-same", "i-moved", "i-stranger", "i-west"} {
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
		got[i.ID] += i.Account + " " + string(i.State)
	}
	if have := e.Health().Accounts["east"]; len(got) != 2 || got["i-new"] != "B running" || got["i-moved"] != "B running" || have != "B" {
		t.Errorf("changes %v, the account is %q", got, have)
	}
}
