package power

import (
	"cmp"
	"fmt"
	"slices"
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
			if rapid.Bool().Draw(t, "then") {
				f := pool.Fleet
				f.Market = rapid.SampledFrom([]string{fleet.SpotOnly, fleet.OnDemandOnly}).Draw(t, "its market")
				pool.Then = []Source{{Provider: map[string]string{"p": "west", "q": "east"}[pool.Name], Fleet: f}}
			}
			if rapid.IntRange(0, 9).Draw(t, "left") > 0 {
				pools[pool.Name] = pool
			}
			if rapid.IntRange(0, 9).Draw(t, "stopped") == 0 {
				of := rapid.SampledFrom([]string{"", "east", "west"}).Draw(t, "source")
				st.Breakers = append(st.Breakers, Breaker{Pool: pool.Name, Provider: of, Stopped: at, Why: "why"})
			}
			for _, s := range pool.Sources() {
				for _, o := range s.Fleet.Offerings() {
					if rapid.Bool().Draw(t, "cools") {
						st.Coolings = append(st.Coolings, Cooling{s.Provider, o, fleet.Cooldown{Failures: 1, Until: at.Add(time.Duration(rapid.IntRange(-1, 3).Draw(t, "until")) * time.Minute)}})
					}
				}
			}
			for _, name := range pool.Nodes {
				n := Node{Name: name, Pool: pool.Name, Phase: rapid.SampledFrom([]Phase{Wanted, Wanted, Wanted, Launching, Booting, Up, Freeing}).Draw(t, name),
					Job: rapid.SampledFrom([]uint32{0, 7, 107, 108}).Draw(t, "job"), Made: at.Add(-time.Duration(rapid.IntRange(0, 540).Draw(t, "waited")) * time.Second)}
				n.Whole = n.Job > 100
				of := rapid.SampledFrom(pool.Sources()).Draw(t, "of")
				o := rapid.SampledFrom(of.Fleet.Offerings()).Draw(t, "offering")
				switch n.Phase {
				case Launching:
					n.Token = "t-" + name
					st.Launches = append(st.Launches, Launch{Token: n.Token, Provider: of.Provider, Nodes: []string{name}, State: Written, Request: cloud.LaunchRequest{Offering: o}})
				case Booting, Up:
					n.Instance = "i-" + name
					if o.Zone == "" {
						o.Zone = "b"
					}
					i := onInstance(n.Instance, name, at)
					i.Provider, i.Offering = of.Provider, o
					st.Instances = append(st.Instances, i)
				case Wanted:
					if rapid.IntRange(0, 5).Draw(t, "ends") == 0 {
						i := onInstance("i-old-"+name, name, at)
						i.Doomed = "why"
						st.Instances = append(st.Instances, i)
					}
					if rapid.IntRange(0, 5).Draw(t, "forsaken") == 0 {
						st.Launches = append(st.Launches, Launch{Token: "t-old-" + name, Provider: of.Provider, Nodes: []string{name}, State: Abandoned,
							Created: at.Add(-time.Duration(rapid.IntRange(0, 2).Draw(t, "ago")) * time.Minute), Request: cloud.LaunchRequest{Pool: pool.Name, Offering: o}})
					}
				}
				st.Nodes = append(st.Nodes, n)
			}
		}
		mem := newMemory(st)
		p := planning{mem: mem, pools: pools, now: at, bootTimeout: 10 * time.Minute, shut: map[string]shut{},
			limits: map[string]cloud.Limits{"east": {MaxLaunch: rapid.IntRange(1, 4).Draw(t, "most"), Choice: rapid.Bool().Draw(t, "choice")}, "west": {MaxLaunch: 2}}}
		for _, key := range []string{"p@east", "p@west"} {
			if rapid.IntRange(0, 5).Draw(t, "shut") == 0 {
				p.shut[key] = shut{brief: rapid.Bool().Draw(t, "brief"), why: "why", until: at}
			}
		}
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
		had, kinds, launched, of := map[string][]kind{}, map[string]kind{}, map[uint32]int{}, map[uint32]int{}
		for _, n := range mem.inPhase(Wanted, Launching, Booting, Up) {
			of[n.Job]++
		}
		for _, d := range out.drafts {
			_, stopped := mem.stopped(d.Request.Pool, d.Provider)
			if _, shut := p.shut[sourceKey(d.Request.Pool, d.Provider)]; stopped || shut || len(d.nodes) > p.limits[d.Provider].MaxLaunch {
				t.Fatalf("launch of %v", d.Launch)
			}
			for _, o := range d.Request.Offerings() {
				if c := p.cooled(d.Provider)[o]; at.Before(c.Until) {
					t.Fatalf("%s cools until %s and is asked", o, c.Until)
				}
			}
			for _, n := range d.nodes {
				note(n.Name, "launched")
				for _, l := range mem.launches {
					if slices.Contains(l.Nodes, n.Name) && (l.Provider == d.Provider || !p.forsaken(l)) {
						t.Fatalf("%s is launched at %s, and what came of %+v is not known", n.Name, d.Provider, l)
					}
				}
				if n.Phase != Wanted || len(busy[n.Name]) > 0 || d.job != 0 && d.job != n.Job {
					t.Fatalf("%+v is launched for job %d over %v", n, d.job, busy[n.Name])
				}
			}
			if d.job != 0 {
				launched[d.job] += len(d.nodes)
				key, k := fmt.Sprint(d.job, d.Request.Pool), kindOf(d.Provider, d.Request.Offering)
				for _, o := range mem.inPhase(Launching, Booting, Up) {
					l, i := mem.launches[o.Token], mem.instances[o.Instance]
					if provider := cmp.Or(l.Provider, i.Provider); o.Job == d.job && o.Pool == d.Request.Pool {
						had[key] = append(had[key], kindOf(provider, cmp.Or(l.Request.Offering, i.Offering)))
					}
				}
				if was, ok := kinds[key]; ok && was != k || len(d.Request.Or) > 0 && len(d.nodes) < of[d.job] {
					t.Fatalf("job %d gets %v and %v or %v", d.job, was, k, d.Request.Or)
				}
				kinds[key] = k
				if had := had[key]; len(had) > 0 && !slices.Contains(had, k) && offers(pools[d.Request.Pool], had[0]) {
					t.Fatalf("job %d has %v, and gets %v", d.job, had, k)
				}
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

// offers says whether a source of the pool sells instances of the kind.
func offers(pool Pool, k kind) bool {
	s, ok := pool.source(k.provider)
	return ok && slices.Contains(s.Fleet.Types, k.instanceType) && (len(s.Fleet.Zones) == 0 || slices.Contains(s.Fleet.Zones, k.zone))
}
