package daemon

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
)

// stillSlurm has nodes and no jobs, and takes whatever it is told.
type stillSlurm struct {
	*slurm.Client
	nodes map[string]slurm.Node
}

func (s stillSlurm) Fresh(context.Context, time.Time) (*slurm.Snapshot, error) {
	return &slurm.Snapshot{Taken: time.Now(), Nodes: s.nodes, Jobs: map[uint32]slurm.Job{}}, nil
}
func (s stillSlurm) UpdateNodes(context.Context, slurm.NodeUpdate) error { return nil }

// lister is a cloud that lists what it is told to, and has too few for any launch.
type lister struct {
	mu   sync.Mutex
	list []cloud.Instance
	came []cloud.Instance // of a launch
}

func (l *lister) show(list ...cloud.Instance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = list
}

func (l *lister) List(context.Context, cloud.Filter) ([]cloud.Instance, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list, nil
}

func (l *lister) Launch(context.Context, cloud.LaunchRequest) ([]cloud.Instance, error) {
	return nil, &cloud.Error{Kind: cloud.Capacity, Op: "launch", Settled: true, TakenBack: l.came, Err: errors.New("sold out")}
}
func (l *lister) Terminate(context.Context, []string) error { return nil }
func (l *lister) Limits() cloud.Limits                      { return cloud.Limits{Lag: time.Minute, MaxLaunch: 100} }

// engine runs one on the journal, with the cloud as lon, until the test ends; Slurm shows c-i-1
// and c-i-2 in this state.
func (h *hourly) engine(l *lister, s slurm.NodeState) (stop func()) {
	h.Helper()
	slurmd := stillSlurm{nodes: map[string]slurm.Node{}}
	pool := power.Pool{Name: "vhp", Provider: "lon", Nodes: []string{"c-i-1", "c-i-2"}, Fleet: fleet.Config{Types: []string{"vhp"}}}
	for _, n := range pool.Nodes {
		slurmd.nodes[n] = slurm.Node{Name: n, State: s}
	}
	e := power.New(power.Config{Cluster: "x", Pools: []power.Pool{pool}}, h.store, slurmd, map[string]cloud.Provider{"lon": l}, h.log)
	if err := e.Load(h.Context()); err != nil {
		h.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.Context())
	done := make(chan struct{})
	go func() { e.Run(ctx); close(done) }()
	return func() { cancel(); <-done }
}

// TestAVanishedInstanceEndsWhenItWasMissed: somebody has destroyed one in the console three minutes before
// its hour ended. That it is gone is believed two minutes after that, and costs no second hour.
func TestAVanishedInstanceEndsWhenItWasMissed(t *testing.T) {
	const usd = 0.143
	for what, doomed := range map[string]string{"it served a node": "", "it was to end, and the answer was lost": "suspended"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHourly(t)
				defer func() { h.store.Close() }()
				one, two := ofPlan("i-1", "vhp", time.Now()), ofPlan("i-2", "vhp", time.Now().Add(-time.Second))
				one.Doomed = doomed
				c := power.Change{Instances: []power.Instance{one, two}, Nodes: []power.Node{{Name: "c-i-2", Pool: "vhp", Phase: power.Up, Instance: "i-2", AddrSet: true}}}
				if doomed == "" {
					c.Nodes = append(c.Nodes, power.Node{Name: "c-i-1", Pool: "vhp", Phase: power.Up, Instance: "i-1", AddrSet: true})
				}
				if err := h.store.CommitPower(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				l := &lister{}
				l.show(one.Instance, two.Instance)
				stop := h.engine(l, slurm.NodeState{Base: "IDLE", Flags: []string{"CLOUD"}})
				h.pass(57*time.Minute, time.Minute)
				h.costs("at 0:57", 2*usd)
				l.show(two.Instance)
				h.pass(13*time.Minute, time.Minute)
				stop()
				h.costs("at 1:10", 3*usd)
			})
		})
	}
}

// TestWhatCameShortIsBooked: two came of a launch for three nodes, and were ended again within seconds.
func TestWhatCameShortIsBooked(t *testing.T) {
	const usd = 0.143
	synctest.Test(t, func(t *testing.T) {
		h := newHourly(t)
		defer func() { h.store.Close() }()
		l := &lister{}
		var ended []cloud.Instance
		for _, id := range []string{"i-3", "i-4"} {
			i := ofPlan(id, "vhp", time.Now()).Instance
			i.Token, i.State = "t", cloud.Terminating
			l.came = append(l.came, i)
			i.State, i.Ended = cloud.Terminated, time.Now().Add(20*time.Second)
			ended = append(ended, i)
		}
		c := power.Change{Launches: []power.Launch{{Token: "t", Provider: "lon", State: power.Written, Created: time.Now(), Nodes: []string{"c-i-1", "c-i-2"},
			Request: cloud.LaunchRequest{Token: "t", Cluster: "x", Pool: "vhp", Offering: l.came[0].Offering, Count: 3, AllOrNothing: true}}}}
		for _, n := range []string{"c-i-1", "c-i-2"} {
			c.Nodes = append(c.Nodes, power.Node{Name: n, Pool: "vhp", Phase: power.Launching, Token: "t", Job: 7, Whole: true, Made: time.Now()})
		}
		if err := h.store.CommitPower(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		l.show(ended...)
		stop := h.engine(l, slurm.NodeState{Base: "IDLE", Flags: []string{"CLOUD", "POWERING_UP"}})
		h.pass(3*time.Minute, 30*time.Second)
		stop()
		h.costs("soon", 2*usd)
		h.restart()
		h.pass(2*time.Hour, time.Minute)
		h.costs("hours later", 2*usd)
		if st, err := h.store.LoadPower(t.Context()); err != nil || len(st.Instances) > 0 {
			t.Errorf("still open are %+v, %v", st.Instances, err)
		}
	})
}
