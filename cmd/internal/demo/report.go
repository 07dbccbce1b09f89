package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/local"
	"github.com/burst-hpc/burst/cloud/price"
)

// Report is the outcome of a demo, as --json writes it.
type Report struct {
	Job           uint32     `json:"job"`
	JobState      string     `json:"job_state"`
	Iterations    int64      `json:"iterations"`
	Seconds       float64    `json:"seconds"` // from the start of the cluster to the last node's power-down
	NodesLaunched int        `json:"nodes_launched"`
	Evictions     []Eviction `json:"evictions"`
	Restarts      int        `json:"restarts"`
	Lost          int64      `json:"iterations_lost"`
	InstanceHours float64    `json:"instance_hours"`
	SpotUSD       float64    `json:"spot_usd"`
	OnDemandUSD   float64    `json:"on_demand_usd"`
	PricesOf      string     `json:"prices_of"` // the day of the demo's price table
	Jobs          []Ran      `json:"jobs"`
	Budget        Budget     `json:"budget"`
	Checksum      string     `json:"checksum"`
	Reference     string     `json:"reference_checksum"` // of an uninterrupted run
	InstancesLeft int        `json:"instances_left"`
	NodesUp       []string   `json:"nodes_up"`       // not powered down at the end
	OnPremTouched string     `json:"onprem_touched"` // what happened to the on-prem node; empty: nothing
	Failures      []string   `json:"failures"`       // why the demo has failed; empty: it has not
}

// Eviction is one that the demo has ordered.
type Eviction struct {
	Node      string  `json:"node"`
	Instance  string  `json:"instance"`
	Lead      float64 `json:"lead_s"`
	At        float64 `json:"at_s"`          // of the notice, since the demo's start
	Reached   int64   `json:"reached"`       // iteration before the job left
	From      int64   `json:"restarted_at"`  // iteration from which it went on
	Lost      int64   `json:"lost"`          // iterations
	Running   float64 `json:"running_s"`     // from the notice until Slurm had the job running again
	Computing float64 `json:"computing_s"`   // from the notice until heat computed again
	Restarted bool    `json:"was_restarted"` // the fields from Reached on are known
}

// bill adds up what the instances cost: by the second and at least a minute
// each, as AWS bills Linux, on either market. Those that still run are billed until now.
func (r *Report) bill(instances []local.Machine, t price.Table, now time.Time) error {
	for _, i := range instances {
		end := i.Ended
		if i.State.Live() {
			end = now
		}
		r.InstanceHours += end.Sub(i.Launched).Hours()
		for market, usd := range map[cloud.Market]*float64{cloud.Spot: &r.SpotUSD, cloud.OnDemand: &r.OnDemandUSD} {
			o := i.Offering
			o.Market = market
			p, ok := t.Price(o)
			if !ok {
				return fmt.Errorf("the price table has no price of %s", o)
			}
			*usd += price.PerSecond.Cost(p.USDPerHour, i.Launched, end)
			r.PricesOf = p.Date.UTC().Format(time.DateOnly)
		}
	}
	r.NodesLaunched = len(instances)
	return nil
}

// judge lists what a demo must show and this one did not.
func (r *Report) judge(evictions int) {
	fail := func(format string, args ...any) { r.Failures = append(r.Failures, fmt.Sprintf(format, args...)) }
	if r.JobState != "COMPLETED" {
		fail("the job ended as %s", r.JobState)
	}
	if len(r.Evictions) != evictions {
		fail("%d of %d evictions took place", len(r.Evictions), evictions)
	}
	for _, e := range r.Evictions {
		switch {
		case !e.Restarted:
			fail("the job did not restart after the eviction of %s", e.Node)
		case e.From <= 0:
			fail("after the eviction of %s the job began at iteration 0 again", e.Node)
		}
	}
	if r.Restarts > len(r.Evictions) {
		fail("the job restarted %d times, for %d evictions", r.Restarts, len(r.Evictions))
	}
	switch {
	case r.Checksum == "":
		fail("the job printed no checksum")
	case r.Checksum != r.Reference:
		fail("the job's checksum is %s, that of an uninterrupted run %s", r.Checksum, r.Reference)
	}
	if r.overflowed() == 0 {
		fail("no job was moved to the cloud and ran there")
	}
	for _, j := range r.Jobs {
		if why := j.wrong(); why != "" {
			fail("%s", why)
		}
		if j.State != "COMPLETED" && j.Job != r.Job {
			fail("%s ended as %s", j.title(), j.State)
		}
	}
	if why := r.Budget.wrong(r.SpotUSD); why != "" {
		fail("%s", why)
	}
	if len(r.NodesUp) > 0 {
		fail("not powered down: %s", strings.Join(r.NodesUp, ", "))
	}
	if r.InstancesLeft > 0 {
		fail("%d instances are left", r.InstancesLeft)
	}
	if r.OnPremTouched != "" {
		fail("the on-prem node was touched: %s", r.OnPremTouched)
	}
}

// text is the report for people.
func (r *Report) text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-15s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "\nReport, after %.0f s\n", r.Seconds)
	line("overflow", "%d of %d jobs, which all asked for the site's partition alone, ran in the cloud", r.overflowed(), len(r.Jobs))
	for _, j := range r.Jobs {
		line("", "%s", j.text())
	}
	line("nodes launched", "%d; at the end %d instances are left", r.NodesLaunched, r.InstancesLeft)
	line("evictions", "%d, with %s lost in all", len(r.Evictions), iterations(r.Lost))
	for _, e := range r.Evictions {
		if !e.Restarted {
			line("", "%s: the job did not restart", e.Node)
			continue
		}
		line("", "%s at iteration %d, went on from %d: %s lost", e.Node, e.Reached, e.From, iterations(e.Lost))
		line("", "   from the notice to running again %.1f s, to computing again %.1f s", e.Running, e.Computing)
	}
	line("instance time", "%.4f instance-hours (%.0f s)", r.InstanceHours, r.InstanceHours*3600)
	line("cost", "$%.4f at spot prices, $%.4f on demand", r.SpotUSD, r.OnDemandUSD)
	line("", "(by a demo's price table of %s; by the second, at least a minute)", r.PricesOf)
	line("budget", "$%.4f a day: $%.4f spent, $%.4f committed, $%.4f left", r.Budget.Cap, r.Budget.Spent, r.Budget.Committed, r.Budget.Left)
	line("", "(when the job began $%.4f were committed: to the jobs' time limits)", r.Budget.Held)
	same := "as that of an uninterrupted run"
	if r.Checksum != r.Reference {
		same = "BUT an uninterrupted run has " + r.Reference
	}
	line("checksum", "%s, %s", r.Checksum, same)
	onprem := "jobs came and went, Burst never touched it"
	if r.OnPremTouched != "" {
		onprem = r.OnPremTouched
	}
	line("on-prem node", "%s", onprem)
	return b.String()
}

func iterations(n int64) string {
	if n == 1 {
		return "1 iteration"
	}
	return fmt.Sprintf("%d iterations", n)
}
