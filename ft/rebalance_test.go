package ft_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm/hostlist"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// rules puts all nodes into one pool.
func (w *world) rules(nodes, rebalance, maintenance string) ft.Config {
	w.Helper()
	names, err := hostlist.Expand(nodes)
	if err != nil {
		w.Fatal(err)
	}
	p := ft.Pool{Name: "p", Nodes: names, OnRebalance: rebalance, OnMaintenance: maintenance}
	return ft.Config{Pools: func(node string) (ft.Pool, bool) { return p, slices.Contains(names, node) }}
}

func (w *world) announce(node string, kind cloud.NoticeKind) {
	w.fake.Announce(cloud.Notice{Instance: w.instance(node), Kind: kind})
}

// raised lists the nodes that were powered up by name.
func (w *world) raised() []string {
	var all []string
	for _, c := range w.Calls() {
		if line := strings.Join(c.Args, " "); strings.Contains(line, "state=power_up") {
			nodes, err := hostlist.Expand(strings.TrimPrefix(c.Args[1], "nodename="))
			if err != nil {
				w.Error(err)
			}
			all = append(all, nodes...)
		}
	}
	return all
}

func TestRebalance(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		nodes  string // of the pool
		busy   bool
		state  string // of c1 a little later
		raised []string
	}{
		{ft.Ignore, "c[1-4]", true, "ALLOCATED+CLOUD", nil},
		{"", "c[1-4]", true, "ALLOCATED+CLOUD", nil},
		{ft.Replace, "c[2-4]", true, "ALLOCATED+CLOUD", nil}, // c1 has no pool
		{ft.Drain, "c[1-4]", true, "ALLOCATED+CLOUD+DRAIN+POWER_DOWN", nil},
		{ft.Replace, "c[1-4]", true, "ALLOCATED+CLOUD+DRAIN+POWER_DOWN", []string{"c2"}},
		{ft.Replace, "c1", true, "ALLOCATED+CLOUD+DRAIN+POWER_DOWN", nil}, // no node is left
		{ft.Replace, "c[1-4]", false, "IDLE+CLOUD+POWERED_DOWN", nil},     // nobody needs another
	} {
		t.Run(fmt.Sprintf("%s, pool %s, busy %t", tt.rule, tt.nodes, tt.busy), func(t *testing.T) {
			bubble(t, "c[1-4]", func(w *world) {
				id := w.begin(stays(w))[0]
				if !tt.busy {
					w.Exit(id, 0)
					time.Sleep(2 * time.Second)
				}
				w.start(w.rules(tt.nodes, tt.rule, ""), 0)
				w.announce("c1", cloud.Rebalance)
				w.announce("c1", cloud.Rebalance)
				w.closed(5 * time.Second)
				time.Sleep(10 * time.Second)
				i := w.info(id)
				if tt.busy && (i.State != "RUNNING" || len(i.Signals) > 0) || w.Node("c1") != tt.state {
					t.Errorf("node %s, job %+v\n%s", w.Node("c1"), i, w.story())
				}
				if got := w.raised(); !slices.Equal(got, tt.raised) {
					t.Errorf("raised: %v, want %v", got, tt.raised)
				}
				if len(w.fake.Acknowledged()) > 0 {
					t.Error("the cloud is told that nothing of ours runs there")
				}
			})
		})
	}
}

// TestNoNodeIsRaisedThatTheBudgetHasNoRoomFor: the node is drained only, its job stays, and the event says why. A question
// that has no answer is asked again.
func TestNoNodeIsRaisedThatTheBudgetHasNoRoomFor(t *testing.T) {
	for _, tt := range []struct {
		name, why, event string
		raised           []string
	}{
		{"no room", "user ann's budget for today is used up", "no node is raised in its place: budget: user ann's budget for today is used up: it is drained only", nil},
		{"room", "", "node c2 is raised in its place", []string{"c2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, "c[1-4]", func(w *world) {
				id := w.begin(stays(w))[0]
				cfg := w.rules("c[1-4]", ft.Replace, "")
				var asked atomic.Int32
				cfg.Afford = func(context.Context, map[string]string) (func(string) string, error) {
					if asked.Add(1) == 1 {
						return nil, errors.New("not now")
					}
					return func(node string) string {
						if node != "c1" {
							t.Errorf("asked for %s", node)
						}
						return tt.why
					}, nil
				}
				l := w.start(cfg, 0)
				w.boot = 30 * time.Second
				w.announce("c1", cloud.Rebalance)
				w.until(10*time.Second, "the node is drained, and the budget has been asked", func() bool { return asked.Load() == 2 && w.count("replace") == 1 })
				time.Sleep(time.Second)
				place := ""
				if tt.raised != nil {
					place = "c1"
				}
				if got := l.guard.InPlaceOf("c2"); got != place {
					t.Errorf("c2 is in place of %q", got)
				}
				w.closed(time.Minute)
				if i := w.info(id); i.State != "RUNNING" || !slices.Equal(w.raised(), tt.raised) || !strings.Contains(w.story(), tt.event) {
					t.Errorf("%s, raised %v\n%s", i.State, w.raised(), w.story())
				}
				time.Sleep(15 * time.Minute)
				if got := l.guard.InPlaceOf("c2"); got != "" {
					t.Errorf("in the end c2 is in place of %q", got)
				}
			})
		})
	}
}

