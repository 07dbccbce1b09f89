package crash_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// sharing is a story of jobs that share nodes of two CPUs, of which ann may spend nothing to speak of. The others
// have the cloud as long as they like, and none of them can be requeued.
type sharing struct {
	*spender
	anns, others []uint32
}

func beginSharing(t *testing.T) *sharing {
	return &sharing{spender: beginSpender(t, 4, budget.Caps{Users: map[string]budget.Limits{"ann": {Day: 0.01}}}, false)}
}

// job is one of a CPU on each of so many nodes.
func (s *sharing) job(user string, nodes int, salloc bool) {
	id := s.ctl.Submit(slurmtest.Job{Name: "one", User: user, Nodes: nodes, CPUs: 1, Salloc: salloc, Requeue: user == "ann" && !salloc, TimeLimit: 30 * time.Minute, Duration: 15 * time.Minute})
	if user == "ann" {
		s.anns = append(s.anns, id)
	} else {
		s.others = append(s.others, id)
	}
}

// check waits until the others' jobs have ended well, and ann's have not begun, with so many instances for the others; 0: that is not known.
func (s *sharing) check(instances int) {
	s.t.Helper()
	state := func(ids []uint32) (all []string) {
		for _, id := range ids {
			i, _ := s.ctl.Info(id)
			all = append(all, i.State)
		}
		return all
	}
	ended := func() bool {
		s.revive()
		all := strings.Join(state(s.others), " ")
		return !strings.Contains(all, "PENDING") && !strings.Contains(all, "CONFIGURING") && !strings.Contains(all, "RUNNING") && !strings.Contains(all, "COMPLETING")
	}
	s.wait(time.Hour, "the others' jobs end", ended)
	if got := state(s.others); strings.Count(strings.Join(got, " "), "COMPLETED") != len(got) {
		s.t.Errorf("of those for whom there is room are %v", got)
	}
	if instances == 0 {
		return // Slurm may start her job on a node that is up for others: that is no launch
	}
	for _, id := range s.anns {
		switch i, _ := s.ctl.Info(id); {
		case i.State != "PENDING" && i.State != "CANCELLED" && i.State != "NODE_FAIL":
			s.t.Errorf("ann's job %d is %s", id, i.State)
		case i.State == "PENDING" && (!strings.Contains(i.AdminComment, "budget: user ann's budget for 2000-01-01") || i.Begin.Before(time.Now())):
			s.t.Errorf("ann's job %d begins at %s: %q", id, i.Begin, i.AdminComment)
		case i.State == "CANCELLED" && !strings.HasPrefix(i.AdminComment, "burst: ended: budget: user ann's budget for 2000-01-01"):
			s.t.Errorf("ann's job %d was told %q", id, i.AdminComment)
		}
	}
	s.mu.Lock()
	l := s.life
	s.mu.Unlock()
	_, rows, err := l.store.LoadUsage(l.ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range rows {
		if r.User == "ann" {
			s.t.Errorf("%s costs ann: %s to %s", r.Instance, r.From.Format(time.TimeOnly), r.To.Format(time.TimeOnly))
		}
	}
	launched := len(s.fake.Instances())
	if launched != instances {
		s.t.Errorf("%d instances were launched, want %d", launched, instances)
	}
}

// TestWhoSharesANodeKeepsIt: a job of salloc's for which there is room keeps a node that is shared with one whose user's
// budget is used up, and that goes alone.
func TestWhoSharesANodeKeepsIt(t *testing.T) {
	for _, tt := range []struct {
		name      string
		submit    func(s *sharing)
		instances int
	}{
		{"both have one", func(s *sharing) { s.job("ann", 1, false); s.job("bob", 1, true) }, 1},
		{"the other came first", func(s *sharing) { s.job("bob", 1, true); s.job("ann", 1, false) }, 1},
		{"both of salloc", func(s *sharing) { s.job("ann", 1, true); s.job("bob", 1, true) }, 1},
		{"one of several that the job has", func(s *sharing) { s.job("ann", 3, false); s.job("bob", 1, true) }, 1},
		{"one of several of salloc", func(s *sharing) { s.job("ann", 3, true); s.job("bob", 1, true) }, 1},
		{"of the other one of several", func(s *sharing) { s.job("ann", 1, false); s.job("bob", 3, true) }, 3},
		{"each has several", func(s *sharing) { s.job("ann", 2, false); s.job("bob", 3, true); s.job("ann", 2, true) }, 3},
		{"a crowd", func(s *sharing) {
			for range 3 {
				s.job("ann", 1, false)
				s.job("bob", 1, true)
			}
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := beginSharing(t)
				defer s.until()
				s.start("")
				tt.submit(s)
				s.check(tt.instances)
			})
		})
	}
}

// TestWhoComesToANodeThatIsRefused: Slurm gives a node to another job at any moment after it was ordered for one whose
// budget is used up.
func TestWhoComesToANodeThatIsRefused(t *testing.T) {
	for n := range 20 {
		if testing.Short() && n%5 != 0 {
			continue
		}
		t.Run(fmt.Sprint(50*n, " ms later"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := beginSharing(t)
				defer s.until()
				s.start("")
				s.job("ann", 1, false)
				time.Sleep(time.Duration(n) * 50 * time.Millisecond)
				s.job("bob", 1, true)
				s.check(0)
			})
		})
	}
}

// TestWhoCancelsMeanwhile: a job that its user cancels while it is turned away, after burstd has looked at it, stays so.
func TestWhoCancelsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := beginSharing(t)
		defer s.until()
		late := false
		s.hears = func(line string) {
			if strings.HasPrefix(line, "scontrol requeue ") && !late {
				late = true
				s.ctl.Cancel(s.anns[0])
			}
		}
		s.start("")
		s.job("ann", 1, false)
		s.job("bob", 1, true)
		s.check(0)
		if i, _ := s.ctl.Info(s.anns[0]); !late || i.State != "CANCELLED" {
			t.Errorf("turned away: %v; it is %s after %d restarts", late, i.State, i.Restarts)
		}
	})
}

// TestSharedNodeKilledAtEveryPoint: wherever burstd dies, nobody loses a node for another's budget.
func TestSharedNodeKilledAtEveryPoint(t *testing.T) {
	play := func(t *testing.T, at string) (points []string, reached bool) {
		s := beginSharing(t)
		defer s.until()
		first := s.start(at)
		s.job("ann", 2, false)
		s.job("bob", 3, true)
		s.job("ann", 1, true)
		s.check(0)
		return first.log, first.reached
	}
	var points []string
	synctest.Test(t, func(t *testing.T) { points, _ = play(t, "") })
	var chosen []string
	for _, p := range points {
		if name, n, _ := strings.Cut(p, " #"); len(n) == 1 && !strings.Contains(name, "ledger") {
			chosen = append(chosen, p)
		}
	}
	if testing.Short() {
		chosen = chosen[len(chosen)/2:][:4]
	}
	for n, p := range chosen {
		if !testing.Short() && n%6 != 0 { // all of them take half a minute
			continue
		}
		t.Run(strings.ReplaceAll(p, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, p) })
		})
	}
}
