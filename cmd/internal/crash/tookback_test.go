package crash_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// scanty is a cloud that has an instance less than a launch of all or nothing asks for, and ends
// those that came before it answers. Asked again under the same token it says the same.
type scanty struct{ *cloudtest.Fake }

// Limits says that what a launch has made may be shown late.
func (c scanty) Limits() cloud.Limits {
	l := c.Fake.Limits()
	l.Lag = 40 * time.Second
	return l
}

func (c scanty) Launch(ctx context.Context, r cloud.LaunchRequest) ([]cloud.Instance, error) {
	if !r.AllOrNothing {
		return c.Fake.Launch(ctx, r)
	}
	r.AllOrNothing = false
	r.Count--
	if got, err := c.Fake.Launch(ctx, r); err == nil {
		for _, i := range got {
			if err := c.Terminate(ctx, []string{i.ID}); err != nil {
				return got, err
			}
		}
	}
	back, err := c.List(ctx, cloud.Filter{Cluster: r.Cluster, Tokens: []string{r.Token}})
	if err != nil {
		return nil, err
	}
	return nil, &cloud.Error{Kind: cloud.Capacity, Op: "launch", Offering: r.Offering, Settled: true, TakenBack: back, Err: errors.New("too few")}
}

// TestWhatALaunchTookBackEndsOnce: burstd dies before it has the answer of a launch of all or nothing that came
// short, asks again, and looks for what an earlier call may have begun.
func TestWhatALaunchTookBackEndsOnce(t *testing.T) {
	for _, at := range []string{"", "after launch #1", "before commit power #3", "after terminate #1"} {
		t.Run("dies "+at, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &story{world: newWorld(t, slurmtest.Options{Nodes: expand("c[1-4]"), SuspendTime: time.Hour, SuspendTimeout: 15 * time.Second,
					ResumeTimeout: 3 * time.Minute, ReturnToService: 2}, cloudtest.Options{Boot: 3 * time.Second, Shutdown: time.Second}, "on-demand")}
				defer s.until()
				s.cloud = scanty{s.fake}
				s.start(at)
				s.ctl.Submit(slurmtest.Job{Nodes: 3, Requeue: true, Duration: time.Hour})
				time.Sleep(5 * time.Second)
				if at != "" {
					s.die()
					time.Sleep(time.Minute)
					s.start("")
				}
				time.Sleep(3 * time.Minute)
				all, err := s.life.store.Events(t.Context(), 0, 0)
				if err != nil {
					t.Fatal(err)
				}
				gone := map[string]int{}
				for _, e := range all {
					if e.Kind == "gone" {
						gone[e.Instance]++
					}
				}
				if len(gone) == 0 {
					t.Error("no instance is gone")
				}
				for id, n := range gone {
					if n != 1 {
						t.Errorf("%s is gone %d times", id, n)
					}
				}
			})
		})
	}
}
