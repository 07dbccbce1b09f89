package crash_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// TestChaos: jobs come and are cancelled, burstd dies, orders get lost, and the
// cloud fails in every way that it can, by dice; in the end no instance lives, the journal is
// closed, and no node had two instances at once.
func TestChaos(t *testing.T) {
	worlds := 40
	if testing.Short() {
		worlds = 6
	}
	for seed := range worlds {
		t.Run(fmt.Sprint("dice ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { chaos(t, rand.New(rand.NewPCG(uint64(seed), 1))) })
		})
	}
}

// orderless has orders get lost from now on, or not any more.
func (s *story) orderless(lost bool) {
	s.mu.Lock()
	s.lost = lost
	s.mu.Unlock()
}

func chaos(t *testing.T, dice *rand.Rand) {
	some := func(most time.Duration) time.Duration { return time.Duration(dice.Int64N(int64(most))) }
	s := &story{world: newWorld(t, slurmtest.Options{Nodes: expand("c[1-6]"), SuspendTime: time.Minute, SuspendTimeout: 10 * time.Second,
		ResumeTimeout: 5 * time.Minute, ReturnToService: 2, ResetAddr: dice.IntN(2) == 0, NewResumeFile: dice.IntN(2) == 0},
		cloudtest.Options{Boot: 1 + some(20*time.Second), AddrDelay: some(10 * time.Second), Lag: 1 + some(10*time.Second), Shutdown: some(10 * time.Second),
			Choice: dice.IntN(2) == 0, Prepare: dice.IntN(4) > 0, MaxLaunch: 1 + dice.IntN(4),
			Latency: map[cloudtest.Op]time.Duration{cloudtest.Launch: some(5 * time.Second), cloudtest.Prepare: some(5 * time.Second), cloudtest.List: some(time.Second)}},
		[]string{fleet.SpotOnly, fleet.OnDemandOnly, fleet.SpotThenOnDemand}[dice.IntN(3)])}
	defer s.until()
	s.pool.Fleet.SpotTimeout = some(2 * time.Minute)
	s.pool.MaxBootFailures = dice.IntN(2) * 20
	s.start("")
	offerings := s.pool.Fleet.Offerings()
	var jobs []uint32
	for range 60 {
		o := offerings[dice.IntN(len(offerings))]
		switch dice.IntN(15) {
		case 0, 1, 2, 3:
			jobs = append(jobs, s.ctl.Submit(slurmtest.Job{Nodes: 1 + dice.IntN(4), Requeue: dice.IntN(4) > 0, Duration: some(5 * time.Minute)}))
		case 4:
			if len(jobs) > 0 {
				s.ctl.Cancel(jobs[dice.IntN(len(jobs))])
			}
		case 5, 6:
			s.die()
			time.Sleep(some(time.Minute))
			s.start("")
		case 7:
			s.fake.SetCapacity(o, dice.IntN(4)-1)
		case 8:
			s.fake.Throttle(o, 1+dice.IntN(3))
		case 9:
			s.fake.Inject(cloudtest.Launch, cloudtest.Fault{Times: 1 + dice.IntN(3), Lost: dice.IntN(2) == 0,
				Err: &cloud.Error{Kind: cloud.Transient, Op: "launch", Err: errors.New("by dice")}})
		case 10:
			kinds := []cloud.Kind{cloud.Auth, cloud.Throttled, cloud.Quota, cloud.Invalid, cloud.Transient}
			ops := []cloudtest.Op{cloudtest.Launch, cloudtest.Prepare, cloudtest.List, cloudtest.Terminate, cloudtest.Assign}
			op := ops[dice.IntN(len(ops))]
			s.fake.Inject(op, cloudtest.Fault{Times: 1 + dice.IntN(5), Err: &cloud.Error{Kind: kinds[dice.IntN(len(kinds))], Op: string(op), Err: errors.New("by dice")}})
		case 11:
			s.fake.NeverBoot(dice.IntN(3))
		case 12:
			if all := s.fake.Instances(); len(all) > 0 {
				s.fake.Kill(all[dice.IntN(len(all))].ID)
			}
		case 13:
			s.fake.LoseAnswer(cloudtest.Launch)
		case 14:
			s.orderless(dice.IntN(2) == 0)
		}
		s.drain()
		time.Sleep(some(30 * time.Second))
	}
	s.orderless(false)
	for _, o := range offerings {
		s.fake.SetCapacity(o, -1)
	}
	for id := range jobs {
		if dice.IntN(2) == 0 {
			s.ctl.Cancel(jobs[id])
		}
	}
	s.wait(4*time.Hour, "every job is over", func() bool {
		for _, id := range jobs {
			if i, known := s.ctl.Info(id); known && (i.State == "PENDING" || i.State == "CONFIGURING" || i.State == "RUNNING" || i.State == "COMPLETING") {
				return false
			}
		}
		return true
	})
	s.wait(time.Hour, "no instance lives, the journal is closed", func() bool { return s.live() == 0 && s.open() == "" })
	for node := range s.twice {
		t.Errorf("node %s had two live instances at once", node)
	}
	if n := s.fake.Calls(cloudtest.Launch); n > 2000 {
		t.Errorf("%d launches were called", n)
	}
	if t.Failed() {
		for _, id := range jobs {
			i, known := s.ctl.Info(id)
			t.Logf("job %d: %v %+v", id, known, i)
		}
		t.Logf("open: %.2000s", s.open())
	}
}
