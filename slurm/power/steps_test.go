package power

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm"
)

// scripted is a Slurm that always shows the same, and notes what it is asked:
// "down c1,c2", "addr c1", "job 7 requeue".
type scripted struct {
	snap *slurm.Snapshot

	mu    sync.Mutex
	asked []string
	fail  map[string]error // by what is asked
	needs map[uint32]slurm.Needs
}

func (s *scripted) note(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, what)
	return s.fail[what]
}

func (s *scripted) Fresh(context.Context, time.Time) (*slurm.Snapshot, error) {
	snap := *s.snap
	snap.Taken = time.Now()
	return &snap, nil
}

func (s *scripted) Needs(context.Context, []uint32) (map[uint32]slurm.Needs, error) {
	return s.needs, s.fail["needs"]
}

func (s *scripted) UpdateNodes(_ context.Context, u slurm.NodeUpdate) error {
	state := u.State
	switch {
	case u.Features != nil:
		state = "features " + strings.Join(u.Features, "+")
	case state == "":
		state = "addr"
	}
	what := state + " " + strings.Join(u.Nodes, ",")
	if u.State != "" && u.Addrs != nil {
		what += " at " + strings.Join(u.Addrs, ",")
	}
	return s.note(what)
}

func (s *scripted) UpdateJob(_ context.Context, id uint32, u slurm.JobUpdate) error {
	what := "comment"
	if u.Requeue != nil {
		what = fmt.Sprint("requeue ", *u.Requeue)
	}
	return s.note(fmt.Sprintf("job %d %s", id, what))
}

func (s *scripted) Requeue(_ context.Context, id uint32) error {
	return s.note(fmt.Sprint("requeue ", id))
}

func (s *scripted) RequeueMeant(ctx context.Context, id uint32, meant func(slurm.Job) bool) error {
	if !meant(s.snap.Jobs[id]) {
		return nil
	}
	return s.Requeue(ctx, id)
}

func (s *scripted) CancelRunning(_ context.Context, id uint32, meant func(slurm.Job) bool) error {
	if !meant(s.snap.Jobs[id]) {
		return nil
	}
	return s.note(fmt.Sprint("cancel ", id))
}

func (s *scripted) Unhold(_ context.Context, id uint32) error {
	return s.note(fmt.Sprint("unhold ", id))
}

func (s *scripted) Reserve(_ context.Context, r slurm.Reservation) error {
	return s.note("reserve " + strings.Join(r.Nodes, ","))
}

func (s *scripted) Unreserve(_ context.Context, name string) error {
	return s.note("unreserve " + name)
}

func (s *scripted) Release(_ context.Context, id uint32, _ int, _ time.Time) error {
	return s.note(fmt.Sprintf("job %d release", id))
}

// named is a cloud that is told names, or is not.
type named struct {
	still
	err error
}

func (n named) Assign(context.Context, map[string]string) error { return n.err }

// naming is a cloud that lists instances, and remembers what it was told.
type naming struct {
	still
	list []cloud.Instance
	told *[]string
}

func (n naming) List(context.Context, cloud.Filter) ([]cloud.Instance, error) { return n.list, nil }

func (n naming) Assign(_ context.Context, nodes map[string]string) error {
	for id, node := range nodes {
		*n.told = append(*n.told, id+" "+node)
	}
	return nil
}

