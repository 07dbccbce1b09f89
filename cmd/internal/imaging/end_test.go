package imaging

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
)

// straggling is a cloud that shows a part of an image only some seconds after its removal.
type straggling struct {
	*cloudtest.Fake
	part   cloud.Image
	shown  time.Time // zero: not known yet
	sticks bool      // it cannot be removed
}

func (s *straggling) Images(ctx context.Context, cluster string) ([]cloud.Image, error) {
	all, err := s.Fake.Images(ctx, cluster)
	if err == nil && !s.shown.IsZero() && time.Now().After(s.shown) {
		all = append(all, s.part)
	}
	return all, err
}

func (s *straggling) DeleteImage(ctx context.Context, cluster, id string) error {
	switch {
	case id == s.part.ID && s.sticks:
		return &cloud.Error{Kind: cloud.Auth, Op: "x", Err: errors.New("you may not")}
	case id == s.part.ID:
		s.shown, s.part = time.Time{}, cloud.Image{}
		return nil
	}
	all, err := s.Fake.Images(ctx, cluster)
	if err != nil {
		return err
	}
	s.part = cloud.Image{ID: "snap-1", Token: all[0].Token, Cluster: cluster, State: cloud.ImageRemains, Progress: -1}
	s.shown = time.Now().Add(4 * time.Second)
	return s.Fake.DeleteImage(ctx, cluster, id)
}

// TestStragglers: what comes of an image after it was removed is removed too, or named.
func TestStragglers(t *testing.T) {
	for _, sticks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			s := &straggling{Fake: cloudtest.NewFake(cloudtest.Options{Lag: 6 * time.Second, Image: 3 * time.Minute}), sticks: sticks}
			b.Fake, b.Provider, b.SetUp, b.Poll = s.Fake, s, nothing, time.Second
			ctx, cancel := context.WithCancel(t.Context())
			b.Step = at("imaged", func() {
				time.Sleep(10 * time.Second)
				cancel()
			})
			_, err := Build(ctx, b.Config)
			if err == nil || strings.Contains(err.Error(), "image snap-1, which was begun, is left; burst image delete snap-1 removes it") != sticks {
				t.Errorf("sticks: %v: %v", sticks, err)
			}
			time.Sleep(time.Minute)
			if all, err := s.Images(t.Context(), "c"); err != nil || (len(all) == 1) != sticks {
				t.Errorf("sticks: %v: left are %+v, %v", sticks, all, err)
			}
			b.nothing(t, 0)
		})
	}
}

// TestLaunchUnheard: a builder whose launch was not answered before an interrupt is ended, and told of, as it is paid for.
func TestLaunchUnheard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		ctx, cancel := context.WithCancel(t.Context())
		b.LoseAnswer(cloudtest.Launch)
		b.Step = at("launch", cancel)
		b.Provider = late{b.Fake}
		r, err := Build(ctx, b.Config)
		all := b.Instances()
		if err == nil || len(all) != 1 || r.Instance != all[0].ID || !r.Launched.Equal(all[0].Launched) || r.Launched.IsZero() || r.Offering != small || !r.Gone || !r.Ended.After(r.Launched) {
			t.Errorf("%+v, %v; the cloud has %+v", r, err, all)
		}
		b.nothing(t, 0)
	})
}

// late is a cloud to which a launch has left before the interrupt.
type late struct{ *cloudtest.Fake }

func (l late) Launch(ctx context.Context, r cloud.LaunchRequest) ([]cloud.Instance, error) {
	return l.Fake.Launch(context.WithoutCancel(ctx), r)
}
