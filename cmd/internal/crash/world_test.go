package crash_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/cmd/internal/crash"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// world is what outlives burstd: Slurm, the cloud, the journal's file and the
// spool. It runs in a synctest bubble.
type world struct {
	t     *testing.T
	ctl   *slurmtest.Controller
	fake  *cloudtest.Fake
	other *cloudtest.Fake // a second cloud, for a pool that has a source there
	keeps bool            // it is configured though the pool has none there any more
	cloud cloud.Provider  // the fake, or what stands before it
	db    string
	pool  power.Pool
	more  []power.Pool                      // beside it
	rules func(node string) (ft.Pool, bool) // of notices that are no interruption; nil: none
	boot  time.Duration                     // burstd's BootTimeout
	skew  time.Duration                     // of the clock by which orders are made
	until func()                            // ends the world
	// complains takes an instance that runs, and says whether its boot has failed; nil: none fails.
	complains func(i cloud.Instance) bool
	held      func(i cloud.Instance) bool // by somebody who makes an image of it; nil: none is
	begun     time.Duration               // what the clouds bill at least
	// spends gives a life's engine a budget, and starts its ledger; nil: there is none.
	spends func(l *life, latest func() *slurm.Snapshot, c *power.Config)
	hears  func(line string) // each of burstd's commands, before slurmctld; nil: nobody

	mu     sync.Mutex
	life   *life
	spool  []power.Order
	orders int
	booted map[string]bool // instances whose slurmd has registered
	twice  map[string]bool // nodes that had two live instances at once
	lost   bool            // orders get lost from now on
}

// life is one burstd, from its start to its death.
type life struct {
	ctx    context.Context
	kill   context.CancelFunc
	store  *store.Store
	engine *power.Engine
	guard  *ft.Guard
	fresh  func(context.Context, time.Time) (*slurm.Snapshot, error)
	done   sync.WaitGroup

	mu      sync.Mutex
	killed  bool
	reached bool           // it died where it was to die
	log     []string       // the points passed
	times   map[string]int // how often each
	at      string         // where it is to die
	left    int            // or after how many more points; 0: does not count
}

var errKilled = errors.New("killed by the test")

func newWorld(t *testing.T, o slurmtest.Options, c cloudtest.Options, market string) *world {
	w := &world{t: t, boot: 5 * time.Minute, db: t.TempDir() + "/burst.db", booted: map[string]bool{}, twice: map[string]bool{}}
	o.OnResume = func(nodes, file string) { w.order(power.Resume, nodes, file) }
	o.OnSuspend = func(nodes string) { w.order(power.Suspend, nodes, "") }
	o.OnResumeFail = func(nodes string) { w.order(power.ResumeFail, nodes, "") }
	if err := os.WriteFile(w.db, empty, 0o640); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	o.Fail = func(line string) error {
		if w.hears != nil {
			w.hears(line)
		}
		return nil
	}
	o.Gate = func(id uint32) { w.gate(ctx, id) }
	w.pool = power.Pool{Name: "p", Provider: "fake", Nodes: o.Nodes, Partition: "cloud",
		Fleet: fleet.Config{Types: []string{"small"}, Zones: []string{"a", "b"}, Market: market}}
	w.ctl = slurmtest.New(o)
	w.fake = cloudtest.NewFake(c)
	w.cloud = w.fake
	c.Name = "o"
	w.other = cloudtest.NewFake(c)
	var wg sync.WaitGroup
	wg.Go(func() { w.ctl.Serve(ctx) })
	wg.Go(func() { w.machines(ctx) })
	w.until = func() { w.die(); cancel(); wg.Wait() }
	return w
}

// order hands over as burst-resume does: to the daemon, or else to the spool.
func (w *world) order(kind power.OrderKind, nodes, file string) {
	w.mu.Lock()
	w.orders++
	o := power.Order{ID: fmt.Sprint("order-", w.orders), Kind: kind, Nodes: nodes, ResumeFile: file, Made: time.Now().Add(w.skew)}
	l := w.life
	if w.lost {
		w.mu.Unlock()
		return
	}
	w.mu.Unlock()
	if l != nil && l.engine.AddOrder(l.ctx, o) == nil {
		return
	}
	w.mu.Lock() // its answer may have been lost: the same order, by the other way
	w.spool = append(w.spool, o)
	w.mu.Unlock()
}

// gate waits as burst-gate does: what has run before begins when burstd says so.
func (w *world) gate(ctx context.Context, id uint32) {
	for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		if i, known := w.ctl.Info(id); !known || i.State != "CONFIGURING" || i.Restarts == 0 {
			return
		}
		w.mu.Lock()
		l := w.life
		w.mu.Unlock()
		if l == nil {
			continue
		}
		snap, err := l.fresh(l.ctx, time.Now())
		if err != nil {
			continue
		}
		if why, err := l.engine.Fenced(l.ctx, snap, id); err == nil && why == "" {
			return
		}
	}
}

