package power

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm"
)

// servedPools are p, whose nodes mount from s1, and the pool of s1.
func servedPools(unused time.Duration) []Pool {
	pools := testPools()[:1]
	pools[0].Needs, pools[0].BootTimeout = []string{"s1"}, 10*time.Minute
	return append(pools, Pool{Name: "s", Provider: "east", Nodes: []string{"s1"}, EndUnused: unused, Serves: true, Partition: "s", Fleet: fleet.Config{Types: []string{"small"}, Zones: []string{"a"}}})
}

// TestNodesWaitForTheirServer: what a plan makes of a wanted node whose pool needs a server.
func TestNodesWaitForTheirServer(t *testing.T) {
	wanted := func(age time.Duration) Node {
		return Node{Name: "c1", Pool: "p", Phase: Wanted, Job: 7, Whole: true, Order: "o", Made: at.Add(-age)}
	}
	server := func(phase Phase) Node {
		return Node{Name: "s1", Pool: "s", Phase: phase, Instance: "i-s1", AddrSet: true}
	}
	for _, tt := range []struct {
		name   string
		st     State
		leaves time.Duration // since Slurm was asked to power it down; 0: it was not
		failed string
		want   []string
		why    string // of the hold
	}{
		{name: "it is off", st: State{Nodes: []Node{wanted(0)}}},
		{name: "it boots", st: State{Nodes: []Node{wanted(7 * time.Minute), server(Booting)}}},
		{name: "it is up", st: State{Nodes: []Node{wanted(0), server(Up)}}, want: []string{"small c1"}},
		{name: "it is to go", st: State{Nodes: []Node{wanted(0), server(Up)}}, leaves: time.Second},
		{name: "it was to go, and has not gone", st: State{Nodes: []Node{wanted(0), server(Up)}}, leaves: 2 * time.Minute, want: []string{"small c1"}},
		{name: "it is given back", st: State{Nodes: []Node{wanted(0), {Name: "s1", Pool: "s", Phase: Freeing}}}},
		{name: "it itself is launched", st: State{Nodes: []Node{{Name: "s1", Pool: "s", Phase: Wanted}, wanted(0)}}, want: []string{"small s1"}},
		{name: "its pool is stopped", st: State{Nodes: []Node{wanted(0)}, Breakers: []Breaker{{Pool: "s", Stopped: at, Why: "5 in a row"}}},
			want: []string{"c1 freeing job 7 whole", "hold 7"}, why: "server s1, which its nodes mount from: pool s is stopped: 5 in a row"},
		{name: "it is too late for a launch", st: State{Nodes: []Node{wanted(9 * time.Minute), server(Booting)}}, failed: "no capacity",
			want: []string{"c1 freeing job 7 whole", "hold 7"}, why: "pool p: server s1, which its nodes mount from, was not up within 8m0s: no capacity"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := planning{mem: newMemory(tt.st), pools: map[string]Pool{}, limits: map[string]cloud.Limits{"east": {MaxLaunch: 2}}, cluster: "x", now: at,
				servers: newServing(servedPools(0))}
			for _, pool := range servedPools(0) {
				p.pools[pool.Name] = pool
			}
			if tt.leaves > 0 {
				p.servers.leaves["s1"] = at.Add(-tt.leaves)
			}
			p.servers.failed["s1"] = tt.failed
			out := p.plan()
			got := append([]string(nil), sum(out.Change)...)
			for _, d := range out.drafts {
				got = append(got, "small "+strings.Join(d.Nodes, ","))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("planned (-want +got):\n%s", diff)
			}
			if tt.why != "" && (len(out.Holds) != 1 || out.Holds[0].Why != tt.why) {
				t.Errorf("the job is told %+v", out.Holds)
			}
		})
	}
}

// inServed is inSlurm with servedPools.
func inServed(t *testing.T, st State, unused time.Duration, nodes map[string]string, f func(t *testing.T, e *Engine, s *scripted)) {
	t.Helper()
	inSlurm(t, st, nodes, []slurm.Job{{ID: 7, State: "CONFIGURING"}}, func(t *testing.T, e *Engine, s *scripted) {
		e.poolOf, e.pools = map[string]string{}, map[string]Pool{}
		for _, p := range servedPools(unused) {
			e.pools[p.Name] = p
			for _, n := range p.Nodes {
				e.poolOf[n] = p.Name
			}
		}
		e.servers = newServing(servedPools(unused))
		f(t, e, s)
	})
}

func TestAServerIsAskedForOnce(t *testing.T) {
	st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Wanted, Job: 7, Order: "o"}, {Name: "c2", Pool: "p", Phase: Wanted}}}
	for _, tt := range []struct {
		name, state string
		want        []string
	}{
		{"it is off", "IDLE+CLOUD+POWERED_DOWN", []string{"power_up s1"}},
		{"somebody has asked", "IDLE+CLOUD+POWER_UP+POWERED_DOWN", nil},
		{"its order is on its way", "IDLE+CLOUD+POWERING_UP", nil},
		{"it goes", "IDLE+CLOUD+POWERING_DOWN", nil},
		{"Slurm does not show it", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes := map[string]string{"c1": "ALLOCATED+CLOUD+POWERING_UP", "c2": "ALLOCATED+CLOUD+POWERING_UP"}
			if tt.state != "" {
				nodes["s1"] = tt.state
			}
			inServed(t, st, 0, nodes, func(t *testing.T, e *Engine, s *scripted) {
				for range 20 {
					due, err := e.seeToServers(t.Context())
					if err != nil || due < time.Second || due > raiseAgain {
						t.Errorf("due in %s: %v", due, err)
					}
					select {
					case f := <-e.results:
						f(t.Context())
					default:
					}
					time.Sleep(time.Second)
				}
				e.calls.Wait()
				got := slices.DeleteFunc(s.asked, func(what string) bool { return what == "job 7 comment" })
				if !slices.Equal(got, tt.want) {
					t.Errorf("Slurm is asked %q", got)
				}
			})
		})
	}
}

