package power

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm"
)

// TestWhatAJobLeavesInAPoolOfOneSource: one of job 7's two nodes is up in zone a, which has nothing for the other.
func TestWhatAJobLeavesInAPoolOfOneSource(t *testing.T) {
	cools := func(failures int, until time.Duration, all ...cloud.Offering) (c []Cooling) {
		for _, o := range all {
			c = append(c, Cooling{"east", o, fleet.Cooldown{Failures: failures, Until: at.Add(until)}})
		}
		return c
	}
	held := Hold{Job: 7, Tries: 1, Released: true, Why: "no capacity in pool p (small/a/on-demand)"}
	other := func(state string) map[uint32]slurm.Job {
		return map[uint32]slurm.Job{7: {ID: 7, State: "CONFIGURING", Nodes: "c[1-2]"}, 8: {ID: 8, State: state, Nodes: "c[1,9]"}}
	}
	for _, tt := range []struct {
		name   string
		up     int
		wanted int
		cool   []Cooling // beside what zone a has
		hold   Hold
		change func(*planning)
		leaves int
	}{
		{"the first time it waits", 1, 1, nil, Hold{}, nil, 0},
		{"it failed for something else", 1, 1, nil, Hold{Job: 7, Tries: 3, Why: "node c1: did not register within ResumeTimeout"}, nil, 0},
		{"another pool was short", 1, 1, nil, Hold{Job: 7, Tries: 1, Why: "no capacity in pool q (small/a/on-demand); no capacity in pool p (small/b/on-demand)"}, nil, 0},
		{"it waited for another's launch", 1, 1, nil, Hold{Job: 7, Tries: 1, Why: "pool p: job 3's launch of small/a/on-demand was waited for"}, nil, 0},
		{"the second time", 1, 1, nil, held, nil, 1},
		{"the second time, with others", 1, 1, nil, Hold{Job: 7, Tries: 1, Why: "no capacity in pool p (small/b/on-demand, small/a/on-demand); its zone"}, nil, 1},
		{"as many as lack", 2, 2, nil, held, nil, 2},
		{"more than lack", 2, 1, nil, held, nil, 0},
		{"both zones are dry", 1, 1, cools(1, time.Minute, smallB), held, nil, 0},
		{"the other was, just now", 1, 1, cools(1, -time.Minute, smallB), held, nil, 0},
		{"the other was, a while ago", 1, 1, cools(1, -11*time.Minute, smallB), held, nil, 1},
		{"the other is only paused", 1, 1, nil, held, func(p *planning) { p.market.pauses[coolKey{"east", smallB}] = at.Add(time.Second) }, 1},
		{"the other does not sell it", 1, 1, nil, held, func(p *planning) { p.priced = func(_ string, o cloud.Offering) bool { return o != smallB } }, 0},
		{"over the quota", 1, 1, nil, held, func(p *planning) { p.market.why[coolKey{"east", smallA}] = refusal{kind: cloud.Quota} }, 0},
		{"refused as invalid", 1, 1, nil, held, func(p *planning) { p.market.why[coolKey{"east", smallA}] = refusal{kind: cloud.Invalid} }, 0},
		{"too few came, and are paid for", 1, 1, []Cooling{{"east", smallA, fleet.Cooldown{Failures: 1, Until: at.Add(time.Minute), Paid: at.Add(time.Hour)}}}, Hold{}, nil, 1},
		{"another job runs there", 1, 1, nil, held, func(p *planning) { p.market.jobs = other("RUNNING") }, 0},
		{"another job ran there", 1, 1, nil, held, func(p *planning) { p.market.jobs = other("COMPLETED") }, 1},
	} {
		st := State{Coolings: slices.Concat(cools(1, time.Minute, smallA), tt.cool)}
		if tt.hold.Job != 0 {
			st.Holds = []Hold{tt.hold}
		}
		for n := range tt.up + tt.wanted {
			node := Node{Name: fmt.Sprintf("c%d", n+1), Pool: "p", Phase: Wanted, Job: 7, Whole: true}
			if n < tt.up {
				node.Phase, node.Instance = Up, fmt.Sprintf("i-%d", n+1)
				st.Instances = append(st.Instances, Instance{Provider: "east", Assigned: node.Name, Instance: cloud.Instance{ID: node.Instance, Offering: smallA}})
			}
			st.Nodes = append(st.Nodes, node)
		}
		p := planning{mem: newMemory(st), pools: map[string]Pool{"p": testPools()[0]}, limits: map[string]cloud.Limits{"east": {MaxLaunch: 2}}, market: newMarket(), now: at}
		if tt.change != nil {
			tt.change(&p)
		}
		out := p.plan()
		leaves := 0
		for _, n := range out.Nodes {
			if n.Phase == Up && n.Reason != "" {
				leaves++
			}
		}
		if leaves != tt.leaves || len(out.Holds) != 1 || len(out.drafts) > 0 {
			t.Errorf("%s: it leaves %d nodes, want %d; held %+v, launched %+v", tt.name, leaves, tt.leaves, out.Holds, out.drafts)
		}
	}
}
