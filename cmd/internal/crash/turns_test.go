package crash_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// counted is a cloud that makes a launch's instances one after the other, and ends them again if it has too few: what
// that wastes is paid for.
type counted struct {
	*cloudtest.Fake
	hangs bool // the first launch, for as long as anybody waits

	mu     sync.Mutex
	room   int
	wasted int
	first  string // token
	done   map[string]bool
}

func (c *counted) Launch(ctx context.Context, r cloud.LaunchRequest) ([]cloud.Instance, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first == "" {
		c.first = r.Token
	}
	wait := func(d time.Duration) error {
		c.mu.Unlock()
		defer c.mu.Lock()
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return &cloud.Error{Kind: cloud.Transient, Op: "launch", Err: ctx.Err()}
		}
	}
	if c.hangs && r.Token == c.first {
		return nil, wait(time.Hour)
	}
	for made := 0; !c.done[r.Token] && made < r.Count; made++ {
		if c.room == 0 {
			c.wasted, c.room = c.wasted+made, made
			return nil, &cloud.Error{Kind: cloud.Capacity, Op: "launch", Offering: r.Offering, Settled: true, Err: errors.New("sold out")}
		}
		c.room--
		if err := wait(5 * time.Second); err != nil {
			c.room += made + 1 // it is killed before it is sent, as the fake knows nothing of it
			return nil, err
		}
	}
	c.done[r.Token] = true
	return c.Fake.Launch(ctx, r)
}

// TestJobsDoNotTakeNodesFromEachOther: there are two, and two jobs need two each. Beside each other both would get one,
// and pay for it.
func TestJobsDoNotTakeNodesFromEachOther(t *testing.T) {
	for name, f := range map[string]func(s *story, c *counted, first, second uint32){
		"one after the other": func(s *story, c *counted, first, second uint32) {
			s.start("")
			s.wait(time.Minute, "the first runs", s.runs(first))
			s.told(second, "no capacity in pool p")
		},
		"burstd dies meanwhile": func(s *story, c *counted, first, second uint32) {
			for range 3 {
				s.start("")
				time.Sleep(8 * time.Second)
				s.die()
			}
			s.start("")
			s.wait(2*time.Minute, "the first runs", s.runs(first))
			s.told(second, "no capacity in pool p")
		},
		"the first gets no answer": func(s *story, c *counted, _, second uint32) {
			c.hangs = true
			s.start("")
			s.wait(2*time.Minute, "the second runs", s.runs(second))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &story{world: newWorld(t, slurmtest.Options{Nodes: expand("c[1-4]"), SuspendTime: 30 * time.Second,
					SuspendTimeout: 15 * time.Second, ResumeTimeout: 5 * time.Minute, ReturnToService: 2},
					cloudtest.Options{Boot: 3 * time.Second, Lag: 2 * time.Second, Shutdown: time.Second}, fleet.OnDemandOnly)}
				defer s.until()
				s.pool.Fleet.Zones, s.begun = []string{"a"}, time.Hour
				c := &counted{Fake: s.fake, room: 2, done: map[string]bool{}}
				s.cloud = c
				pair := slurmtest.Job{Nodes: 2, Requeue: true, Duration: time.Hour}
				f(s, c, s.ctl.Submit(pair), s.ctl.Submit(pair))
				if c.wasted > 0 {
					t.Errorf("%d were paid for in vain", c.wasted)
				}
			})
		})
	}
}

// TestALongQueueForTurns: what is launched late in ResumeTimeout cannot register in time, and is paid for. All jobs run, and
// the pool is not stopped.
func TestALongQueueForTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 24
		s := &story{world: newWorld(t, slurmtest.Options{Nodes: expand("c[1-48]"), SuspendTime: 30 * time.Second,
			SuspendTimeout: 15 * time.Second, ResumeTimeout: 5 * time.Minute, ReturnToService: 2},
			cloudtest.Options{Boot: 150 * time.Second, Lag: 2 * time.Second, Shutdown: time.Second}, fleet.OnDemandOnly)}
		defer s.until()
		s.pool.Nodes, s.pool.MaxBootFailures, s.boot = expand("c[1-48]"), 3, 5*time.Minute
		s.pool.Fleet.Zones, s.begun = []string{"a"}, time.Hour
		s.cloud = &counted{Fake: s.fake, room: 2 * jobs, done: map[string]bool{}}
		var ids []uint32
		for range jobs {
			ids = append(ids, s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: 10 * time.Hour}))
		}
		s.start("")
		s.wait(2*time.Minute, "the last is told what it waits for", func() bool {
			i, _ := s.ctl.Info(ids[jobs-1])
			return strings.Contains(i.AdminComment, "'s launch of small/a/on-demand is waited for")
		})
		for _, id := range ids {
			s.wait(30*time.Minute, "the job runs", s.runs(id))
		}
		if n := len(s.fake.Instances()); n != 2*jobs || s.events("boot-failed")+s.events("pool-stopped") > 0 {
			t.Errorf("%d instances were launched; %d did not boot", n, s.events("boot-failed"))
		}
	})
}
