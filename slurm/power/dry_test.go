package power

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm"
)

func TestSuits(t *testing.T) {
	features := []string{"gpu", "x86_64", "lon-1"}
	for expression, want := range map[string]bool{
		"gpu": true, "arm": false, "gpu&x86_64": true, "gpu&arm": false, "arm|gpu": true, "arm|ib": false, "gpu,x86_64": true,
		"arm|gpu&x86_64": true, "gpu|arm&ib": false, // from left to right
		"(arm&ib)|gpu": true, "gpu&(arm|x86_64)": true, "[gpu|arm]": true, " gpu & lon-1 ": true,
		"gpu*2": false, "[gpu*2&x86_64*1]": false, "(gpu": false, "gpu)": false, "gpu&": false, "": false, "()": false, "gpu gpu2": false,
	} {
		if got := suits(expression, features); got != want {
			t.Errorf("%q: %v", expression, got)
		}
	}
}

// TestReroute: p, of c1 to c4, is dry; job 7 found it so. q has d1 and d2.
func TestReroute(t *testing.T) {
	const off, drained, downed = "IDLE+CLOUD+POWERED_DOWN", "IDLE+CLOUD+DRAIN+POWERED_DOWN", "DOWN+CLOUD+POWERED_DOWN"
	here := func(j slurm.Job) slurm.Job {
		j.ID, j.State, j.Batch = max(7, j.ID), "PENDING", true
		if j.Partition == "" {
			j.Partition = "both"
		}
		return j
	}
	const goes, waits = "reserve c1,c2,c3,c4", ""
	for _, tt := range []struct {
		name  string
		jobs  []slurm.Job
		slurm map[string]string // of d1 and d2, else off
		qDry  bool
		hole  bool // with a budget, and p's zone b does not sell what p buys
		want  string
	}{
		{name: "a zone of the dry one does not sell its type", jobs: []slurm.Job{here(slurm.Job{NumNodes: 2})}, hole: true, want: goes},
		{name: "one node", jobs: []slurm.Job{here(slurm.Job{NumNodes: 1})}, want: goes},
		{name: "as many as there are", jobs: []slurm.Job{here(slurm.Job{NumNodes: 2})}, want: goes},
		{name: "more than there are", jobs: []slurm.Job{here(slurm.Job{NumNodes: 3})}, want: waits},
		{name: "nodes that others use", jobs: []slurm.Job{here(slurm.Job{NumNodes: 2})}, slurm: map[string]string{"d1": "ALLOCATED+CLOUD", "d2": "IDLE+CLOUD+POWERING_DOWN"}, want: goes},
		{name: "one is drained", jobs: []slurm.Job{here(slurm.Job{NumNodes: 2})}, slurm: map[string]string{"d1": drained}, want: waits},
		{name: "one is down", jobs: []slurm.Job{here(slurm.Job{NumNodes: 2})}, slurm: map[string]string{"d1": downed}, want: waits},
		{name: "a partition of each", jobs: []slurm.Job{here(slurm.Job{NumNodes: 2, Partition: "p1,q1"})}, want: goes},
		{name: "the dry one's partition alone", jobs: []slurm.Job{here(slurm.Job{NumNodes: 1, Partition: "p1"})}, want: waits},
		{name: "a feature that the other has", jobs: []slurm.Job{here(slurm.Job{NumNodes: 1, Features: "fast&big"})}, want: goes},
		{name: "a feature that it lacks", jobs: []slurm.Job{here(slurm.Job{NumNodes: 1, Features: "p"})}, want: waits},
		{name: "a node of the other", jobs: []slurm.Job{here(slurm.Job{NumNodes: 2, Required: "d2"})}, want: goes},
		{name: "a node of the dry one", jobs: []slurm.Job{here(slurm.Job{NumNodes: 2, Required: "c1,d1"})}, want: waits},
		{name: "the other is dry too", jobs: []slurm.Job{here(slurm.Job{NumNodes: 1})}, qDry: true, want: waits},
		{name: "both parts of a heterogeneous job", jobs: []slurm.Job{here(slurm.Job{NumNodes: 1, HetID: 7}), here(slurm.Job{ID: 8, NumNodes: 1, HetID: 7})}, want: goes},
		{name: "one part cannot", jobs: []slurm.Job{here(slurm.Job{NumNodes: 1, HetID: 7}), here(slurm.Job{ID: 8, NumNodes: 3, HetID: 7})}, want: waits},
		{name: "tasks of an array, of which one cannot", jobs: []slurm.Job{here(slurm.Job{NumNodes: 1, ArrayID: 6, ArrayTask: "1"}), here(slurm.Job{ID: 8, NumNodes: 3, ArrayID: 6, ArrayTask: "2"})}, want: goes},
		{name: "it is gone", want: waits},
	} {
		t.Run(tt.name, func(t *testing.T) {
			states := map[string]string{"c1": off, "c2": "IDLE+CLOUD+POWERING_DOWN", "c3": off, "c4": off, "d1": off, "d2": off}
			for n, s := range tt.slurm {
				states[n] = s
			}
			inSlurm(t, State{}, states, tt.jobs, func(t *testing.T, e *Engine, s *scripted) {
				for name, n := range s.snap.Nodes {
					n.Features = []string{"p", "big"}
					n.Partitions = []string{"both", "p1"}
					if name[0] == 'd' {
						n.Features, n.Partitions = []string{"fast", "big"}, []string{"both", "q1"}
					}
					n.Available = n.Features
					s.snap.Nodes[name] = n
				}
				if tt.hole {
					e.cfg.Priced = func(_ string, o cloud.Offering) bool { return o != smallB }
				}
				end := time.Now().Add(30 * time.Second)
				var c Change
				for pool, dry := range map[string]bool{"p": true, "q": tt.qDry} {
					for _, o := range e.pools[pool].Fleet.Offerings() {
						if dry && !(tt.hole && o == smallB) {
							c.Coolings = append(c.Coolings, Cooling{e.pools[pool].Provider, o, fleet.Cooldown{Failures: 1, Until: end}})
						}
					}
				}
				for _, j := range append(tt.jobs, slurm.Job{ID: 7}) {
					c.Holds = append(c.Holds, Hold{Job: j.ID, Start: end, Why: "no capacity in pool p (x)"})
				}
				e.apply(c)
				e.dry.aside = map[string]aside{}
				if _, err := e.failOver(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(s.asked, "; "); got != tt.want {
					t.Errorf("asked %q, want %q", got, tt.want)
				}
				for _, j := range tt.jobs {
					h := e.mem.holds[j.ID]
					went := tt.want == goes && j.NumNodes < 3
					if says := strings.Contains(h.Why, "; it goes to pool q"); says != went || h.Start.Before(end) != went {
						t.Errorf("job %d starts at %s: %s", j.ID, h.Start, h.Why)
					}
					if says := strings.Contains(h.Why, "; none in pool q either"); says != tt.qDry {
						t.Errorf("job %d is told %q", j.ID, h.Why)
					}
				}
				// Once is enough, and a restart changes nothing.
				before := fmt.Sprint(e.mem.holds)
				for range 2 {
					if _, err := e.failOver(t.Context()); err != nil {
						t.Fatal(err)
					}
					clear(e.dry.waits)
				}
				if got := strings.Join(s.asked, "; "); got != tt.want || fmt.Sprint(e.mem.holds) != before {
					t.Errorf("again: asked %q, holds %v, before %s", got, e.mem.holds, before)
				}
			})
		})
	}
}

// TestASlurmThatReservesNothing: the job waits as without a second pool.
func TestASlurmThatReservesNothing(t *testing.T) {
	const off = "IDLE+CLOUD+POWERED_DOWN"
	job := slurm.Job{ID: 7, State: "PENDING", Batch: true, NumNodes: 1, Partition: "both"}
	inSlurm(t, State{}, map[string]string{"c1": off, "d1": off}, []slurm.Job{job}, func(t *testing.T, e *Engine, s *scripted) {
		for name, n := range s.snap.Nodes {
			n.Partitions = []string{"both"}
			s.snap.Nodes[name] = n
		}
		end := time.Now().Add(30 * time.Second)
		c := Change{Holds: []Hold{{Job: 7, Start: end, Why: "no capacity in pool p (x)"}}}
		for _, o := range e.pools["p"].Fleet.Offerings() {
			c.Coolings = append(c.Coolings, Cooling{e.pools["p"].Provider, o, fleet.Cooldown{Failures: 1, Until: end}})
		}
		e.apply(c)
		s.fail["reserve c1"] = fmt.Errorf("Requested nodes are busy")
		for range 3 {
			if _, err := e.failOver(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		h := e.mem.holds[7]
		asked := slices.DeleteFunc(slices.Clone(s.asked), func(a string) bool { return strings.HasPrefix(a, "unreserve") })
		if len(asked) != 1 || !h.Start.Equal(end) || strings.Contains(h.Why, "goes") {
			t.Errorf("asked %v, the job starts at %s: %s", s.asked, h.Start, h.Why)
		}
	})
}

// TestAJobThatIsNotBackYet is not told when it starts before it is known where.
func TestAJobThatIsNotBackYet(t *testing.T) {
	const off = "IDLE+CLOUD+POWERED_DOWN"
	job := slurm.Job{ID: 7, State: "COMPLETING", Batch: true, NumNodes: 1, Partition: "both"}
	inSlurm(t, State{}, map[string]string{"c1": off, "d1": off}, []slurm.Job{job}, func(t *testing.T, e *Engine, s *scripted) {
		for name, n := range s.snap.Nodes {
			n.Partitions = []string{"both"}
			s.snap.Nodes[name] = n
		}
		end := time.Now().Add(time.Hour)
		c := Change{Holds: []Hold{{Job: 7, Start: end, Why: "no capacity in pool p (x)"}}}
		for _, o := range e.pools["p"].Fleet.Offerings() {
			c.Coolings = append(c.Coolings, Cooling{e.pools["p"].Provider, o, fleet.Cooldown{Failures: 1, Until: end}})
		}
		e.apply(c)
		look := func() {
			t.Helper()
			for _, step := range []func(context.Context) (time.Duration, error){e.failOver, e.tellJobs} {
				if _, err := step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		look()
		if len(e.releasing) > 0 || e.mem.holds[7].Start != end {
			t.Fatalf("releasing %v, %+v", e.releasing, e.mem.holds[7])
		}
		job.State = "PENDING"
		s.snap.Jobs[7] = job
		look()
		e.calls.Wait()
		if h := e.mem.holds[7]; !e.releasing[7] || !h.Start.Before(end) || !strings.Contains(h.Why, "; it goes to pool q") {
			t.Errorf("releasing %v, %+v", e.releasing, h)
		}
	})
	inSlurm(t, State{}, map[string]string{"c1": off, "d1": off}, []slurm.Job{job}, func(t *testing.T, e *Engine, s *scripted) {
		end := time.Now().Add(time.Hour)
		job.State = "COMPLETING"
		s.snap.Jobs[7] = job
		c := Change{Holds: []Hold{{Job: 7, Start: end, Why: "no capacity in pool p (x)"}}}
		for _, o := range e.pools["p"].Fleet.Offerings() {
			c.Coolings = append(c.Coolings, Cooling{e.pools["p"].Provider, o, fleet.Cooldown{Failures: 1, Until: end}})
		}
		e.apply(c)
		for range 2 {
			if _, err := e.failOver(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(releaseTimeout)
		}
		if _, open := e.dry.open[7]; e.dry.waits[7] != end {
			t.Errorf("it is open (%v) for ever, and waits until %s", open, e.dry.waits[7])
		}
	})
}

// TestAReservationThatCannotBeRemoved keeps no job from being sent elsewhere or told, and no
// other pool's nodes from Slurm.
func TestAReservationThatCannotBeRemoved(t *testing.T) {
	const off = "IDLE+CLOUD+POWERED_DOWN"
	job := slurm.Job{ID: 7, State: "PENDING", Batch: true, NumNodes: 1, Partition: "both"}
	inUse := fmt.Errorf("Requested reservation is in use")
	inSlurm(t, State{}, map[string]string{"c1": off, "d1": off}, []slurm.Job{job}, func(t *testing.T, e *Engine, s *scripted) {
		for name, n := range s.snap.Nodes {
			n.Partitions = []string{"both"}
			s.snap.Nodes[name] = n
		}
		s.fail["unreserve burst-dry-p"] = inUse
		s.fail["unreserve burst-dry-q"] = inUse
		e.dry.aside["r"] = aside{}
		step := func(do func(context.Context) (time.Duration, error)) time.Duration {
			t.Helper()
			due, err := do(t.Context())
			if err != nil {
				t.Error(err)
			}
			return due
		}
		due := step(e.failOver)
		if got, want := strings.Join(s.asked, "; "), "unreserve burst-dry-p; unreserve burst-dry-q; unreserve burst-dry-r"; got != want {
			t.Errorf("asked %q, want %q", got, want)
		}
		if len(e.dry.aside) != 2 || due <= 0 || due > time.Second {
			t.Errorf("set aside are %v, again in %s", e.dry.aside, due)
		}
		c := Change{Holds: []Hold{{Job: 7, Start: time.Now().Add(30 * time.Second), Why: "no capacity in pool p (x)"}}}
		for _, o := range e.pools["p"].Fleet.Offerings() {
			c.Coolings = append(c.Coolings, Cooling{e.pools["p"].Provider, o, fleet.Cooldown{Failures: 1, Until: time.Now().Add(30 * time.Second)}})
		}
		e.apply(c)
		time.Sleep(due)
		step(e.failOver)
		step(e.tellJobs)
		e.calls.Wait()
		if !e.releasing[7] || !slices.Contains(s.asked, "reserve c1") || !slices.Contains(s.asked, "job 7 release") {
			t.Errorf("asked %v", s.asked)
		}
		// It goes when Slurm lets it.
		clear(s.fail)
		time.Sleep(30 * time.Second)
		step(e.failOver)
		if _, is := e.dry.aside["q"]; is {
			t.Errorf("q's is not removed: asked %v", s.asked)
		}
	})
}

// parted is a Slurm that shows its partitions.
type parted struct {
	*scripted
	parts []map[string]string
}

func (p parted) ShowPartitions(context.Context) ([]map[string]string, error) { return p.parts, nil }

// TestTheSiteIsAPlaceToGo: job 7 asked for the site's partition, too, and found the pool dry. It may start at the
// site at any moment, with one pool as with two: it is given no start for which it would wait there.
func TestTheSiteIsAPlaceToGo(t *testing.T) {
	const off, goes = "IDLE+CLOUD+POWERED_DOWN", "reserve c1,c2,c3,c4"
	for _, tt := range []struct {
		name, parts string
		nodes       int
		site        map[string]string
		cpus        int
		want        string
		size        bool // the pool is dry for such jobs alone
		new         bool // burstd has just been started, and has not read Slurm
		// What Slurm shows of the site's partition, where it shows any, and the job's time limit.
		part  map[string]string
		limit time.Duration
	}{
		{name: "its nodes are busy", parts: "p1,site", nodes: 2, site: map[string]string{"s1": "ALLOCATED", "s2": "IDLE"}, cpus: 8, want: goes},
		{name: "one partition has both", parts: "both", nodes: 1, site: map[string]string{"s1": "IDLE"}, cpus: 8, want: goes},
		{name: "too few that are up", parts: "p1,site", nodes: 2, site: map[string]string{"s1": "IDLE", "s2": "DOWN"}, cpus: 8},
		{name: "they are drained", parts: "p1,site", nodes: 1, site: map[string]string{"s1": "IDLE+DRAIN"}, cpus: 8},
		{name: "they are smaller", parts: "p1,site", nodes: 1, site: map[string]string{"s1": "IDLE"}, cpus: 2},
		{name: "it did not ask for the site", parts: "p1", nodes: 1, site: map[string]string{"s1": "IDLE"}, cpus: 8},
		{name: "another cloud's", parts: "p1,site", nodes: 1, site: map[string]string{"s1": "IDLE+CLOUD"}, cpus: 8},
		{name: "there is none", parts: "p1,site", nodes: 1},
		// Its nodes would be the job's again in half a minute, and again, as long as what came is paid for.
		{name: "nobody has looked yet whether there is a site", parts: "p1,site", nodes: 1, site: map[string]string{"s1": "ALLOCATED"}, cpus: 8, want: goes, new: true},
		{name: "nor that there is none", parts: "p1,site", nodes: 1, new: true},
		{name: "its partition is DOWN", parts: "p1,site", nodes: 1, site: map[string]string{"s1": "IDLE"}, cpus: 8, part: map[string]string{"State": "DOWN"}},
		{name: "it is INACTIVE", parts: "p1,site", nodes: 1, site: map[string]string{"s1": "IDLE"}, cpus: 8, part: map[string]string{"State": "INACTIVE"}},
		{name: "it takes no new jobs", parts: "p1,site", nodes: 1, site: map[string]string{"s1": "IDLE"}, cpus: 8, part: map[string]string{"State": "DRAIN"}, want: goes},
		{name: "the job is longer than its limit", parts: "p1,site", nodes: 1, site: map[string]string{"s1": "IDLE"}, cpus: 8, part: map[string]string{"State": "UP", "MaxTime": "1-00:00:00"}, limit: 25 * time.Hour},
		{name: "the job is as long", parts: "p1,site", nodes: 1, site: map[string]string{"s1": "IDLE"}, cpus: 8, part: map[string]string{"State": "UP", "MaxTime": "1-00:00:00"}, limit: 24 * time.Hour, want: goes},
		{name: "the job has no limit, and is shown with the cloud's", parts: "p1,site", nodes: 1, site: map[string]string{"s1": "IDLE"}, cpus: 8,
			part: map[string]string{"State": "UP", "MaxTime": "1-00:00:00"}, limit: 7 * 24 * time.Hour, want: goes},
		{name: "its limit is none", parts: "p1,site", nodes: 1, site: map[string]string{"s1": "IDLE"}, cpus: 8, part: map[string]string{"State": "UP", "MaxTime": "UNLIMITED", "MaxNodes": "UNLIMITED"}, limit: 25 * time.Hour, want: goes},
		{name: "the job has more nodes than it allows", parts: "p1,site", nodes: 2, site: map[string]string{"s1": "IDLE", "s2": "IDLE"}, cpus: 8, part: map[string]string{"State": "UP", "MaxNodes": "1"}},
		{name: "the pool has too few for it", parts: "p1,site", nodes: 2, site: map[string]string{"s1": "IDLE", "s2": "IDLE"}, cpus: 8, size: true},
	} {
		for _, pools := range []int{1, 2} {
			t.Run(fmt.Sprint(tt.name, ", pools: ", pools), func(t *testing.T) {
				states := map[string]string{"c1": off, "c2": off, "c3": off, "c4": off}
				for name, state := range tt.site {
					states[name] = state
				}
				job := slurm.Job{ID: 7, State: "PENDING", Batch: true, NumNodes: tt.nodes, Partition: tt.parts, TimeLimit: tt.limit}
				inSlurm(t, State{}, states, []slurm.Job{job}, func(t *testing.T, e *Engine, s *scripted) {
					if pools == 1 {
						delete(e.pools, "q")
					}
					for name, n := range s.snap.Nodes {
						n.CPUs, n.Partitions = 4, []string{"both", "p1"}
						if name[0] == 's' {
							n.CPUs, n.Partitions = tt.cpus, []string{"both", "site"}
						}
						s.snap.Nodes[name] = n
					}
					if !tt.new {
						e.sawJobs(s.snap)
					}
					if tt.part != nil {
						tt.part["PartitionName"] = "site"
						e.slurm = parted{s, []map[string]string{{"PartitionName": "p1", "State": "UP", "MaxTime": "7-00:00:00"}, tt.part}}
					}
					end := time.Now().Add(30 * time.Second)
					c := Change{Holds: []Hold{{Job: 7, Start: end, Why: "no capacity in pool p (x)"}}}
					for _, o := range e.pools["p"].Fleet.Offerings() {
						cool := fleet.Cooldown{Failures: 1, Until: end}
						if tt.size {
							cool = fleet.Cooldown{Most: 1, Paid: end}
						}
						c.Coolings = append(c.Coolings, Cooling{"east", o, cool})
					}
					e.apply(c)
					e.dry.aside = map[string]aside{}
					if _, err := e.failOver(t.Context()); err != nil {
						t.Fatal(err)
					}
					h, went := e.mem.holds[7], tt.want == goes
					if got := strings.Join(s.asked, "; "); got != tt.want || h.Start.Before(end) != went || strings.HasSuffix(h.Why, "; it goes to nodes of the site") != went {
						t.Errorf("asked %q, want %q; it starts at %s: %s", got, tt.want, h.Start, h.Why)
					}
				})
			})
		}
	}
}
