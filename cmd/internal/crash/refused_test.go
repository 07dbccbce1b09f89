package crash_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// keyed is a cloud that refuses launches while its key is over.
type keyed struct {
	*cloudtest.Fake
	over atomic.Bool
}

func (k *keyed) Launch(ctx context.Context, r cloud.LaunchRequest) ([]cloud.Instance, error) {
	if k.over.Load() {
		return nil, &cloud.Error{Kind: cloud.Auth, Op: "launch", Err: errors.New("the key is over")}
	}
	return k.Fake.Launch(ctx, r)
}

// twoAccounts is twoPools with p of the cloud named first and q of the other; fake's key is over.
func twoAccounts(t *testing.T, first string) (*story, *keyed) {
	s := twoPools(t)
	k := &keyed{Fake: s.fake}
	k.over.Store(true)
	s.cloud, s.keeps = k, true
	small := fleet.Config{Types: []string{"small"}, Zones: []string{"a"}, Market: fleet.OnDemandOnly}
	large := fleet.Config{Types: []string{"large"}, Market: fleet.OnDemandOnly}
	s.pool.Provider, s.pool.Fleet, s.more[0].Provider, s.more[0].Fleet = "fake", small, "other", large
	if first == "other" {
		s.pool.Provider, s.pool.Fleet, s.more[0].Provider, s.more[0].Fleet = "other", large, "fake", small
	}
	return s, k
}

// TestARenewedKeyIsTried: the second pool's cloud refused a job's launch, and nothing is launched there since. Its
// key is renewed. When the first pool has nothing, a job goes to the second.
func TestARenewedKeyIsTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, key := twoAccounts(t, "other")
		defer s.until()
		s.other.SetCapacity(cloud.Offering{Type: "large", Market: cloud.OnDemand}, 0)
		s.start("")
		first := s.ctl.Submit(slurmtest.Job{Requeue: true, Duration: time.Minute})
		s.wait(2*time.Minute, "the key is refused", func() bool { return s.events("credentials-refused") > 0 })
		s.ctl.Cancel(first)
		time.Sleep(20 * time.Second)
		key.over.Store(false)
		time.Sleep(11 * time.Minute)
		for range 2 {
			id := s.ctl.Submit(slurmtest.Job{Requeue: true, Duration: time.Hour})
			s.wait(3*time.Minute, "a job runs in the second pool", s.runs(id))
		}
		if n := liveIn(s.fake); n != 2 {
			i, _ := s.ctl.Info(first + 1)
			t.Errorf("%d instances live there; the job was told %q", n, i.AdminComment)
		}
		if n := s.events("credentials-accepted"); n != 1 {
			t.Errorf("%d events that they are accepted", n)
		}
	})
}

// TestARefusedJobGoesToAnotherPool, and is told meanwhile what it waits for.
func TestARefusedJobGoesToAnotherPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := twoAccounts(t, "fake")
		defer s.until()
		s.start("")
		pair := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: time.Hour})
		s.wait(30*time.Second, "it is told", func() bool {
			i, _ := s.ctl.Info(pair)
			return i.State == "CONFIGURING" && strings.Contains(i.AdminComment, "its nodes are launched when a cloud answers: credentials not accepted at fake")
		})
		s.wait(100*time.Second, "it runs", s.runs(pair))
		i, _ := s.ctl.Info(pair)
		if _, other := s.behind(pair); other != 2 || i.Restarts != 1 || !strings.Contains(i.AdminComment, "pool p: credentials not accepted: ") || !strings.Contains(i.AdminComment, "; it goes to pool q") {
			t.Errorf("it has %d nodes of the second pool's cloud, was restarted %d times, and was told %q", other, i.Restarts, i.AdminComment)
		}
		single := s.ctl.Submit(slurmtest.Job{Requeue: true, Duration: time.Hour})
		s.wait(20*time.Second, "the next goes there at once", s.runs(single))
		if i, _ := s.ctl.Info(single); i.Restarts != 0 {
			t.Errorf("it was restarted %d times", i.Restarts)
		}
	})
}

// TestARefusedJobWaitsWhereNoOtherPoolMayHaveIt: it is not requeued for nothing.
func TestARefusedJobWaitsWhereNoOtherPoolMayHaveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, key := twoAccounts(t, "fake")
		defer s.until()
		s.more[0].Nodes = expand("c4")
		s.start("")
		pair := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: time.Hour})
		time.Sleep(110 * time.Second)
		if i, _ := s.ctl.Info(pair); i.State != "CONFIGURING" || i.Restarts != 0 || !strings.Contains(i.AdminComment, "credentials not accepted at fake") {
			t.Errorf("it is %s, restarted %d times: %s", i.State, i.Restarts, i.AdminComment)
		}
		key.over.Store(false)
		s.wait(40*time.Second, "it runs", s.runs(pair))
		s.wait(time.Minute, "its comment is taken back", func() bool { i, _ := s.ctl.Info(pair); return i.AdminComment == "" })
	})
}

// TestAJobLeavesAnIdleNodeWhoseCloudRefuses the launch of its other node: both come from the second cloud.
func TestAJobLeavesAnIdleNodeWhoseCloudRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := featured(t, cloudtest.Options{}, 10*time.Hour)
		defer s.until()
		key := &keyed{Fake: s.fake}
		s.cloud = key
		s.start("")
		first := s.ctl.Submit(slurmtest.Job{Duration: 10 * time.Second})
		s.wait(time.Minute, "the first job is done", s.over(first))
		key.over.Store(true)
		pair := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: time.Hour})
		s.wait(150*time.Second, "the job of two nodes runs", s.runs(pair))
		if fake, other := s.behind(pair); fake != 0 || other != 2 {
			t.Errorf("it runs on %d nodes of the first cloud and %d of the second", fake, other)
		}
		if i, _ := s.ctl.Info(pair); i.Restarts != 1 || !strings.Contains(i.AdminComment, "its nodes begin anew at another provider") {
			t.Errorf("restarted %d times, it was told %q", i.Restarts, i.AdminComment)
		}
		s.wait(time.Minute, "the idle node is powered down, as its cloud lists and ends", func() bool { return liveIn(s.fake) == 0 })
	})
}

// TestARefusedJobGoesToAnotherPoolAfterARestart, too: as its launch may have begun, when ResumeTimeout is over.
func TestARefusedJobGoesToAnotherPoolAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := twoAccounts(t, "fake")
		defer s.until()
		s.boot = 3 * time.Minute // as Slurm has it
		s.start("")
		pair := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: time.Hour})
		time.Sleep(20 * time.Second)
		s.die()
		s.start("")
		s.wait(5*time.Minute, "it runs", s.runs(pair))
		if _, other := s.behind(pair); other != 2 {
			t.Errorf("it has %d nodes of the second pool's cloud", other)
		}
	})
}
