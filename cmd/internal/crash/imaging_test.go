package crash_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cmd/internal/imaging"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// building begins to make an image, as burst image build does; setup takes 20 minutes.
func (s *story) building(step func(string) error) (done <-chan error) {
	s.t.Helper()
	cluster, err := s.life.store.ClusterID(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	c := imaging.Config{Provider: s.fake, Leases: imaging.LeasesIn(s.t.TempDir()), Within: time.Hour, Step: step,
		Request: cloud.LaunchRequest{Cluster: cluster, Pool: "p", Offering: cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}},
		SetUp: func(ctx context.Context, _ cloud.Instance, _ func()) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(20 * time.Minute):
				return nil
			}
		}}
	s.held = func(i cloud.Instance) bool { return c.Leases.Held(i.Token, time.Now()) }
	s.die() // so that the next one knows the folder
	s.start("")
	ended := make(chan error, 1)
	go func() {
		_, err := imaging.Build(s.t.Context(), c)
		ended <- err
	}()
	return ended
}

// builders are the live instances of which images are made.
func (s *story) builders() (n int) {
	for _, i := range s.fake.Instances() {
		if _, ours := cloud.BuilderUntil(i.Token); ours && i.State.Live() {
			n++
		}
	}
	return n
}

func (s *story) images() int {
	id, err := s.life.store.ClusterID(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	all, err := s.fake.Images(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return len(all)
}

// TestBuilders: burstd lets a builder at work be, also one that it meets when it
// starts, and ends one whose process has died.
func TestBuilders(t *testing.T) {
	options := cloudtest.Options{Boot: 30 * time.Second, AddrDelay: 10 * time.Second, Lag: 5 * time.Second, Shutdown: 20 * time.Second, Image: 10 * time.Minute}
	bubble("at work, over a restart of burstd", t, options, func(t *testing.T, s *story) {
		s.start("")
		done := s.building(nil)
		id, _ := s.running(slurmtest.Job{Nodes: 2, Requeue: true, Duration: 2 * time.Hour})
		time.Sleep(10 * time.Minute)
		s.die()
		time.Sleep(2 * time.Minute)
		s.start("")
		time.Sleep(5 * time.Minute)
		if n := s.builders(); n != 1 {
			t.Errorf("%d builders live in the middle of the setup", n)
		}
		for {
			s.drain()
			select {
			case err := <-done:
				if err != nil || s.images() != 1 || s.builders() != 0 {
					t.Errorf("%v, %d images, %d builders are left", err, s.images(), s.builders())
				}
				if s.state(id) != "RUNNING" {
					t.Errorf("the job is %s", s.state(id))
				}
				return
			case <-time.After(time.Second):
			}
		}
	})
	for _, step := range []string{"launched", "setup", "image", "imaged", "discard", "terminate"} {
		bubble("killed at "+step, t, options, func(t *testing.T, s *story) {
			s.start("")
			done := s.building(func(name string) error {
				if name == "imaged" && step == "discard" { // so that there is something to remove
					s.fake.FailImages("no room")
				}
				if name == step {
					return imaging.ErrDied
				}
				return nil
			})
			for alive := true; alive; {
				s.drain()
				select {
				case err := <-done:
					if !errors.Is(err, imaging.ErrDied) || s.builders() != 1 {
						t.Errorf("%v, %d builders", err, s.builders())
					}
					alive = false
				case <-time.After(time.Second):
				}
			}
			s.wait(3*time.Minute, "burstd has ended what the dead process has left", func() bool { return s.builders() == 0 })
			s.wait(3*time.Minute, "the journal is closed", func() bool { return s.closed() })
			if want := map[string]int{"imaged": 1, "discard": 1, "terminate": 1}[step]; s.images() != want {
				t.Errorf("%d images, want %d", s.images(), want)
			}
		})
	}
	bubble("both are killed", t, options, func(t *testing.T, s *story) {
		s.start("")
		done := s.building(func(name string) error {
			if name == "setup" {
				return imaging.ErrDied
			}
			return nil
		})
		if err := <-done; !errors.Is(err, imaging.ErrDied) {
			t.Fatal(err)
		}
		s.die()
		time.Sleep(24 * time.Hour)
		s.start("")
		s.wait(3*time.Minute, "the next burstd has ended it", func() bool { return s.builders() == 0 })
	})
}
