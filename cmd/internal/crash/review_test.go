package crash_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// edit changes the journal's state while no daemon lives, as a backup would
// that was taken earlier and is put back.
func (s *story) edit(change func(st power.State) power.Change) {
	s.t.Helper()
	st, err := store.Open(s.t.Context(), s.db)
	if err != nil {
		s.t.Fatal(err)
	}
	defer st.Close()
	state, err := st.LoadPower(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	if err := st.CommitPower(s.t.Context(), change(state)); err != nil {
		s.t.Fatal(err)
	}
}

func transient(op cloudtest.Op) error {
	return &cloud.Error{Kind: cloud.Transient, Op: string(op), Err: io.ErrUnexpectedEOF}
}

func TestManySpooledOrdersDoNotStopTheStart(t *testing.T) {
	bubble("a hundred orders", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		for i := range 100 {
			s.spool = append(s.spool, power.Order{ID: fmt.Sprint("spooled-", i), Kind: power.Suspend, Nodes: "c4", Made: time.Now()})
		}
		id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Duration: time.Hour})
		time.Sleep(10 * time.Second)
		s.start("")
		s.wait(10*time.Second, "the job runs", s.runs(id))
		s.wait(time.Minute, "the orders are closed", func() bool { return !strings.Contains(s.open(), "spooled-") })
	})
}

func TestALateResumeFailLeavesARunningJobAlone(t *testing.T) {
	bubble("the node has come up since", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		l := s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Requeue: true, Duration: time.Hour})
		s.wait(time.Minute, "the job runs", s.runs(id))
		if err := l.engine.AddOrder(l.ctx, power.Order{ID: "late", Kind: power.ResumeFail, Nodes: "c1", Made: time.Now()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if i, _ := s.ctl.Info(id); i.Restarts > 0 || i.State != "RUNNING" || s.live() != 1 {
			t.Errorf("%d instances live, the job is %+v", s.live(), i)
		}
	})
}

func TestABrokenCloudIsNotAskedWithoutEnd(t *testing.T) {
	bubble("terminations fail", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Duration: time.Minute})
		s.wait(time.Minute, "the job runs", s.runs(id))
		s.fake.Inject(cloudtest.Terminate, cloudtest.Fault{Err: transient(cloudtest.Terminate), Times: 1 << 20})
		s.wait(5*time.Minute, "a first try", func() bool { return s.fake.Calls(cloudtest.Terminate) > 0 })
		before := s.fake.Calls(cloudtest.Terminate)
		time.Sleep(10 * time.Minute)
		if n := s.fake.Calls(cloudtest.Terminate) - before; n < 15 || n > 70 {
			t.Errorf("%d calls in ten minutes", n)
		}
	})
	bubble("Slurm is away", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		time.Sleep(time.Minute)
		s.ctl.Down()
		before := s.fake.Calls(cloudtest.List)
		time.Sleep(10 * time.Minute)
		if n := s.fake.Calls(cloudtest.List) - before; n > 70 {
			t.Errorf("the cloud was listed %d times in ten minutes", n)
		}
	})
}

func TestASlowCloudKeepsNobodyWaiting(t *testing.T) {
	slow := cloudtest.Options{Latency: map[cloudtest.Op]time.Duration{cloudtest.List: 40 * time.Second}}
	bubble("lists take 40 s", t, slow, func(t *testing.T, s *story) {
		s.start("")
		time.Sleep(time.Second)
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: time.Minute})
		s.wait(15*time.Second, "the job runs", s.runs(id))
	})
	bubble("addresses come a second after the launch, many times over", t, cloudtest.Options{AddrDelay: time.Second}, func(t *testing.T, s *story) {
		s.start("")
		for range 6 {
			id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: time.Second})
			s.wait(10*time.Second, "the job runs", s.runs(id))
			s.wait(5*time.Minute, "its nodes are off", func() bool { return s.live() == 0 && strings.Contains(s.ctl.Node("c1"), "POWERED_DOWN") })
		}
	})
}

