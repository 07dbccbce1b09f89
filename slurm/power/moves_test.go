package power

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm"
)

// planInTwoClouds plans for a pool p that buys of east and then of west, on spot and then on demand.
func planInTwoClouds(st State, change func(*planning)) planned {
	pool := testPools()[0]
	buys := fleet.Config{Types: []string{"small"}, Zones: []string{"a"}, Market: fleet.SpotThenOnDemand, SpotTimeout: 30 * time.Second}
	pool.Fleet, pool.Then = buys, []Source{{Provider: "west", Fleet: buys}}
	p := planning{mem: newMemory(st), pools: map[string]Pool{"p": pool}, limits: map[string]cloud.Limits{"east": {MaxLaunch: 9}, "west": {MaxLaunch: 9}},
		now: at, bootTimeout: 10 * time.Minute, shut: map[string]shut{}, market: newMarket()}
	change(&p)
	return p.plan()
}

// cools has a provider's offerings of planInTwoClouds cool down.
func cools(provider string, markets ...cloud.Market) (all []Cooling) {
	for _, m := range markets {
		all = append(all, Cooling{provider, cloud.Offering{Type: "small", Zone: "a", Market: m}, fleet.Cooldown{Failures: 1, Until: at.Add(5 * time.Minute)}})
	}
	return all
}

