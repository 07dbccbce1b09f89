package crash_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// awkward is a cloud in which instances can be stopped, as EC2's are, and
// which refuses to end some.
type awkward struct {
	*cloudtest.Fake
	mu      sync.Mutex
	stopped map[string]bool
	refused map[string]bool
	calls   int
}

func (a *awkward) List(ctx context.Context, f cloud.Filter) ([]cloud.Instance, error) {
	list, err := a.Fake.List(ctx, f)
	a.mu.Lock()
	defer a.mu.Unlock()
	for n, i := range list {
		if a.stopped[i.ID] && i.State == cloud.Running {
			list[n].State = cloud.Terminating
		}
	}
	return list, err
}

func (a *awkward) Terminate(ctx context.Context, ids []string) error {
	a.mu.Lock()
	a.calls++
	bad := slices.ContainsFunc(ids, func(id string) bool { return a.refused[id] })
	a.mu.Unlock()
	if bad {
		return &cloud.Error{Kind: cloud.Invalid, Op: "terminate", Err: errors.New("one of them is protected")}
	}
	return a.Fake.Terminate(ctx, ids)
}

// planned runs what a plan says now, by "kind node".
func (s *story) planned() []string {
	s.t.Helper()
	plan, err := s.life.engine.Plan(s.t.Context())
	if err != nil {
		s.t.Error(err)
	}
	var all []string
	for _, p := range plan {
		all = append(all, p.Kind+" "+p.Node)
	}
	return all
}

