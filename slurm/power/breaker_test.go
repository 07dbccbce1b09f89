package power

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

func kinds(changes []Change) []string {
	var all []string
	for _, c := range changes {
		for _, e := range c.Events {
			all = append(all, e.Kind)
		}
	}
	return all
}

// TestBreaker: x fails, r registers, b does both in one change, o is another pool's failure.
func TestBreaker(t *testing.T) {
	for _, tt := range []struct {
		name, steps string
		most, want  int
		stopped     bool
	}{
		{"none", "", 3, 0, false},
		{"two", "xx", 3, 2, false},
		{"three", "xxx", 3, 3, true},
		{"four", "xxxx", 3, 4, true},
		{"one comes up between", "xxrxx", 3, 2, false},
		{"one comes up afterwards: stopped all the same", "xxxr", 3, 0, true},
		{"one comes up as the third fails", "xxb", 3, 1, false},
		{"another pool's", "xxo", 3, 2, false},
		{"no limit", "xxxxxxxx", 0, 8, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, p := testEngine(State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Booting}}})
			for name, pool := range e.pools {
				pool.MaxBootFailures = tt.most
				e.pools[name] = pool
			}
			for i, s := range tt.steps {
				failed := Instance{Instance: cloud.Instance{ID: string(rune('a' + i)), Pool: "p"}}.failed("why")
				up := Node{Name: "c1", Pool: "p", Phase: Up}
				c := map[rune]Change{'x': {Instances: []Instance{failed}}, 'r': {Nodes: []Node{up}}, 'b': {Instances: []Instance{failed}, Nodes: []Node{up}}}[s]
				if s == 'o' {
					failed.Pool = "q"
					c.Instances = []Instance{failed}
				}
				for range 2 { // the same instance is one failure
					if err := e.commit(t.Context(), c); err != nil {
						t.Fatal(err)
					}
					c = Change{Instances: c.Instances}
				}
			}
			why, stopped := e.mem.stopped("p", "east")
			if got := e.mem.breakers["p"].Failures; got != tt.want || stopped != tt.stopped {
				t.Errorf("%d failures, stopped %v: want %d, %v", got, stopped, tt.want, tt.stopped)
			}
			if stopped && (!strings.HasPrefix(why, "pool p is stopped: 3 instances in a row did not become nodes; the last, ") || !slices.Contains(kinds(p.committed), "pool-stopped")) {
				t.Errorf("stopped because %q, events %v", why, kinds(p.committed))
			}
		})
	}
}

// TestAStoppedPoolLaunchesNothing: its nodes are given back, their jobs told.
func TestAStoppedPoolLaunchesNothing(t *testing.T) {
	wanted := func(name, pool string, job uint32) Node {
		return Node{Name: name, Pool: pool, Phase: Wanted, Job: job, Whole: job != 0, Made: time.Now()}
	}
	const boots = "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"
	st := State{Nodes: []Node{wanted("c1", "p", 7), wanted("c2", "p", 0)}, Breakers: []Breaker{{Pool: "p", Stopped: at, Why: "no munge key (by uid 0)"}}}
	inSlurm(t, st, map[string]string{"c1": boots, "c2": boots}, nil, func(t *testing.T, e *Engine, _ *scripted) {
		if _, err := e.launchWanted(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]Phase{"c1": Freeing, "c2": Freeing}, nodePhases(e)); diff != "" || len(e.mem.launches) > 0 {
			t.Errorf("launches %v, nodes (-want +got):\n%s", e.mem.launches, diff)
		}
		h := e.mem.holds[7]
		if h.Why != "pool p is stopped: no munge key (by uid 0)" || time.Until(h.Start) < maxRetry-time.Minute {
			t.Errorf("the job is held for %q until %s", h.Why, h.Start)
		}
	})
}

