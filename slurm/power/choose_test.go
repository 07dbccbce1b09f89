package power

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm"
)

// TestChooseAmongSources: what becomes of nodes of a pool that buys of east, on
// spot and then on demand, and then of west.
func TestChooseAmongSources(t *testing.T) {
	wanted := func(name string, job uint32, whole bool) Node {
		return Node{Name: name, Pool: "p", Phase: Wanted, Job: job, Whole: whole, Made: at.Add(-10 * time.Second)}
	}
	one, pair := []Node{wanted("c1", 7, false)}, []Node{wanted("c1", 107, true), wanted("c2", 107, true)}
	cool := func(provider string, o cloud.Offering) Cooling {
		return Cooling{provider, o, fleet.Cooldown{Failures: 1, Until: at.Add(time.Minute)}}
	}
	spot := cool("east", cloud.Offering{Type: "small", Zone: "a", Market: cloud.Spot})
	east := []Cooling{spot, cool("east", cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand})}
	all := append(east[:2:2], cool("west", cloud.Offering{Type: "big", Market: cloud.OnDemand}))
	stopped := func(provider string) Breaker { return Breaker{Pool: "p", Provider: provider, Stopped: at, Why: "why"} }
	upAt := func(name, provider string, o cloud.Offering) (Node, Instance) {
		i := onInstance("i-"+name, name, at)
		i.Provider, i.Offering = provider, o
		return Node{Name: name, Pool: "p", Phase: Booting, Job: 107, Whole: true, Instance: i.ID}, i
	}
	forsaken := []Launch{{Token: "t", Provider: "east", Nodes: []string{"c1"}, State: Abandoned, Created: at.Add(-2 * doubtFor), Request: cloud.LaunchRequest{Pool: "p"}}}
	sibling, instance := upAt("c3", "west", cloud.Offering{Type: "big", Zone: "lhr", Market: cloud.OnDemand})
	for _, tt := range []struct {
		name string
		st   State
		shut map[string]shut
		jobs map[uint32]slurm.Job
		want string // provider of the launch, "wait" or "nothing", or what the job is told
	}{
		{name: "the first has it", st: State{Nodes: one}, want: "east"},
		{name: "the first waits for spot, so all wait", st: State{Nodes: one, Coolings: []Cooling{spot}}, want: "wait"},
		{name: "all of the first cools", st: State{Nodes: one, Coolings: east}, want: "wait"},
		{name: "and spot_timeout is over", st: State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Wanted, Job: 7, Made: at.Add(-time.Minute)}}, Coolings: east}, want: "west"},
		{name: "all of both", st: State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Wanted, Job: 7, Made: at.Add(-time.Minute)}}, Coolings: all},
			want: "no capacity in pool p at east (small/a/spot, small/a/on-demand); no capacity in pool p at west (big/on-demand)"},
		{name: "the first is stopped", st: State{Nodes: pair, Breakers: []Breaker{stopped("east")}}, want: "west"},
		{name: "both are", st: State{Nodes: pair, Breakers: []Breaker{stopped("east"), stopped("west")}}, want: "pool p at east is stopped: why; pool p at west is stopped: why"},
		{name: "the pool is", st: State{Nodes: pair, Breakers: []Breaker{stopped("")}}, want: "pool p is stopped: why"},
		{name: "one is, the other has nothing", st: State{Nodes: pair, Breakers: []Breaker{stopped("east")}, Coolings: all},
			want: "pool p at east is stopped: why; no capacity in pool p at west (big/on-demand)"},
		{name: "the first keeps its place for a moment", st: State{Nodes: pair}, shut: map[string]shut{"p@east": {brief: true}}, want: "nothing"},
		{name: "the first does not answer", st: State{Nodes: pair}, shut: map[string]shut{"p@east": {why: "away"}}, want: "west"},
		{name: "none answers", st: State{Nodes: pair}, shut: map[string]shut{"p@east": {why: "away"}, "p@west": {why: "away too"}}, want: "nothing"},
		{name: "one does not answer, the other has nothing", st: State{Nodes: pair, Coolings: all}, shut: map[string]shut{"p@east": {why: "away"}},
			want: "no capacity in pool p at west (big/on-demand); away"},
		{name: "the job's other node is of the second", st: State{Nodes: append(pair[:2:2], sibling), Instances: []Instance{instance}}, want: "west"},
		{name: "and its kind has nothing", st: State{Nodes: append(pair[:2:2], sibling), Instances: []Instance{instance},
			Coolings: []Cooling{cool("west", cloud.Offering{Type: "big", Market: cloud.OnDemand}), cool("west", cloud.Offering{Type: "big", Zone: "lhr", Market: cloud.OnDemand})}},
			want: "again c3"},
		{name: "the job wants the second", st: State{Nodes: one}, jobs: map[uint32]slurm.Job{7: {Features: "x86_64&[west*1]"}}, want: "west"},
		{name: "a job that shares the node does", st: State{Nodes: one}, jobs: map[uint32]slurm.Job{8: {ID: 8, Features: "west", State: "CONFIGURING", Nodes: "c1"}}, want: "west"},
		{name: "the job wants neither by name", st: State{Nodes: one}, jobs: map[uint32]slurm.Job{7: {Features: "eastern|west-1"}}, want: "east"},
		{name: "an old launch of the first is not learnt of", st: State{Nodes: one, Launches: forsaken}, want: "west"},
		{name: "and the second has nothing", st: State{Nodes: one, Coolings: all[2:], Launches: forsaken}, want: "no capacity in pool p at west (big/on-demand); pool p at east: what became of a launch is not known yet"},
		{name: "or is stopped, and what was asked of the first cools", st: State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Wanted, Job: 7, Made: at.Add(-time.Minute)}},
			Coolings: east, Launches: forsaken, Breakers: []Breaker{stopped("west")}},
			want: "pool p at west is stopped: why; no capacity in pool p at east (small/a/spot, small/a/on-demand)"},
		{name: "a young one", st: State{Nodes: one, Launches: []Launch{{Token: "t", Provider: "east", Nodes: []string{"c1"}, State: Abandoned,
			Created: at.Add(-doubtFor / 2), Request: cloud.LaunchRequest{Pool: "p"}}}}, want: "nothing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := testPools()[0]
			pool.Fleet = fleet.Config{Types: []string{"small"}, Zones: []string{"a"}, Market: fleet.SpotThenOnDemand, SpotTimeout: 30 * time.Second}
			pool.Then = []Source{{Provider: "west", Fleet: fleet.Config{Types: []string{"big"}, Market: fleet.OnDemandOnly}}}
			p := planning{mem: newMemory(tt.st), pools: map[string]Pool{"p": pool}, limits: map[string]cloud.Limits{"east": {MaxLaunch: 9}, "west": {MaxLaunch: 9}},
				now: at, bootTimeout: 10 * time.Minute, shut: tt.shut, market: market{jobs: tt.jobs}, wants: wishes(tt.jobs)}
			out := p.plan()
			got := "nothing"
			switch {
			case len(out.drafts) > 0:
				got = out.drafts[0].Provider
				if d := out.drafts[0]; len(out.drafts) > 1 || got == "west" && (d.Request.Offering.Type != "big" || d.Request.Pool != "p" || d.where != " at west") {
					t.Errorf("launches %+v", out.drafts)
				}
			case len(out.Holds) > 0:
				got = out.Holds[0].Why
			case len(out.Nodes) > 0:
				got = fmt.Sprintf("again %s", out.Nodes[0].Name)
			case !out.wait.IsZero():
				got = "wait"
			}
			if strings.Join(strings.Fields(got), " ") != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
