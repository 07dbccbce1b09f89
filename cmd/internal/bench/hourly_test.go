package bench

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/paidhour"
)

func at(minutes int) time.Time { return simBegin.Add(time.Duration(minutes) * time.Minute) }

// TestSimulateHours: days that can be reckoned by hand.
func TestSimulateHours(t *testing.T) {
	usual, rule := hourlyRule{suspend: config.DefaultSuspend}, hourlyRule{suspend: paidhour.SuspendTime, paid: true}
	for _, c := range []struct {
		name  string
		jobs  []hourlyJob
		rule  hourlyRule
		hours float64
		boots int
		wait  time.Duration
	}{
		{"no job", nil, usual, 0, 0, 0},
		{"one", []hourlyJob{{at(0), 10 * time.Minute, 1}}, usual, 1, 1, 3 * time.Minute},
		{"one", []hourlyJob{{at(0), 10 * time.Minute, 1}}, rule, 1, 1, 3 * time.Minute},
		// Ends at 13, and the next comes at 40: the node has gone at 23, or is there until 56.
		{"two in an hour", []hourlyJob{{at(0), 10 * time.Minute, 1}, {at(40), 10 * time.Minute, 1}}, usual, 2, 2, 3 * time.Minute},
		{"two in an hour", []hourlyJob{{at(0), 10 * time.Minute, 1}, {at(40), 10 * time.Minute, 1}}, rule, 1, 1, 90 * time.Second},
		// Ends at 55: idle to 65 it costs a second hour.
		{"one that ends late in the hour", []hourlyJob{{at(0), 52 * time.Minute, 1}}, usual, 2, 1, 3 * time.Minute},
		{"one that ends late in the hour", []hourlyJob{{at(0), 52 * time.Minute, 1}}, rule, 1, 1, 3 * time.Minute},
		// Ends at 59:30, too late: idle for an hour more, which is paid.
		{"one that ends too late", []hourlyJob{{at(0), 56*time.Minute + 30*time.Second, 1}}, rule, 2, 1, 3 * time.Minute},
		// The third job waits for all nodes until 183, and the second node, idle from 13 on, is planned for it: it does not
		// go before 60, but at 78 by SuspendTime. The first node is there until 236.
		{"one waits", []hourlyJob{{at(0), 3 * time.Hour, 1}, {at(0), 10 * time.Minute, 1}, {at(20), time.Minute, hourlyNodes}}, rule,
			4 + 2 + hourlyNodes - 1, 2 + hourlyNodes - 1, (3 + 3 + 166) * time.Minute / 3},
		{"on four nodes", []hourlyJob{{at(0), time.Minute, 4}}, rule, 4, 4, 3 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := simulateHours(c.jobs, c.rule)
			if err != nil {
				t.Fatal(err)
			}
			if hours := got.usd / hourlyUSD; hours < c.hours-1e-9 || hours > c.hours+1e-9 || got.boots != c.boots || got.wait != c.wait {
				t.Errorf("rule %+v: %g hours, %d boots, wait %s; want %g, %d, %s", c.rule, hours, got.boots, got.wait, c.hours, c.boots, c.wait)
			}
		})
	}
}

// TestHourlyJobs: the draw is as it is said to be.
func TestHourlyJobs(t *testing.T) {
	byDay, nodes, n, median := 0, 0, 0, 0
	for seed := range uint64(200) {
		for _, j := range hourlyJobs(rand.New(rand.NewPCG(seed, 7)), 12) {
			n++
			nodes += j.nodes
			if h := j.at.Hour(); h >= 8 && h < 18 {
				byDay++
			}
			if j.run < 12*time.Minute {
				median++
			}
		}
	}
	for name, got := range map[string][2]float64{
		"jobs a day": {float64(n) / 200, 10*12 + 14*3}, "by day": {float64(byDay) / 200, 120},
		"nodes of a job": {float64(nodes) / float64(n), .7 + .4 + .4}, "shorter than the median": {float64(median) / float64(n), .5},
	} {
		if got[0] < .97*got[1] || got[0] > 1.03*got[1] {
			t.Errorf("%s: %g, want about %g", name, got[0], got[1])
		}
	}
}

// TestTheRuleNeverCostsMore than the usual, over whole days.
func TestTheRuleNeverCostsMore(t *testing.T) {
	for _, load := range hourlyLoads {
		for seed := uint64(1000); seed < 1006; seed++ {
			jobs := hourlyJobs(rand.New(rand.NewPCG(seed, 7)), load.jobs)
			usual, err := simulateHours(jobs, hourlyRules[0].rule)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range hourlyRules[1:3] {
				if got, err := simulateHours(jobs, r.rule); err != nil || got.usd > usual.usd+1e-9 {
					t.Errorf("%s, seed %d: %s costs %.2f USD, and the usual %.2f: %v", load.name, seed, r.name, got.usd, usual.usd, err)
				}
			}
		}
	}
}
