package crash_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// exchanged is a cloud whose key may be exchanged for another account's, which holds at once.
type exchanged struct {
	*cloudtest.Fake
	mu     sync.Mutex
	abroad *cloudtest.Fake // what the key opens now, if it is another account
}

func (x *exchanged) set(f *cloudtest.Fake) {
	x.mu.Lock()
	x.abroad = f
	x.mu.Unlock()
}

func (x *exchanged) at() *cloudtest.Fake {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.abroad != nil {
		return x.abroad
	}
	return x.Fake
}

func (x *exchanged) Account(ctx context.Context) (string, error) { return x.at().Account(ctx) }

func (x *exchanged) Launch(ctx context.Context, r cloud.LaunchRequest) ([]cloud.Instance, error) {
	return x.at().Launch(ctx, r)
}

func (x *exchanged) List(ctx context.Context, f cloud.Filter) ([]cloud.Instance, error) {
	return x.at().List(ctx, f)
}

func (x *exchanged) Terminate(ctx context.Context, ids []string) error {
	return x.at().Terminate(ctx, ids)
}

func (x *exchanged) Prepare(ctx context.Context, r []cloud.LaunchRequest) []error {
	return x.at().Prepare(ctx, r)
}

func (x *exchanged) Assign(ctx context.Context, nodes map[string]string) error {
	return x.at().Assign(ctx, nodes)
}

// TestALaunchIsLearntOfWhereItWasAskedFor: its answer is lost, and another account's key is there, or another
// region, before it is asked for again.
func TestALaunchIsLearntOfWhereItWasAskedFor(t *testing.T) {
	for _, tt := range []struct {
		name     string
		exchange func(s *story, x *exchanged, abroad *cloudtest.Fake)
	}{
		{"the key is exchanged at once", func(s *story, x *exchanged, abroad *cloudtest.Fake) {
			x.set(abroad)
		}},
		{"the region is changed while burstd is away", func(s *story, x *exchanged, abroad *cloudtest.Fake) {
			s.die()
			x.set(abroad)
			s.start("")
		}},
		{"the key is exchanged when its nodes are given back", func(s *story, x *exchanged, abroad *cloudtest.Fake) {
			s.fake.Inject(cloudtest.List, cloudtest.Fault{Err: transient(cloudtest.List), Times: 1 << 20})
			s.wait(20*time.Minute, "the launch is abandoned", func() bool { return s.life.engine.Health().Orders == 0 })
			x.set(abroad)
		}},
	} {
		bubble(tt.name, t, cloudtest.Options{}, func(t *testing.T, s *story) {
			x, abroad := &exchanged{Fake: s.fake}, cloudtest.NewFake(cloudtest.Options{Name: "abroad", Prepare: true, Lag: 2 * time.Second})
			s.cloud = x
			s.start("")
			time.Sleep(time.Minute) // whose the key is has been seen
			s.fake.Inject(cloudtest.Launch, cloudtest.Fault{Err: transient(cloudtest.Launch), Lost: true, Times: 1 << 20})
			id := s.ctl.Submit(slurmtest.Job{Nodes: 3, Duration: 24 * time.Hour})
			s.wait(time.Minute, "they are launched", func() bool { return s.live() == 3 })
			time.Sleep(time.Second) // whose the key was is asked beside the call, which has no time here
			tt.exchange(s, x, abroad)
			s.ctl.Cancel(id)
			time.Sleep(30 * time.Minute)
			st, err := s.life.store.LoadPower(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			home, _ := s.fake.Account(t.Context())
			if len(st.Launches) != 1 || st.Launches[0].Account != home || s.live() != 3 {
				t.Errorf("%d instances live, the launches are %+v", s.live(), st.Launches)
			}
			if n, told := len(abroad.Instances()), s.events("other-account"); n != 0 || told != 1 {
				t.Errorf("%d instances were bought in the other account, %d events tell of it", n, told)
			}
			s.fake.Heal()
			x.set(nil)
			s.wait(10*time.Minute, "all is over with the old key", func() bool { return s.live() == 0 && s.open() == "" })
		})
	}
}

// TestARefusedLaunchIsAskedForInTheNewAccount: nothing came of it in the old one.
func TestARefusedLaunchIsAskedForInTheNewAccount(t *testing.T) {
	for name, restart := range map[string]bool{"at once": false, "after a restart": true} {
		bubble(name, t, cloudtest.Options{}, func(t *testing.T, s *story) {
			x, abroad := &exchanged{Fake: s.fake}, cloudtest.NewFake(cloudtest.Options{Name: "abroad", Prepare: true, Boot: 2 * time.Second, Lag: 2 * time.Second})
			s.cloud = x
			s.start("")
			time.Sleep(time.Minute)
			s.fake.Inject(cloudtest.Launch, cloudtest.Fault{Err: expired, Times: 1 << 20})
			s.ctl.Submit(slurmtest.Job{Nodes: 3, Duration: time.Hour})
			s.wait(time.Minute, "it is refused", func() bool { return s.events("credentials-refused") == 1 })
			if restart {
				s.die()
			}
			x.set(abroad)
			if restart {
				s.start("")
			}
			s.wait(2*time.Minute, "it is launched in the new account", func() bool { return liveIn(abroad) == 3 })
			if n := s.events("other-account"); n != 0 {
				t.Errorf("%d events of another account", n)
			}
		})
	}
}
