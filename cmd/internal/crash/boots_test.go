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
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// consoles is a cloud with consoles; it notes those that were asked for too late.
type consoles struct {
	*cloudtest.Fake
	mu   sync.Mutex
	late []string
}

func (c *consoles) Console(_ context.Context, id string) (string, error) {
	for _, i := range c.Instances() {
		if i.ID == id && i.State != cloud.Running {
			c.mu.Lock()
			c.late = append(c.late, id)
			c.mu.Unlock()
		}
	}
	return "mount.nfs: Connection timed out\n", nil
}

// failing is a story in which boots fail until somebody mends the image and
// starts the pool again, which two failures in a row have stopped.
type failing struct {
	*story
	cloud *consoles

	mu     sync.Mutex
	mended time.Time
	said   map[string]bool // instances whose failure burstd has taken
}

func beginFailing(t *testing.T) *failing {
	f := &failing{story: plain(t, cloudtest.Options{}), said: map[string]bool{}}
	f.cloud = &consoles{Fake: f.fake}
	f.world.cloud, f.pool.MaxBootFailures, f.complains = f.cloud, 2, f.complain
	return f
}

// complain is what a node does whose boot fails: it asks who it is, and reports.
func (f *failing) complain(i cloud.Instance) bool {
	f.mu.Lock()
	mended, said := f.mended, f.said[i.ID]
	f.mu.Unlock()
	if !mended.IsZero() && i.Launched.After(mended) {
		return false
	}
	f.world.mu.Lock()
	l := f.life
	f.world.mu.Unlock()
	if said || l == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
	defer cancel()
	if _, err := l.engine.WhoAmI(ctx, i.ID, i.Addr); err != nil && !errors.Is(err, power.ErrNotYet) && !errors.Is(err, power.ErrNotYours) {
		f.t.Errorf("whoami: %v", err)
	}
	err := l.engine.Report(ctx, i.ID, i.Addr, power.ReportFailed, "mount /home: timed out")
	if err == nil || errors.Is(err, power.ErrNotYours) { // it is ending already
		f.mu.Lock()
		f.said[i.ID] = true
		f.mu.Unlock()
	}
	return true
}

// run plays it with a daemon that is started again whenever it has died.
func (f *failing) run(at string) *life {
	first := f.start(at)
	waitFor := func(d time.Duration, what string, cond func(e *power.Engine) bool) {
		f.t.Helper()
		f.wait(d, what, func() bool {
			if f.isDead() {
				f.die()
				time.Sleep(3 * time.Second)
				f.start("")
			}
			return cond(f.life.engine)
		})
	}
	stopped := func(e *power.Engine) bool { return !e.Health().Breakers["p"].Stopped.IsZero() }
	f.single = f.ctl.Submit(slurmtest.Job{Name: "single", Nodes: 1, Requeue: true, Duration: time.Minute})
	waitFor(10*time.Minute, "the pool is stopped", stopped)
	waitFor(10*time.Minute, "the job is told", func(*power.Engine) bool {
		i, _ := f.ctl.Info(f.single)
		return strings.Contains(i.AdminComment, "pool p is stopped: 2 instances in a row")
	})
	if n := len(f.fake.Instances()); n != 2 {
		f.t.Errorf("%d instances were launched until the pool was stopped", n)
	}
	waitFor(20*time.Minute, "none is left", func(*power.Engine) bool { return f.live() == 0 })
	f.mu.Lock()
	f.mended = time.Now()
	f.mu.Unlock()
	waitFor(time.Minute, "the pool is started", func(e *power.Engine) bool {
		ctx, cancel := context.WithTimeout(f.t.Context(), time.Second)
		defer cancel()
		return e.StartPool(ctx, "p", "uid 0") == nil && !stopped(e)
	})
	waitFor(15*time.Minute, "the job runs", func(*power.Engine) bool { return f.state(f.single) == "RUNNING" })
	waitFor(20*time.Minute, "all is over", func(*power.Engine) bool { return f.live() == 0 && f.open() == "" })
	return first
}

// check looks at what is told of the boots.
func (f *failing) check(undisturbed bool) {
	f.t.Helper()
	events, err := f.life.store.Events(f.t.Context(), 0, 0)
	if err != nil {
		f.t.Error(err)
	}
	told, shown := map[string]int{}, map[string]int{}
	for _, e := range events {
		switch e.Kind {
		case "boot-failed":
			told[e.Instance]++
		case "console":
			shown[e.Instance]++
		}
	}
	for id := range f.said {
		if told[id] != 1 || shown[id] > 1 || undisturbed && shown[id] != 1 {
			f.t.Errorf("the failure of %s is told %d times, its console %d times", id, told[id], shown[id])
		}
	}
	if len(f.cloud.late) > 0 {
		f.t.Errorf("ended before their consoles were fetched: %v", f.cloud.late)
	}
	boots, err := f.life.store.Boots(f.t.Context(), "", f.single, 100)
	if err != nil || len(boots) == 0 || boots[len(boots)-1].Outcome != power.BootUp || boots[len(boots)-1].Started.IsZero() {
		f.t.Errorf("boots are %+v, %v", boots, err)
	}
	if len(boots) > 0 && boots[0].Outcome == power.BootUp {
		f.t.Errorf("a boot that failed is told as %+v", boots[0])
	}
	for _, b := range boots {
		if b.Ended.IsZero() {
			f.t.Errorf("a boot is still open: %+v", b)
		}
	}
}

// TestKillAtEveryPointOfFailingBoots: no failure is lost or counted twice, and
// the pool stays stopped over restarts.
func TestKillAtEveryPointOfFailingBoots(t *testing.T) {
	var points []string
	synctest.Test(t, func(t *testing.T) {
		f := beginFailing(t)
		defer f.until()
		points = f.run("").log
		f.check(true)
	})
	if t.Failed() {
		return
	}
	chosen := choose(points)
	t.Logf("%d points passed, %d of them tried", len(points), len(chosen))
	for i, p := range chosen {
		if testing.Short() && i%40 > 0 && !strings.Contains(p, "console") && !strings.Contains(p, "boot-failed") {
			continue
		}
		t.Run(strings.ReplaceAll(p, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := beginFailing(t)
				defer f.until()
				f.run(p)
				f.check(false)
			})
		})
	}
}
