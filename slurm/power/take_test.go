package power

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

// sum is what a change comes to, in words that a test can list: "c1 wanted
// job 7 whole", "c1 dropped", "i-1 doomed", "hold 7", "event no-pool", "order taken".
func sum(c Change) []string {
	all := []string{}
	for _, n := range c.Nodes {
		text := fmt.Sprintf("%s %s", n.Name, n.Phase)
		if n.Job != 0 {
			text += fmt.Sprintf(" job %d", n.Job)
		}
		if n.Whole {
			text += " whole"
		}
		all = append(all, text)
	}
	for _, n := range c.DropNodes {
		all = append(all, n+" dropped")
	}
	for _, i := range c.Instances {
		if i.Doomed != "" {
			all = append(all, i.ID+" doomed")
		}
	}
	for _, h := range c.Holds {
		all = append(all, fmt.Sprintf("hold %d", h.Job))
	}
	for _, e := range c.Events {
		if slices.Contains([]string{"no-pool", "order-refused", "resume-file", "resume-stale", "suspend-stale", "resume-fail-stale"}, e.Kind) {
			all = append(all, e.Kind)
		}
	}
	slices.Sort(all)
	return all
}

func onInstance(id, node string, launched time.Time) Instance {
	return Instance{Provider: "east", Assigned: node, Instance: cloud.Instance{ID: id, State: cloud.Running, Launched: launched}}
}