// TestTheSecondReplacementIsAskedForBesideTheFirst: notices that come together are asked for in one opening of the budget, and one
// that comes a little later beside those whose nodes Slurm may not have ordered yet; long after, nothing of them is said.
func TestTheSecondReplacementIsAskedForBesideTheFirst(t *testing.T) {
	bubble(t, "c[1-6]", func(w *world) {
		w.begin(stays(w), stays(w), stays(w))
		w.boot = 5 * time.Second
		cfg := w.rules("c[1-6]", ft.Replace, "")
		var asked []string
		cfg.Afford = func(_ context.Context, raised map[string]string) (func(string) string, error) {
			room := 1 - len(raised)
			return func(node string) string {
				asked = append(asked, fmt.Sprint(node, " beside ", raised))
				if room--; room < 0 {
					return "no room"
				}
				return ""
			}, nil
		}
		w.start(cfg, 0)
		w.announce("c1", cloud.Rebalance)
		w.announce("c2", cloud.Rebalance)
		w.until(10*time.Second, "both are answered", func() bool { return w.count("replace") == 2 })
		time.Sleep(10 * time.Second)
		w.announce("c3", cloud.Rebalance)
		w.until(10*time.Second, "the third is", func() bool { return w.count("replace") == 3 })
		if got := w.raised(); !slices.Equal(got, []string{"c4"}) {
			t.Errorf("raised %v, asked %q", got, asked)
		}
		if want := []string{"c1 beside map[]", "c2 beside map[]", "c3 beside map[c4:c1]"}; !slices.Equal(asked, want) {
			t.Errorf("asked %q, want %q", asked, want)
		}
		synctest.Wait()
		w.announce("c3", cloud.Rebalance) // of the same instance: nothing new
		time.Sleep(2 * time.Minute)
		if len(asked) != 3 {
			t.Errorf("asked %q", asked)
		}
	})
}

// TestARebalanceBeforeTheInterruption: the job stays until then, and finds a
// node that is up.
func TestARebalanceBeforeTheInterruption(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		w.boot = 30 * time.Second
		id := w.begin(leaves(w, 1, 75))[0]
		w.start(w.rules("c[1-4]", ft.Replace, ""), 0)
		w.announce("c1", cloud.Rebalance)
		w.until(time.Minute, "c2 is up", func() bool { return w.Node("c2") == "IDLE+CLOUD" })
		if i := w.info(id); i.Restarts > 0 || len(i.Signals) > 0 {
			t.Errorf("it did not stay: %+v", i)
		}
		w.evict("c1", 2*time.Minute)
		w.again(5*time.Second, id, 1)
		w.closed(time.Minute)
		if i := w.info(id); len(i.Signals) != 1 || i.Nodes[0] != "c2" || len(w.raised()) != 1 {
			t.Errorf("%+v, raised %v", i, w.raised())
		}
	})
}

// TestNodesAreRaisedOnce: each notice gets a node of its own as long as there
// are any, in one command, and a second life raises none again.
func TestNodesAreRaisedOnce(t *testing.T) {
	bubble(t, "c[1-10]", func(w *world) {
		jobs := make([]slurmtest.Job, 6)
		for i := range jobs {
			jobs[i] = stays(w)
		}
		ids := w.begin(jobs...)
		w.boot = time.Minute
		cfg := w.rules("c[1-10]", ft.Replace, "")
		w.start(cfg, 0)
		for i := range ids {
			w.announce(fmt.Sprint("c", i+1), cloud.Rebalance)
		}
		w.closed(10 * time.Second)
		got := w.raised()
		slices.Sort(got)
		if want := []string{"c10", "c7", "c8", "c9"}; !slices.Equal(got, want) {
			t.Errorf("raised %v, want %v\n%s", got, want, w.story())
		}
		if n := w.count("replace"); n != len(ids) {
			t.Errorf("%d events say what was raised", n)
		}
		if n := w.Count("scontrol update"); n > 4 {
			t.Errorf("%d updates", n)
		}
	})
}

// TestARebalanceAtEveryPoint: whatever line the guard dies at, the node is
// drained and one other is raised, not two.
func TestARebalanceAtEveryPoint(t *testing.T) {
	play := func(t *testing.T, at int) (points []string) {
		bubble(t, "c[1-6]", func(w *world) {
			id := w.begin(stays(w))[0]
			w.boot = 20 * time.Second
			cfg := w.rules("c[1-6]", ft.Replace, "")
			l := w.start(cfg, at)
			w.announce("c1", cloud.Rebalance)
			for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				if l.isDead() {
					w.die()
					time.Sleep(3 * time.Second)
					l = w.start(cfg, 0)
				}
			}
			points = l.points
			w.closed(time.Second)
			if w.Node("c1") != "ALLOCATED+CLOUD+DRAIN+POWER_DOWN" || w.Node("c2") != "IDLE+CLOUD" || w.Node("c3") != "IDLE+CLOUD+POWERED_DOWN" || w.info(id).Restarts > 0 {
				t.Errorf("c1 %s, c2 %s, c3 %s\n%s", w.Node("c1"), w.Node("c2"), w.Node("c3"), w.story())
			}
		})
		return points
	}
	points := play(t, 0)
	if len(points) < 10 {
		t.Errorf("only %d points: %v", len(points), points)
	}
	for i, p := range points {
		t.Run(fmt.Sprintf("%d %s", i+1, p), func(t *testing.T) { play(t, i+1) })
	}
}