func TestANodeThatLeftTheConfigurationIsStillEnded(t *testing.T) {
	bubble("while its job runs", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: 5 * time.Minute})
		s.wait(time.Minute, "the job runs", s.runs(id))
		s.die()
		s.pool.Nodes = expand("c[2-4]")
		s.start("")
		s.wait(20*time.Minute, "all is over", func() bool { return s.live() == 0 && s.closed() })
		if i, _ := s.ctl.Info(id); i.Restarts > 0 {
			t.Errorf("the job was restarted")
		}
	})
	bubble("the suspend order is lost too", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Duration: time.Minute})
		s.wait(time.Minute, "the job runs", s.runs(id))
		s.die()
		s.pool.Nodes = expand("c[2-4]")
		s.start("")
		s.swallow()
		s.wait(10*time.Minute, "all is over", func() bool { return s.live() == 0 && s.closed() })
	})
}

// TestRule7AnOldJournalEndsNothingThatRuns: c1 runs a job on an instance that
// the restored journal does not know.
func TestRule7AnOldJournalEndsNothingThatRuns(t *testing.T) {
	former := func(n power.Node) power.Node { n.Instance, n.Since = "i-former", n.Since.Add(-time.Hour); return n }
	for _, tt := range []struct {
		name string
		node func(n power.Node) power.Node
	}{
		{"up on a former instance", former},
		{"booting on a former instance", func(n power.Node) power.Node { n = former(n); n.Phase = power.Booting; return n }},
		{"wanted", func(n power.Node) power.Node { n = former(n); n.Phase, n.Instance = power.Wanted, ""; return n }},
		{"being freed", func(n power.Node) power.Node { n = former(n); n.Phase, n.Instance = power.Freeing, ""; return n }},
	} {
		bubble(tt.name, t, cloudtest.Options{}, func(t *testing.T, s *story) {
			s.start("")
			id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Requeue: true, Duration: 20 * time.Minute})
			s.wait(time.Minute, "the job runs", s.runs(id))
			s.die()
			s.edit(func(st power.State) power.Change {
				old := st.Instances[0]
				old.Gone = time.Now() // the backup does not know it
				i := st.Instances[0]
				i.ID, i.Assigned = "i-former", "c1"
				return power.Change{Nodes: []power.Node{tt.node(st.Nodes[0])}, Instances: []power.Instance{old, i}}
			})
			s.start("")
			time.Sleep(15 * time.Minute)
			if i, _ := s.ctl.Info(id); i.Restarts > 0 || i.State != "RUNNING" || s.live() != 1 {
				t.Errorf("%d instances live, the job is %+v", s.live(), i)
			}
			s.wait(20*time.Minute, "all is over", func() bool { return s.live() == 0 && s.closed() })
		})
	}
	bubble("launching, and the job's instance came of that launch", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Requeue: true, Duration: 10 * time.Minute})
		s.wait(time.Minute, "the job runs", s.runs(id))
		s.die()
		s.edit(func(st power.State) power.Change {
			old, n := st.Instances[0], st.Nodes[0]
			old.Gone = time.Now()
			l := power.Launch{Token: old.Token, Provider: "fake", Nodes: []string{"c1"}, State: power.Abandoned, Created: n.Since,
				Request: cloud.LaunchRequest{Token: old.Token, Cluster: old.Cluster, Pool: "p", Offering: old.Offering, Count: 1}}
			return power.Change{DropNodes: []string{"c1"}, Instances: []power.Instance{old}, Launches: []power.Launch{l}}
		})
		s.start("")
		time.Sleep(5 * time.Minute)
		if i, _ := s.ctl.Info(id); i.Restarts > 0 || i.State != "RUNNING" || s.live() != 1 {
			t.Errorf("%d instances live, the job is %+v", s.live(), i)
		}
	})
	bubble("the journal is lost while the node does not respond", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Duration: time.Hour})
		s.wait(time.Minute, "the job runs", s.runs(id))
		s.die()
		if err := os.Remove(s.db); err != nil {
			t.Fatal(err)
		}
		s.ctl.Lost("c1") // NOT_RESPONDING after five minutes, DOWN after ten
		time.Sleep(6 * time.Minute)
		s.start("")
		time.Sleep(3 * time.Minute)
		if s.live() != 1 {
			t.Error("the instance of a node behind a broken network was ended")
		}
	})
}