// TestAJobWithAnIdleNodeMovesOn: Slurm has given it a node that is up at east, where the other
// cannot be had. It is given back, with the node that is up, if west has room for both.
func TestAJobWithAnIdleNodeMovesOn(t *testing.T) {
	made := at.Add(-2 * time.Minute)
	up := Node{Name: "c1", Pool: "p", Phase: Up, Job: 107, Instance: "i-1", Made: at.Add(-time.Hour)}
	i := onInstance("i-1", "c1", at.Add(-time.Hour))
	i.Offering = cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}
	wanted := Node{Name: "c2", Pool: "p", Phase: Wanted, Job: 107, Whole: true, Made: made, Since: made}
	young := wanted
	young.Since = at.Add(-20 * time.Second)
	boots := Node{Name: "c3", Pool: "p", Phase: Booting, Job: 107, Whole: true, Made: made, Instance: "i-3"}
	i3 := onInstance("i-3", "c3", at)
	i3.Offering = i.Offering
	dry, allDry := cools("east", cloud.Spot, cloud.OnDemand), append(cools("east", cloud.Spot, cloud.OnDemand), cools("west", cloud.Spot, cloud.OnDemand)...)
	away := map[string]shut{"p@east": {why: "the cloud does not answer at east", until: at}}
	const noRoom, anew = "no capacity in pool p at east (small/a/spot, small/a/on-demand)", "; its nodes begin anew at another provider"
	for _, tt := range []struct {
		name  string
		st    State
		shut  map[string]shut
		want  []string
		why   string
		waits time.Duration // until the next plan
		told  string
		dear  string // the provider that has no price of spot, with a budget
	}{
		{name: "west has room", st: State{Nodes: []Node{up, wanted}, Instances: []Instance{i}, Coolings: dry},
			want: []string{"c1 up job 107", "c2 freeing job 107 whole", "hold 107"}, why: noRoom + anew},
		{name: "with another that boots", st: State{Nodes: []Node{up, wanted, boots}, Instances: []Instance{i, i3}, Coolings: dry},
			want: []string{"c1 up job 107", "c2 freeing job 107 whole", "c3 freeing job 107 whole", "hold 107", "i-3 doomed"}, why: noRoom + anew},
		{name: "west is busy for a moment", st: State{Nodes: []Node{up, wanted}, Instances: []Instance{i}, Coolings: dry}, shut: map[string]shut{"p@west": {brief: true}}, want: []string{}},
		{name: "while east is stopped", st: State{Nodes: []Node{up, wanted}, Instances: []Instance{i}, Breakers: []Breaker{{Pool: "p", Provider: "east", Stopped: at, Why: "x"}}},
			shut: map[string]shut{"p@west": {brief: true}}, want: []string{}},
		{name: "nor has west", st: State{Nodes: []Node{up, wanted}, Instances: []Instance{i}, Coolings: allDry},
			want: []string{"c2 freeing job 107 whole", "hold 107"}, why: noRoom},
		{name: "nor has west, which tells no price of spot", st: State{Nodes: []Node{up, wanted}, Instances: []Instance{i}, Coolings: append(cools("west", cloud.OnDemand), dry...)}, dear: "west",
			want: []string{"c2 freeing job 107 whole", "hold 107"}, why: noRoom},
		{name: "east is stopped", st: State{Nodes: []Node{up, wanted}, Instances: []Instance{i}, Breakers: []Breaker{{Pool: "p", Provider: "east", Stopped: at, Why: "x"}}},
			want: []string{"c1 up job 107", "c2 freeing job 107 whole", "hold 107"}, why: "pool p at east is stopped: x; its other nodes are of east" + anew},
		{name: "east does not answer", st: State{Nodes: []Node{up, wanted}, Instances: []Instance{i}}, shut: away,
			want: []string{"c1 up job 107", "c2 freeing job 107 whole", "hold 107"}, why: "the cloud does not answer at east" + anew},
		{name: "it is given a minute", st: State{Nodes: []Node{up, young}, Instances: []Instance{i}}, shut: away,
			want: []string{}, waits: 40 * time.Second, told: quietText + "the cloud does not answer at east"},
		{name: "and waits for it where west has nothing", st: State{Nodes: []Node{up, wanted}, Instances: []Instance{i}, Coolings: allDry}, shut: away,
			want: []string{}, told: quietText + "the cloud does not answer at east"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := planInTwoClouds(tt.st, func(p *planning) {
				if tt.shut != nil {
					p.shut = tt.shut
				}
				if tt.dear != "" {
					p.priced = func(provider string, o cloud.Offering) bool { return provider != tt.dear || o.Market != cloud.Spot }
				}
			})
			if diff := cmp.Diff(tt.want, sum(out.Change)); diff != "" || len(out.drafts) > 0 {
				t.Errorf("planned %+v (-want +got):\n%s", out.drafts, diff)
			}
			for _, n := range out.Nodes {
				if n.Phase == Up && n.Reason != "job 107 cannot have all its nodes of east" {
					t.Errorf("%s goes because of %q", n.Name, n.Reason)
				}
			}
			if len(out.Holds) > 0 && out.Holds[0].Why != tt.why {
				t.Errorf("the job is told %q", out.Holds[0].Why)
			}
			if tt.waits > 0 && !out.wait.Equal(at.Add(tt.waits)) {
				t.Errorf("planned again at %s", out.wait)
			}
			if got := out.told[asking{107, ""}]; got != tt.told {
				t.Errorf("it is told %q while it waits", got)
			}
		})
	}
}

