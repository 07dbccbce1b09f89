package crash_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// TestARefusedJobKeepsNoNodeUp: a job of several nodes for which the budget has no room now does not keep up the idle
// ones that Slurm gives it at each try.
func TestARefusedJobKeepsNoNodeUp(t *testing.T) {
	const idle = 12 * time.Minute // longer than between two tries
	synctest.Test(t, func(t *testing.T) {
		s := beginIdler(t, 3, budget.Caps{Cluster: budget.Limits{Month: 20}}, false, idle)
		defer s.until()
		s.start("")
		one := func(name string, nodes int, limit, work time.Duration) uint32 {
			return s.ctl.Submit(slurmtest.Job{Name: name, User: "ann", UID: 1000, Account: "physics", Requeue: true, Nodes: nodes, TimeLimit: limit, Duration: work})
		}
		long, brief := one("long", 1, 10*time.Hour, 10*time.Hour), one("brief", 1, 10*time.Minute, 5*time.Minute)
		s.wait(10*time.Minute, "both run", func() bool { return s.runs(long)() && s.runs(brief)() })
		s.wait(10*time.Minute, "one has ended", func() bool { return s.state(brief) == "COMPLETED" })
		wide := one("wide", 2, 6*time.Hour, 6*time.Hour)
		s.told(wide, "budget: the cluster's budget")
		s.wait(idle+time.Minute, "the idle node goes", func() bool { return s.live() == 1 })
		time.Sleep(time.Hour)
		if i, _ := s.ctl.Info(wide); s.live() != 1 || !s.runs(long)() || i.State != "PENDING" || !strings.Contains(i.AdminComment, "budget: the cluster's budget") {
			t.Errorf("an hour later %d instances live; job %d is %s: %s", s.live(), wide, i.State, i.AdminComment)
		}
		if n := s.events("power-down"); n != 1 {
			t.Errorf("%d events say that a node goes", n)
		}
	})
}