func TestReconcile(t *testing.T) {
	bubble("a stopped instance is ended, and its node is dead", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		a := &awkward{Fake: s.fake, stopped: map[string]bool{}}
		s.cloud = a
		s.start("")
		id, on := s.running(slurmtest.Job{Nodes: 1, Requeue: true, Duration: time.Hour})
		time.Sleep(time.Minute)
		a.mu.Lock()
		a.stopped[on[0]] = true
		a.mu.Unlock()
		s.wait(40*time.Second, "its job is requeued", func() bool { i, _ := s.ctl.Info(id); return i.Restarts == 1 })
		s.wait(time.Minute, "it is ended", func() bool { return s.stateOf(on[0]) == cloud.Terminated })
		s.wait(10*time.Minute, "the job runs again", s.runs(id))
	})
	bubble("an orphan that is new is left for the cloud's lag", t, cloudtest.Options{Lag: 2 * time.Minute}, func(t *testing.T, s *story) {
		l := s.start("")
		time.Sleep(time.Minute)
		id, err := l.store.ClusterID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r := cloud.LaunchRequest{Token: "foreign", Cluster: id, Pool: "p", Count: 1, Offering: cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}}
		if _, err := s.fake.Launch(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		time.Sleep(119 * time.Second)
		if s.live() != 1 {
			t.Error("it was ended within the lag")
		}
		s.wait(2*time.Minute, "it is ended", func() bool { return s.live() == 0 })
	})
	bubble("of two instances of one node the one that has registered stays", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		id, on := s.running(slurmtest.Job{Nodes: 1, Requeue: true, Duration: time.Hour})
		s.die()
		// An older journal has c1 on another instance, which lives as well.
		var older cloud.Instance
		s.edit(func(st power.State) power.Change {
			now := st.Instances[0]
			r := s.fake.Request(now.ID)
			r.Token, r.Pool = "older", "p"
			got, err := s.fake.Launch(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			older = got[0]
			older.Launched = now.Launched.Add(-time.Hour)
			older.Addr = "10.9.9.9"
			gone := now
			gone.Gone = time.Now()
			n := st.Nodes[0]
			n.Instance, n.Since, n.AddrSet = older.ID, n.Since.Add(-time.Hour), true
			return power.Change{Nodes: []power.Node{n}, Instances: []power.Instance{gone, {Instance: older, Provider: "fake", Assigned: "c1"}}}
		})
		s.start("")
		s.wait(3*time.Minute, "the older one is ended", func() bool { return s.stateOf(older.ID) == cloud.Terminated })
		time.Sleep(5 * time.Minute)
		if i, _ := s.ctl.Info(id); i.State != "RUNNING" || i.Restarts > 0 || s.stateOf(on[0]) != cloud.Running {
			t.Errorf("the instance is %s, the job %+v", s.stateOf(on[0]), i)
		}
	})
	bubble("a node that leaves slurm.conf while it is up is ended", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		id, on := s.running(slurmtest.Job{Nodes: 2, Duration: time.Minute})
		s.wait(3*time.Minute, "the job is over", func() bool { return s.state(id) == "COMPLETED" })
		s.ctl.Forget("c1")
		time.Sleep(30 * time.Second)
		if s.stateOf(on[0]) != cloud.Running {
			t.Error("it was ended at once: slurmctld may be about to read its configuration again")
		}
		s.wait(15*time.Minute, "all is over", func() bool { return s.live() == 0 && s.closed() })
	})
	bubble("a node without an instance and without a record is given back", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		lost, on := s.running(slurmtest.Job{Nodes: 1, Requeue: true, Duration: 20 * time.Minute})
		s.running(slurmtest.Job{Nodes: 1, Requeue: true, Duration: 20 * time.Minute})
		s.die()
		if err := os.Remove(s.db); err != nil {
			t.Fatal(err)
		}
		s.fake.Kill(on[0])
		s.wait(6*time.Minute, "Slurm misses it", func() bool { return strings.Contains(s.ctl.Node("c1"), "NOT_RESPONDING") })
		s.start("")
		s.wait(90*time.Second, "its job is requeued, long before slurmctld gives it up", func() bool { i, _ := s.ctl.Info(lost); return i.Restarts == 1 })
		s.wait(10*time.Minute, "the job runs again", s.runs(lost))
	})
	bubble("a node that was set DOWN just as Slurm powered it down is given back, and an admin's is not", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		s.start("")
		c := slurm.New(s.ctl)
		for node, reason := range map[string]string{"c1": "burst: no capacity", "c2": "a fan is broken"} {
			if err := c.UpdateNodes(t.Context(), slurm.NodeUpdate{Nodes: []string{node}, State: "down", Reason: reason}); err != nil {
				t.Fatal(err)
			}
			if state := s.ctl.Node(node); !strings.HasPrefix(state, "DOWN") || !strings.Contains(state, "POWERED_DOWN") {
				t.Fatalf("%s is %s", node, state)
			}
		}
		s.wait(90*time.Second, "it is as any that is off", func() bool { return s.ctl.Node("c1") == "IDLE+CLOUD+POWERED_DOWN" })
		time.Sleep(5 * time.Minute)
		if state := s.ctl.Node("c2"); !strings.HasPrefix(state, "DOWN") {
			t.Errorf("the admin's is %s", state)
		}
	})
	bubble("an instance that the cloud refuses to end keeps no other from its end", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		a := &awkward{Fake: s.fake, refused: map[string]bool{}}
		s.cloud = a
		s.start("")
		_, on := s.running(slurmtest.Job{Nodes: 4, Duration: time.Minute})
		a.mu.Lock()
		a.refused[on[1]] = true
		a.mu.Unlock()
		s.wait(5*time.Minute, "the others end", func() bool { return s.live() == 1 })
		time.Sleep(10 * time.Minute)
		a.mu.Lock()
		if a.calls > 60 {
			t.Errorf("%d calls", a.calls)
		}
		a.refused = nil
		a.mu.Unlock()
		s.wait(time.Minute, "it ends too", func() bool { return s.live() == 0 })
	})
	bubble("a plan says what a round does, and does nothing", t, cloudtest.Options{}, func(t *testing.T, s *story) {
		l := s.start("")
		_, on := s.running(slurmtest.Job{Nodes: 2, Requeue: true, Duration: time.Hour})
		time.Sleep(2 * time.Minute)
		if p := s.planned(); len(p) > 0 {
			t.Errorf("nothing is wrong, and planned is %q", p)
		}
		id, err := l.store.ClusterID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := l.engine.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.fake.Kill(on[0])
		if _, err := s.fake.Launch(t.Context(), cloud.LaunchRequest{Token: "foreign", Cluster: id, Pool: "p", Count: 1, Offering: cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second) // the lag
		before, updates := s.open(), s.ctl.Count("scontrol update")
		want := []string{"terminate ", "dead c1"}
		if p := s.planned(); !slices.Equal(p, want) {
			t.Errorf("planned %q, want %q", p, want)
		}
		if after := s.open(); after != before || s.ctl.Count("scontrol update") != updates || s.live() != 2 {
			t.Errorf("a plan has changed something: %s\n%s", before, after)
		}
		if err := l.engine.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.wait(2*time.Second, "a round has done it", func() bool { return s.live() == 1 && !strings.HasPrefix(s.ctl.Node("c1"), "ALLOCATED") })
		s.ctl.Down()
		time.Sleep(time.Second) // a reading of this very moment would do
		if _, err := l.engine.Plan(t.Context()); err == nil {
			t.Error("planned without Slurm's answer")
		}
		if err := l.engine.Reconcile(t.Context()); err == nil {
			t.Error("a round without Slurm's answer")
		}
		s.ctl.Up()
		s.fake.Inject(cloudtest.List, cloudtest.Fault{Err: transient(cloudtest.List)})
		if p := s.planned(); !strings.Contains(fmt.Sprint(p), "doubt") {
			t.Errorf("the cloud does not answer, and planned is %q", p)
		}
	})
}