// TestWhatIsToGoIsPoweredDown: Slurm is asked until it shows it, and leaves the node's jobs alone.
func TestWhatIsToGoIsPoweredDown(t *testing.T) {
	n, i := upAt("c1", "east")
	n.Reason = "why"
	other, i2 := upAt("c2", "east")
	st := State{Nodes: []Node{n, other}, Instances: []Instance{i, i2}}
	inTwoClouds(t, st, nil, map[string]string{"c1": "MIXED+CLOUD", "c2": "IDLE+CLOUD"}, nil, func(e *Engine, s *scripted) {
		step := func(want int) {
			t.Helper()
			if _, err := e.leaveNodes(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(s.asked) != want || slices.ContainsFunc(s.asked, func(a string) bool { return a != "power_down_asap c1" }) {
				t.Errorf("asked %q, want it %d times", s.asked, want)
			}
		}
		step(1)
		step(1)
		time.Sleep(askAgain)
		step(2) // Slurm has forgotten it
		s.snap.Nodes["c1"] = slurm.Node{Name: "c1", State: parseState("MIXED+CLOUD+DRAIN+POWER_DOWN")}
		time.Sleep(askAgain)
		step(2)
		// While its cloud is away it is only drained.
		e.market.silent["east"], s.asked = true, nil
		for _, state := range []string{"IDLE+CLOUD", "IDLE+CLOUD+DRAIN"} {
			s.snap.Nodes["c1"] = slurm.Node{Name: "c1", State: parseState(state)}
			time.Sleep(askAgain)
			if _, err := e.leaveNodes(t.Context()); err != nil || !slices.Equal(s.asked, []string{"drain c1"}) {
				t.Errorf("%s: asked %q, %v", state, s.asked, err)
			}
		}
		e.market.silent["east"], s.asked = false, nil
		time.Sleep(askAgain)
		step(1)
	})
}

// TestSpotIsWaitedForAtEachSource: from when it has its turn, and not so long that on-demand could not boot.
func TestSpotIsWaitedForAtEachSource(t *testing.T) {
	node := func(waited time.Duration) Node {
		return Node{Name: "c1", Pool: "p", Phase: Wanted, Job: 7, Made: at.Add(-waited)}
	}
	spotCools := append(cools("east", cloud.Spot, cloud.OnDemand), cools("west", cloud.Spot)...)
	for _, tt := range []struct {
		name  string
		node  Node
		asked time.Duration // ago; negative: never
		want  string
	}{
		{"west has its turn only now", node(40 * time.Second), -1, "wait 30s"},
		{"it had it 20 s ago", node(60 * time.Second), 20 * time.Second, "wait 10s"},
		{"it had it 30 s ago", node(70 * time.Second), 30 * time.Second, "west on-demand"},
		{"too late to wait for all of it", node(4*time.Minute + 50*time.Second), -1, "wait 10s"},
		{"too late to wait at all", node(5 * time.Minute), -1, "west on-demand"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := planInTwoClouds(State{Nodes: []Node{tt.node}, Coolings: spotCools}, func(p *planning) {
				if tt.asked >= 0 {
					p.market.asked[ask{"c1", "west", tt.node.Made.UnixNano()}] = at.Add(-tt.asked)
				}
			})
			got := "nothing"
			switch {
			case len(out.drafts) == 1:
				got = fmt.Sprint(out.drafts[0].Provider, " ", out.drafts[0].Request.Offering.Market)
			case !out.wait.IsZero():
				got = fmt.Sprint("wait ", out.wait.Sub(at))
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if want := []ask{{"c1", "west", tt.node.Made.UnixNano()}}; !slices.Equal(out.asked, want) {
				t.Errorf("west's turn is noted as %v", out.asked)
			}
		})
	}
	e, _ := testEngine(State{Nodes: []Node{node(time.Minute)}})
	a := ask{"c1", "west", node(time.Minute).Made.UnixNano()}
	e.noteAsked(planned{asked: []ask{a}})
	first := e.market.asked[a]
	e.noteAsked(planned{asked: []ask{a, {"c2", "west", 1}}})
	if len(e.market.asked) != 1 || !e.market.asked[a].Equal(first) {
		t.Errorf("noted is %v", e.market.asked)
	}
}

// TestALaunchOfWhichAPartHasBegunIsWatched: an instance has come when the credentials are refused to the
// next. It is looked for when the nodes are launched elsewhere.
func TestALaunchOfWhichAPartHasBegunIsWatched(t *testing.T) {
	refused := &cloud.Error{Kind: cloud.Auth, Op: opLaunch, Err: errors.New("key revoked")}
	one := []cloud.Instance{{ID: "i-1", Token: "t", Pool: "p", State: cloud.Pending}}
	for _, tt := range []struct {
		name    string
		answers []func(e *Engine)
		watched bool
	}{
		{"nothing has begun", []func(*Engine){func(e *Engine) { e.launched(t.Context(), "t", nil, refused) }}, false},
		{"one has come", []func(*Engine){func(e *Engine) { e.launched(t.Context(), "t", one, refused) }}, true},
		{"one had come when the cloud asked to slow down", []func(*Engine){
			func(e *Engine) {
				e.launched(t.Context(), "t", one, &cloud.Error{Kind: cloud.Throttled, Err: errors.New("slow")})
			},
			func(e *Engine) { e.launched(t.Context(), "t", nil, refused) },
		}, true},
		{"one of two requests had no answer", []func(*Engine){func(e *Engine) {
			e.launched(t.Context(), "t", nil, errors.Join(refused, &cloud.Error{Kind: cloud.Transient, Err: errors.New("reset")}))
		}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Launching, Token: "t"}, {Name: "c2", Pool: "p", Phase: Launching, Token: "t"}}}
			inTwoClouds(t, st, nil, nil, nil, func(e *Engine, _ *scripted) {
				e.cfg.BootTimeout = 24 * time.Hour
				e.mem.launches["t"] = Launch{Token: "t", Provider: "east", Nodes: []string{"c1", "c2"}, State: Written, Created: time.Now(),
					Request: cloud.LaunchRequest{Pool: "p", Count: 2, Token: "t"}}
				for _, answer := range tt.answers {
					answer(e)
				}
				if text := e.market.trouble[sourceKey("p", "east")]; !strings.Contains(text, "key revoked") {
					t.Errorf("east's trouble is %q", text)
				}
				time.Sleep(doubtFor + time.Second)
				if tt.watched {
					e.launched(t.Context(), "t", nil, refused) // the same request, again
				}
				l, open := e.mem.launches["t"]
				if open != tt.watched || open && (l.State != Abandoned || !l.Resolved.IsZero()) {
					t.Errorf("the launch is %+v, open %v", l, open)
				}
				if diff := cmp.Diff(map[string]Phase{"c1": Wanted, "c2": Wanted}, nodePhases(e)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// mute is a cloud that takes launches and never answers.
type mute struct{ still }

func (mute) Launch(ctx context.Context, _ cloud.LaunchRequest) ([]cloud.Instance, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestALaunchThatHangs: its nodes wait a minute for it, where there is another source.
func TestALaunchThatHangs(t *testing.T) {
	for _, several := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			e, _ := testEngine(State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Launching, Token: "t"}}})
			p := e.pools["p"]
			if several {
				p.Then = []Source{{Provider: "west", Fleet: fleet.Config{Types: []string{"big"}}}}
			}
			e.pools["p"], e.providers["east"], e.mem.heard[""] = p, mute{}, true
			e.mem.launches["t"] = Launch{Token: "t", Provider: "east", Nodes: []string{"c1"}, State: Written, Created: time.Now(),
				Request: cloud.LaunchRequest{Pool: "p", Token: "t", Count: 1, Offering: cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}}}
			call := func() time.Duration {
				t.Helper()
				due, err := e.callWritten(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return due
			}
			call()
			time.Sleep(time.Second)
			if due := call(); several != (due > 0) || due > mayTake(1) {
				t.Errorf("several %v: looked at again after %s", several, due)
			}
			time.Sleep(doubtFor)
			call()
			want := map[bool]Phase{true: Wanted, false: Launching}[several]
			l := e.mem.launches["t"]
			if n := e.mem.nodes["c1"]; n.Phase != want || several != (l.State == Abandoned) || !l.Resolved.IsZero() {
				t.Errorf("several %v: the node is %s, the launch %s", several, n.Phase, l.State)
			}
			if several {
				pl, _ := e.planning()
				if out := pl.plan(); len(out.drafts) != 1 || out.drafts[0].Provider != "west" {
					t.Errorf("planned %+v", out)
				}
			}
			time.Sleep(launchTimeout) // the call's own end
			(<-e.results)(t.Context())
			if l, open := e.mem.launches["t"]; !open || !l.Resolved.IsZero() {
				t.Errorf("several %v: what came of it is not learnt any more: %+v", several, l)
			}
		})
	}
}

