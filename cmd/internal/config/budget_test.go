package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/slurm/overflow/budget"
)

func TestBudget(t *testing.T) {
	minimal, err := os.ReadFile("testdata/good/minimal.toml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text string
		want       *Budget
	}{
		{"none", "", nil},
		{"jobs' own alone", "[budget]\n", &Budget{Caps: budget.Caps{Accounts: map[string]budget.Limits{}, Users: map[string]budget.Limits{}}, Warn: 80}},
		{"all", "[budget]\nday = 50\nmonth = 1000.5\nwarn = 90\nat_cap = \"finish\"\nunknown_price = 0.5\n[budget.account.physics]\nmonth = 300\n[budget.user.\"a.b\"]\nday = 2\n",
			&Budget{Caps: budget.Caps{Cluster: budget.Limits{Day: 50, Month: 1000.5}, Accounts: map[string]budget.Limits{"physics": {Month: 300}},
				Users: map[string]budget.Limits{"a.b": {Day: 2}}, Unknown: 0.5}, Warn: 90}},
		{"at the cap, requeue", "[budget]\nat_cap = \"requeue\"\n", &Budget{Caps: budget.Caps{Accounts: map[string]budget.Limits{}, Users: map[string]budget.Limits{}}, Warn: 80, AtCap: RequeueJobs}},
		{"at the cap, requeue in more words", "[budget]\nat_cap = \"checkpoint-and-requeue-onprem\"\n", &Budget{Caps: budget.Caps{Accounts: map[string]budget.Limits{}, Users: map[string]budget.Limits{}}, Warn: 80, AtCap: RequeueJobs}},
		{"at the cap, cancel", "[budget]\nat_cap = \"cancel\"\n", &Budget{Caps: budget.Caps{Accounts: map[string]budget.Limits{}, Users: map[string]budget.Limits{}}, Warn: 80, AtCap: CancelJobs}},
		{"an account's name as Slurm writes it", "[budget]\n[budget.account.Physics]\nmonth = 300\n[budget.user.Ann]\nday = 2\n", &Budget{Caps: budget.Caps{
			Accounts: map[string]budget.Limits{"physics": {Month: 300}}, Users: map[string]budget.Limits{"Ann": {Day: 2}}}, Warn: 80}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parse("x", string(minimal)+"\n"+c.text)
			if err != nil {
				t.Fatal(err)
			}
			if b := got.Budget; b != nil {
				if b.Caps.Location != time.Local {
					t.Errorf("days begin by %s", b.Caps.Location)
				}
				b.Caps.Location = nil
			}
			if d := cmp.Diff(c.want, got.Budget); d != "" {
				t.Error(d)
			}
		})
	}
	got, err := parse("x", string(minimal)+"\n[budget]\nunknown_price = \"refuse\"\ntime_zone = \"UTC\"\nday = 50\n[budget.user.ann]\nday = 20\nmonth = 10\n")
	if err != nil {
		t.Fatal(err)
	}
	if b := got.Budget; b.Caps.Location != time.UTC || b.Caps.Unknown != 0 || len(b.Doubts) != 1 || b.Doubts[0].Line == 0 || b.Doubts[0].Key != "budget.user.ann.day" {
		t.Errorf("%+v", b)
	}
}

// TestAnAccountTwice: Slurm does not tell the two apart.
func TestAnAccountTwice(t *testing.T) {
	minimal, err := os.ReadFile("testdata/good/minimal.toml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parse("x", string(minimal)+"\n[budget]\n[budget.account.Physics]\nday = 1\n[budget.account.physics]\nday = 2\n"); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Error(err)
	}
}
