package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/overflow"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
)

// tree is a directory of accounts of which strings is below theory, and that below physics.
func tree() directory {
	parents := map[string][]string{"root": nil, "physics": {"root"}, "theory": {"physics"}, "strings": {"theory", "maths"}, "maths": {"root"}, "chem": {"root"}}
	return directory{parents: func() map[string][]string { return parents }, noUser: func(name string) bool { return name == "nobody-such" }}
}

// doubtsOf are the findings but for what they are OK with.
func doubtsOf(all []conf.Finding) string {
	var text []string
	for _, f := range all {
		if f.Level != conf.OK {
			text = append(text, f.Key+": "+f.Why)
		}
	}
	return strings.Join(text, "\n")
}

func TestAccountsBelow(t *testing.T) {
	d := tree()
	for _, tt := range []struct{ name, less, want string }{
		{"physics", "", "strings theory"}, {"maths", "", "strings"}, {"chem", "", ""}, {"none", "", ""},
		{"physics", "theory", "strings"}, {"root", "", "chem maths physics strings theory"},
	} {
		if got := strings.Join(d.below(tt.name, tt.less), " "); got != tt.want {
			t.Errorf("below %s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := some(d.below("root")); got != "chem, maths, physics and 2 more" {
		t.Error(got)
	}
	if none := (directory{parents: func() map[string][]string { return nil }}); none.noAccount("x") || none.below("x") != nil {
		t.Error("without a slurmdbd there are doubts")
	}
}

func TestBudgetNames(t *testing.T) {
	var c config.Config
	c.Budget = &config.Budget{}
	c.Budget.Caps.Accounts = map[string]budget.Limits{"chem": {}, "phisics": {}, "physics": {}}
	c.Budget.Caps.Users = map[string]budget.Limits{"ann": {}, "nobody-such": {}}
	want := `budget.user.nobody-such: This host knows no such user: the cap counts nobody's jobs, if Slurm knows none either.
budget.account.phisics: slurmdbd has no such account: the cap counts nobody's jobs.
budget.account.physics: The cap does not count jobs of accounts below it (strings, theory): names are compared as they are.`
	if got := doubtsOf(checkBudget(&c, conf.Site{}, tree())); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRuleNames(t *testing.T) {
	c := config.Config{Path: "/etc/burst/burst.toml"}
	c.Overflow.OnPrem.Licenses = []string{"matlab"}
	for i, r := range []overflow.Rule{{Accounts: []string{"physics", "theory", "chem"}}, {Accounts: []string{"!maths"}}, {Accounts: []string{"theory", "!strings"}}, {Accounts: []string{"chem", "!physics"}},
		{Accounts: []string{"chem", "!phisics"}, Users: []string{"ann", "!nobody-such"}, Licenses: []string{"matlab"}}} {
		r.Name, r.From, r.AtOnce, r.Line = string(rune('a'+i)), []string{fmt.Sprint("p", i)}, 1, 10*i+1
		c.Overflow.Rules = append(c.Overflow.Rules, r)
	}
	want := `overflow: burst.toml:1: it is not about jobs of the accounts below those that it names (strings): names are compared as they are.
overflow: burst.toml:11: it is about jobs of the accounts below those that it leaves out (strings), too: names are compared as they are.
overflow: burst.toml:41: the rule moves no job: all of its licenses (matlab) are among those of [onprem], and no job that uses such a one is moved.
overflow: burst.toml:41: this host knows no user nobody-such: what the rule says of it is about nobody, if Slurm knows none either.
overflow: burst.toml:41: slurmdbd has no account phisics: what the rule says of it is about nobody's jobs.`
	if got := doubtsOf(checkOverflow(&c, conf.Site{}, tree())); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