// point is passed by the daemon; it dies where it is told to, and whatever it
// tries afterwards does not happen.
func (l *life) point(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.killed {
		return errKilled
	}
	l.times[name]++
	p := fmt.Sprintf("%s #%d", name, l.times[name])
	l.log = append(l.log, p)
	l.left = max(l.left-1, -1)
	if p == l.at || l.left == 0 {
		l.killed, l.reached = true, true
		l.kill()
		return errKilled
	}
	return nil
}

// start begins a life that dies at the named point, "" for none.
func (w *world) start(at string) *life {
	w.t.Helper()
	st, err := store.Open(w.t.Context(), w.db)
	if err != nil {
		w.t.Fatal(err)
	}
	id, err := st.ClusterID(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	l := &life{store: st, times: map[string]int{}, at: at}
	l.ctx, l.kill = context.WithCancel(w.t.Context())
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	if os.Getenv("BURST_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	client := slurm.New(crash.InRunner(w.ctl, l.point))
	ctl := struct {
		*slurm.Client
		*slurm.Watcher
	}{client, slurm.NewWatcher(client.Snapshot, 100*time.Millisecond)}
	provider := crash.InProvider(w.cloud, l.point)
	l.fresh = ctl.Fresh
	journal := crash.InJournal(st, l.point)
	providers := map[string]cloud.Provider{"fake": provider}
	if len(w.pool.Then) > 0 || w.keeps {
		providers["other"] = crash.InProvider(w.other, l.point)
	}
	cfg := power.Config{Cluster: id, Pools: append([]power.Pool{w.pool}, w.more...), BootTimeout: w.boot, Held: w.held,
		Begun: func(string, cloud.Offering) time.Duration { return w.begun }}
	if w.spends != nil {
		w.spends(l, ctl.Latest, &cfg)
	}
	l.engine = power.New(cfg, journal, ctl, providers, log)
	l.guard = ft.New(ft.Config{Pools: w.rules, Ask: func(instance string) { l.engine.Ask(instance) },
		Scarce: func(snap *slurm.Snapshot, j slurm.Job) bool { return l.engine.Scarce(snap, j) }}, journal, ctl, providers, log)
	if err := l.engine.Load(l.ctx); err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	spooled := slices.Clone(w.spool)
	w.mu.Unlock()
	taken := 0
	for _, o := range spooled {
		if l.engine.AddOrder(l.ctx, o) != nil {
			break
		}
		taken++
	}
	w.mu.Lock()
	w.spool = w.spool[taken:]
	w.life = l
	w.mu.Unlock()
	l.done.Go(func() { l.engine.Run(l.ctx) })
	l.done.Go(func() {
		if err := l.guard.Run(l.ctx, map[string]cloud.NoticeSource{"fake": provider.(cloud.NoticeSource)}); err != nil && l.ctx.Err() == nil {
			w.t.Errorf("the guard ended: %v", err)
		}
	})
	return l
}

// die ends the present life and waits for its goroutines, whose last words
// nobody hears.
func (w *world) die() {
	w.mu.Lock()
	l := w.life
	w.life = nil
	w.mu.Unlock()
	if l == nil {
		return
	}
	l.mu.Lock()
	l.killed = true
	l.mu.Unlock()
	l.kill()
	l.done.Wait()
	if err := l.store.Close(); err != nil {
		w.t.Error(err)
	}
}

// drain hands the daemon what has come to the spool while it ran.
func (w *world) drain() {
	w.mu.Lock()
	l, spooled := w.life, w.spool
	w.spool = nil
	w.mu.Unlock()
	for i, o := range spooled {
		if l == nil || l.engine.AddOrder(l.ctx, o) != nil {
			w.mu.Lock()
			w.spool = append(slices.Clone(spooled[i:]), w.spool...)
			w.mu.Unlock()
			return
		}
	}
}

// wait lets time pass until cond holds, at most for d.
func (w *world) wait(d time.Duration, what string, cond func() bool) bool {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		w.drain()
		if cond() {
			return true
		}
		time.Sleep(100 * time.Millisecond) // synctest's time
	}
	w.t.Errorf("not within %s: %s", d, what)
	return false
}

// dead says that the present life has passed the point where it was to die.
func (w *world) isDead() bool {
	w.mu.Lock()
	l := w.life
	w.mu.Unlock()
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.killed
}

// expand is hostlist.Expand for lists that are known to be right.
func expand(list string) []string {
	names, err := hostlist.Expand(list)
	if err != nil {
		panic(err)
	}
	return names
}
