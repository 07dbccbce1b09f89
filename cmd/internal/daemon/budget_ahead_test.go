package daemon

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestAReplacementIsAskedFor: a node is raised in place of another if its jobs' caps have room for all of their time limits anew;
// with an offering that is not to be had now nothing is known, and the launch is judged.
func TestAReplacementIsAskedFor(t *testing.T) {
	for _, tt := range []struct {
		name  string
		month float64 // ann's cap: her job may cost 100 USD
		user  string  // whose job is there
		types []string
		why   string
	}{
		{"no room", 150, "ann", []string{"small"}, "user ann's budget for "},
		{"room for both", 250, "ann", []string{"small"}, ""},
		{"another user's", 0.01, "bob", []string{"small"}, ""},
		{"nothing is to be had", 150, "ann", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTill(t, "", budget.Caps{Users: map[string]budget.Limits{"ann": {Month: tt.month}}})
				defer l.past.stop()
				defer func() { l.end() }()
				id := l.job(tt.user, signalScript)
				l.until(time.Minute, "it runs", func() bool { i, _ := l.Info(id); return i.State == "RUNNING" })
				if _, err := l.watcher.Fresh(t.Context(), time.Now()); err != nil {
					t.Fatal(err)
				}
				i, _ := l.Info(id)
				l.cfg.Pools[0].Power = power.Pool{Name: "p", Provider: "here", Nodes: l.nodes, Fleet: fleet.Config{Types: tt.types}}
				why, err := l.affordInPlaceOf(t.Context(), i.Nodes[0])
				if err != nil || !strings.HasPrefix(why, tt.why) || (why == "") != (tt.why == "") {
					t.Errorf("%q, %v; want %q", why, err, tt.why)
				}
			})
		})
	}
}
