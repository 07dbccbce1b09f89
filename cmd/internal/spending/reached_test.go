package spending

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestCounting: which jobs are acted upon when which caps are spent.
func TestCounting(t *testing.T) {
	caps := budget.Caps{}
	now := time.Now()
	day := func(s budget.Scope) budget.Row { return budget.Row{Scope: s, Period: caps.Day(now), Cap: 1} }
	month := func(s budget.Scope) budget.Row { return budget.Row{Scope: s, Period: caps.Month(now), Cap: 1} }
	own := budget.Row{Scope: budget.Scope{Kind: budget.Job, Name: "2"}, Period: budget.Period{Length: budget.Whole}, Cap: 1}
	cluster, ann, physics := budget.Scope{Kind: budget.Cluster}, budget.Scope{Kind: budget.User, Name: "ann"}, budget.Scope{Kind: budget.Account, Name: "physics"}
	jobs := map[uint32]slurm.Job{}
	for _, j := range []slurm.Job{
		{ID: 1, User: "ann", Account: "physics", State: "RUNNING", Nodes: "c[1-2]"},
		{ID: 2, User: "bob", Account: "physics", State: "CONFIGURING", Nodes: "c3"},
		{ID: 3, User: "bob", Account: "bio", State: "SUSPENDED", Nodes: "c4"},
		{ID: 4, User: "ann", Account: "bio", State: "RUNNING", Nodes: "on1"},    // at the site
		{ID: 5, User: "ann", Account: "bio", State: "RUNNING", Nodes: "on2,c5"}, // at both
		{ID: 6, User: "ann", Account: "bio", State: "COMPLETING", Nodes: "c6"},  // ends
		{ID: 7, User: "ann", Account: "bio", State: "PENDING", Nodes: ""},       // waits
		{ID: 8, User: "ann", Account: "bio", State: "COMPLETED", Nodes: "c7"},   // has ended
		{ID: 10, HetID: 10, User: "cat", State: "RUNNING", Nodes: "on3"},        // leads 11 and 12
		{ID: 11, HetID: 10, User: "cat", State: "RUNNING", Nodes: "c8"},         //
		{ID: 12, HetID: 10, User: "cat", State: "RUNNING", Nodes: "c9"},         //
		{ID: 21, ArrayID: 20, ArrayTask: "1", User: "dan", State: "RUNNING", Nodes: "c10"},
		{ID: 20, ArrayID: 20, ArrayTask: "2-9", User: "dan", State: "PENDING"},
		{ID: 30, User: "ann", Account: "bio", State: "RUNNING", Nodes: "c[1-"}, // Slurm's words are not to be read
	} {
		jobs[j.ID] = j
	}
	for _, c := range []struct {
		name string
		caps []budget.Row
		want string
	}{
		{"none", nil, ""},
		{"the cluster's", []budget.Row{day(cluster)}, "1 on c1,c2; 2 on c3; 3 on c4; 5 on c5; 10 on c8,c9; 21 on c10"},
		{"a user's", []budget.Row{day(ann)}, "1 on c1,c2; 5 on c5"},
		{"an account's", []budget.Row{month(physics)}, "1 on c1,c2; 2 on c3"},
		{"a job's own", []budget.Row{own}, "2 on c3"},
		{"of several the longest", []budget.Row{day(ann), month(physics), own}, "1 on c1,c2 (month); 2 on c3 (job); 5 on c5 (day)"},
	} {
		var got []string
		for _, j := range Counting(c.caps, jobs, func(n string) bool { return strings.HasPrefix(n, "c") }) {
			text := fmt.Sprintf("%d on %s", j.ID, strings.Join(j.Nodes, ","))
			if len(c.caps) > 1 {
				text += fmt.Sprintf(" (%s)", j.Cap.Length)
			}
			got = append(got, text)
		}
		if all := strings.Join(got, "; "); all != c.want {
			t.Errorf("%s: %q, want %q", c.name, all, c.want)
		}
	}
}

// TestRealAndCommitted: a launch in the balance, and the time to a job's limit, are committed, but not spent.
func TestRealAndCommitted(t *testing.T) {
	now := time.Now()
	runs := job(time.Hour)
	runs.State, runs.Start = "RUNNING", now.Add(-15*time.Minute)
	k := site(budget.Caps{Cluster: budget.Limits{Day: 100}, Users: map[string]budget.Limits{"ann": {Day: 100}}, Location: noon()}, runs)
	i := power.Instance{Instance: cloud.Instance{Launched: now.Add(-20 * time.Minute)}}
	i.ID, i.Pool, i.Offering, i.Provider, i.Assigned = "i-1", "p", small, "east", "c1"
	k.Ledger = books{Instances: []power.Instance{i}, Rows: []ledger.Row{{Instance: "i-1", Job: 7, User: "ann", From: now.Add(-20 * time.Minute), To: now.Add(-6 * time.Minute), Share: 1, Open: true, Price: ledger.Price{USDPerHour: 1}}}}
	s, l := launchFor("p", 8)
	s.Nodes = map[string]power.Node{"c1": {Name: "c1", Pool: "p", Phase: power.Up, Instance: "i-1"}, "c2": {Name: "c2", Pool: "p", Phase: power.Launching, Job: 8}}
	s.Instances, l.Nodes = map[string]power.Instance{"i-1": i}, []string{"c2"}
	s.Launches = map[string]power.Launch{"t": l}
	rows, err := k.Real(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows { // six minutes are not booked yet
		if got := r.Committed * 60; got < 5.9 || got > 6.1 {
			t.Errorf("%s %s: %.2f minutes, want 6", r.Kind, r.Name, got)
		}
	}
	if len(rows) != 2 {
		t.Errorf("%+v", rows)
	}
}
