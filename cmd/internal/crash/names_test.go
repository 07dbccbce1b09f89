package crash_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// TestNamesWhoseCloudIsAway: the first cloud goes away when its two nodes have just been powered down. Slurm
// gives their names to the next job, which gets others, at the second cloud; later jobs do at once. burstd
// is killed meanwhile, and when the cloud is back the names serve again.
func TestNamesWhoseCloudIsAway(t *testing.T) {
	noRoute, refused := errors.New("no route"), &cloud.Error{Kind: cloud.Auth, Err: errors.New("the token is over")}
	for name, tt := range map[string]struct {
		killed bool
		away   error
	}{"burstd stays": {false, noRoute}, "burstd is killed": {true, noRoute}, "it refuses the credentials": {false, refused}} {
		killed, away := tt.killed, tt.away
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := featured(t, cloudtest.Options{}, 20*time.Second)
				defer s.until()
				s.start("")
				first := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: 10 * time.Second})
				s.wait(time.Minute, "the first job is done", s.over(first))
				s.fake.Inject(cloudtest.List, cloudtest.Fault{Err: away, Times: 60})
				s.fake.Inject(cloudtest.Launch, cloudtest.Fault{Err: away, Times: 60})
				s.fake.Inject(cloudtest.Terminate, cloudtest.Fault{Err: away, Times: 60})
				time.Sleep(45 * time.Second) // its nodes are powered down, and it has not been away for a minute
				pair := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: 2 * time.Minute})
				time.Sleep(time.Second)
				if i, _ := s.ctl.Info(pair); !slices.Equal(i.Nodes, expand("c[1-2]")) {
					t.Fatalf("the job has got %v, not the names of those", i.Nodes)
				}
				s.wait(150*time.Second, "the job of two nodes runs", s.runs(pair))
				i, _ := s.ctl.Info(pair)
				if fake, other := s.behind(pair); fake != 0 || other != 2 || i.Restarts != 1 || !strings.Contains(i.AdminComment, "its nodes begin anew under other names") {
					t.Errorf("it runs on %v, of which %d are of the first cloud, restarted %d times, and was told %q", i.Nodes, fake, i.Restarts, i.AdminComment)
				}
				if killed {
					s.die()
					time.Sleep(time.Second)
					s.start("")
				}
				s.wait(10*time.Minute, "the job is done", s.over(pair))
				s.wait(time.Hour, "the names are taken back", func() bool { return liveIn(s.fake) == 0 && s.kept() == 0 })
				last := s.ctl.Submit(slurmtest.Job{Nodes: 4, Requeue: true, Duration: 10 * time.Second})
				s.wait(10*time.Minute, "a job on all names is done", s.over(last))
			})
		})
	}
}

// kept counts the reservations of names that have not ended.
func (s *story) kept() (n int) {
	for name, r := range s.ctl.Reservations() {
		if strings.HasPrefix(name, "burst-away-") && r.End.After(time.Now()) {
			n++
		}
	}
	return n
}

// TestNamesOfAProviderThatLeft: the second cloud's two nodes have been powered down, and it has not said that they are gone
// when it is taken out of burst.toml. Jobs get other names, and after the first minute at once.
func TestNamesOfAProviderThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := featured(t, cloudtest.Options{}, 20*time.Second)
		defer s.until()
		s.full()
		s.start("")
		first := s.ctl.Submit(slurmtest.Job{Nodes: 2, Duration: 10 * time.Second})
		s.wait(time.Minute, "the first job is done", s.over(first))
		s.other.Inject(cloudtest.Terminate, cloudtest.Fault{Err: errors.New("the account is closed"), Times: 1000})
		s.wait(2*time.Minute, "its nodes are powered down", func() bool { return s.ctl.Node("c1") == "IDLE+CLOUD+POWERED_DOWN" })
		s.die()
		s.pool.Then = nil
		s.room(-1)
		s.start("")
		pair := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: 10 * time.Minute})
		time.Sleep(time.Second)
		if i, _ := s.ctl.Info(pair); !slices.Equal(i.Nodes, expand("c[1-2]")) {
			t.Fatalf("the job has got %v, not the names of those", i.Nodes)
		}
		s.wait(150*time.Second, "the job runs", s.runs(pair))
		if i, _ := s.ctl.Info(pair); i.Restarts != 1 || !strings.Contains(i.AdminComment, "other is not configured any more, and whether ") {
			t.Errorf("it runs on %v, was restarted %d times, and was told %q", i.Nodes, i.Restarts, i.AdminComment)
		}
		s.wait(15*time.Minute, "it is done", s.over(pair))
		s.wait(2*time.Minute, "its nodes are gone", func() bool { return liveIn(s.fake) == 0 })
		next := s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: time.Hour})
		s.wait(30*time.Second, "the next job runs", s.runs(next))
	})
}
