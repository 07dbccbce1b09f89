package crash_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// nameless is a cloud in which the names of instances have got lost: what
// Assign was told was still to be written when burstd died.
type nameless struct{ *cloudtest.Fake }

func (n nameless) List(ctx context.Context, f cloud.Filter) ([]cloud.Instance, error) {
	all, err := n.Fake.List(ctx, f)
	for i := range all {
		all[i].Node = ""
	}
	return all, err
}

// TestRule3AnInstanceWithoutANameIsKnownByItsAddress: a job runs on it, and
// Slurm's address of its node is all that says so.
func TestRule3AnInstanceWithoutANameIsKnownByItsAddress(t *testing.T) {
	goesOn := func(t *testing.T, s *story, id uint32) {
		t.Helper()
		s.start("")
		was := [2]string{s.ctl.Addr("c1"), s.ctl.Addr("c2")}
		time.Sleep(15 * time.Minute)
		if i, _ := s.ctl.Info(id); i.Restarts > 0 || i.State != "RUNNING" || len(s.fake.Instances()) != len(i.Nodes) || s.live() != len(i.Nodes) {
			t.Errorf("%d of %d instances live, the job is %+v", s.live(), len(s.fake.Instances()), i)
		}
		if is := [2]string{s.ctl.Addr("c1"), s.ctl.Addr("c2")}; is != was {
			t.Errorf("c1 and c2 were at %v, and are at %v", was, is)
		}
		s.wait(20*time.Minute, "all is over", func() bool { return s.live() == 0 && s.closed() })
	}
	bubble("the journal is lost", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.cloud = nameless{s.fake}
		s.start("")
		id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: 20 * time.Minute})
		s.wait(time.Minute, "the job runs", s.runs(id))
		s.die()
		if err := os.Remove(s.db); err != nil {
			t.Fatal(err)
		}
		goesOn(t, s, id)
	})
	for _, state := range []power.LaunchState{power.Written, power.Abandoned} {
		bubble("an old journal has the launch as "+string(state), t, cloudtest.Options{}, func(t *testing.T, s *story) {
			s.cloud = nameless{s.fake}
			s.start("")
			id := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: 20 * time.Minute})
			s.wait(time.Minute, "the job runs", s.runs(id))
			s.die()
			s.edit(func(st power.State) power.Change { return s.before(st, state) })
			goesOn(t, s, id)
		})
	}
}

// before is a journal's state as it was before the answer to the launch of
// its instances, which come in another order now.
func (s *story) before(st power.State, state power.LaunchState) (c power.Change) {
	l := power.Launch{Provider: "fake", State: state}
	for _, i := range st.Instances {
		r := s.fake.Request(i.ID)
		l.Token, l.Request, l.Created = i.Token, r, i.Launched
		i.Gone = time.Now() // the backup does not know it
		c.Instances = append(c.Instances, i)
	}
	for _, n := range st.Nodes {
		l.Nodes = append([]string{n.Name}, l.Nodes...)
		n.Phase, n.Instance, n.AddrSet, n.Token = power.Launching, "", false, l.Token
		c.Nodes = append(c.Nodes, n)
	}
	c.Launches = []power.Launch{l}
	return c
}
