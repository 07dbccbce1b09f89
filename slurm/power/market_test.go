package power

import (
	"context"
	"errors"
	"fmt"
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

// TestPlanOfferings: what a launch may choose among, and for whom it is said to be.
func TestPlanOfferings(t *testing.T) {
	node := func(name string, job uint32, waited time.Duration) Node {
		return Node{Name: name, Pool: "p", Phase: Wanted, Job: job, Whole: job >= 100, Made: at.Add(-waited)}
	}
	cools := func(key string, until time.Duration) Cooling {
		zone, market, _ := strings.Cut(key, "/")
		return Cooling{"east", cloud.Offering{Type: "small", Zone: zone, Market: cloud.Market(market)}, fleet.Cooldown{Failures: 1, Until: at.Add(until)}}
	}
	spot := []Cooling{cools("a/spot", 50*time.Second), cools("b/spot", 70*time.Second)}
	all := append(slices.Clone(spot), cools("a/on-demand", 80*time.Second), cools("b/on-demand", 90*time.Second))
	for _, tt := range []struct {
		name     string
		nodes    []Node
		coolings []Cooling
		launches []Launch
		shut     bool
		want     []string // "c1,c2 a/spot or 1 max 0.2 job 7 of ann", then as sum, then "wait 5s"
	}{
		{name: "nodes on their own", nodes: []Node{node("c1", 7, 0), node("c2", 8, 0)}, want: []string{"c1,c2 a/spot or 1 max 0.2 account chem"}},
		{name: "a job of several nodes", nodes: []Node{node("c1", 107, 0), node("c2", 107, 0)}, want: []string{"c1,c2 a/spot or 1 max 0.2 job 107 user ann account chem all"}},
		{name: "a job in parts is of one kind", nodes: []Node{node("c1", 107, 0), node("c2", 107, 0), node("c3", 107, 0)},
			want: []string{"c1,c2 a/spot max 0.2 job 107 user ann account chem all", "c3 a/spot max 0.2 job 107 user ann account chem all"}},
		{name: "a job's other node has a launch with a choice: its answer tells", nodes: []Node{node("c1", 107, 0), {Name: "c2", Pool: "p", Phase: Launching, Token: "t", Job: 107, Whole: true}},
			launches: []Launch{{Token: "t", Provider: "east", Nodes: []string{"c2"}, Request: cloud.LaunchRequest{Or: []cloud.Offering{{Type: "small"}}}}}},
		{name: "within spot_timeout", nodes: []Node{node("c1", 107, 10*time.Second), node("c2", 107, 10*time.Second)}, coolings: spot, want: []string{"wait 50s"}},
		{name: "spot_timeout ends first", nodes: []Node{node("c1", 8, 30*time.Second)}, coolings: spot, want: []string{"wait 30s"}},
		{name: "one has waited long enough", nodes: []Node{node("c1", 7, time.Second), node("c2", 8, time.Minute)}, coolings: spot,
			want: []string{"c2 a/on-demand or 1 job 8 user ben account chem", "wait 50s"}},
		{name: "all cool, and one may still wait for spot", nodes: []Node{node("c1", 7, time.Second), node("c2", 8, time.Minute)}, coolings: all,
			want: []string{"c2 freeing job 8", "hold 8", "wait 50s"}},
		{name: "too late for a launch", nodes: []Node{node("c1", 7, 481*time.Second), node("c2", 8, 479*time.Second)},
			want: []string{"c2 a/on-demand or 1 job 8 user ben account chem", "c1 freeing job 7", "hold 7"}},
		{name: "too late for one node of a job", nodes: []Node{node("c1", 107, 481*time.Second), node("c2", 107, 0)},
			want: []string{"c1 freeing job 107 whole", "c2 freeing job 107 whole", "hold 107"}},
		{name: "while the provider prepares", nodes: []Node{node("c1", 7, 0)}, shut: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := testPools()[0]
			pool.Fleet.Market, pool.Fleet.SpotTimeout, pool.Fleet.MaxPrice = fleet.SpotThenOnDemand, time.Minute, 0.2
			p := planning{mem: newMemory(State{Nodes: tt.nodes, Coolings: tt.coolings, Launches: tt.launches}), pools: map[string]Pool{"p": pool},
				limits: map[string]cloud.Limits{"east": {MaxLaunch: 2, Choice: true}}, now: at, bootTimeout: 10 * time.Minute, shut: map[string]shut{},
				market: market{jobs: map[uint32]slurm.Job{7: {User: "ann", Account: "chem"}, 8: {User: "ben", Account: "chem"}, 107: {User: "ann", Account: "chem"}}}}
			if tt.shut {
				p.shut["p@east"] = shut{brief: true}
			}
			out := p.plan()
			var got []string
			for _, d := range out.drafts {
				text := fmt.Sprintf("%s %s/%s", strings.Join(d.Nodes, ","), d.Request.Offering.Zone, d.Request.Offering.Market)
				if n := len(d.Request.Or); n > 0 {
					text += fmt.Sprint(" or ", n)
				}
				if d.Request.MaxPrice > 0 {
					text += fmt.Sprint(" max ", d.Request.MaxPrice)
				}
				for _, tag := range []string{cloud.TagJob, cloud.TagUser, cloud.TagAccount} {
					if v := d.Request.Tags[tag]; v != "" {
						text += fmt.Sprintf(" %s %s", strings.TrimPrefix(tag, "burst:"), v)
					}
				}
				if d.Request.AllOrNothing {
					text += " all"
				}
				got = append(got, text)
			}
			got = append(got, sum(out.Change)...)
			if !out.wait.IsZero() {
				got = append(got, fmt.Sprint("wait ", out.wait.Sub(at)))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("planned (-want +got):\n%s", diff)
			}
			if len(pool.Tags) > 0 {
				t.Errorf("the pool's own tags have become %v", pool.Tags)
			}
		})
	}
}

