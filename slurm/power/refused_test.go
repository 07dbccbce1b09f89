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
	"github.com/burst-hpc/burst/slurm"
)

var errKey = &cloud.Error{Kind: cloud.Auth, Err: errors.New("key revoked")}

// TestARefusalEnds: nobody tells when the key has been renewed, so that after a while one job tries.
func TestARefusalEnds(t *testing.T) {
	inSlurm(t, State{Heard: []string{""}}, nil, nil, func(t *testing.T, e *Engine, s *scripted) {
		refuse := func(op string, err error) {
			var c Change
			e.credentials(&c, "west", op, err)
			e.heardOf("west", nil)
			if op == opList {
				e.heardOf("west", err)
			}
		}
		dry := func(until time.Time) {
			t.Helper()
			p, _ := e.planning()
			if got := p.dry("q", 0); !got.Equal(until) {
				t.Errorf("dry until %s, want %s", got, until)
			}
			now, _ := p.elsewhere(group{pool: "q", nodes: []Node{{Name: "d1", Pool: "q"}}}, e.pools["q"])
			if now != until.IsZero() {
				t.Errorf("room there: %v", now)
			}
		}
		refuse(opLaunch, errKey)
		first := time.Now()
		dry(first.Add(maxRetry))
		time.Sleep(maxRetry / 2)
		refuse(opList, nil)
		dry(first.Add(maxRetry))
		time.Sleep(maxRetry / 2)
		dry(time.Time{})
		// One that tries is waited for, and what it meets counts anew.
		e.market.calling["west"] = 1
		dry(time.Now().Add(leastWait))
		e.market.calling["west"] = 0
		refuse(opLaunch, errKey)
		dry(time.Now().Add(maxRetry))
		// Lists that are accepted again say that the key has been renewed.
		refuse(opList, errKey)
		time.Sleep(time.Minute)
		dry(time.Now().Add(maxRetry - time.Minute))
		refuse(opList, nil)
		dry(time.Time{})
		refuse(opLaunch, nil)
		if len(e.market.denied) > 0 {
			t.Errorf("denied are %v", e.market.denied)
		}
	})
}