// TestNamesAreToldAgain: burstd was killed while a provider wrote names. The
// first round after the start finds the instances without, and later ones ask no more.
func TestNamesAreToldAgain(t *testing.T) {
	i := func(id, assigned, node string, s cloud.State) (Instance, cloud.Instance) {
		one := cloud.Instance{ID: id, Cluster: "x", Addr: "10.0.0.1", State: s}
		rec := Instance{Provider: "east", Assigned: assigned, Instance: one}
		one.Node = node
		return rec, one
	}
	var st State
	var list []cloud.Instance
	for _, c := range []struct {
		node, says string
		state      cloud.State
		addr       bool
	}{{"c1", "", cloud.Running, true}, {"c2", "c2", cloud.Running, true}, {"c3", "", cloud.Running, false}, {"c4", "", cloud.Terminated, true}} {
		rec, one := i("i-"+c.node, c.node, c.says, c.state)
		st.Instances, list = append(st.Instances, rec), append(list, one)
		st.Nodes = append(st.Nodes, Node{Name: c.node, Pool: "p", Phase: Up, Instance: "i-" + c.node, AddrSet: c.addr})
	}
	inSlurm(t, st, nil, nil, func(t *testing.T, e *Engine, _ *scripted) {
		var told []string
		e.providers["east"], e.heard = naming{list: list, told: &told}, map[string]bool{}
		for range 2 {
			e.listed = e.listAll(t.Context())
			if _, err := e.reconcile(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(told, []string{"i-c1 c1"}) {
			t.Errorf("told %q, want c1's name once", told)
		}
	})
}

// inSlurm gives the engine a Slurm that shows these nodes and jobs, in a bubble of virtual time.
func inSlurm(t *testing.T, st State, nodes map[string]string, jobs []slurm.Job, f func(t *testing.T, e *Engine, s *scripted)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e, _ := testEngine(st)
		s := &scripted{snap: reading(nodes, jobs...), fail: map[string]error{}}
		e.slurm, e.heard = s, map[string]bool{"east": true, "west": true}
		time.Sleep(time.Hour) // all records are older than now
		f(t, e, s)
	})
}

func nodePhases(e *Engine) map[string]Phase {
	m := map[string]Phase{}
	for name, n := range e.mem.nodes {
		m[name] = n.Phase
	}
	return m
}

