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
	"github.com/burst-hpc/burst/cmd/internal/api"
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
		Jobs: []Ran{
			{Job: 2, Name: "plot", State: "COMPLETED", Partition: "onprem", Nodes: "o1", Stays: "stays: says #BURST stay", stay: true},
			{Job: 3, Name: "heat", State: "COMPLETED", Partition: "cloud", Nodes: "c[2-5]", Asked: "onprem", Moved: "rule busy: waits 2s", cloud: true},
		},
		Budget:        Budget{Cap: 0.25, Spent: 0.0028, Left: 0.2472, Held: 0.0268, Whole: true},
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
		{"nothing moved", func(r *Report) { r.Jobs = r.Jobs[:1] }, []string{"no job was moved to the cloud and ran there"}},
		{"at the site", func(r *Report) { r.Jobs[1].Partition = "onprem" }, []string{"no job was moved to the cloud and ran there", "job 3 (heat) ran in onprem, not in cloud"}},
		{"by itself", func(r *Report) { r.Jobs[1].Asked = "cloud" }, []string{"job 3 (heat) asked for cloud, not for onprem"}},
		{"not by a rule", func(r *Report) { r.Jobs[1].Moved = "" }, []string{"no job was moved to the cloud and ran there", "job 3 (heat) ran in the cloud, and no rule has moved it there"}},
		{"did not stay", func(r *Report) { r.Jobs[0].Moved = "rule busy" }, []string{"job 2 (plot) was to stay at the site, and was moved: rule busy"}},
		{"stayed for nothing", func(r *Report) { r.Jobs[0].Stays = "" }, []string{"job 2 (plot) was not seen to stay at the site"}},
		{"another job failed", func(r *Report) { r.Jobs[0].State = "FAILED" }, []string{"job 2 (plot) ended as FAILED"}},
		{"no budget", func(r *Report) { r.Budget = Budget{} }, []string{"there is no budget of the day"}},
		{"nothing committed", func(r *Report) { r.Budget.Held = 0 }, []string{"nothing was committed while the job ran"}},
		{"still committed", func(r *Report) { r.Budget.Committed = 0.01 }, []string{"$0.0100 are committed, and no instance is left"}},
		{"not booked", func(r *Report) { r.Budget.Spent = 0.0020 }, []string{"burstd has booked $0.0020, and the instances cost $0.0028"}},
		{"over midnight", func(r *Report) { r.Budget.Spent, r.Budget.Whole = 0.0020, false }, nil},
		{"over the budget", func(r *Report) { r.Budget.Cap = 0.0020 }, []string{"$0.0028 were spent, of a budget of $0.0020"}},
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
  overflow        1 of 2 jobs, which all asked for the site's partition alone, ran in the cloud
                  job 2 (plot): onprem, on o1; stays: says #BURST stay
                  job 3 (heat): cloud, on c[2-5]; rule busy: waits 2s
  nodes launched  6; at the end 0 instances are left
  evictions       2, with 101 iterations lost in all
                  c4 at iteration 617, went on from 617: 0 iterations lost
                     from the notice to running again 2.2 s, to computing again 2.9 s
                  c1 at iteration 1301, went on from 1200: 101 iterations lost
                     from the notice to running again 4.9 s, to computing again 5.3 s
  instance time   0.0843 instance-hours (303 s)
  cost            $0.0028 at spot prices, $0.0094 on demand
                  (by a demo's price table of 2026-08-01; by the second, at least a minute)
  budget          $0.2500 a day: $0.0028 spent, $0.0000 committed, $0.2472 left
                  (when the job began $0.0268 were committed: to the jobs' time limits)
  checksum        0xa, as that of an uninterrupted run
  on-prem node    jobs came and went, Burst never touched it
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
	for _, words := range [][]string{{"ALLOCATED"}, {"MIXED", "PLANNED"}, {"IDLE", slurm.Completing}} { // jobs come and go
		if got := touched(start, slurm.Node{State: state(words...), Started: start.Started}); got != "" {
			t.Errorf("touched by %s: %q", words, got)
		}
	}
	for want, now := range map[string]slurm.Node{
		"":                             start,
		"it was IDLE+POWERING_DOWN":    {State: state("IDLE", slurm.PoweringDown), Started: start.Started},
		"it was DOWN":                  {State: state("DOWN"), Started: start.Started},
		"its slurmd was started again": {State: state("IDLE"), Started: time.Unix(2000, 0)},
	} {
		if got := touched(start, now); got != want {
			t.Errorf("touched by %s: %q, want %q", now.State, got, want)
		}
	}
}

func TestRan(t *testing.T) {
	all := queue("/bin/heat", Options{}.withDefaults())
	for i, q := range all {
		q.id = uint32(i + 1)
		q.now = slurm.Job{ID: q.id, State: "COMPLETED", Partition: "onprem", Nodes: "o1"}
		if q.cloud {
			q.now.Partition, q.now.Nodes = "cloud", "c1"
		}
		if q.stay {
			q.stays = "stays"
		}
	}
	row := func(job string) api.Overflowed {
		return api.Overflowed{Job: job, Was: "onprem", To: "cloud", Why: "rule busy"}
	}
	r := good()
	r.Job, r.Jobs = 3, ran(all, []api.Overflowed{row("3"), row("4"), row("5"), row("33")})
	if r.judge(2); len(r.Failures) > 0 || r.overflowed() != 3 || len(r.Jobs) != 5 {
		t.Errorf("%q: %+v", r.Failures, r.Jobs)
	}
	r.Jobs = ran(all, []api.Overflowed{row("2"), row("3"), row("4")})
	r.judge(2)
	if want := []string{"job 2 (plot) was to stay at the site, and was moved: rule busy", "job 5 (sweep) ran in the cloud, and no rule has moved it there"}; !slices.Equal(r.Failures, want) {
		t.Errorf("%q, want %q", r.Failures, want)
	}
}
