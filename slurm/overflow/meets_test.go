package overflow

import (
	"fmt"
	"testing"
	"time"
)

// TestTogether: a rule is never reached if others are together about all that it is about.
func TestTogether(t *testing.T) {
	span := func(least, most int) Rule {
		return small(func(r *Rule) {
			r.Name, r.MinNodes, r.MaxNodes, r.Line = fmt.Sprint(least, "-", most), least, most, 10*least+most
		})
	}
	adas := span(1, 4)
	adas.Users = []string{"ada"}
	for _, tt := range []struct {
		name  string
		rules []Rule
		rule  Rule
		want  string
	}{
		{"one", []Rule{span(1, 4), span(1, 8)}, span(2, 6), "[1-8]"},
		{"two", []Rule{span(1, 4), span(5, 0)}, span(0, 0), "[1-4 5-0]"},
		{"two that meet, the other way round", []Rule{span(3, 8), span(0, 4)}, span(1, 8), "[0-4 3-8]"},
		{"a gap", []Rule{span(1, 3), span(5, 8)}, span(1, 8), "[]"},
		{"not to the end", []Rule{span(1, 4), span(5, 8)}, span(1, 0), "[]"},
		{"one of one user's", []Rule{adas, span(5, 8)}, span(1, 8), "[]"},
		{"for one user", []Rule{adas, span(5, 8)}, small(func(r *Rule) { r.Users, r.MaxNodes = []string{"ada"}, 8 }), "[1-4 5-8]"},
		{"none", nil, span(1, 8), "[]"},
	} {
		names := []string{}
		for _, r := range Together(tt.rules, tt.rule) {
			names = append(names, r.Name)
		}
		if got := fmt.Sprint(names); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestMeets(t *testing.T) {
	for _, tt := range []struct {
		a, b func(*Rule)
		want string
	}{
		{func(r *Rule) { r.MaxNodes = 4 }, func(r *Rule) { r.MinNodes, r.MaxNodes = 2, 8 }, "jobs of 2 to 4 nodes"},
		{func(r *Rule) { r.MaxNodes = 4 }, func(r *Rule) { r.MinNodes = 4 }, "jobs of 4 nodes"},
		{func(r *Rule) { r.MaxNodes = 1 }, func(r *Rule) { r.Users = []string{"ada"} }, "jobs of 1 node of user ada"},
		{func(r *Rule) { r.MinNodes = 2 }, func(r *Rule) { r.MinNodes = 3 }, "jobs of 3 or more nodes"},
		{func(r *Rule) { r.MaxNodes = 4 }, func(r *Rule) { r.MinNodes = 5 }, ""},
		{func(r *Rule) { r.From = []string{"main", "long"} }, func(r *Rule) { r.From = []string{"long", "big"} }, "jobs in long"},
		{func(r *Rule) { r.From = []string{"other"} }, nil, ""},
		{func(r *Rule) { r.Users = []string{"ada"} }, func(r *Rule) { r.Users = []string{"bob"} }, ""},
		{func(r *Rule) { r.Users = []string{"ada", "bob"} }, func(r *Rule) { r.Users = []string{"bob", "eve"} }, "jobs of user bob"},
		{func(r *Rule) { r.Accounts = []string{"phys"} }, func(r *Rule) { r.Accounts = []string{"!phys"} }, ""},
		{func(r *Rule) { r.Accounts = []string{"phys", "chem"} }, func(r *Rule) { r.Accounts = []string{"!phys"} }, "jobs of account chem"},
		{func(r *Rule) { r.Features = []string{"avx"} }, func(r *Rule) { r.Features = []string{"east", "west"} }, "jobs with feature avx with feature east or west"},
		{func(r *Rule) { r.Gres = []string{"gpu"} }, func(r *Rule) { r.Gres = []string{"!gpu"} }, ""},
		{func(r *Rule) { r.MaxTime = time.Hour }, func(r *Rule) { r.MaxTime, r.Directives = 4*time.Hour, []string{"ckpt=dmtcp"} }, "jobs of at most 1h that say ckpt=dmtcp"},
		{func(r *Rule) { r.Directives = []string{"ckpt=none"} }, func(r *Rule) { r.Directives = []string{"ckpt=dmtcp"} }, ""},
		{nil, nil, "jobs"},
	} {
		if a, b := small(tt.a), small(tt.b); a.Meets(b) != tt.want {
			t.Errorf("%+v and %+v: %q, want %q", a, b, a.Meets(b), tt.want)
		}
	}
}
