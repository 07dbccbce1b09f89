package power

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
)

// TestPlanKeepsItsPromises: whatever the journal holds, a plan has a node once
// at most, launches only what waits and has nothing behind it, takes all of a job
// or none, all its instances of one pool of one kind, and asks nothing that cools.
func TestPlanKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pools := map[string]Pool{}
		var st State
		for _, pool := range testPools() {
			pool.Fleet.Market = rapid.SampledFrom([]string{fleet.SpotOnly, fleet.OnDemandOnly, fleet.SpotThenOnDemand}).Draw(t, "market")
			pool.Fleet.SpotTimeout = time.Duration(rapid.IntRange(0, 2).Draw(t, "spot_timeout")) * time.Minute
			if rapid.Bool().Draw(t, "zoneless") {
				pool.Fleet.Zones = nil
			}
			if rapid.IntRange(0, 9).Draw(t, "left") > 0 {
				pools[pool.Name] = pool
			}
			if rapid.IntRange(0, 9).Draw(t, "stopped") == 0 {
				st.Breakers = append(st.Breakers, Breaker{Pool: pool.Name, Stopped: at, Why: "why"})
			}
			all := pool.Fleet.Offerings()
			for _, o := range all {
				if rapid.Bool().Draw(t, "cools") {
					st.Coolings = append(st.Coolings, Cooling{pool.Provider, o, fleet.Cooldown{Failures: 1, Until: at.Add(time.Duration(rapid.IntRange(-1, 3).Draw(t, "until")) * time.Minute)}})
				}
			}
			for _, name := range pool.Nodes {
				n := Node{Name: name, Pool: pool.Name, Phase: rapid.SampledFrom([]Phase{Wanted, Wanted, Wanted, Launching, Booting, Up, Freeing}).Draw(t, name),
					Job: rapid.SampledFrom([]uint32{0, 7, 107, 108}).Draw(t, "job"), Made: at.Add(-time.Duration(rapid.IntRange(0, 540).Draw(t, "waited")) * time.Second)}
				n.Whole = n.Job > 100
				o := rapid.SampledFrom(all).Draw(t, "offering")
				switch n.Phase {
				case Launching:
					n.Token = "t-" + name
					st.Launches = append(st.Launches, Launch{Token: n.Token, Provider: pool.Provider, Nodes: []string{name}, State: Written, Request: cloud.LaunchRequest{Offering: o}})
				case Booting, Up:
					n.Instance = "i-" + name
					if o.Zone == "" {
						o.Zone = "b"
					}
					i := onInstance(n.Instance, name, at)
					i.Provider, i.Offering = pool.Provider, o
					st.Instances = append(st.Instances, i)
				case Wanted:
					if rapid.IntRange(0, 5).Draw(t, "ends") == 0 {
						i := onInstance("i-old-"+name, name, at)
						i.Doomed = "why"
						st.Instances = append(st.Instances, i)
					}
				}
				st.Nodes = append(st.Nodes, n)
			}
		}
		mem := newMemory(st)
		p := planning{mem: mem, pools: pools, now: at, bootTimeout: 10 * time.Minute, shut: map[string]bool{"p": rapid.IntRange(0, 5).Draw(t, "shut") == 0},
			limits: map[string]cloud.Limits{"east": {MaxLaunch: rapid.IntRange(1, 4).Draw(t, "most"), Choice: rapid.Bool().Draw(t, "choice")}, "west": {MaxLaunch: 2}}}
		out := p.plan()
		seen, busy := map[string]string{}, mem.serving()
		note := func(node, what string) {
			if seen[node] != "" {
				t.Fatalf("node %s is %s and %s", node, seen[node], what)
			}
			seen[node] = what
		}
		for _, n := range out.Nodes {
			note(n.Name, string(n.Phase))
		}
		doomed := map[string]bool{}
		for _, i := range out.Instances {
			if doomed[i.ID] || i.Doomed == "" {
				t.Fatalf("instance %s twice, or for nothing: %q", i.ID, i.Doomed)
			}
			doomed[i.ID] = true
		}
		kinds, launched, of := map[string]kind{}, map[uint32]int{}, map[uint32]int{}
		for _, n := range mem.inPhase(Wanted, Launching, Booting, Up) {
			of[n.Job]++
		}
		for _, d := range out.drafts {
			if _, stopped := mem.stopped(d.Request.Pool); stopped || p.shut[d.Request.Pool] || len(d.nodes) > p.limits[d.Provider].MaxLaunch {
				t.Fatalf("launch of %v", d.Launch)
			}
			for _, o := range d.Request.Offerings() {
				if c := p.cooled(d.Provider)[o]; at.Before(c.Until) {
					t.Fatalf("%s cools until %s and is asked", o, c.Until)
				}
			}
			for _, n := range d.nodes {
				note(n.Name, "launched")
				if n.Phase != Wanted || len(busy[n.Name]) > 0 || d.job != 0 && d.job != n.Job {
					t.Fatalf("%+v is launched for job %d over %v", n, d.job, busy[n.Name])
				}
			}
			if d.job != 0 {
				launched[d.job] += len(d.nodes)
				key, k := fmt.Sprint(d.job, d.Request.Pool), kindOf(d.Provider, d.Request.Offering)
				if was, ok := kinds[key]; ok && was != k || len(d.Request.Or) > 0 && len(d.nodes) < of[d.job] {
					t.Fatalf("job %d gets %v and %v or %v", d.job, was, k, d.Request.Or)
				}
				kinds[key] = k
			}
		}
		for job, n := range launched {
			for _, o := range mem.inPhase(Wanted) {
				if o.Whole && o.Job == job {
					n--
				}
			}
			if n != 0 {
				t.Fatalf("not all wanted nodes of job %d are launched: %d", job, n)
			}
		}
	})
}
