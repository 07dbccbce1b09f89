package crash_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// vanish ends all instances while burstd is away, for so long that the cloud
// does not even list them any more.
func (s *story) vanish() {
	s.die()
	for _, i := range s.fake.Instances() {
		s.fake.Kill(i.ID)
	}
	time.Sleep(2 * time.Hour) // the fake lists them for one
}

// TestAnEmptyListOfTheSameAccountIsBelieved: somebody has ended all in the
// cloud's console while burstd was away.
func TestAnEmptyListOfTheSameAccountIsBelieved(t *testing.T) {
	failing := func(op cloudtest.Op, times int) func(s *story) {
		return func(s *story) { s.fake.Inject(op, cloudtest.Fault{Err: transient(op), Times: times}) }
	}
	for _, tt := range []struct {
		name   string
		then   func(s *story)
		within time.Duration
	}{
		{"undisturbed", func(*story) {}, 10 * time.Minute},
		{"the cloud does not say at first whose account it is", failing(cloudtest.Account, 20), 20 * time.Minute},
		{"lists fail in between", failing(cloudtest.List, 5), 15 * time.Minute},
	} {
		bubble(tt.name, t, cloudtest.Options{}, func(t *testing.T, s *story) {
			s.start("")
			id, _ := s.running(slurmtest.Job{Nodes: 3, Requeue: true, Duration: 24 * time.Hour})
			s.wait(time.Minute, "the journal has the account", func() bool { return s.life.engine.Health().Instances[0].Account != "" })
			s.vanish()
			tt.then(s)
			s.start("")
			s.wait(tt.within, "the job runs again", func() bool { i, _ := s.ctl.Info(id); return i.State == "RUNNING" && s.live() == 3 })
		})
	}
}

func TestAnEmptyListProvesNothing(t *testing.T) {
	while := 2 * time.Hour // far longer than a list that is believed needs
	if testing.Short() {
		while = 20 * time.Minute
	}
	bubble("where nobody knows whose account it is", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.fake.Inject(cloudtest.Account, cloudtest.Fault{Err: transient(cloudtest.Account), Times: 1 << 20})
		s.start("")
		s.running(slurmtest.Job{Nodes: 3, Requeue: true, Duration: 24 * time.Hour})
		s.vanish()
		s.start("")
		time.Sleep(while)
		if n := len(s.life.engine.Health().Instances); n != 3 || s.events("list-doubted") != 1 {
			t.Errorf("%d instances are in the journal, %d events say that the list is doubted", n, s.events("list-doubted"))
		}
	})
	bubble("while Slurm has the nodes answer", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		m := &moody{Fake: s.fake}
		s.cloud = m
		s.start("")
		id, _ := s.running(slurmtest.Job{Nodes: 3, Requeue: true, Duration: 24 * time.Hour})
		s.wait(time.Minute, "the journal has the account", func() bool { return s.life.engine.Health().Instances[0].Account != "" })
		m.set(true, false)
		time.Sleep(while)
		if i, _ := s.ctl.Info(id); i.State != "RUNNING" || i.Restarts > 0 || s.live() != 3 || s.events("list-doubted") != 1 {
			t.Errorf("%d instances live, %d events, the job is %+v", s.live(), s.events("list-doubted"), i)
		}
	})
	bubble("of another account, though the nodes are gone", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		s.running(slurmtest.Job{Nodes: 3, Requeue: true, Duration: 24 * time.Hour})
		s.wait(time.Minute, "the journal has the account", func() bool { return s.life.engine.Health().Instances[0].Account != "" })
		s.vanish()
		s.cloud = cloudtest.NewFake(cloudtest.Options{})
		s.start("")
		time.Sleep(while)
		if n := len(s.life.engine.Health().Instances); n != 3 || s.events("other-account") != 1 {
			t.Errorf("%d instances are in the journal, %d events of another account", n, s.events("other-account"))
		}
		s.die()
		s.cloud = s.fake
		s.start("")
		s.wait(15*time.Minute, "with the old credentials it is believed", func() bool { return s.live() == 3 })
	})
}

// Account is another one while that is why lists are empty.
func (m *moody) Account(ctx context.Context) (string, error) {
	m.mu.Lock()
	foreign := m.foreign
	m.mu.Unlock()
	if foreign {
		return "another", nil
	}
	return m.Fake.Account(ctx)
}

// TestALostJournalLaunchesNothingBeforeItKnowsWhatLives: also when burstd dies
// again meanwhile, and the journal has become a young one.
func TestALostJournalLaunchesNothingBeforeItKnowsWhatLives(t *testing.T) {
	bubble("lists fail for half an hour", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		s.running(slurmtest.Job{Nodes: 3, Requeue: true, Duration: 24 * time.Hour})
		s.loseJournal()
		s.fake.Inject(cloudtest.List, cloudtest.Fault{Err: transient(cloudtest.List), Times: 60})
		id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Requeue: true, Duration: 2 * time.Hour})
		for range 3 {
			s.start("")
			time.Sleep(3 * time.Minute)
			if n := len(s.fake.Instances()); n != 3 {
				t.Errorf("%d instances", n)
			}
			s.asks(slurm.Job{ID: 99, State: "CONFIGURING", Restarts: 1, Nodes: "c4"}, true)
			s.asks(slurm.Job{ID: 99, State: "CONFIGURING", Restarts: 1, Nodes: "onprem[1-2]"}, false)
			s.die()
		}
		s.start("")
		s.wait(time.Hour, "the new job runs", s.runs(id))
		if n := s.live(); n != 4 {
			t.Errorf("%d instances live", n)
		}
	})
}

// loseJournal ends burstd, and the file is gone.
func (s *story) loseJournal() {
	s.die()
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(s.db + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.t.Error(err)
		}
	}
}

// asks has the gate ask for a job, which waits or not.
func (s *story) asks(j slurm.Job, waits bool) {
	s.t.Helper()
	why, err := s.life.engine.Fenced(s.life.ctx, &slurm.Snapshot{Taken: time.Now(), Jobs: map[uint32]slurm.Job{j.ID: j}}, j.ID)
	if (why != "") != waits || err != nil {
		s.t.Errorf("a job on %s: %q, %v", j.Nodes, why, err)
	}
}
