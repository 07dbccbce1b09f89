package bench

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/paidhour"
	"github.com/burst-hpc/burst/slurm"
)

// What the simulated site takes for granted.
const (
	simStep    = 5 * time.Second
	simLook    = 15 * time.Second // between two looks of burstd at its idle nodes
	simBoot    = 3 * time.Minute
	simEnding  = 10 * time.Second // from the decision that a node goes to the instance's end
	simTimeout = 2 * time.Minute  // SuspendTimeout
	simMost    = 4 * 24 * time.Hour
)

// simBegin is midnight of the simulated day.
var simBegin = time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)

// hourlyJob is a job of the simulated day.
type hourlyJob struct {
	at    time.Time
	run   time.Duration
	nodes int
}

// hourlyJobs draws a day's jobs: a Poisson process by thinning, log-normal run times.
func hourlyJobs(r *rand.Rand, perHour float64) []hourlyJob {
	var all []hourlyJob
	for at := simBegin; ; {
		at = at.Add(time.Duration(r.ExpFloat64() / perHour * float64(time.Hour)))
		if at.Sub(simBegin) >= 24*time.Hour {
			return all
		}
		run := time.Duration(float64(12*time.Minute) * math.Exp(1.2*r.NormFloat64()))
		j := hourlyJob{at: at, run: min(max(run, 5*time.Second), 8*time.Hour), nodes: 1}
		switch size := r.Float64(); {
		case size > 0.9:
			j.nodes = 4
		case size > 0.7:
			j.nodes = 2
		}
		if h := at.Hour(); (h < 8 || h >= 18) && r.Float64() > 0.25 {
			continue
		}
		all = append(all, j)
	}
}

// hourlyRule is when idle nodes go.
type hourlyRule struct {
	suspend time.Duration // Slurm's SuspendTime
	paid    bool          // burstd has them go before an hour that is paid for ends
}

// hourlyDay is what a day has come to.
type hourlyDay struct {
	usd   float64
	boots int
	wait  time.Duration // of a job for its start, in the mean
}

// simNode is a node: powered down until off, or with an instance.
type simNode struct {
	off      time.Time // it may be powered up again
	launched time.Time // zero: it is powered down
	busy     time.Time // until then it boots, or has a job
}

// simulateHours runs the jobs, first come first served, until all are done and the last
// node is powered down.
func simulateHours(jobs []hourlyJob, rule hourlyRule) (hourlyDay, error) {
	var day hourlyDay
	nodes := make([]simNode, hourlyNodes)
	next, waited := 0, time.Duration(0)
	for now := simBegin; ; now = now.Add(simStep) {
		for next < len(jobs) && !jobs[next].at.After(now) {
			start, ok := day.start(nodes, jobs[next], now)
			if !ok {
				break
			}
			waited += start.Sub(jobs[next].at)
			next++
		}
		flags := []string{"CLOUD"}
		if next < len(jobs) && !jobs[next].at.After(now) { // it waits: Slurm plans what is idle for it, and burstd leaves that alone
			flags = append(flags, "PLANNED")
		}
		up := 0
		look := now.Sub(simBegin)%simLook == 0
		for i := range nodes {
			n := &nodes[i]
			if n.launched.IsZero() {
				continue
			}
			up++
			if rule.ends(*n, flags, now, look) {
				day.usd += price.PerHour.Cost(hourlyUSD, n.launched, now.Add(simEnding))
				*n = simNode{off: now.Add(simTimeout)}
			}
		}
		if next == len(jobs) && up == 0 {
			if next > 0 {
				day.wait = waited / time.Duration(next)
			}
			return day, nil
		}
		if now.Sub(simBegin) > simMost {
			return day, errors.New("the day does not end")
		}
	}
}

// ends says whether the node, which has these flags if it is idle, goes now, by Slurm's SuspendTime or by burstd's rule.
func (r hourlyRule) ends(n simNode, flags []string, now time.Time, look bool) bool {
	if now.Before(n.busy) {
		return false
	}
	if now.Sub(n.busy) >= r.suspend {
		return true
	}
	shown := slurm.Node{State: slurm.NodeState{Base: "IDLE", Flags: flags}, LastBusy: n.busy, Started: n.launched.Add(simBoot)}
	return r.paid && look && paidhour.Idle(shown, now) && paidhour.Paid{Launched: n.launched, By: price.PerHour}.Due(now)
}

// start gives the job its nodes, idle ones first, then such as are powered down, and says
// when it begins. Not if there are too few.
func (day *hourlyDay) start(nodes []simNode, j hourlyJob, now time.Time) (time.Time, bool) {
	var idle, off []int
	for i, n := range nodes {
		switch {
		case !n.launched.IsZero() && !now.Before(n.busy):
			idle = append(idle, i)
		case n.launched.IsZero() && !now.Before(n.off):
			off = append(off, i)
		}
	}
	if len(idle)+len(off) < j.nodes {
		return time.Time{}, false
	}
	got := append(idle, off...)[:j.nodes]
	start := now
	for _, i := range got {
		if nodes[i].launched.IsZero() {
			start = now.Add(simBoot)
			nodes[i].launched = now
			day.boots++
		}
	}
	for _, i := range got {
		nodes[i].busy = start.Add(j.run)
	}
	return start, true
}
