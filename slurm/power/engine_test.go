package power

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm"
)

// at is when the tests of pure functions take place.
var at = time.Unix(1_800_000_000, 0)

// paper is a journal that forgets nothing and keeps it nowhere.
type paper struct {
	orders    map[string]bool
	onOrder   func() // called when an order has been written
	committed []Change
	asked     []string     // instances, of Known
	takes     atomic.Int64 // a commit, in ns
}

func (p *paper) AddOrder(_ context.Context, o Order) (bool, error) {
	fresh := !p.orders[o.ID]
	p.orders[o.ID] = true
	if p.onOrder != nil {
		p.onOrder()
	}
	return fresh, nil
}

func (p *paper) LoadPower(context.Context) (State, error) { return State{}, nil }

func (p *paper) CommitPower(_ context.Context, c Change) error {
	p.committed = append(p.committed, c)
	time.Sleep(time.Duration(p.takes.Load()))
	return nil
}

func (p *paper) Known(_ context.Context, ids []string) (map[string]bool, error) {
	p.asked = append(p.asked, ids...)
	known := map[string]bool{}
	for _, c := range p.committed {
		for _, i := range c.Instances {
			known[i.ID] = true
		}
	}
	return known, nil
}

// still is a cloud that does nothing but list what it is told to.
type still struct {
	lists []cloud.Instance
	err   error
}

func (s still) Launch(context.Context, cloud.LaunchRequest) ([]cloud.Instance, error) {
	return nil, s.err
}
func (s still) List(context.Context, cloud.Filter) ([]cloud.Instance, error) { return s.lists, s.err }
func (s still) Terminate(context.Context, []string) error                    { return s.err }
func (s still) Limits() cloud.Limits                                         { return cloud.Limits{Lag: time.Second, MaxLaunch: 2} }

// names of the test's nodes and pools: p has c1 to c4 of provider east, q has d1 and d2 of west.
func testPools() []Pool {
	return []Pool{
		{Name: "p", Provider: "east", Nodes: []string{"c1", "c2", "c3", "c4"}, Fleet: fleet.Config{Types: []string{"small"}, Zones: []string{"a", "b"}}},
		{Name: "q", Provider: "west", Nodes: []string{"d1", "d2"}, Fleet: fleet.Config{Types: []string{"big"}, Zones: []string{"x"}}},
	}
}

func testEngine(st State) (*Engine, *paper) {
	p := &paper{orders: map[string]bool{}}
	e := New(Config{Cluster: "x", Pools: testPools()}, p, nil, map[string]cloud.Provider{"east": still{}, "west": still{}}, slog.New(slog.DiscardHandler))
	e.mem = newMemory(st)
	return e, p
}

// reading is a reading of Slurm: nodes as "STATE+FLAG", jobs by their id.
func reading(nodes map[string]string, jobs ...slurm.Job) *slurm.Snapshot {
	s := &slurm.Snapshot{Taken: at, Nodes: map[string]slurm.Node{}, Jobs: map[uint32]slurm.Job{}}
	for name, state := range nodes {
		s.Nodes[name] = slurm.Node{Name: name, State: parseState(state)}
	}
	for _, j := range jobs {
		s.Jobs[j.ID] = j
	}
	return s
}

func parseState(text string) slurm.NodeState {
	var s slurm.NodeState
	for i, part := range strings.Split(text, "+") {
		if i == 0 {
			s.Base = part
		} else {
			s.Flags = append(s.Flags, part)
		}
	}
	return s
}

// TestAnOrderIsHeardThoughItsClientIsGone: the journal has it, so that the
// copy in the spool is no news; it must not wait for the next start.
func TestAnOrderIsHeardThoughItsClientIsGone(t *testing.T) {
	e, p := testEngine(State{})
	for n := range 100 { // more than may wait for Run, which does not run
		ctx, cancel := context.WithCancel(t.Context())
		p.onOrder = cancel
		if err := e.AddOrder(ctx, Order{ID: fmt.Sprint(n), Kind: Suspend, Nodes: "c1", Made: at}); err != nil {
			t.Fatal(err)
		}
	}
	if n := e.Health().Orders; n != 100 {
		t.Errorf("%d of 100 orders are known", n)
	}
}

func TestCloseOrders(t *testing.T) {
	orders := []Order{
		{ID: "resume", Kind: Resume, Nodes: "c1", Taken: true},
		{ID: "suspend", Kind: Suspend, Nodes: "c[1-2]", Taken: true},
		{ID: "failed", Kind: ResumeFail, Nodes: "c3", Taken: true},
		{ID: "new", Kind: Suspend, Nodes: "c4"},
	}
	doomed := func(node string) Instance {
		return Instance{Instance: cloud.Instance{ID: "i-" + node}, Provider: "gone", Assigned: node, Doomed: "why"}
	}
	for _, tt := range []struct {
		name string
		st   State
		want []string
	}{
		{"nothing is open", State{}, []string{"failed", "resume", "suspend"}},
		{"a node boots", State{Nodes: []Node{{Name: "c1", Phase: Booting, Order: "resume"}}}, []string{"failed", "suspend"}},
		{"the suspended node's instance ends", State{Instances: []Instance{doomed("c2")}}, []string{"failed", "resume"}},
		{"an instance that nobody can end is another node's", State{Instances: []Instance{doomed("d1"), doomed("")}}, []string{"failed", "resume", "suspend"}},
		{"the failed node is being freed", State{Nodes: []Node{{Name: "c3", Phase: Freeing, Order: "failed"}}}, []string{"resume", "suspend"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.st.Orders = orders
			e, p := testEngine(tt.st)
			if _, err := e.closeOrders(t.Context()); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range p.committed {
				got = append(got, c.CloseOrders...)
			}
			if slices.Sort(got); !slices.Equal(got, tt.want) {
				t.Errorf("closed %v, want %v", got, tt.want)
			}
		})
	}
}