func TestTake(t *testing.T) {
	const up, boots, isOff, goes, down, failed = "IDLE+CLOUD", "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "IDLE+CLOUD+POWERED_DOWN",
		"IDLE+CLOUD+POWERING_DOWN", "ALLOCATED+CLOUD+NOT_RESPONDING", "DOWN+CLOUD+POWERED_DOWN"
	before, after := at.Add(-time.Minute), at.Add(time.Minute)
	c1 := func(p Phase, made time.Time) Node {
		return Node{Name: "c1", Pool: "p", Phase: p, Made: made, Job: 5, Instance: "i-1"}
	}
	file := func(jobs string) string { return `{"jobs":[` + jobs + `]}` }
	for _, tt := range []struct {
		name  string
		order Order
		slurm map[string]string
		jobs  []slurm.Job
		st    State
		want  []string
	}{
		{name: "resume", order: Order{Kind: Resume, Nodes: "c[1-2]", ResumeFile: file(`{"job_id":7,"nodes":"c[1-2]"}`)},
			slurm: map[string]string{"c1": boots, "c2": boots}, want: []string{"c1 wanted job 7 whole", "c2 wanted job 7 whole"}},
		{name: "resume of one node", order: Order{Kind: Resume, Nodes: "c1", ResumeFile: file(`{"job_id":7,"nodes":"c1"}`)},
			slurm: map[string]string{"c1": boots}, want: []string{"c1 wanted job 7"}},
		{name: "resume in two calls", order: Order{Kind: Resume, Nodes: "c1", ResumeFile: file(`{"job_id":7,"nodes":"c1"}`)}, slurm: map[string]string{"c1": boots},
			jobs: []slurm.Job{{ID: 7, NumNodes: 2, Nodes: "c[1-2]"}}, want: []string{"c1 wanted job 7 whole"}},
		{name: "resume, a node twice", order: Order{Kind: Resume, Nodes: "c1,c1"}, slurm: map[string]string{"c1": boots}, want: []string{"c1 wanted"}},
		{name: "resume for two jobs, one needs more nodes", order: Order{Kind: Resume, Nodes: "c[1-2]", ResumeFile: file(`{"job_id":7,"nodes":"c[1-2]"},{"job_id":8,"nodes":"c1"}`)},
			slurm: map[string]string{"c1": boots, "c2": boots}, want: []string{"c1 wanted job 7 whole", "c2 wanted job 7 whole"}},
		{name: "resume with a broken file", order: Order{Kind: Resume, Nodes: "c1", ResumeFile: "{"}, slurm: map[string]string{"c1": boots}, want: []string{"c1 wanted", "resume-file"}},
		{name: "resume of no list", order: Order{Kind: Resume, Nodes: "c[1"}, want: []string{"order-refused"}},
		{name: "resume of nodes of no pool", order: Order{Kind: Resume, Nodes: "x1"}, slurm: map[string]string{"x1": boots}, want: []string{"no-pool"}},
		{name: "resume that a suspend has overtaken", order: Order{Kind: Resume, Nodes: "c1"}, slurm: map[string]string{"c1": goes}, want: []string{"resume-stale"}},
		{name: "resume of a node that Slurm does not show", order: Order{Kind: Resume, Nodes: "c1"}, want: []string{"resume-stale"}},
		{name: "resume again under another id", order: Order{Kind: Resume, Nodes: "c1", Made: before}, slurm: map[string]string{"c1": boots},
			st: State{Nodes: []Node{c1(Booting, before)}}, want: []string{}},
		{name: "resume of a node that is launching", order: Order{Kind: Resume, Nodes: "c1", ResumeFile: file(`{"job_id":7,"nodes":"c1"}`)}, slurm: map[string]string{"c1": boots},
			st: State{Nodes: []Node{c1(Launching, before)}}, want: []string{"c1 launching job 7"}},
		{name: "resume of a node that boots since before", order: Order{Kind: Resume, Nodes: "c1", ResumeFile: file(`{"job_id":7,"nodes":"c1"}`)}, slurm: map[string]string{"c1": boots},
			st: State{Nodes: []Node{c1(Booting, before)}, Instances: []Instance{onInstance("i-1", "c1", before)}}, want: []string{"c1 wanted job 7", "i-1 doomed"}},
		{name: "resume of a node that was launched after Slurm asked", order: Order{Kind: Resume, Nodes: "c1", ResumeFile: file(`{"job_id":7,"nodes":"c1"}`)}, slurm: map[string]string{"c1": boots},
			st: State{Nodes: []Node{c1(Booting, before)}, Instances: []Instance{onInstance("i-1", "c1", after)}}, want: []string{"c1 booting job 7"}},
		{name: "resume of a node whose suspend was lost", order: Order{Kind: Resume, Nodes: "c1"}, slurm: map[string]string{"c1": boots},
			st: State{Nodes: []Node{c1(Up, before)}, Instances: []Instance{onInstance("i-1", "c1", before)}}, want: []string{"c1 wanted", "i-1 doomed"}},
		{name: "resume of a node that is being freed", order: Order{Kind: Resume, Nodes: "c1"}, slurm: map[string]string{"c1": boots},
			st: State{Nodes: []Node{c1(Freeing, before)}}, want: []string{"c1 wanted"}},
		{name: "resume for a job that has a node already, and had another",
			order: Order{Kind: Resume, Nodes: "c1", ResumeFile: file(`{"job_id":7,"nodes":"c1"}`)}, slurm: map[string]string{"c1": boots, "c2": up, "c3": up, "c4": up},
			jobs: []slurm.Job{{ID: 7, NumNodes: 2, Nodes: "c[1-2]"}},
			st:   State{Nodes: []Node{{Name: "c2", Phase: Up, Job: 5}, {Name: "c3", Phase: Up, Job: 7}, {Name: "c4", Phase: Up, Job: 5}}},
			want: []string{"c1 wanted job 7 whole", "c2 up job 7", "c3 up"}},

		{name: "suspend", order: Order{Kind: Suspend, Nodes: "c1"}, slurm: map[string]string{"c1": goes},
			st: State{Nodes: []Node{c1(Up, before)}, Instances: []Instance{onInstance("i-1", "c1", before)}}, want: []string{"c1 dropped", "i-1 doomed"}},
		{name: "suspend of a node without a record", order: Order{Kind: Suspend, Nodes: "c1"}, slurm: map[string]string{"c1": isOff}, want: []string{}},
		{name: "suspend, while it launches", order: Order{Kind: Suspend, Nodes: "c1"}, slurm: map[string]string{"c1": goes},
			st: State{Nodes: []Node{c1(Launching, before)}}, want: []string{"c1 dropped"}},
		{name: "suspend that a resume has overtaken", order: Order{Kind: Suspend, Nodes: "c1"}, slurm: map[string]string{"c1": boots},
			st: State{Nodes: []Node{c1(Booting, after)}, Instances: []Instance{onInstance("i-1", "c1", after)}}, want: []string{"suspend-stale"}},
		{name: "suspend of a node that is up", order: Order{Kind: Suspend, Nodes: "c1"}, slurm: map[string]string{"c1": up},
			st: State{Nodes: []Node{c1(Up, before)}, Instances: []Instance{onInstance("i-1", "c1", before)}}, want: []string{"suspend-stale"}},
		{name: "suspend of a node that left its pool", order: Order{Kind: Suspend, Nodes: "x1"}, slurm: map[string]string{"x1": goes},
			st: State{Nodes: []Node{{Name: "x1", Pool: "old", Phase: Up}}, Instances: []Instance{onInstance("i-1", "x1", before)}}, want: []string{"i-1 doomed", "x1 dropped"}},

		{name: "resume-fail", order: Order{Kind: ResumeFail, Nodes: "c1"}, slurm: map[string]string{"c1": failed},
			st: State{Nodes: []Node{c1(Booting, before)}, Instances: []Instance{onInstance("i-1", "c1", before)}}, want: []string{"c1 freeing job 5", "hold 5", "i-1 doomed"}},
		{name: "resume-fail of a node without a record", order: Order{Kind: ResumeFail, Nodes: "c1"}, slurm: map[string]string{"c1": failed}, want: []string{"c1 freeing"}},
		{name: "resume-fail of a node that has come up since", order: Order{Kind: ResumeFail, Nodes: "c1"}, slurm: map[string]string{"c1": up},
			st: State{Nodes: []Node{c1(Up, before)}, Instances: []Instance{onInstance("i-1", "c1", before)}}, want: []string{"resume-fail-stale"}},
		{name: "resume-fail of a node that is powered up again", order: Order{Kind: ResumeFail, Nodes: "c1"}, slurm: map[string]string{"c1": boots},
			st: State{Nodes: []Node{c1(Booting, before)}, Instances: []Instance{onInstance("i-1", "c1", before)}}, want: []string{"resume-fail-stale"}},
		{name: "resume-fail older than the record", order: Order{Kind: ResumeFail, Nodes: "c1"}, slurm: map[string]string{"c1": failed},
			st: State{Nodes: []Node{c1(Wanted, after)}}, want: []string{}},
		{name: "resume-fail of a node that does not respond", order: Order{Kind: ResumeFail, Nodes: "c1"}, slurm: map[string]string{"c1": down},
			st: State{Nodes: []Node{c1(Booting, before)}}, want: []string{"c1 freeing job 5", "hold 5"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.order.Made.IsZero() {
				tt.order.Made = at
			}
			pools := map[string]string{"c1": "p", "c2": "p", "c3": "p", "c4": "p"}
			c := taking{mem: newMemory(tt.st), snap: reading(tt.slurm, tt.jobs...), pools: pools, now: at,
				timeout: func(string) time.Duration { return 15 * time.Minute }}.take(tt.order)
			if len(c.Orders) != 1 || !c.Orders[0].Taken {
				t.Errorf("the order is not taken: %+v", c.Orders)
			}
			if diff := cmp.Diff(tt.want, sum(c)); diff != "" {
				t.Errorf("planned (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPowerOf(t *testing.T) {
	for text, want := range map[string]power{
		"IDLE+CLOUD":                                on,
		"ALLOCATED+CLOUD+DRAIN":                     on,
		"ALLOCATED+CLOUD+POWER_DOWN":                on,
		"IDLE+CLOUD+POWERED_DOWN":                   off,
		"ALLOCATED+CLOUD+POWERED_DOWN":              off,
		"ALLOCATED+CLOUD+POWERED_DOWN+POWER_UP":     poweringUp,
		"IDLE+CLOUD+NOT_RESPONDING+POWERING_UP":     poweringUp,
		"DOWN+CLOUD+POWERING_UP":                    failed,
		"IDLE+CLOUD+POWERING_DOWN":                  poweringDown,
		"DOWN+CLOUD+POWERING_DOWN":                  poweringDown,
		"DOWN+CLOUD":                                down,
		"ALLOCATED+CLOUD+NOT_RESPONDING":            down,
		"DOWN+CLOUD+NOT_RESPONDING+POWERED_DOWN":    failed,
		"IDLE+CLOUD+COMPLETING+POWERING_DOWN+DRAIN": poweringDown,
	} {
		if got := powerOf(reading(map[string]string{"c1": text}), "c1"); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	if got := powerOf(reading(nil), "c1"); got != unknown {
		t.Errorf("a node that is not shown is %s", got)
	}
}
