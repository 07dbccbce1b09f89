package budget

import (
	"math"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/price"
)

// TestReal: what is really spent is what is booked, and what runs now up to now, in the units that are
// billed; what it can still come to cost is not.
func TestReal(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 30, 0, 0, time.UTC)
	caps := Caps{Cluster: Limits{Day: 10}, Users: map[string]Limits{"ann": {Day: 2}, "bob": {Month: 50}}, Jobs: map[uint32]float64{7: 1}}
	day := caps.Day(now)
	c := func(inc price.Increment, user string, job uint32, launched time.Duration) Commitment {
		return Commitment{Launched: now.Add(-launched), From: now.Add(-launched), Until: now.Add(20 * time.Hour), USDPerHour: 1, Increment: inc,
			Owners: []Owner{{Job: job, User: user, Until: now.Add(20 * time.Hour)}}}
	}
	late := c(price.PerSecond, "ann", 7, 6*time.Hour) // another had it for six hours, and nobody has booked that
	late.Owners[0].Since = now.Add(-30 * time.Minute)
	booked := map[Key]Sum{KeyOf(Scope{Kind: Cluster}, day): {USD: 3}, KeyOf(Scope{User, "ann"}, day): {USD: 1.5}}
	for _, tc := range []struct {
		name    string
		live    []Commitment
		cluster float64
		ann     float64
		seven   float64
	}{
		{"nothing runs", nil, 3, 1.5, 0},
		{"it runs for half an hour", []Commitment{c(price.PerSecond, "ann", 7, 30*time.Minute)}, 3.5, 2, 0.5},
		{"a begun hour is owed as a whole", []Commitment{c(price.PerHour, "ann", 7, 30*time.Minute)}, 4, 2.5, 1},
		{"another's", []Commitment{c(price.PerSecond, "bob", 8, 30*time.Minute)}, 3.5, 1.5, 0},
		{"it was another's before", []Commitment{late}, 9, 2, 0.5},
		{"since yesterday", []Commitment{c(price.PerSecond, "ann", 7, 24*time.Hour)}, 15.5, 14, 24},
	} {
		rows := map[Scope]Row{}
		for _, r := range Real(caps, now, booked, tc.live) {
			rows[r.Scope] = r
		}
		for s, want := range map[Scope]float64{{Kind: Cluster}: tc.cluster, {User, "ann"}: tc.ann, {Job, "7"}: tc.seven} {
			if got := rows[s].Spent + rows[s].Committed; math.Abs(got-want) > 1e-6 {
				t.Errorf("%s: %s %s: %g, want %g", tc.name, s.Kind, s.Name, got, want)
			}
		}
		if got, want := rows[Scope{User, "ann"}].Reached(100), tc.ann > 2; got != want {
			t.Errorf("%s: ann's cap is reached: %t", tc.name, got)
		}
		if !rows[Scope{User, "ann"}].Reached(75) {
			t.Errorf("%s: ann's cap is not nearly reached", tc.name)
		}
	}
}

func TestShort(t *testing.T) {
	caps := Caps{}
	now := time.Date(2026, 11, 22, 12, 30, 0, 0, time.UTC)
	for want, r := range map[string]Row{
		"the cluster's budget for 2026-11-22": {Scope: Scope{Kind: Cluster}, Period: caps.Day(now), Cap: 5},
		"user ann's budget for 2026-11":       {Scope: Scope{User, "ann"}, Period: caps.Month(now), Cap: 5},
		"job 7's budget":                      {Scope: Scope{Job, "7"}, Period: Period{Length: Whole}, Cap: 5},
	} {
		if got := r.Short(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
