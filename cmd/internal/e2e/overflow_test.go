package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/rig"
)

const overflowRule = `[[overflow]]
name = "small"
from = ["onprem"]
to = ["cloud"]
nodes = "1"
after = "1s"
`

// TestOverflow: a job that waits for the site's one node also goes to the cloud, though burstd dies
// before and after it tells Slurm; what was added is taken away when the rule no longer holds; what a user
// asked for is never changed.
func TestOverflow(t *testing.T) {
	t.Parallel()
	s := start(t, rig.Options{Nodes: 1, OnPrem: 1, CPUs: 1, Gate: true, SlurmExtra: quick, ExtraToml: overflowRule,
		BurstdEnv: []string{"BURST_CRASH_AT=before scontrol update #1"}}, "crashpoints")
	const script = "#!/bin/sh\nsleep 300\n"
	partition := func(id uint32) string {
		parts := strings.Split(s.job(id).Partition, ",")
		slices.Sort(parts)
		return strings.Join(parts, ",")
	}
	log := func(id uint32) (all []api.Overflowed) {
		have, err := s.API.Overflows(t.Context(), api.OverflowQuery{Last: 100})
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(have, func(o api.Overflowed) bool { return o.Job != id10(id) })
	}
	begin := func(env ...string) {
		s.SetBurstdEnv(env...)
		if err := s.StartBurstd(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	onprem := []string{"--partition=onprem", "-t", "10"}
	blocker := s.submit(script, onprem...)
	s.wait(20*time.Second, "the site's node is in use", func() bool { return s.job(blocker).State == "RUNNING" })

	first := s.submit(script, onprem...)
	s.wait(20*time.Second, "burstd dies before it tells Slurm", func() bool { return !s.BurstdAlive() })
	if got := partition(first); got != "onprem" {
		t.Fatalf("Slurm was told: %s", got)
	}
	begin("BURST_CRASH_AT=after scontrol update #1")
	s.wait(20*time.Second, "burstd dies after it has told Slurm", func() bool { return !s.BurstdAlive() })
	begin()
	s.wait(20*time.Second, "the job runs in the cloud", func() bool { j := s.job(first); return j.State == "RUNNING" && j.Partition == "cloud" })
	if rows := log(first); len(rows) != 1 || rows[0].Was != "onprem" || rows[0].To != "cloud" || !rows[0].Ended.IsZero() || !strings.HasPrefix(rows[0].Why, "rule small: waits ") {
		t.Errorf("the log has %+v", rows)
	}

	s.wait(20*time.Second, "burst explain says where it runs", func() bool { return strings.HasPrefix(s.explain(first).Line, "runs in the cloud, on 1 node of pool ") })
	if got := s.shown(first); !strings.Contains(got, " AdminComment=burst: rule small: goes also to cloud, since ") {
		t.Errorf("scontrol shows %s", got)
	}

	second, third := s.submit(script, onprem...), s.submit(script, onprem...)
	own := s.submit(script, "--partition=onprem,cloud", "-t", "10")
	array := s.submit(script, append([]string{"--array=1-60:2"}, onprem...)...) // more than squeue shows by itself
	tasks := func(want string) bool {
		all, err := s.Slurm().Waiting(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, w := range all {
			if w.ArrayID == array && len(w.Partition) == len(want) {
				n += len(w.ArrayTasks())
			}
		}
		return n == 30
	}
	s.wait(20*time.Second, "more may go to the cloud", func() bool {
		return partition(second) == "cloud,onprem" && partition(third) == "cloud,onprem" && tasks("onprem,cloud")
	})
	s.wait(20*time.Second, "burst explain says that one was moved", func() bool {
		got := s.explain(third)
		return got.State == "PENDING" && strings.HasSuffix(got.Line, "; rule small has added cloud; nothing is launched for it now: the pool's only node is in use") && len(got.Where) == 1
	})
	s.update(second, "comment=burst: stay")
	s.wait(20*time.Second, "one that is to stay does", func() bool { return partition(second) == "onprem" })
	s.wait(20*time.Second, "the log says so", func() bool {
		rows := log(second)
		return len(rows) == 1 && strings.Contains(rows[0].EndedWhy, "says #BURST stay")
	})
	s.wait(20*time.Second, "and so does burst explain", func() bool {
		return strings.HasSuffix(s.explain(second).Line, "; of the cloud: stays: says #BURST stay")
	})
	if got := s.shown(second); !strings.Contains(got, "says #BURST stay; back to onprem") {
		t.Errorf("scontrol shows %s", got)
	}
	plan, err := s.API.OverflowPlan(t.Context(), api.OverflowAsk{})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[uint32]string{second: "leave stays: says #BURST stay", third: "keep rule small: goes also to cloud", own: "leave stays: it asks for cloud itself"} {
		i := slices.IndexFunc(plan, func(j api.OverflowJob) bool { return j.Job == id10(id) })
		if i < 0 || plan[i].Action+" "+plan[i].Why != want {
			t.Errorf("job %d: %+v, want %q", id, plan, want)
		}
	}

	text, err := os.ReadFile(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Config, []byte(strings.Replace(string(text), overflowRule, "", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.StopBurstd(); err != nil {
		t.Fatal(err)
	}
	begin()
	s.wait(20*time.Second, "the rule is gone, and its job goes back", func() bool { return partition(third) == "onprem" })
	s.wait(20*time.Second, "and so do an array's tasks", func() bool { return tasks("onprem") })
	if got := partition(own); got != "cloud,onprem" || len(log(own)) > 0 {
		t.Errorf("what its user asked for became %s; the log has %+v", got, log(own))
	}
}

// TestOverflowBudget: a job that overflows, and then finds no budget, has its place at the site again at once.
func TestOverflowBudget(t *testing.T) {
	t.Parallel()
	const budget = "[budget]\nday = 1.0\n" // what has no price is refused
	s := start(t, rig.Options{Nodes: 1, OnPrem: 1, CPUs: 1, Gate: true, SlurmExtra: quick, ExtraToml: overflowRule + budget})
	onprem := []string{"--partition=onprem", "-t", "10"}
	blocker := s.submit("#!/bin/sh\nsleep 300\n", onprem...)
	s.wait(20*time.Second, "the site's node is in use", func() bool { return s.job(blocker).State == "RUNNING" })
	job := s.submit("#!/bin/sh\nsleep 300\n", onprem...)
	s.wait(40*time.Second, "it was moved, and has gone back for the budget", func() bool {
		rows, err := s.API.Overflows(t.Context(), api.OverflowQuery{Last: 10})
		return err == nil && len(rows) == 1 && strings.Contains(rows[0].EndedWhy, "it was given back: budget: ")
	})
	if j := s.job(job); j.Partition != "onprem" || time.Until(j.Eligible) > 5*time.Second || !strings.Contains(j.AdminComment, "back to onprem") {
		t.Errorf("%+v", j)
	}
	s.wait(20*time.Second, "burst explain says so", func() bool {
		got := s.explain(job)
		return strings.Contains(got.Line, "; it is not tried in the cloud before ") && strings.Contains(got.Line, "budget: the cluster's budget")
	})
	if got := s.shown(job); !strings.Contains(got, " AdminComment=burst: it was given back: budget: ") {
		t.Errorf("scontrol shows %s", got)
	}
	would, err := s.API.Explain(t.Context(), api.ExplainAsk{Would: &api.Would{Partition: "onprem", Nodes: 1, Limit: 10 * time.Minute}})
	if err != nil || len(would) != 1 || !strings.HasPrefix(would[0].Line, "would ") || !strings.Contains(would[0].Line, "budget: ") {
		t.Errorf("%+v, %v", would, err)
	}
	if err := s.Cluster.Command(t.Context(), "scancel", id10(blocker)).Run(); err != nil {
		t.Fatal(err)
	}
	s.wait(20*time.Second, "it runs at the site", func() bool { j := s.job(job); return j.State == "RUNNING" && j.Partition == "onprem" })
	if rows, err := s.API.Overflows(t.Context(), api.OverflowQuery{Last: 10}); err != nil || len(rows) != 1 {
		t.Errorf("%+v, %v", rows, err)
	}
}

// explain is what burstd says of a job.
func (s *site) explain(id uint32) api.Explained {
	s.t.Helper()
	all, err := s.API.Explain(s.t.Context(), api.ExplainAsk{Job: id10(id)})
	if err != nil || len(all) != 1 {
		s.t.Fatalf("%+v, %v", all, err)
	}
	return all[0]
}

// shown is what scontrol shows of a job, in one line.
func (s *site) shown(id uint32) string {
	s.t.Helper()
	out, err := s.Cluster.Command(s.t.Context(), "scontrol", "-o", "show", "job", id10(id)).CombinedOutput()
	if err != nil {
		s.t.Fatalf("scontrol show job: %v: %s", err, out)
	}
	return string(out)
}

// update changes a job with scontrol.
func (s *site) update(id uint32, change string) {
	s.t.Helper()
	if out, err := s.Cluster.Command(s.t.Context(), "scontrol", "update", "jobid="+id10(id), change).CombinedOutput(); err != nil {
		s.t.Fatalf("scontrol update %s: %v: %s", change, err, out)
	}
}
