package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
)

// stillSlurm has nodes and jobs that stay as they are, and takes whatever it is told.
type stillSlurm struct {
	*slurm.Client
	nodes map[string]slurm.Node
	jobs  map[uint32]slurm.Job
}

func (s stillSlurm) Fresh(context.Context, time.Time) (*slurm.Snapshot, error) {
	return &slurm.Snapshot{Taken: time.Now(), Nodes: s.nodes, Jobs: s.jobs}, nil
}
func (s stillSlurm) Unreserve(context.Context, string) error                  { return nil }
func (s stillSlurm) UpdateNodes(context.Context, slurm.NodeUpdate) error      { return nil }
func (s stillSlurm) UpdateJob(context.Context, uint32, slurm.JobUpdate) error { return nil }

// lister is a cloud that lists what it is told to, and has too few for any launch.
type lister struct {
	mu   sync.Mutex
	list []cloud.Instance
	came []cloud.Instance // of the launch t
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

func (l *lister) Launch(_ context.Context, r cloud.LaunchRequest) ([]cloud.Instance, error) {
	e := &cloud.Error{Kind: cloud.Capacity, Op: "launch", Settled: true, Err: errors.New("sold out")}
	if r.Token == "t" {
		e.TakenBack = l.came
	}
	return nil, e
}

func (l *lister) Terminate(context.Context, []string) error { return nil }
func (l *lister) Limits() cloud.Limits                      { return cloud.Limits{Lag: time.Minute, MaxLaunch: 100} }

// engine runs one on the journal, with the cloud as lon, until it is stopped; Slurm shows c-i-1
// and c-i-2 in this state, and if they are powered up, job 7 that waits for them.
func (h *hourly) engine(l cloud.Provider, s slurm.NodeState) (stop func()) {
	h.Helper()
	return h.engineOf(power.Pool{Name: "vhp", Provider: "lon", Nodes: []string{"c-i-1", "c-i-2"}, Fleet: fleet.Config{Types: []string{"vhp"}}}, l, s)
}

func (h *hourly) engineOf(pool power.Pool, l cloud.Provider, s slurm.NodeState) (stop func()) {
	h.Helper()
	ctl := stillSlurm{nodes: map[string]slurm.Node{}, jobs: map[uint32]slurm.Job{}}
	for _, n := range pool.Nodes {
		ctl.nodes[n] = slurm.Node{Name: n, State: s}
	}
	if s.Has(slurm.PoweringUp) {
		ctl.jobs[7] = slurm.Job{ID: 7, State: "CONFIGURING", Batch: true, Requeue: true, Nodes: strings.Join(pool.Nodes, ",")}
	}
	e := power.New(power.Config{Cluster: "x", Pools: []power.Pool{pool}, Begun: h.begun}, h.store, ctl, map[string]cloud.Provider{"lon": l}, h.log)
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

// TestAPlanThatHasTooFew: of a plan Vultr has three, and a job needs nine nodes. It costs three hours, at once,
// and the job waits until they are over.
func TestAPlanThatHasTooFew(t *testing.T) {
	t.Parallel()
	c := vultrtest.New(vultrtest.Options{})
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetCapacity(vultrtest.Plan, 3)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(vultrtest.Key), 0o600); err != nil {
		t.Fatal(err)
	}
	lon, err := vultr.New(vultr.Config{Name: "lon", Region: vultrtest.Region, KeyFile: key, Dir: filepath.Join(t.TempDir(), "lon"), Endpoint: c.URL(), Lag: 50 * time.Millisecond,
		Pools: map[string]vultr.Pool{"vhp": {}}})
	if err != nil {
		t.Fatal(err)
	}
	h := newHourly(t)
	defer func() { h.store.Close() }()
	h.prices = newPrices(h.cfg.Providers, map[string]cloud.Provider{"lon": lon}, h.log)
	pool := power.Pool{Name: "vhp", Provider: "lon", Image: "os:" + vultrtest.OSName, Fleet: fleet.Config{Types: []string{vultrtest.Plan}}}
	wanted := power.Change{Heard: []string{"", "lon"}} // else it waits for a list first
	for n := range 9 {
		pool.Nodes = append(pool.Nodes, fmt.Sprint("c", n))
		wanted.Nodes = append(wanted.Nodes, power.Node{Name: pool.Nodes[n], Pool: "vhp", Phase: power.Wanted, Job: 7, Whole: true, Made: time.Now()})
	}
	if err := h.store.CommitPower(t.Context(), wanted); err != nil {
		t.Fatal(err)
	}
	began := time.Now().Truncate(time.Second)
	stop := h.engineOf(pool, lon, slurm.NodeState{Base: "IDLE", Flags: []string{"CLOUD", "POWERING_UP"}})
	var st power.State
	for until := time.Now().Add(15 * time.Second); len(st.Holds) == 0; {
		if time.Now().After(until) {
			t.Fatalf("no job waits; the journal has %+v", st)
		}
		time.Sleep(20 * time.Millisecond)
		if st, err = h.store.LoadPower(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if len(st.Coolings) != 1 || st.Coolings[0].Most != 3 || st.Coolings[0].Paid.Before(began.Add(time.Hour)) || st.Coolings[0].Paid.After(time.Now().Add(time.Hour)) ||
		!st.Holds[0].Start.Equal(st.Coolings[0].Paid) {
		t.Errorf("its memory is %+v, and the job waits as %+v", st.Coolings, st.Holds)
	}
	usd, err := lon.Prices(t.Context(), []cloud.Offering{{Type: vultrtest.Plan, Market: cloud.OnDemand}})
	if err != nil || len(usd) != 1 {
		t.Fatal(usd, err)
	}
	if err := h.book(t.Context(), &slurm.Snapshot{Taken: time.Now()}); err != nil {
		t.Fatal(err)
	}
	h.costs("three hours", 3*usd[0].USDPerHour)
	if n := len(c.Machines()); n != 0 {
		t.Errorf("%d machines are still there", n)
	}
}