// TestJobsAreToldThatNoCloudAnswers once for each order, unless somebody else has written to them.
func TestJobsAreToldThatNoCloudAnswers(t *testing.T) {
	inTwoClouds(t, State{}, nil, nil, nil, func(e *Engine, s *scripted) {
		ctx, cancel := context.WithCancel(context.Background()) // of the bubble
		defer cancel()
		e.market.jobs = map[uint32]slurm.Job{7: {ID: 7}, 8: {ID: 8, AdminComment: "mine"}, 9: {ID: 9, AdminComment: "burst: requeued: x"}}
		waits := map[asking]string{{7, "a"}: "burst: why", {8, "a"}: "burst: why", {9, "a"}: "burst: why"}
		tell := func(want string) {
			t.Helper()
			e.tellQuiet(ctx, waits)
			synctest.Wait()
			e.drain(ctx)
			slices.Sort(s.asked)
			if got := strings.Join(s.asked, ", "); got != want {
				t.Errorf("asked %q, want %q", got, want)
			}
		}
		tell("job 7 comment, job 9 comment")
		tell("job 7 comment, job 9 comment")
		delete(waits, asking{7, "a"})
		waits[asking{7, "b"}] = "burst: why"
		tell("job 7 comment, job 7 comment, job 9 comment")
	})
}