func TestAJobInPartsGoesWhereAllOfItFits(t *testing.T) {
	bubble("one instance a launch, room for one of two in the first zone", t, cloudtest.Options{MaxLaunch: 1}, func(t *testing.T, s *story) {
		s.fake.SetCapacity(cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}, 1)
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: time.Hour}) // it cannot be requeued
		s.wait(2*time.Minute, "the job runs", s.runs(id))
		for _, i := range s.fake.Instances() {
			if i.State.Live() && i.Offering.Zone != "b" {
				t.Errorf("an instance in %s: the job's nodes are in two zones", i.Offering)
			}
		}
	})
}

func TestRule4AnUnknownOutcomeIsResolvedBeforeAnotherToken(t *testing.T) {
	for _, kind := range []cloud.Kind{cloud.Auth, cloud.Quota, cloud.Invalid, cloud.Capacity} {
		bubble("a lost answer, then "+string(kind), t, cloudtest.Options{}, func(t *testing.T, s *story) {
			s.fake.LoseAnswer(cloudtest.Launch)
			s.fake.Fail(cloudtest.Launch, kind)
			s.start("")
			id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Requeue: true, Duration: time.Minute})
			s.wait(time.Minute, "the job runs", func() bool {
				if s.live() > 1 {
					t.Errorf("%d instances live for one node", s.live())
				}
				return t.Failed() || s.state(id) == "RUNNING"
			})
		})
	}
}

// freed plays two jobs that find no capacity at first, one of which may not be
// requeued once it has begun, with a daemon that dies at a point.
func (s *story) freed(at string) *life {
	zones := func(n int) {
		for _, z := range []string{"a", "b"} {
			s.fake.SetCapacity(cloud.Offering{Type: "small", Zone: z, Market: cloud.OnDemand}, n)
		}
	}
	zones(0)
	first := s.start(at)
	wait := func(d time.Duration, what string, cond func() bool) {
		s.t.Helper()
		s.wait(d, what, func() bool {
			if s.isDead() {
				s.die()
				time.Sleep(3 * time.Second)
				s.start("")
			}
			return cond()
		})
	}
	keep := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: 5 * time.Minute})
	once := s.ctl.Submit(slurmtest.Job{Nodes: 1, Duration: 5 * time.Minute})
	for _, id := range []uint32{keep, once} {
		wait(2*time.Minute, fmt.Sprintf("job %d is told", id), func() bool {
			i, _ := s.ctl.Info(id)
			return i.State == "PENDING" && strings.Contains(i.AdminComment, "no capacity")
		})
	}
	zones(-1)
	for _, id := range []uint32{keep, once} {
		wait(5*time.Minute, fmt.Sprintf("job %d runs", id), s.runs(id))
	}
	out, _, err := s.ctl.Run(s.t.Context(), "scontrol", "-o", "show", "job", fmt.Sprint(once))
	if err != nil || !strings.Contains(string(out), "Requeue=0") {
		s.t.Errorf("a job with --no-requeue can be requeued now that it runs: %s, %v", out, err)
	}
	wait(20*time.Minute, "all is over", func() bool { return s.live() == 0 && s.closed() })
	return first
}

// TestKillAtEveryPointOfAFailedLaunch: as TestKillAtEveryPoint.
func TestKillAtEveryPointOfAFailedLaunch(t *testing.T) {
	var points []string
	bubble("alive", t, cloudtest.Options{}, func(t *testing.T, s *story) { points = s.freed("").log })
	chosen := choose(points)
	if t.Failed() || len(chosen) < 10 {
		t.Fatalf("only these points: %v", points)
	}
	for n, p := range chosen {
		if !testing.Short() || n%30 == 0 {
			bubble(strings.ReplaceAll(p, " ", "_"), t, cloudtest.Options{}, func(_ *testing.T, s *story) { s.freed(p) })
		}
	}
}