// TestACloudThatListsIsNotAway, though it refuses launches: what is to go there is powered down, and no names are
// kept. One that refuses to end instances is away for as long as it does.
func TestACloudThatListsIsNotAway(t *testing.T) {
	n, i := upAt("c1", "east")
	n.Reason = "why"
	st := State{Heard: []string{""}, Nodes: []Node{n}, Instances: []Instance{i, suspended("c2", "east")}}
	for op, want := range map[string]string{opLaunch: "power_down_asap c1", opPrepare: "power_down_asap c1", opList: "drain c1; reserve c2", "terminate": "drain c1; reserve c2"} {
		states := offNodes("c2")
		states["c1"] = "IDLE+CLOUD"
		inTwoClouds(t, st, nil, states, nil, func(e *Engine, s *scripted) {
			var c Change
			switch op {
			case "terminate":
				e.notEnded("east", []string{"i-c2"}, errKey)
			case opList:
				e.heardOf("east", errKey)
				fallthrough
			default:
				e.credentials(&c, "east", op, errKey)
			}
			for range 2 {
				if _, err := e.keepNames(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(doubtFor)
			}
			if _, err := e.leaveNodes(t.Context()); err != nil {
				t.Fatal(err)
			}
			slices.Sort(s.asked)
			if got := strings.Join(s.asked, "; "); got != want {
				t.Errorf("%s is refused: asked %q, want %q", op, got, want)
			}
			if op == "terminate" {
				time.Sleep(maxRetry)
				if e.deaf("east") {
					t.Error("it is away for ever")
				}
			}
		})
	}
}

// TestPatienceCountsFromTheRefusal: each launch that tries begins the wait of its nodes anew.
func TestPatienceCountsFromTheRefusal(t *testing.T) {
	up, i := upAt("c1", "east")
	up.Job, up.Made = 107, at.Add(-time.Hour)
	i.Offering = cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}
	wanted := Node{Name: "c2", Pool: "p", Phase: Wanted, Job: 107, Whole: true, Made: at.Add(-2 * time.Minute), Since: at.Add(-5 * time.Second)}
	young := wanted
	young.Made = at.Add(-10 * time.Second)
	for _, tt := range []struct {
		name  string
		node  Node
		since time.Duration
		want  []string
		waits time.Duration
	}{
		{"for a minute", wanted, time.Minute, []string{"c1 up job 107", "c2 freeing job 107 whole", "hold 107"}, 0},
		{"for less", wanted, 20 * time.Second, []string{}, 40 * time.Second},
		{"for longer than the job waits", young, time.Hour, []string{}, 50 * time.Second},
	} {
		out := planInTwoClouds(State{Nodes: []Node{up, tt.node}, Instances: []Instance{i}}, func(p *planning) {
			p.shut = map[string]shut{"p@east": {why: "credentials not accepted at east", until: at}}
			p.market.denied["east"] = denial{op: opLaunch, since: at.Add(-tt.since), last: at}
		})
		if diff := cmp.Diff(tt.want, sum(out.Change)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if tt.waits > 0 && !out.wait.Equal(at.Add(tt.waits)) {
			t.Errorf("%s: planned again at %s", tt.name, out.wait)
		}
	}
}

// TestAHoldNamesItsPool in all words in which jobs are told of it.
func TestAHoldNamesItsPool(t *testing.T) {
	for why, want := range map[string]bool{
		"no capacity in pool p (x)": true, "pool p is stopped: x": true, "pool p at east is stopped: x": true, "no capacity in pool p at east (x)": true,
		tooLate(newMarket(), testPools()[0], time.Minute): true, "no capacity in pool pp (x)": false, "pool pp: x": false,
	} {
		if got := (Hold{Why: why}).names("p"); got != want {
			t.Errorf("%q names it: %v", why, got)
		}
	}
}

// unread is a Slurm that cannot be read.
type unread struct{ *scripted }

func (unread) Fresh(context.Context, time.Time) (*slurm.Snapshot, error) {
	return nil, errors.New("no answer")
}

func changeJob(s *scripted, change func(*slurm.Job)) {
	j := s.snap.Jobs[7]
	change(&j)
	s.snap.Jobs[7] = j
}

// TestOnlyRefusedJobsAreTurnedBack: p's cloud refuses. q may have the job.
func TestOnlyRefusedJobsAreTurnedBack(t *testing.T) {
	const up = "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"
	given := "c1 freeing job 7 whole, c2 freeing job 7 whole, hold 7"
	for _, tt := range []struct {
		name   string
		change func(e *Engine, s *scripted)
		want   string
	}{
		{"for a minute", func(*Engine, *scripted) {}, given},
		{"not for long", func(e *Engine, _ *scripted) {
			e.market.denied["east"] = denial{op: opLaunch, since: time.Now().Add(-10 * time.Second), last: time.Now()}
		}, ""},
		{"long ago", func(e *Engine, _ *scripted) {
			e.market.denied["east"] = denial{op: opLaunch, since: time.Now().Add(-maxRetry), last: time.Now().Add(-maxRetry)}
		}, ""},
		{"Slurm does not answer", func(e *Engine, s *scripted) { e.slurm = unread{s} }, ""},
		{"its lists alone", func(e *Engine, _ *scripted) { e.market.denied["east"] = denial{op: opList, last: time.Now()} }, ""},
		{"a call is under way", func(e *Engine, _ *scripted) { e.flying["t"] = true }, ""},
		{"it may have begun", func(e *Engine, _ *scripted) { e.doubt["t"] = true }, ""},
		{"q is stopped", func(e *Engine, _ *scripted) {
			e.mem.breakers["q"] = Breaker{Pool: "q", Stopped: time.Now(), Why: "x"}
		}, ""},
		{"q has too few for it", func(e *Engine, _ *scripted) {
			e.apply(Change{Coolings: shortOf("west", 1, time.Now().Add(time.Hour), bigX)})
		}, ""},
		{"q is of another partition", func(_ *Engine, s *scripted) {
			n := s.snap.Nodes["d2"]
			n.Partitions = nil
			s.snap.Nodes["d2"] = n
		}, ""},
		{"p has another source", func(e *Engine, _ *scripted) {
			p := e.pools["p"]
			p.Then = []Source{{Provider: "west", Fleet: e.pools["q"].Fleet}}
			e.pools["p"] = p
		}, ""},
		{"it runs by now", func(_ *Engine, s *scripted) { changeJob(s, func(j *slurm.Job) { j.State = "RUNNING" }) }, ""},
		{"it has no script, and would end", func(_ *Engine, s *scripted) { changeJob(s, func(j *slurm.Job) { j.Batch = false }) }, ""},
		{"it is a part of one", func(_ *Engine, s *scripted) { changeJob(s, func(j *slurm.Job) { j.HetID = 6 }) }, ""},
		{"it got other nodes meanwhile", func(_ *Engine, s *scripted) { changeJob(s, func(j *slurm.Job) { j.Nodes = "d[1-2]" }) }, ""},
		{"one without a script shares a node", func(_ *Engine, s *scripted) {
			s.snap.Jobs[8] = slurm.Job{ID: 8, State: "CONFIGURING", NumNodes: 1, Partition: "both", Nodes: "c2"}
		}, ""},
		{"one that would go there, too, shares a node", func(_ *Engine, s *scripted) {
			s.snap.Jobs[8] = slurm.Job{ID: 8, State: "CONFIGURING", Batch: true, Requeue: true, NumNodes: 1, Partition: "both", Nodes: "c2"}
		}, given},
		{"one waits that had a node of it", func(_ *Engine, s *scripted) {
			s.snap.Jobs[8] = slurm.Job{ID: 8, State: "PENDING", NumNodes: 1, Partition: "both", Nodes: "c2"}
		}, given},
		{"it has just come, and it is refused for long", func(e *Engine, _ *scripted) {
			for _, name := range []string{"c1", "c2"} {
				n := e.mem.nodes[name]
				n.Made = time.Now().Add(-time.Second)
				e.mem.nodes[name] = n
			}
		}, given},
		{"it has just come, and has not been refused", func(e *Engine, _ *scripted) {
			for _, name := range []string{"c1", "c2"} {
				n := e.mem.nodes[name]
				n.Made = time.Now().Add(time.Second)
				e.mem.nodes[name] = n
			}
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := func(name string, phase Phase, token string) Node {
				return Node{Name: name, Pool: "p", Phase: phase, Token: token, Job: 7, Whole: true}
			}
			st := State{Heard: []string{""}, Nodes: []Node{node("c1", Launching, "t"), node("c2", Wanted, ""), {Name: "c3", Pool: "p", Phase: Launching, Token: "t"}},
				Launches: []Launch{{Token: "t", Provider: "east", Nodes: []string{"c1", "c3"}, State: Written, Request: cloud.LaunchRequest{Pool: "p"}}}}
			states := offNodes("d1", "d2")
			states["c1"], states["c2"] = up, up
			job := slurm.Job{ID: 7, State: "CONFIGURING", Batch: true, Requeue: true, NumNodes: 2, Partition: "both", Nodes: "c[1-2]"}
			inSlurm(t, st, states, []slurm.Job{job}, func(t *testing.T, e *Engine, s *scripted) {
				for name, n := range s.snap.Nodes {
					n.Partitions = []string{"both"}
					s.snap.Nodes[name] = n
				}
				e.market.denied["east"] = denial{op: opLaunch, since: time.Now().Add(-doubtFor), last: time.Now()}
				e.market.trouble["p@east"] = "credentials not accepted: key revoked"
				tt.change(e, s)
				due, err := e.turnBack(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, name := range []string{"c1", "c2"} {
					if n := e.mem.nodes[name]; n.Phase == Freeing {
						got = append(got, fmt.Sprintf("%s freeing job %d whole", name, n.Job))
					}
				}
				if h, held := e.mem.holds[7]; held {
					got = append(got, "hold 7")
					if h.Why != "pool p: credentials not accepted: key revoked" || !h.names("p") {
						t.Errorf("the job is told %q", h.Why)
					}
				}
				if got := strings.Join(got, ", "); got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
				_, open := e.mem.launches["t"]
				if third := e.mem.nodes["c3"]; (tt.want == "") != (open && third.Phase == Launching) || tt.want != "" && third.Phase != Wanted {
					t.Errorf("its launch is open: %v; the node of another job is %s", open, third.Phase)
				}
				if tt.name == "not for long" && due != 50*time.Second {
					t.Errorf("looked at again after %s", due)
				}
			})
		})
	}
}

// TestAWaitForTheJournalIsTold: a pool's cloud has not shown its instances since a journal was lost, so that no job
// that is requeued begins. One of which no pool buys is not waited for.
func TestAWaitForTheJournalIsTold(t *testing.T) {
	for unheard, waits := range map[string]bool{"west": true, "unused": false} {
		inSlurm(t, State{}, nil, nil, func(t *testing.T, e *Engine, s *scripted) {
			e.providers["unused"] = still{}
			for name := range e.providers {
				e.mem.heard[name] = name != unheard
			}
			ctx, cancel := context.WithCancel(context.Background()) // of the bubble
			defer cancel()
			go func() { (<-e.results)(ctx) }()
			job := slurm.Job{ID: 7, State: "CONFIGURING", Restarts: 1, Nodes: "c1"}
			why, err := e.Fenced(ctx, reading(nil, job), 7)
			synctest.Wait()
			e.drain(ctx)
			if told := slices.Contains(s.asked, "job 7 comment"); err != nil || (why != "") != waits || told != waits {
				t.Errorf("%s has not answered: %q, told %v, %v", unheard, why, told, err)
			}
		})
	}
}

// TestANodeThatDiedIsDownAtOnce: its own cloud says that its instance has ended, and another of its pool has not answered
// since the start. If Slurm has another address for it, that one may have what is behind it.
func TestANodeThatDiedIsDownAtOnce(t *testing.T) {
	for addr, down := range map[string]bool{"10.0.0.1": true, "10.0.0.2": false} {
		n, i := upAt("c1", "east")
		n.AddrSet, i.State, i.Addr = true, cloud.Terminated, "10.0.0.1"
		inTwoClouds(t, State{Nodes: []Node{n}, Instances: []Instance{i}}, nil, map[string]string{"c1": "ALLOCATED+CLOUD"}, nil, func(e *Engine, s *scripted) {
			node := s.snap.Nodes["c1"]
			node.Addr = addr
			s.snap.Nodes["c1"] = node
			e.heard["west"] = false
			var c Change
			e.act(&c, dead, e.mem.nodes["c1"], s.snap)
			if err := e.commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if _, err := e.freeNodes(t.Context()); err != nil || slices.Contains(s.asked, "down c1") != down {
				t.Errorf("at %s: asked %q, %v", addr, s.asked, err)
			}
		})
	}
}

// TestAJobIsToldThatTheKeyIsRefused: the cloud answers, so that it is not said that it does not.
func TestAJobIsToldThatTheKeyIsRefused(t *testing.T) {
	for _, err := range []error{errKey, errors.New("no route")} {
		inSlurm(t, State{}, nil, nil, func(t *testing.T, e *Engine, s *scripted) {
			e.mem.heard["west"] = true
			e.note("east", err)
			e.heardOf("east", err)
			want := fmt.Sprintf("%s at east: %v", phrase(cloud.KindOf(err)), err)
			if sh, _ := e.shutOf(e.pools["p"]); sh.why != want {
				t.Errorf("it is told %q, want %q", sh.why, want)
			}
		})
	}
}

// hung is a Slurm that answers nothing, each command after half a minute.
type hung struct {
	*scripted
	reads bool // but readings
}

func (h hung) hang(what string) error {
	h.note(what)
	time.Sleep(30 * time.Second)
	return fmt.Errorf("scontrol: no answer within 30s: %w", context.DeadlineExceeded)
}

func (h hung) Fresh(ctx context.Context, since time.Time) (*slurm.Snapshot, error) {
	if h.reads {
		return h.scripted.Fresh(ctx, since)
	}
	return nil, h.hang("read")
}
func (h hung) Unreserve(_ context.Context, name string) error { return h.hang("unreserve " + name) }
func (h hung) Reserve(_ context.Context, r slurm.Reservation) error {
	return h.hang("reserve " + r.Name)
}

// TestASlurmThatHangsIsNotAskedForEachPool: each command takes its whole time, in which burstd does nothing else.
func TestASlurmThatHangsIsNotAskedForEachPool(t *testing.T) {
	for _, reads := range []bool{false, true} {
		inSlurm(t, State{}, nil, nil, func(t *testing.T, e *Engine, s *scripted) {
			e.slurm = hung{s, reads}
			for n := range 20 {
				name := fmt.Sprint("r", n)
				e.dry.aside[name] = aside{}
				e.pools[name] = Pool{Name: name, Provider: "west"}
				node := fmt.Sprint("r", n, "-1")
				e.poolOf[node] = name
				e.mem.instances[node] = suspended(node, "east")
				s.snap.Nodes[node] = slurm.Node{Name: node, State: parseState("IDLE+CLOUD+POWERED_DOWN")}
			}
			e.market.silent["east"], e.market.since["east"] = true, time.Now().Add(-doubtFor)
			for name, step := range map[string]func(context.Context) (time.Duration, error){"dry": e.failOver, "names": e.keepNames} {
				began := time.Now()
				s.asked = nil
				if _, err := step(t.Context()); err == nil || time.Since(began) > time.Minute {
					t.Errorf("readings are answered: %v; %s took %s, %v; asked %q", reads, name, time.Since(began), err, s.asked)
				}
			}
		})
	}
}
