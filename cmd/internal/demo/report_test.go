package demo

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/local"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/slurm"
)

const prices = `type,zone,market,usd_per_hour,date
small,,spot,0.36,2026-08-01
small,,on-demand,3.6,2026-08-01
`

func machine(launched time.Time, ran time.Duration, live bool) local.Machine {
	m := local.Machine{Instance: cloud.Instance{Offering: cloud.Offering{Type: "small", Zone: "a", Market: cloud.Spot}, Launched: launched, State: cloud.Running}}
	if !live {
		m.State, m.Ended = cloud.Terminated, launched.Add(ran)
	}
	return m
}

func TestBill(t *testing.T) {
	table, err := price.Parse(strings.NewReader(prices), "prices")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	begin := now.Add(-time.Hour)
	var r Report
	err = r.bill([]local.Machine{
		machine(begin, 10*time.Second, false), // billed a minute
		machine(begin, 100*time.Second, false),
		machine(now.Add(-90*time.Second), 0, true),
	}, table, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][2]float64{
		"hours":     {r.InstanceHours, 200.0 / 3600},
		"spot":      {r.SpotUSD, 250 * 0.0001},
		"on demand": {r.OnDemandUSD, 250 * 0.001},
	} {
		if math.Abs(c[0]-c[1]) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, c[0], c[1])
		}
	}
	if r.NodesLaunched != 3 || r.PricesOf != "2026-08-01" {
		t.Errorf("%+v", r)
	}
	strange := machine(begin, time.Second, false)
	strange.Offering.Type = "strange"
	if err := r.bill([]local.Machine{strange}, table, now); err == nil || !strings.Contains(err.Error(), "no price of strange/a/") {
		t.Errorf("an unknown type: %v", err)
	}
}

func good() Report {
	return Report{
		Job: 1, JobState: "COMPLETED", Iterations: 1800, Seconds: 82.2, NodesLaunched: 6, Restarts: 2, Lost: 101,
		Evictions: []Eviction{
			{Node: "c4", Reached: 617, From: 617, Running: 2.24, Computing: 2.91, Restarted: true},
			{Node: "c1", Reached: 1301, From: 1200, Lost: 101, Running: 4.9, Computing: 5.3, Restarted: true},
		},
		InstanceHours: 0.0843, SpotUSD: 0.0028, OnDemandUSD: 0.0094, PricesOf: "2026-08-01", Checksum: "0xa", Reference: "0xa",
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Report)
		want   []string
	}{
		{"all is as it must be", func(*Report) {}, nil},
		{"job failed", func(r *Report) { r.JobState = "FAILED" }, []string{"the job ended as FAILED"}},
		{"one eviction", func(r *Report) { r.Evictions, r.Restarts = r.Evictions[:1], 1 }, []string{"1 of 2 evictions took place"}},
		{"from the start", func(r *Report) { r.Evictions[1].From = 0 }, []string{"after the eviction of c1 the job began at iteration 0 again"}},
		{"no restart", func(r *Report) { r.Evictions[1], r.Restarts = Eviction{Node: "c1"}, 1 }, []string{"the job did not restart after the eviction of c1"}},
		{"one restart too many", func(r *Report) { r.Restarts = 3 }, []string{"the job restarted 3 times, for 2 evictions"}},
		{"another checksum", func(r *Report) { r.Checksum = "0xb" }, []string{"the job's checksum is 0xb, that of an uninterrupted run 0xa"}},
		{"no checksum", func(r *Report) { r.Checksum = "" }, []string{"the job printed no checksum"}},
		{"all left up", func(r *Report) { r.NodesUp, r.InstancesLeft = []string{"c1 (IDLE)"}, 1 }, []string{"not powered down: c1 (IDLE)", "1 instances are left"}},
		{"on-prem", func(r *Report) { r.OnPremTouched = "it was DOWN" }, []string{"the on-prem node was touched: it was DOWN"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := good()
			c.change(&r)
			r.judge(2)
			if !slices.Equal(r.Failures, c.want) {
				t.Errorf("%q, want %q", r.Failures, c.want)
			}
		})
	}
}

func TestText(t *testing.T) {
	r := good()
	const want = `
Report, after 82 s
  nodes launched  6; at the end 0 instances are left
  evictions       2, with 101 iterations lost in all
                  c4 at iteration 617, went on from 617: 0 iterations lost
                     from the notice to running again 2.2 s, to computing again 2.9 s
                  c1 at iteration 1301, went on from 1200: 101 iterations lost
                     from the notice to running again 4.9 s, to computing again 5.3 s
  instance time   0.0843 instance-hours (303 s)
  cost            $0.0028 at spot prices, $0.0094 on demand
                  (by a demo's price table of 2026-08-01; by the second, at least a minute)
  checksum        0xa, as that of an uninterrupted run
  on-prem node    idle all the time, never touched
`
	if got := r.text(); got != want {
		t.Errorf("the report is\n%s", got)
	}
	for line := range strings.Lines(want) {
		if len(line) > 100 {
			t.Errorf("a line is too long: %s", line)
		}
	}
}

func TestNodes(t *testing.T) {
	state := func(words ...string) slurm.NodeState { return slurm.NodeState{Base: words[0], Flags: words[1:]} }
	for _, c := range []struct {
		state slurm.NodeState
		off   bool
	}{
		{state("IDLE", "CLOUD", slurm.PoweredDown), true},
		{state("IDLE", "CLOUD", slurm.PoweringDown), false},
		{state("IDLE", "CLOUD", slurm.PoweredDown, slurm.PoweringUp), false},
		{state("DOWN", "CLOUD", slurm.PoweredDown), false},
		{state("IDLE", "CLOUD"), false},
		{slurm.NodeState{}, false},
	} {
		if got := off(c.state); got != c.off {
			t.Errorf("off(%s) = %t", c.state, got)
		}
	}
	start := slurm.Node{State: state("IDLE"), Started: time.Unix(1000, 0)}
	for want, now := range map[string]slurm.Node{
		"":                             start,
		"it was IDLE+POWERING_DOWN":    {State: state("IDLE", slurm.PoweringDown), Started: start.Started},
		"it was ALLOCATED":             {State: state("ALLOCATED"), Started: start.Started},
		"its slurmd was started again": {State: state("IDLE"), Started: time.Unix(2000, 0)},
	} {
		if got := touched(start, now); got != want {
			t.Errorf("touched by %s: %q, want %q", now.State, got, want)
		}
	}
}
