package spending

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestWhoseBudgetItIs: of jobs that share a node those are refused of whom the budget is, each for its own reason, and
// of the cluster's those without whom the others would fit.
func TestWhoseBudgetItIs(t *testing.T) {
	of := func(id uint32, user, account string, limit time.Duration) slurm.Job {
		j := job(limit)
		j.ID, j.User, j.Account = id, user, account
		return j
	}
	ann, bob := of(7, "ann", "physics", time.Hour), of(8, "bob", "maths", time.Hour)
	user := func(usd ...float64) budget.Caps {
		caps := budget.Caps{Users: map[string]budget.Limits{}, Location: noon()}
		for n, usd := range usd {
			caps.Users[[]string{"ann", "bob"}[n]] = budget.Limits{Day: usd}
		}
		return caps
	}
	for _, c := range []struct {
		name string
		caps budget.Caps
		jobs []slurm.Job
		own  map[uint32]Own
		want string
	}{
		{"room for both", user(2, 2), []slurm.Job{ann, bob}, nil, ""},
		{"the second user's", user(2, 1), []slurm.Job{ann, bob}, nil, "8 never user bob's"},
		{"the second account's", budget.Caps{Accounts: map[string]budget.Limits{"maths": {Day: 1}}, Location: noon()}, []slurm.Job{ann, bob}, nil, "8 never account maths's"},
		{"an account's, in whatever letters", budget.Caps{Accounts: map[string]budget.Limits{"maths": {Day: 1}}, Location: noon()}, []slurm.Job{ann, of(8, "bob", "Maths", time.Hour)}, nil, "8 never account maths's"},
		{"both users'", user(1, 1), []slurm.Job{ann, bob}, nil, "7 never user ann's, 8 never user bob's"},
		{"two jobs of a user", user(1), []slurm.Job{ann, of(9, "ann", "physics", time.Hour), bob}, nil, "7 never user ann's, 9 never user ann's"},
		{"a job's own", user(2), []slurm.Job{ann, bob}, map[uint32]Own{8: {USD: 1}}, "8 never job 8's"},
		{"a wrong line", user(2), []slurm.Job{ann, bob}, map[uint32]Own{8: {Wrong: "much"}}, "8 never job 8: much"},
		{"a wrong line, and a user's", user(1), []slurm.Job{ann, bob, of(9, "cat", "", time.Hour)}, map[uint32]Own{8: {Wrong: "much"}}, "8 never job 8: much, 7 never user ann's"},
		{"a job's own, and no limit, that the cluster's has no room for either", budget.Caps{Cluster: budget.Limits{Day: 5}, Location: noon()},
			[]slurm.Job{ann, of(8, "bob", "maths", 0)}, map[uint32]Own{8: {USD: 1}}, "8 never job 8 has a"},
		{"the cluster's, for what one needs", budget.Caps{Cluster: budget.Limits{Day: 2}, Location: noon()}, []slurm.Job{ann, of(8, "bob", "maths", 3*time.Hour), of(9, "cat", "", 4*time.Hour)}, nil,
			"8 never the cluster's, 9 never the cluster's"},
		{"the cluster's, for all", budget.Caps{Cluster: budget.Limits{Day: 1}, Location: noon()}, []slurm.Job{ann, bob}, nil, "7 never the cluster's, 8 never the cluster's"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := site(c.caps, c.jobs...)
			k.Own = func(j slurm.Job) (Own, bool) { return c.own[j.ID], true }
			s, l := launchFor("p", 7)
			afford, err := k.Open(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			r := afford(l)
			var got []string
			for _, of := range r.Of {
				whose, _, _ := strings.Cut(of.Why, " budget")
				got = append(got, fmt.Sprint(of.Job, map[bool]string{true: " never "}[of.Never], whose))
			}
			if got := strings.Join(got, ", "); got != c.want || (r.Why == "") != (c.want == "") {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestAccountsInWhateverLetters: what is booked and what is committed counts to the account.
func TestAccountsInWhateverLetters(t *testing.T) {
	j := job(time.Hour)
	j.Account = "Physics"
	k := site(budget.Caps{Accounts: map[string]budget.Limits{"physics": {Day: 20}}, Location: noon()}, j)
	k.Ledger = books{Spent: []store.Spent{{User: "ann", Account: "PHYSICS", Sums: store.Sums{USD: 2}}}}
	s, l := launchFor("p", 7)
	s.Launches = map[string]power.Launch{l.Token: l}
	rows, err := k.Rows(t.Context(), s)
	if err != nil || len(rows) != 1 || rows[0].Spent != 2 || rows[0].Committed == 0 {
		t.Errorf("%+v, %v", rows, err)
	}
	j.State = "RUNNING"
	if got := Counting(rows, map[uint32]slurm.Job{7: j}, func(string) bool { return true }); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestAWholeCapIsNotAskedForAgain: what is booked does not get less; what is only committed may.
func TestAWholeCapIsNotAskedForAgain(t *testing.T) {
	for usd, sure := range map[float64]bool{2: true, 1.9: false} {
		k := site(budget.Caps{Users: map[string]budget.Limits{"ann": {Day: 2}}, Location: noon()}, job(time.Hour))
		k.Ledger = books{Spent: []store.Spent{{User: "ann", Sums: store.Sums{USD: usd}}}}
		s, l := launchFor("p", 7)
		afford, err := k.Open(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if r := afford(l); len(r.Of) != 1 || r.Of[0].Sure != sure || r.Of[0].Never || !r.Of[0].Until.Equal(k.Caps.Day(time.Now()).To) {
			t.Errorf("%g are spent of 2: %+v", usd, r)
		}
	}
}

// TestAMixedPartitionIsTriedAgain: a job whose only partition has nodes of the site as well is tried again though the cap is booked
// full: by its start it would wait for those, too.
func TestAMixedPartitionIsTriedAgain(t *testing.T) {
	for partition, sure := range map[string]bool{"cloud": true, "any": false, "cloud,any": false, "site,any": true, "site,cloud": true} {
		j := job(time.Hour)
		j.Partition = partition
		k := site(budget.Caps{Users: map[string]budget.Limits{"ann": {Month: 2}}, Location: noon()}, j)
		k.Latest().Nodes = map[string]slurm.Node{"c1": {Partitions: []string{"cloud", "any"}}, "on1": {Partitions: []string{"any"}}, "on2": {Partitions: []string{"site"}}}
		k.Cloud = func(n string) bool { return n == "c1" }
		k.Ledger = books{Spent: []store.Spent{{Period: 2, User: "ann", Sums: store.Sums{USD: 2}}}}
		s, l := launchFor("p", 7)
		afford, err := k.Open(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if r := afford(l); len(r.Of) != 1 || r.Of[0].Sure != sure {
			t.Errorf("%s: %+v", partition, r)
		}
	}
}