// TestAServerThatDoesNotComeIsAskedForAgain: and the job is told once.
func TestAServerThatDoesNotComeIsAskedForAgain(t *testing.T) {
	st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Wanted, Job: 7, Order: "o"}, {Name: "c2", Pool: "p", Phase: Wanted, Job: 7, Order: "o2"}}}
	inServed(t, st, 0, map[string]string{"s1": "IDLE+CLOUD+POWERED_DOWN"}, func(t *testing.T, e *Engine, s *scripted) {
		s.fail["power_up s1"] = errors.New("slurmctld is busy")
		if _, err := e.seeToServers(t.Context()); err == nil {
			t.Error("the failure is not told")
		}
		for range 70 {
			time.Sleep(time.Second)
			_, _ = e.seeToServers(t.Context()) // it fails each time that it asks
		}
		e.calls.Wait()
		count := map[string]int{}
		for _, what := range s.asked {
			count[what]++
		}
		if count["power_up s1"] != 3 || count["job 7 comment"] != 1 {
			t.Errorf("in 70 s: %v", count)
		}
	})
}

func TestAnUnusedServerIsEnded(t *testing.T) {
	const off, up = "IDLE+CLOUD+POWERED_DOWN", "IDLE+CLOUD"
	for _, tt := range []struct {
		name   string
		unused time.Duration
		more   State
		slurm  map[string]string
		want   []string
	}{
		{"nothing is there", 30 * time.Minute, State{}, nil, []string{"power_down s1"}},
		{"it is kept for ever", 0, State{}, nil, nil},
		{"not for so long", 2 * time.Hour, State{}, nil, nil},
		{"a node that mounts is up", 30 * time.Minute, State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Up}}}, nil, nil},
		{"an instance still ends", 30 * time.Minute, State{Instances: []Instance{{Assigned: "c1", Doomed: "suspended", Instance: cloud.Instance{ID: "i-1", Pool: "p"}}}}, nil, nil},
		{"Slurm has one that the journal lacks", 30 * time.Minute, State{}, map[string]string{"c2": up}, nil},
		{"Slurm powers one up", 30 * time.Minute, State{}, map[string]string{"c2": "ALLOCATED+CLOUD+POWERING_UP"}, nil},
		{"Slurm does not show one", 30 * time.Minute, State{}, map[string]string{"c2": ""}, nil},
		{"an admin ends it already", 30 * time.Minute, State{}, map[string]string{"s1": "IDLE+CLOUD+POWERING_DOWN"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes := map[string]string{"s1": up, "c1": off, "c2": off, "c3": off, "c4": off}
			for name, state := range tt.slurm {
				if nodes[name] = state; state == "" {
					delete(nodes, name)
				}
			}
			st := tt.more
			st.Nodes = append(st.Nodes, Node{Name: "s1", Pool: "s", Phase: Up, Instance: "i-s1", AddrSet: true, Since: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)})
			inServed(t, st, tt.unused, nodes, func(t *testing.T, e *Engine, s *scripted) {
				for range 40 {
					if _, err := e.seeToServers(t.Context()); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
				}
				if !slices.Equal(s.asked, tt.want) {
					t.Errorf("Slurm is asked %q", s.asked)
				}
			})
		})
	}
}

func TestServers(t *testing.T) {
	i := onInstance("i-s1", "s1", at)
	i.Addr = "10.0.0.9"
	for phase, want := range map[Phase]map[string]string{Up: {"s1": "10.0.0.9"}, Booting: {}} {
		inServed(t, State{Nodes: []Node{{Name: "s1", Pool: "s", Phase: phase, Instance: "i-s1"}}, Instances: []Instance{i}}, 0, nil,
			func(t *testing.T, e *Engine, _ *scripted) {
				if diff := cmp.Diff(want, e.Servers("c1")); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if got := e.Servers("s1"); len(got) != 0 {
					t.Errorf("the server needs %v", got)
				}
			})
	}
}

// TestACutOffServerIsNotEnded: slurmctld has given it up, as behind a broken VPN. No job runs there that
// would have to end, and nodes may mount from it all the while.
func TestACutOffServerIsNotEnded(t *testing.T) {
	i := onInstance("i-s1", "s1", at)
	i.State = cloud.Running
	st := State{Nodes: []Node{{Name: "s1", Pool: "s", Phase: Up, Instance: "i-s1", AddrSet: true}, {Name: "c1", Pool: "p", Phase: Up, Instance: "i-c1"}},
		Instances: []Instance{i, onInstance("i-c1", "c1", at)}}
	st.Fences = []Fence{{Instance: "i-s1", Node: "s1", Since: at}}
	const cut = "DOWN+CLOUD+NOT_RESPONDING"
	inServed(t, st, 0, map[string]string{"s1": cut, "c1": cut}, func(t *testing.T, e *Engine, s *scripted) {
		l := &listing{lists: map[string][]cloud.Instance{"east": nil}}
		for node, want := range map[string]bool{"s1": false, "c1": true} {
			if c := e.cellOf(s.snap, l, node); c.cut != want {
				t.Errorf("%s: %+v", node, c)
			}
		}
		// Booted anew, which brings it back into Slurm: no job waits for its end, which is never.
		if e.stranger(e.mem.nodes["s1"], slurm.Node{BootTime: at.Add(time.Hour)}) {
			t.Error("a server of files that was booted anew keeps its fence")
		}
	})
}