// TestWatchBoots: job 7 was cancelled while its nodes booted.
func TestWatchBoots(t *testing.T) {
	const idle, given, up = "IDLE+CLOUD+NOT_RESPONDING+POWERING_UP", "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "IDLE+CLOUD"
	boots := func(name string) Node {
		return Node{Name: name, Pool: "p", Phase: Booting, Job: 7, Whole: true, Instance: "i-" + name, AddrSet: true}
	}
	for _, tt := range []struct {
		name  string
		slurm map[string]string
		jobs  []slurm.Job
		want  map[string]Phase
	}{
		{"nobody has its nodes", map[string]string{"c1": idle, "c2": idle}, nil, map[string]Phase{"c1": Freeing, "c2": Freeing}},
		{"another job has got one", map[string]string{"c1": given, "c2": idle}, nil, map[string]Phase{"c1": Booting, "c2": Freeing}},
		{"one has just registered", map[string]string{"c1": up, "c2": idle}, nil, map[string]Phase{"c1": Up, "c2": Freeing}},
		{"it waits again", map[string]string{"c1": idle, "c2": idle}, []slurm.Job{{ID: 7, State: "PENDING"}}, map[string]Phase{"c1": Freeing, "c2": Freeing}},
		{"it is not cancelled at all", map[string]string{"c1": given, "c2": given}, []slurm.Job{{ID: 7, State: "CONFIGURING"}}, map[string]Phase{"c1": Booting, "c2": Booting}},
		{"Slurm does not show one", map[string]string{"c1": idle}, nil, map[string]Phase{"c1": Freeing, "c2": Booting}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := State{Nodes: []Node{boots("c1"), boots("c2")}, Instances: []Instance{onInstance("i-c1", "c1", at), onInstance("i-c2", "c2", at)}}
			inSlurm(t, st, tt.slurm, tt.jobs, func(t *testing.T, e *Engine, _ *scripted) {
				if _, err := e.watchBoots(t.Context()); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, nodePhases(e)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestANodeThatCameIsNotLeft: that some jobs had to leave it is over when it has an instance.
func TestANodeThatCameIsNotLeft(t *testing.T) {
	n := Node{Name: "c1", Pool: "p", Phase: Booting, Job: 7, Instance: "i-1", AddrSet: true, Reason: overBudget + "x"}
	inSlurm(t, State{Nodes: []Node{n}, Instances: []Instance{onInstance("i-1", "c1", at)}}, map[string]string{"c1": "ALLOCATED+CLOUD"}, nil, func(t *testing.T, e *Engine, s *scripted) {
		if _, err := e.watchBoots(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := e.leaveNodes(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := e.mem.nodes["c1"]; n.Phase != Up || n.Reason != "" || len(s.asked) > 0 {
			t.Errorf("%+v; asked %q", n, s.asked)
		}
		var c Change
		n.Phase = Wanted
		e.reuse(&c, Launch{Provider: "east"}, cloud.Instance{ID: "i-2"}, n)
		if c.Nodes[0].Reason != "" {
			t.Errorf("with an instance that was left over: %+v", c.Nodes[0])
		}
	})
}

// TestAHoldOutlivesALateNode: the job has not been told yet.
func TestAHoldOutlivesALateNode(t *testing.T) {
	for _, released := range []bool{true, false} {
		st := State{Nodes: []Node{{Name: "c1", Phase: Booting, Job: 7, AddrSet: true}}, Holds: []Hold{{Job: 7, Released: released}}}
		inSlurm(t, st, map[string]string{"c1": "ALLOCATED+CLOUD"}, nil, func(t *testing.T, e *Engine, _ *scripted) {
			if _, err := e.watchBoots(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(e.mem.holds) == 0 != released {
				t.Errorf("released %v: holds are %v", released, e.mem.holds)
			}
		})
	}
}

// TestOneCloudDoesNotKeepTheOthersNodes: names that cannot be told are told again.
func TestOneCloudDoesNotKeepTheOthersNodes(t *testing.T) {
	for broken, want := range map[string]string{"east": "d1", "west": "c1"} {
		i := func(id, provider, node string) Instance {
			return Instance{Provider: provider, Assigned: node, Instance: cloud.Instance{ID: id, Addr: "10.0.0.1", State: cloud.Running}}
		}
		st := State{Nodes: []Node{{Name: "c1", Phase: Booting, Instance: "i-1"}, {Name: "d1", Phase: Booting, Instance: "i-2"}},
			Instances: []Instance{i("i-1", "east", "c1"), i("i-2", "west", "d1")}}
		inSlurm(t, st, nil, nil, func(t *testing.T, e *Engine, _ *scripted) {
			e.providers = map[string]cloud.Provider{"east": named{}, "west": named{}}
			e.providers[broken] = named{err: errors.New("no answer")}
			if _, err := e.setAddresses(t.Context()); err == nil {
				t.Error("the failure is not told")
			}
			for name, n := range e.mem.nodes {
				if n.AddrSet != (name == want) {
					t.Errorf("%s is broken: %s AddrSet %v", broken, name, n.AddrSet)
				}
			}
		})
	}
}

// TestAProviderThatLeftTheConfiguration: what it has left behind breaks nothing.
func TestAProviderThatLeftTheConfiguration(t *testing.T) {
	st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Booting, Instance: "i-1"}, {Name: "c2", Pool: "p", Phase: Launching, Token: "t"}},
		Instances: []Instance{{Provider: "old", Assigned: "c1", Instance: cloud.Instance{ID: "i-1", State: cloud.Pending}},
			{Provider: "old", Assigned: "c3", Doomed: "why", Instance: cloud.Instance{ID: "i-2", State: cloud.Running}}},
		Launches: []Launch{{Token: "t", Provider: "old", Nodes: []string{"c2"}, State: Written}}}
	inSlurm(t, st, map[string]string{"c1": "ALLOCATED+CLOUD+POWERING_UP"}, nil, func(t *testing.T, e *Engine, _ *scripted) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { e.Run(ctx); close(done) }()
		time.Sleep(10 * time.Minute)
		cancel()
		<-done
		if n := len(e.mem.instances); n != 2 {
			t.Errorf("%d instances are known", n)
		}
	})
}

func TestFreeNodes(t *testing.T) {
	const boots, up, off, lost, goes = "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "ALLOCATED+CLOUD", "IDLE+CLOUD+POWERED_DOWN", "DOWN+CLOUD+POWERED_DOWN", "IDLE+CLOUD+POWERING_DOWN"
	node := func(name, why string, job uint32) Node {
		return Node{Name: name, Pool: "p", Phase: Freeing, Job: job, Reason: why}
	}
	job := func(id uint32, state, nodes string, requeue bool) slurm.Job {
		return slurm.Job{ID: id, State: state, Nodes: nodes, Requeue: requeue, Batch: true}
	}
	for _, tt := range []struct {
		name  string
		nodes []Node
		holds []Hold
		slurm map[string]string
		jobs  []slurm.Job
		fail  map[string]error
		deaf  bool // no cloud has answered since the start
		asked []string
		held  []uint32
		left  []string // still being freed
	}{
		{name: "while it boots", nodes: []Node{node("c1", "x", 0)}, slurm: map[string]string{"c1": boots},
			asked: []string{"power_down_force c1"}, left: []string{"c1"}},
		{name: "while it is up: DOWN first", nodes: []Node{node("c1", "x", 0)}, slurm: map[string]string{"c1": up},
			asked: []string{"down c1", "power_down_force c1"}, left: []string{"c1"}},
		{name: "while it is up, and what serves it may not be known yet", deaf: true, nodes: []Node{node("c1", "x", 0), node("c2", "x", 0)},
			slurm: map[string]string{"c1": up, "c2": boots}, asked: []string{"power_down_force c2"}, left: []string{"c1", "c2"}},
		{name: "Slurm powers it down, as a burstd that died has asked it to", nodes: []Node{node("c1", "x", 0), node("c2", "x", 0)},
			slurm: map[string]string{"c1": "IDLE+CLOUD+NOT_RESPONDING+POWER_DOWN", "c2": "IDLE+CLOUD+POWER_DOWN"}, asked: []string{"power_down_force c1,c2"}, left: []string{"c1", "c2"}},
		{name: "the same, and its job does not end by itself", nodes: []Node{node("c1", "x", 0)}, slurm: map[string]string{"c1": "IDLE+CLOUD+COMPLETING+POWER_DOWN"},
			asked: []string{"down c1", "power_down_force c1"}, left: []string{"c1"}},
		{name: "after ResumeTimeout", nodes: []Node{node("c1", "x", 0)}, slurm: map[string]string{"c1": lost},
			asked: []string{"power_down_force c1"}, left: []string{"c1"}},
		{name: "done", nodes: []Node{node("c1", "x", 0), node("c2", "x", 0)}, slurm: map[string]string{"c1": off, "c2": goes}},
		{name: "Slurm does not show it", nodes: []Node{node("c1", "x", 0)}, left: []string{"c1"}},
		{name: "one reason's nodes are refused", nodes: []Node{node("c1", "x", 0), node("c2", "y", 0)}, slurm: map[string]string{"c1": up, "c2": up},
			fail:  map[string]error{"down c1": errors.New("refused"), "power_down_force c1": errors.New("refused")},
			asked: []string{"down c1", "down c2", "power_down_force c1", "power_down_force c2"}, left: []string{"c1", "c2"}},
		{name: "jobs that nobody has held", nodes: []Node{node("c1", "x", 5)}, slurm: map[string]string{"c1": up},
			jobs:  []slurm.Job{job(7, "RUNNING", "c[1-2]", true), job(8, "RUNNING", "c1", true), job(9, "RUNNING", "c2", true), job(10, "RUNNING", "c1", false), job(11, "COMPLETED", "c1", true)},
			asked: []string{"down c1", "power_down_force c1"}, held: []uint32{7, 8}, left: []string{"c1"}},
		{name: "a job that is held already", nodes: []Node{node("c1", "x", 7)}, holds: []Hold{{Job: 7, Tries: 4}}, slurm: map[string]string{"c1": boots},
			jobs: []slurm.Job{job(7, "CONFIGURING", "c1", true)}, asked: []string{"power_down_force c1"}, held: []uint32{7}, left: []string{"c1"}},
		{name: "a job with --no-requeue that has not begun", nodes: []Node{node("c1", "x", 7)}, holds: []Hold{{Job: 7}}, slurm: map[string]string{"c1": boots},
			jobs: []slurm.Job{job(7, "CONFIGURING", "c1", false)}, asked: []string{"job 7 requeue true", "power_down_force c1"}, held: []uint32{7}, left: []string{"c1"}},
		{name: "such a job that nobody has held", nodes: []Node{node("c1", "x", 0)}, slurm: map[string]string{"c1": boots},
			jobs: []slurm.Job{job(7, "CONFIGURING", "c1", false)}, asked: []string{"job 7 requeue true", "power_down_force c1"}, held: []uint32{7}, left: []string{"c1"}},
		{name: "such a job that Slurm does not let be kept", nodes: []Node{node("c1", "x", 7), node("c2", "x", 0)}, slurm: map[string]string{"c1": boots, "c2": boots},
			jobs: []slurm.Job{job(7, "CONFIGURING", "c1", false)}, fail: map[string]error{"job 7 requeue true": errors.New("refused")},
			asked: []string{"job 7 requeue true", "power_down_force c2"}, held: []uint32{7}, left: []string{"c1", "c2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inSlurm(t, State{Nodes: tt.nodes, Holds: tt.holds}, tt.slurm, tt.jobs, func(t *testing.T, e *Engine, s *scripted) {
				maps.Copy(s.fail, tt.fail)
				if tt.deaf {
					clear(e.heard)
				}
				due, err := e.freeNodes(t.Context())
				if (err != nil) != (tt.fail != nil) {
					t.Error(err)
				}
				if len(tt.slurm) == 0 && due < time.Second {
					t.Errorf("Slurm is asked again after %s", due)
				}
				slices.Sort(s.asked)
				if diff := cmp.Diff(tt.asked, s.asked); diff != "" {
					t.Errorf("asked (-want +got):\n%s", diff)
				}
				if got := slices.Sorted(maps.Keys(e.mem.holds)); !slices.Equal(got, tt.held) {
					t.Errorf("held are %v, want %v", got, tt.held)
				}
				if got := slices.Sorted(maps.Keys(e.mem.nodes)); !slices.Equal(got, tt.left) {
					t.Errorf("still freed are %v, want %v", got, tt.left)
				}
				s.asked = nil
				if _, err := e.freeNodes(t.Context()); tt.fail == nil && (err != nil || len(s.asked) > 0) {
					t.Errorf("at once again: %v, %v", s.asked, err)
				}
			})
		})
	}
}

// TestTellJobsIsBounded: thousands of jobs may wait, and each is told by some commands.
func TestTellJobsIsBounded(t *testing.T) {
	st := State{}
	var jobs []slurm.Job
	for id := range uint32(200) {
		st.Holds = append(st.Holds, Hold{Job: id + 1})
		jobs = append(jobs, slurm.Job{ID: id + 1, State: "PENDING"})
	}
	inSlurm(t, st, map[string]string{"c1": "IDLE"}, jobs, func(t *testing.T, e *Engine, s *scripted) {
		if _, err := e.tellJobs(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(e.releasing); n != maxTelling {
			t.Errorf("%d jobs are told at once", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { e.Run(ctx); close(done) }()
		time.Sleep(time.Minute)
		cancel()
		<-done
		for id, h := range e.mem.holds {
			if !h.Released {
				t.Errorf("job %d was not told", id)
			}
		}
	})
}

// TestTell: a job with --no-requeue is that again, whatever came of it; what
// Slurm has not requeued with its node is requeued.
func TestTell(t *testing.T) {
	held, kept := Hold{Job: 7}, Hold{Job: 7, NoRequeue: true}
	for _, tt := range []struct {
		name, state, node string
		batch             bool
		hold              Hold
		want              []string
	}{
		{"it waits", "PENDING", "IDLE", true, kept, []string{"job 7 comment", "job 7 requeue false", "job 7 release"}},
		{"it runs", "RUNNING", "ALLOCATED", true, kept, []string{"job 7 requeue false"}},
		{"it has failed", "FAILED", "DOWN", true, held, []string{"requeue 7"}},
		{"it was kept, and has failed", "FAILED", "DOWN", true, kept, []string{"job 7 requeue false"}},
		{"it was cancelled", "CANCELLED", "DOWN", true, held, nil},
		{"it has finished", "COMPLETED", "DOWN", true, held, nil},
		{"it ran out of time", "TIMEOUT", "DOWN", true, held, nil},
		{"it runs on a node that is DOWN", "RUNNING", "DOWN+CLOUD", true, held, []string{"requeue 7"}},
		{"it runs on a node that is off", "RUNNING", "MIXED+CLOUD+POWERED_DOWN", true, held, []string{"requeue 7"}},
		{"it configures on a node that is DOWN", "CONFIGURING", "DOWN+CLOUD", true, held, []string{"job 7 comment", "requeue 7"}},
		{"it runs elsewhere", "RUNNING", "ALLOCATED+CLOUD", true, held, nil},
		{"it is to go when it ends", "RUNNING", "ALLOCATED+CLOUD+DRAIN+POWER_DOWN", true, held, nil},
		{"it has no script", "RUNNING", "DOWN+CLOUD", false, held, nil},
	} {
		job := slurm.Job{ID: 7, State: tt.state, Nodes: "c1", Batch: tt.batch, Requeue: true}
		inSlurm(t, State{}, map[string]string{"c1": tt.node}, []slurm.Job{job}, func(t *testing.T, e *Engine, s *scripted) {
			err := e.tell(t.Context(), tt.hold)
			requeued := slices.Contains(tt.want, "requeue 7") // which the script does not carry out
			if errors.Is(err, slurm.ErrNotPending) == (requeued || tt.state == "PENDING") || errors.Is(err, context.DeadlineExceeded) != requeued || !slices.Equal(s.asked, tt.want) {
				t.Errorf("%s: asked %v, %v", tt.name, s.asked, err)
			}
		})
	}
}

func TestTimesAheadAreTakenBack(t *testing.T) {
	ahead := at.Add(time.Hour)
	st := notAfter(State{
		Nodes:     []Node{{Since: ahead, Made: ahead}, {Since: at.Add(-time.Hour), Made: at.Add(-time.Hour)}},
		Launches:  []Launch{{Created: ahead}},
		Holds:     []Hold{{Start: ahead}, {Start: at.Add(time.Minute)}},
		Coolings:  []Cooling{{Cooldown: fleet.Cooldown{Until: ahead}}},
		Instances: []Instance{{Instance: cloud.Instance{Launched: ahead}}}, // the cloud's clock
	}, at)
	want := State{
		Nodes:     []Node{{Since: at, Made: at}, {Since: at.Add(-time.Hour), Made: at.Add(-time.Hour)}},
		Launches:  []Launch{{Created: at}},
		Holds:     []Hold{{Start: at.Add(maxRetry)}, {Start: at.Add(time.Minute)}},
		Coolings:  []Cooling{{Cooldown: fleet.Cooldown{Until: at.Add(maxRetry)}}},
		Instances: []Instance{{Instance: cloud.Instance{Launched: ahead}}},
	}
	if diff := cmp.Diff(want, st); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
