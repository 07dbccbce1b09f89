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
				afford, err := l.affordInPlaceOf(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if why := afford(i.Nodes[0]); !strings.HasPrefix(why, tt.why) || (why == "") != (tt.why == "") {
					t.Errorf("%q, want %q", why, tt.why)
				}
			})
		})
	}
}

// TestASecondReplacementIsAskedForBesideTheFirst: with room for one the first counts, as long as it is not launched; then its
// instance does.
func TestASecondReplacementIsAskedForBesideTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTill(t, "", budget.Caps{Users: map[string]budget.Limits{"ann": {Month: 350}}}) // two of her jobs, and one of them once more
		defer l.past.stop()
		defer func() { l.end() }()
		var nodes []string
		for range 2 {
			id := l.job("ann", signalScript)
			l.until(time.Minute, "it runs", func() bool { i, _ := l.Info(id); return i.State == "RUNNING" })
			i, _ := l.Info(id)
			nodes = append(nodes, i.Nodes[0])
		}
		if _, err := l.watcher.Fresh(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		l.cfg.Pools[0].Power = power.Pool{Name: "p", Provider: "here", Nodes: l.nodes, Fleet: fleet.Config{Types: []string{"small"}}}
		for _, tt := range []struct {
			name   string
			raised map[string]string
			want   []bool // whether there is room
		}{
			{"both at once", nil, []bool{true, false}},
			{"the first was raised just now", map[string]string{"new": nodes[0]}, []bool{false, false}},
			{"it has an instance", map[string]string{nodes[1]: nodes[0]}, []bool{true, false}},
		} {
			afford, err := l.affordInPlaceOf(t.Context(), tt.raised)
			if err != nil {
				t.Fatal(err)
			}
			for n, node := range nodes {
				if why := afford(node); (why == "") != tt.want[n] {
					t.Errorf("%s: in place of node %d: %q", tt.name, n, why)
				}
			}
		}
	})
}
