package crash_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// otherPoolUnderABudget plays a job that finds p dry, whose zone b does not sell what p buys, and runs in q.
func otherPoolUnderABudget(t *testing.T, at string) *life {
	s := &spender{story: twoPools(t), caps: budget.Caps{Cluster: budget.Limits{Day: 100}, Location: time.UTC}, inc: price.PerSecond, free: "small/b/on-demand"}
	s.world.spends = s.spend
	defer s.until()
	s.capacity(false, true)
	first := s.start(at)
	id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, TimeLimit: 30 * time.Minute, Duration: 20 * time.Second})
	within := 25 * time.Second
	if at != "" {
		within = 4 * time.Minute // Slurm's own hold, at worst
	}
	s.wait(within, "the job runs", func() bool { s.revive(); return s.runs(id)() })
	if i, _ := s.ctl.Info(id); strings.Join(i.Nodes, " ") != "c4 c5" ||
		at == "" && (i.Restarts != 1 || !strings.Contains(i.AdminComment, "no capacity in pool p (small/a/on-demand); it goes to pool q; starts again from ")) {
		t.Errorf("the job was restarted %d times, runs on %v, and was told %q", i.Restarts, i.Nodes, i.AdminComment)
	}
	for _, i := range s.fake.Instances() {
		if i.Offering.Type == "small" {
			t.Errorf("%s was launched", i.ID)
		}
	}
	s.wait(10*time.Minute, "the journal is closed", func() bool { s.revive(); return s.live() == 0 && s.aside() == "" && s.closed() })
	return first
}

// TestASecondPoolUnderABudget: a price that is missing, as a zone does not sell a type, keeps no job from the other pool,
// wherever burstd dies.
func TestASecondPoolUnderABudget(t *testing.T) {
	var points []string
	synctest.Test(t, func(t *testing.T) { points = otherPoolUnderABudget(t, "").log })
	if t.Failed() {
		return
	}
	chosen := slices.DeleteFunc(points, func(p string) bool {
		name, n, _ := strings.Cut(p, " #")
		return len(n) > 1 || strings.Contains(name, "ledger") || !strings.Contains(name, "commit") && !strings.Contains(name, "create") && !strings.Contains(name, "update")
	})
	most := 20
	if testing.Short() {
		most = 2
	}
	every := max(1, len(chosen)/most)
	for n, p := range chosen {
		if n%every == every/2 {
			t.Run(strings.ReplaceAll(p, " ", "_"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { otherPoolUnderABudget(t, p) })
			})
		}
	}
}