// TestBootsOfARemovedSource: nobody may be left who sets them up. Their nodes are launched anew.
func TestBootsOfARemovedSource(t *testing.T) {
	boots := func(name, provider string, job uint32) (Node, Instance) {
		n, i := upAt(name, provider)
		n.Phase, n.Job, n.Whole = Booting, job, job > 100
		return n, i
	}
	n1, i1 := boots("c1", "east", 0)
	n2, i2 := boots("c2", "west", 0)
	n3, i3 := upAt("c3", "west")
	n3.Job = 107
	n4, i4 := boots("c4", "west", 107)
	st := State{Nodes: []Node{n1, n2, n3, n4}, Instances: []Instance{i1, i2, i3, i4}}
	const up = "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"
	inSlurm(t, st, map[string]string{"c1": up, "c2": up, "c3": "IDLE+CLOUD", "c4": up}, nil, func(t *testing.T, e *Engine, _ *scripted) {
		if err := e.reviewWanted(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]Phase{"c1": Booting, "c2": Wanted, "c3": Up, "c4": Wanted}, nodePhases(e)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if e.mem.instances["i-c2"].Doomed == "" || e.mem.instances["i-c2"].Failed {
			t.Errorf("its instance is %+v", e.mem.instances["i-c2"])
		}
	})
}

// TestTooLateSaysTheTroubleOfEachSource: of one source in the words that there were.
func TestTooLateSaysTheTroubleOfEachSource(t *testing.T) {
	m, pool := newMarket(), testPools()[0]
	m.trouble[sourceKey("p", "east")], m.trouble[sourceKey("q", "east")] = "no answer", "not this"
	if got, want := tooLate(m, pool, time.Minute), "pool p: no answer, and too little of ResumeTimeout (1m0s) is left to boot one"; got != want {
		t.Errorf("got %q", got)
	}
	pool.Then = []Source{{Provider: "west"}}
	m.trouble[sourceKey("p", "west")] = "slow down"
	if got, want := tooLate(m, pool, time.Minute), "pool p: east: no answer; west: slow down, and too little of ResumeTimeout (1m0s) is left to boot one"; got != want {
		t.Errorf("got %q", got)
	}
}

// TestAJobIsToldOfAnEndThatIsNotKnown: its node's former instance is a cloud's that does not answer.
func TestAJobIsToldOfAnEndThatIsNotKnown(t *testing.T) {
	n := Node{Name: "c1", Pool: "p", Phase: Wanted, Job: 7, Made: at}
	i := onInstance("i-1", "c1", at)
	i.Doomed = "x"
	for _, away := range []bool{true, false} {
		out := planInTwoClouds(State{Nodes: []Node{n}, Instances: []Instance{i}}, func(p *planning) {
			if away {
				p.shut["p@east"] = shut{why: "no answer"}
			}
		})
		want := ""
		if away {
			want = quietText + "no answer, and whether i-1, which was node c1, is gone is not known"
		}
		if got := out.told[asking{7, ""}]; got != want || len(out.drafts) > 0 {
			t.Errorf("away %v: it is told %q", away, got)
		}
	}
}