// running has the engine run beside f, in a bubble of virtual time.
func running(t *testing.T, st State, nodes map[string]string, jobs []slurm.Job, p cloud.Provider, f func(t *testing.T, e *Engine)) {
	t.Helper()
	inSlurm(t, st, nodes, jobs, func(t *testing.T, e *Engine, _ *scripted) {
		if p != nil {
			e.providers["east"] = p
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { e.Run(ctx); close(done) }()
		f(t, e)
		cancel()
		<-done
	})
}

func TestPoolsAreStoppedAndStartedByHand(t *testing.T) {
	running(t, State{Breakers: []Breaker{{Pool: "p", Failures: 4}}}, map[string]string{"c1": "IDLE"}, nil, nil, func(t *testing.T, e *Engine) {
		if err := e.StopPool(t.Context(), "p", "new image", "uid 0"); err != nil {
			t.Fatal(err)
		}
		since := e.Health().Breakers["p"].Stopped
		time.Sleep(time.Minute)
		if err := e.StopPool(t.Context(), "p", "newer image", "uid 0"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Breaker{Pool: "p", Failures: 4, Stopped: since, Why: "newer image (by uid 0)", ByHand: true}, e.Health().Breakers["p"]); diff != "" || since.IsZero() {
			t.Errorf("stopped (-want +got):\n%s", diff)
		}
		for range 2 {
			if err := e.StartPool(t.Context(), "p", "uid 0"); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(Breaker{Pool: "p"}, e.Health().Breakers["p"]); diff != "" {
			t.Errorf("started (-want +got):\n%s", diff)
		}
		for _, err := range []error{e.StartPool(t.Context(), "z", "uid 0"), e.StopPool(t.Context(), "z", "x", "uid 0")} {
			if !errors.Is(err, ErrNoPool) {
				t.Errorf("pool z: %v", err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range cap(e.results) + 1 { // some may still get through
			if err := e.StartPool(ctx, "p", "uid 0"); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
}

func TestABootFailure(t *testing.T) {
	const boots = "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"
	for _, tt := range []struct {
		name  string
		tries int
		age   time.Duration
		want  map[string]Phase
		held  bool
	}{
		{"the first", 0, time.Minute, map[string]Phase{"c1": Wanted, "c2": Booting}, false},
		{"the third", 2, time.Minute, map[string]Phase{"c1": Freeing, "c2": Freeing}, true},
		{"too late for another", 0, 8 * time.Minute, map[string]Phase{"c1": Freeing, "c2": Freeing}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := State{Instances: []Instance{onInstance("i-1", "c1", at), onInstance("i-2", "c2", at)}}
			inSlurm(t, st, map[string]string{"c1": boots, "c2": boots}, nil, func(t *testing.T, e *Engine, s *scripted) {
				for _, n := range []Node{{Name: "c1", Instance: "i-1", Tries: tt.tries}, {Name: "c2", Instance: "i-2"}} {
					n.Pool, n.Phase, n.Job, n.Whole, n.Made, n.AddrSet = "p", Booting, 7, true, time.Now().Add(-tt.age), true
					e.mem.nodes[n.Name] = n
				}
				var c Change
				e.bootFailed(&c, e.mem.nodes["c1"], "the disk is full", s.snap)
				if err := e.commit(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, nodePhases(e)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if i := e.mem.instances["i-1"]; !i.Failed || !i.Console || !strings.HasSuffix(i.Doomed, "the disk is full") {
					t.Errorf("its instance is %+v", i)
				}
				if i := e.mem.instances["i-2"]; i.Failed || (i.Doomed != "") != tt.held {
					t.Errorf("the other node's instance is %+v", i)
				}
				if h, held := e.mem.holds[7]; held != tt.held || held && !strings.Contains(h.Why, "the disk is full") {
					t.Errorf("the job is held: %+v", h)
				}
				if n := e.mem.breakers["p"].Failures; n != 1 {
					t.Errorf("%d failures are counted", n)
				}
			})
		})
	}
}

// TestABootThatTakesTooLong: Slurm still waits for it, its own order of failure was lost.
func TestABootThatTakesTooLong(t *testing.T) {
	const boots = "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"
	for _, tt := range []struct {
		age  time.Duration
		want Phase
	}{{15*time.Minute + lateMargin, Booting}, {15*time.Minute + lateMargin + time.Second, Freeing}} {
		jobs := []slurm.Job{{ID: 7, State: "CONFIGURING", Nodes: "c1", Batch: true, Requeue: true}}
		inSlurm(t, State{Instances: []Instance{onInstance("i-1", "c1", at)}}, map[string]string{"c1": boots}, jobs, func(t *testing.T, e *Engine, _ *scripted) {
			e.mem.nodes["c1"] = Node{Name: "c1", Pool: "p", Phase: Booting, Instance: "i-1", Job: 7, Made: time.Now().Add(-tt.age), AddrSet: true}
			e.mem.instances["i-1"] = onInstance("i-1", "c1", time.Now().Add(-tt.age))
			if _, err := e.watchBoots(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := e.mem.nodes["c1"]; n.Phase != tt.want || e.mem.instances["i-1"].Failed != (tt.want == Freeing) {
				t.Errorf("after %s it is %s", tt.age, n.Phase)
			}
		})
	}
}

func TestOneLine(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"one line", "mount /home: timed out", "mount /home: timed out"},
		{"lines", "mount /home:\n\ttimed out\r\n", "mount /home: timed out"},
		{"long", strings.Repeat("x", 600), strings.Repeat("x", 497) + "…"},
		{"cut in a letter", "x" + strings.Repeat("é", 300), "x" + strings.Repeat("é", 248) + "…"},
	} {
		if got := oneLine(tt.text); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestTail(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"short", "boot\nok\n", "boot\nok"},
		{"carriage returns and colours", "\x1b[31mboot\x1b[0m\r\nok", "[31mboot[0m\nok"},
		{"long", "first line\nsecond\nthird", "second\nthird"},
		{"one long line", "0123456789abcdefghij", "456789abcdefghij"},
		{"cut in a letter", "aéäöüéäöüx", "äöüéäöüx"},
		{"not UTF-8", "a\xffb", "a?b"},
		{"empty", " \n", ""},
	} {
		if got := tail(tt.text, 16); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// consoled is a cloud with consoles; it notes its calls.
type consoled struct {
	still
	text  string
	err   error
	hangs bool
	calls chan string
}

func (c consoled) Console(ctx context.Context, id string) (string, error) {
	c.calls <- "console " + id
	if c.hangs {
		<-ctx.Done()
		return "", ctx.Err()
	}
	return c.text, c.err
}

func (c consoled) Terminate(_ context.Context, ids []string) error {
	for _, id := range ids {
		c.calls <- "terminate " + id
	}
	return nil
}

func TestConsolesAreKeptBeforeInstancesEnd(t *testing.T) {
	const panicked = "Kernel panic - not syncing"
	for _, tt := range []struct {
		name  string
		cloud consoled
		event string        // part of it; empty: none
		most  time.Duration // until the instance ends
	}{
		{"its last lines", consoled{text: strings.Repeat("boot\n", 2000) + panicked}, panicked, time.Second},
		{"nothing on it", consoled{}, "", time.Second},
		{"refused", consoled{err: &cloud.Error{Kind: cloud.Auth, Op: "console", Err: errors.New("not allowed")}}, "could not be fetched", time.Second},
		{"hangs", consoled{hangs: true}, "could not be fetched", consoleCall + time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := onInstance("i-1", "c1", at).failed("it did not register")
			inSlurm(t, State{Instances: []Instance{i}}, map[string]string{"c1": "IDLE+CLOUD+POWERED_DOWN"}, nil, func(t *testing.T, e *Engine, _ *scripted) {
				tt.cloud.calls = make(chan string, 100)
				e.providers["east"] = tt.cloud
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { e.Run(ctx); close(done) }()
				began := time.Now()
				var got []string
				for len(got) == 0 || got[len(got)-1] != "terminate i-1" {
					got = append(got, <-tt.cloud.calls)
				}
				took := time.Since(began)
				cancel()
				<-done
				if !slices.Equal(got, []string{"console i-1", "terminate i-1"}) || took > tt.most {
					t.Errorf("called %v within %s", got, took)
				}
				texts := ""
				for _, c := range e.journal.(*paper).committed {
					for _, ev := range c.Events {
						if ev.Kind == "console" {
							texts += ev.Text
						}
					}
				}
				if (texts == "") != (tt.event == "") || !strings.Contains(texts, tt.event) || len(texts) > consoleText {
					t.Errorf("event of %d bytes: %.100q", len(texts), texts)
				}
			})
		})
	}
}

// TestManyConsoles: what cannot be fetched within a minute ends without.
func TestManyConsoles(t *testing.T) {
	st := State{}
	for n := range 40 {
		st.Instances = append(st.Instances, onInstance("i-"+string(rune('A'+n)), "c1", at).failed("it did not register"))
	}
	c := consoled{hangs: true, calls: make(chan string, 1000)}
	running(t, st, map[string]string{"c1": "IDLE+CLOUD+POWERED_DOWN"}, nil, c, func(t *testing.T, e *Engine) {
		time.Sleep(consoleWait + 2*time.Second)
		synctest.Wait()
		close(c.calls)
		consoles, ends := 0, map[string]bool{}
		for call := range c.calls {
			if id, end := strings.CutPrefix(call, "terminate "); end {
				ends[id] = true
			} else {
				consoles++
			}
		}
		if consoles > 3*maxConsoles || len(ends) != 40 {
			t.Errorf("%d consoles were asked for, %d instances ended", consoles, len(ends))
		}
	})
}

// TestWhyItEnded: what the cloud says of an instance that it ended is told with the failed boot, with the stopped pool, to
// the job, and of a node that died; also when the list that says it comes after burstd's start has forgotten it.
func TestWhyItEnded(t *testing.T) {
	const word, boots, up = "Client.InternalError: Client error on launch", "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "ALLOCATED+CLOUD"
	for _, tt := range []struct {
		name  string
		state cloud.State // as the journal has it
		phase Phase
		act   action
		slurm string
		kinds []string // of the events that say it
	}{
		{"it boots", cloud.Pending, Booting, retry, boots, []string{"boot-failed", "pool-stopped"}},
		{"burstd was started anew", cloud.Terminated, Booting, retry, boots, []string{"boot-failed", "pool-stopped"}},
		{"it was up", cloud.Running, Up, dead, up, []string{"died"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := onInstance("i-1", "c1", at)
			i.State, i.Pool = tt.state, "p"
			inSlurm(t, State{Instances: []Instance{i}}, map[string]string{"c1": tt.slurm}, nil, func(t *testing.T, e *Engine, s *scripted) {
				pool := e.pools["p"]
				pool.MaxBootFailures = 1
				e.pools["p"] = pool
				e.mem.nodes["c1"] = Node{Name: "c1", Pool: "p", Phase: tt.phase, Job: 7, Instance: "i-1", Tries: maxTries, Made: time.Now(), AddrSet: true}
				ended := i.Instance
				ended.State, ended.Why = cloud.Terminated, word
				if err := e.commit(t.Context(), e.learn([]cloud.Instance{ended})); err != nil {
					t.Fatal(err)
				}
				if again := e.learn([]cloud.Instance{ended}); len(again.Instances) > 0 {
					t.Errorf("it is learnt twice: %+v", again)
				}
				var c Change
				e.act(&c, tt.act, e.mem.nodes["c1"], s.snap)
				e.count(&c, time.Now())
				for _, kind := range tt.kinds {
					if !slices.ContainsFunc(c.Events, func(ev Event) bool { return ev.Kind == kind && strings.Contains(ev.Text, word) }) {
						t.Errorf("no event %s says it: %+v", kind, c.Events)
					}
				}
				if tt.act == retry && (len(c.Holds) != 1 || !strings.Contains(c.Holds[0].Why, word)) {
					t.Errorf("its job is told %+v", c.Holds)
				}
				if tt.act == dead && (c.Instances[0].Doomed != CloudEnded || !strings.Contains(c.Nodes[0].Reason, word)) {
					t.Errorf("%+v, %+v", c.Instances, c.Nodes)
				}
			})
		})
	}
}