// TestTheTrueReason: a job is told what kept its nodes, not always "no capacity".
func TestTheTrueReason(t *testing.T) {
	a, b := cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}, cloud.Offering{Type: "small", Zone: "b", Market: cloud.OnDemand}
	for _, tt := range []struct {
		name string
		why  map[coolKey]refusal
		want string
	}{
		{"not known any more", nil, "no capacity in pool p (small/a/on-demand, small/b/on-demand)"},
		{"quota", map[coolKey]refusal{{"east", a}: {cloud.Quota, "8 of 4", "p"}, {"east", b}: {cloud.Quota, "8 of 4", "p"}},
			"over the account's quota in pool p (small/a/on-demand, small/b/on-demand): 8 of 4"},
		{"one of each", map[coolKey]refusal{{"east", a}: {cloud.Capacity, "none", "p"}, {"east", b}: {cloud.Invalid, "no such image", "p"}},
			"no capacity in pool p (small/a/on-demand); refused as invalid in pool p (small/b/on-demand): no such image"},
		{"each its own", map[coolKey]refusal{{"east", a}: {cloud.Quota, "8 of 4", "p"}, {"east", b}: {cloud.Quota, "2 of 2", "p"}},
			"over the account's quota in pool p (small/a/on-demand): 8 of 4; over the account's quota in pool p (small/b/on-demand): 2 of 2"},
		{"another pool's", map[coolKey]refusal{{"east", a}: {cloud.Capacity, "none", "q"}, {"east", b}: {cloud.Invalid, "no such image", "q"}},
			"no capacity in pool p (small/a/on-demand); refused as invalid in pool p (small/b/on-demand): said of a launch for q, no such image"},
	} {
		p := planning{market: market{why: tt.why}}
		if got := p.none(testPools()[0], fleet.Choice{Tried: []cloud.Offering{a, b}}); got != tt.want {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}

func TestSettled(t *testing.T) {
	e := func(k cloud.Kind, settled bool) error {
		return &cloud.Error{Kind: k, Settled: settled, Err: errors.New("x")}
	}
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"no error", nil, true},
		{"no kind", errors.New("x"), false},
		{"capacity", e(cloud.Capacity, false), true},
		{"throttled", e(cloud.Throttled, false), false},
		{"throttled part of a fleet", e(cloud.Throttled, true), true},
		{"auth", e(cloud.Auth, false), false},
		{"both in one answer", errors.Join(e(cloud.Throttled, true), e(cloud.Capacity, true)), true},
		{"both, and it is not said to be over", errors.Join(e(cloud.Throttled, false), e(cloud.Capacity, false)), false},
		{"cut off", &cloud.Error{Kind: cloud.Capacity, Err: context.DeadlineExceeded}, false},
	} {
		if got := settled(tt.err); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestSpare: an instance that its launch has too many of serves who waits.
func TestSpare(t *testing.T) {
	wanted := func(name string, job uint32) Node {
		return Node{Name: name, Pool: "p", Phase: Wanted, Job: job, Whole: job >= 100, Made: at.Add(-time.Minute)}
	}
	in := func(n Node, p Phase) Node { n.Phase = p; return n }
	refused := func(n Node) Node { n.Reason = overBudget + "x"; return n }
	later := func(n Node) Node { n.Made = at.Add(time.Minute); return n }
	left := func(zones ...string) (all []cloud.Instance) {
		for n, z := range zones {
			all = append(all, cloud.Instance{ID: fmt.Sprint("i-", n+1), Pool: "p", State: cloud.Pending, Launched: at, Offering: cloud.Offering{Type: "small", Zone: z, Market: cloud.OnDemand}})
		}
		return all
	}
	for _, tt := range []struct {
		name string
		st   State
		left []cloud.Instance
		want []string
	}{
		{"nobody waits", State{}, left("a"), []string{"i-1 doomed"}},
		{"a node on its own", State{Nodes: []Node{wanted("c1", 7)}}, left("a", "a"), []string{"c1 booting job 7", "i-2 doomed"}},
		{"Slurm asked only afterwards", State{Nodes: []Node{later(wanted("c1", 7))}}, left("a"), []string{"i-1 doomed"}},
		{"of another pool", State{Nodes: []Node{{Name: "d1", Pool: "q", Phase: Wanted}}}, left("a"), []string{"i-1 doomed"}},
		{"of an offering that the pool has not", State{Nodes: []Node{wanted("c1", 7)}}, left("z"), []string{"i-1 doomed"}},
		{"its former instance still ends", State{Nodes: []Node{wanted("c1", 7)}, Instances: []Instance{onInstance("i-9", "c1", at)}}, left("a"), []string{"i-1 doomed"}},
		{"a launch of it is unresolved", State{Nodes: []Node{wanted("c1", 7)}, Launches: []Launch{{Token: "t", Nodes: []string{"c1"}}}}, left("a"), []string{"i-1 doomed"}},
		{"a stopped pool", State{Nodes: []Node{wanted("c1", 7)}, Breakers: []Breaker{{Pool: "p", Stopped: at}}}, left("a"), []string{"i-1 doomed"}},
		{"all that a job lacks", State{Nodes: []Node{wanted("c1", 107), wanted("c2", 107)}}, left("a", "a"), []string{"c1 booting job 107 whole", "c2 booting job 107 whole"}},
		{"all that a job lacks, among others", State{Nodes: []Node{wanted("c1", 107), wanted("c2", 107)}}, left("a", "b", "b"),
			[]string{"c1 booting job 107 whole", "c2 booting job 107 whole", "i-1 doomed"}},
		{"too few for a job", State{Nodes: []Node{wanted("c1", 107), wanted("c2", 107)}}, left("a"), []string{"i-1 doomed"}},
		{"in two zones", State{Nodes: []Node{wanted("c1", 107), wanted("c2", 107)}}, left("a", "b"), []string{"i-1 doomed", "i-2 doomed"}},
		{"a job that has others", State{Nodes: []Node{wanted("c1", 107), in(wanted("c2", 107), Booting)}}, left("a"), []string{"i-1 doomed"}},
		{"jobs have to leave it first", State{Nodes: []Node{refused(wanted("c1", 7)), wanted("c2", 8)}}, left("a", "a"), []string{"c2 booting job 8", "i-2 doomed"}},
		{"jobs have to leave one of a job's first", State{Nodes: []Node{refused(wanted("c1", 107)), wanted("c2", 107)}}, left("a", "a"), []string{"i-1 doomed", "i-2 doomed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, _ := testEngine(tt.st)
			var c Change
			e.spare(&c, Launch{Provider: "east"}, tt.left)
			if diff := cmp.Diff(tt.want, sum(c)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// round is a cloud that prepares and counts.
type round struct {
	still
	during func() // called while it prepares

	mu                 sync.Mutex
	rounds, now, peak  int
	prepared, launched []string // pools, nodes of a launch
}

func (r *round) Prepare(_ context.Context, requests []cloud.LaunchRequest) []error {
	time.Sleep(time.Second)
	if r.during != nil {
		r.during()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rounds++
	for i := range requests {
		r.prepared = append(r.prepared, requests[i].Pool)
		requests[i].Spec = []byte("{}")
	}
	return make([]error, len(requests))
}

func (r *round) Launch(_ context.Context, l cloud.LaunchRequest) ([]cloud.Instance, error) {
	r.mu.Lock()
	r.now++
	r.peak = max(r.peak, r.now)
	if len(l.Spec) > 0 {
		r.launched = append(r.launched, l.Pool)
	}
	r.mu.Unlock()
	time.Sleep(2 * time.Second)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now--
	all := make([]cloud.Instance, l.Count)
	for i := range all {
		all[i] = cloud.Instance{ID: fmt.Sprint(l.Token, i), Token: l.Token, Pool: l.Pool, Offering: l.Offering, State: cloud.Pending}
	}
	return all, nil
}

// TestOneRound: many pools are prepared together and launched together, but no
// more than the bound at once.
func TestOneRound(t *testing.T) {
	for pools, want := range map[int]struct {
		peak int
		took time.Duration
	}{20: {20, 3 * time.Second}, 100: {maxCalls, 5 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			r := &round{}
			st := State{}
			nodes := map[string]string{}
			cfg := Config{Cluster: "x"}
			for n := range pools {
				pool := Pool{Name: fmt.Sprint("p", n), Provider: "east", Fleet: fleet.Config{Types: []string{"small"}}}
				for m := range 50 {
					name := fmt.Sprintf("n%d-%d", n, m)
					pool.Nodes = append(pool.Nodes, name)
					nodes[name] = "ALLOCATED+CLOUD+POWERING_UP"
					st.Nodes = append(st.Nodes, Node{Name: name, Pool: pool.Name, Phase: Wanted, Made: time.Now()})
				}
				cfg.Pools = append(cfg.Pools, pool)
			}
			e, _ := testEngine(State{})
			e = New(cfg, e.journal, &scripted{snap: reading(nodes), fail: map[string]error{}}, map[string]cloud.Provider{"east": limited{r}}, e.log)
			e.mem = newMemory(st)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { e.Run(ctx); close(done) }()
			time.Sleep(want.took + 10*time.Millisecond)
			synctest.Wait()
			cancel()
			<-done
			if n := len(e.mem.inPhase(Booting)); n != pools*50 {
				t.Errorf("%d pools: %d nodes boot after %s", pools, n, want.took)
			}
			if r.rounds != 1 || len(r.prepared) != pools || len(r.launched) != pools || r.peak != want.peak {
				t.Errorf("%d pools: %d rounds of %d, %d launches, %d at once", pools, r.rounds, len(r.prepared), len(r.launched), r.peak)
			}
		})
	}
}

// limited has room for all of a pool in one launch.
type limited struct{ *round }

func (limited) Limits() cloud.Limits { return cloud.Limits{MaxLaunch: 50} }

// TestWhatChangesWhileItIsPrepared: a node that Slurm suspends, and with it the
// other launches of its job, are not launched.
func TestWhatChangesWhileItIsPrepared(t *testing.T) {
	wanted := func(name, pool string, job uint32) Node {
		return Node{Name: name, Pool: pool, Phase: Wanted, Job: job, Whole: job == 7, Made: at}
	}
	const up = "ALLOCATED+CLOUD+POWERING_UP"
	st := State{Nodes: []Node{wanted("c1", "p", 7), wanted("c2", "p", 7), wanted("c3", "p", 7), wanted("c4", "p", 8)}}
	inSlurm(t, st, map[string]string{"c1": up, "c2": up, "c3": up, "c4": up}, nil, func(t *testing.T, e *Engine, s *scripted) {
		for name, n := range e.mem.nodes {
			n.Made = time.Now()
			e.mem.nodes[name] = n
		}
		r := &round{}
		r.during = func() {
			e.results <- func(ctx context.Context) {
				if err := e.commit(ctx, Change{DropNodes: []string{"c1"}}); err != nil {
					t.Error(err)
				}
			}
			r.during = nil
			synctest.Wait()
		}
		e.providers["east"] = r
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { e.Run(ctx); close(done) }()
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if diff := cmp.Diff(map[string]Phase{"c2": Wanted, "c3": Wanted, "c4": Launching}, nodePhases(e)); diff != "" {
			t.Errorf("after the round (-want +got):\n%s", diff)
		}
		cancel()
		<-done
	})
}

// TestLaunchesRefusedTogetherAreOneFailure: many were under way when the first was refused, or had no
// answer. The offering is asked again as soon as if it had been one; a launch after that is a second failure.
func TestLaunchesRefusedTogetherAreOneFailure(t *testing.T) {
	o := cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}
	for name, refused := range map[string]func(e *Engine, l Launch) Change{
		"refused": func(e *Engine, l Launch) Change {
			c, _ := e.assign(l, e.claimants(l), nil, &cloud.Error{Kind: cloud.Capacity, Op: opLaunch, Err: errors.New("sold out")})
			return c
		},
		"no answer": func(e *Engine, l Launch) (c Change) {
			e.doubt[l.Token] = true
			e.withdraw(&c, l, e.claimants(l), errNoAnswer)
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSlurm(t, State{}, nil, nil, func(t *testing.T, e *Engine, _ *scripted) {
				for round, want := range []time.Duration{30 * time.Second, time.Minute} {
					var all []Launch
					for n := range 6 {
						node := fmt.Sprint("c", n)
						l := Launch{Token: "t" + node, Provider: "east", Nodes: []string{node}, State: Written, Created: time.Now(),
							Request: cloud.LaunchRequest{Token: "t" + node, Pool: "p", Offering: o, Count: 1}}
						st := Change{Nodes: []Node{{Name: node, Pool: "p", Phase: Launching, Token: l.Token}}, Launches: []Launch{l}}
						if err := e.commit(t.Context(), st); err != nil {
							t.Fatal(err)
						}
						all = append(all, l)
					}
					begin := time.Now()
					for _, l := range all {
						time.Sleep(time.Second)
						if err := e.commit(t.Context(), refused(e, l)); err != nil {
							t.Fatal(err)
						}
					}
					got := e.mem.cool[coolKey{"east", o}]
					if wait := got.Until.Sub(begin); got.Failures != round+1 || wait > want+time.Second {
						t.Errorf("after round %d it is asked again after %s: %+v", round+1, wait, got)
					}
					time.Sleep(time.Minute)
				}
			})
		})
	}
}
