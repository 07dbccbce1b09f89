package crash_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// TestWhatEndsUnseenIsBilled: an instance of ours that ends before a list has shown it alive, and of which the journal has
// nothing, stands in the bill, once, whenever burstd dies. Nothing else is done about it.
func TestWhatEndsUnseenIsBilled(t *testing.T) {
	for _, tt := range []struct {
		name   string
		unseen func(s *story)
	}{
		{"a double of a launch", func(s *story) {
			r := s.fake.Request(s.fake.Instances()[0].ID)
			r.Token, r.Count = "double", 2
			twins, err := s.fake.Launch(s.t.Context(), r)
			if err != nil {
				s.t.Fatal(err)
			}
			if err := s.fake.Assign(s.t.Context(), map[string]string{twins[0].ID: "c1"}); err != nil {
				s.t.Fatal(err)
			}
			time.Sleep(time.Second)
			s.fake.Kill(twins[0].ID)
			s.fake.Kill(twins[1].ID)
		}},
		{"burstd dies with the answer to a launch", func(s *story) {
			s.die()
			l := s.start("after launch #1")
			before := len(s.fake.Instances())
			s.ctl.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Duration: 24 * time.Hour})
			s.wait(time.Minute, "burstd dies", s.isDead)
			s.die()
			came := s.fake.Instances()[before:]
			if len(came) == 0 {
				s.t.Fatalf("nothing was launched: %v", l.log)
			}
			s.fake.Kill(came[0].ID)
		}},
		{"the journal is lost", func(s *story) {
			r := s.fake.Request(s.fake.Instances()[0].ID)
			r.Token = "of before"
			was, err := s.fake.Launch(s.t.Context(), r)
			if err != nil {
				s.t.Fatal(err)
			}
			time.Sleep(time.Minute)
			s.fake.Kill(was[0].ID)
			time.Sleep(time.Minute)
			s.loseJournal()
		}},
	} {
		for _, deaths := range []int{0, 8} {
			bubble(fmt.Sprintf("%s, %d deaths", tt.name, deaths), t, cloudtest.Options{Lag: time.Minute, Shutdown: time.Second}, func(t *testing.T, s *story) {
				l := s.start("")
				id := s.ctl.Submit(slurmtest.Job{Nodes: 1, Requeue: true, Duration: 24 * time.Hour})
				s.wait(2*time.Minute, "the job runs", s.runs(id))
				time.Sleep(2 * time.Minute)
				tt.unseen(s)
				if s.isDead() {
					s.die()
					l = s.start("")
				}
				for n := 1; n <= deaths; n++ {
					l.mu.Lock()
					l.left = n
					l.mu.Unlock()
					s.wait(10*time.Minute, "burstd dies", s.isDead)
					s.die()
					l = s.start("")
				}
				time.Sleep(5 * time.Minute)
				s.booked()
				gone := s.events("gone")
				ended := 0
				for _, i := range s.fake.Instances() {
					if i.State == cloud.Terminated {
						ended++
					}
				}
				if ended == 0 || gone != ended || s.events("terminate") > 0 {
					t.Errorf("%d have ended, %d times it is said, %d orphans were ended", ended, gone, s.events("terminate"))
				}
				if i, _ := s.ctl.Info(id); i.State != "RUNNING" || i.Restarts > 0 {
					t.Errorf("the job that ran: %+v", i)
				}
				s.die()
				s.start("") // a list that shows them still is no news
				time.Sleep(5 * time.Minute)
				if again := s.events("gone"); again != gone {
					t.Errorf("it was said %d times, and then %d", gone, again)
				}
				s.booked()
			})
		}
	}
}

// TestWhatIsNeverShownIsNotBilled: of what a cloud shows neither alive nor ended nobody can know.
func TestWhatIsNeverShownIsNotBilled(t *testing.T) {
	bubble("as Vultr", t, cloudtest.Options{Lag: time.Minute}, func(t *testing.T, s *story) {
		s.cloud = taciturn{s.fake, true}
		id, err := s.start("").store.ClusterID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.fake.Launch(t.Context(), cloud.LaunchRequest{Token: "double", Cluster: id, Pool: "p", Count: 1, Offering: offering("a", cloud.OnDemand)})
		if err != nil {
			t.Fatal(err)
		}
		s.fake.Kill(got[0].ID)
		time.Sleep(10 * time.Minute)
		if bills, err := s.life.store.Bills(t.Context(), time.Time{}, time.Now().Add(time.Hour)); err != nil || len(bills) != 0 {
			t.Errorf("%+v, %v", bills, err)
		}
	})
}
