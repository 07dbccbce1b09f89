package crash_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// taciturn is a cloud that does not say when an instance ended, as EC2 does not of spot instances that it has taken
// back; a silent one shows it no more.
type taciturn struct {
	*cloudtest.Fake
	silent bool
}

func (c taciturn) List(ctx context.Context, f cloud.Filter) ([]cloud.Instance, error) {
	all, err := c.Fake.List(ctx, f)
	for n := range all {
		all[n].Ended = time.Time{}
	}
	if c.silent {
		all = slices.DeleteFunc(all, func(i cloud.Instance) bool { return i.State == cloud.Terminated })
	}
	return all, err
}

// TestAnEndThatTheCloudNeverTold is booked by what burstd has seen, and said to be so, whichever burstd saw it.
func TestAnEndThatTheCloudNeverTold(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cloud  func(f *cloudtest.Fake) cloud.Provider
		deaths int // of burstd, each some points later than the one before
		told   bool
	}{
		{"the cloud tells it", func(f *cloudtest.Fake) cloud.Provider { return f }, 0, true},
		{"it ended at some time", func(f *cloudtest.Fake) cloud.Provider { return taciturn{f, false} }, 0, false},
		{"burstd dies again and again", func(f *cloudtest.Fake) cloud.Provider { return taciturn{f, false} }, 9, false},
		{"it is listed no more", func(f *cloudtest.Fake) cloud.Provider { return taciturn{f, true} }, 0, false},
	} {
		bubble(tt.name, t, cloudtest.Options{}, func(t *testing.T, s *story) {
			s.cloud = tt.cloud(s.fake)
			l := s.start("")
			id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Requeue: true, Duration: 24 * time.Hour})
			s.wait(time.Minute, "the job runs", s.runs(id))
			i := s.fake.Instances()[0].ID
			s.fake.Kill(i)
			for n := 1; n <= tt.deaths; n++ {
				l.mu.Lock()
				l.left = 2 * n
				l.mu.Unlock()
				s.wait(10*time.Minute, "burstd dies", s.isDead)
				s.die()
				l = s.start("")
			}
			time.Sleep(10 * time.Minute)
			bills, err := s.life.store.Bills(t.Context(), time.Time{}, time.Now().Add(time.Hour))
			if err != nil || len(bills) != 1 || bills[0].ID != i {
				t.Fatalf("%+v, %v", bills, err)
			}
			b := bills[0]
			if _, _, told := ledger.Due(b.Instance, price.PerSecond); told != tt.told || b.Ended.IsZero() || b.Ended.After(b.Gone) {
				t.Errorf("told %v, want %v: %+v", told, tt.told, b)
			}
		})
	}
}
