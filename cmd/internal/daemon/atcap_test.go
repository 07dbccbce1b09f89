package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/crash"
	"github.com/burst-hpc/burst/cmd/internal/spending"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// till is a simulated site of four nodes that cost a dollar an hour each, and burstds that
// look at its caps, of which each may die.
type till struct {
	*past
	fake  *cloudtest.Fake
	word  string
	caps  budget.Caps
	deaf  bool // nobody acts on notices
	nodes []string
	hub   *session.Hub // nil: no step has burst-srun
	own   float64      // the budget of each of ann's jobs, in USD; 0: none

	unread bool // those are not known yet

	stop context.CancelFunc
	done sync.WaitGroup
	runs sync.WaitGroup // burst-sruns

	mu     sync.Mutex
	points []string // of this burstd
	at     int      // where it dies; 0: nowhere
	dead   bool
}

// evening has it be half past ten in the evening now.
func evening() *time.Location {
	now := time.Now().UTC()
	at := time.Date(now.Year(), now.Month(), now.Day(), 22, 30, 0, 0, time.UTC)
	return time.FixedZone("evening", int(at.Sub(now).Seconds()))
}

func newTill(t *testing.T, word string, caps budget.Caps) *till {
	return newTillOf(t, []string{"c1", "c2", "c3", "c4"}, word, caps)
}

func newTillOf(t *testing.T, nodes []string, word string, caps budget.Caps) *till {
	return newTillIn(t, slurmtest.Options{Nodes: nodes}, word, caps)
}

func newTillIn(t *testing.T, o slurmtest.Options, word string, caps budget.Caps) *till {
	caps.Location, o.SuspendTime = evening(), time.Hour
	nodes := o.Nodes
	l := &till{past: newPast(t, o), fake: cloudtest.NewFake(cloudtest.Options{}), word: word, caps: caps, nodes: nodes}
	if len(nodes) > 4 {
		l.hub = session.NewHub(session.HubConfig{AtOnce: 6}, l.store, slog.New(slog.DiscardHandler))
	}
	var c power.Change
	got, err := l.fake.Launch(t.Context(), cloud.LaunchRequest{Token: "t", Cluster: "x", Pool: "p", Count: len(nodes), Offering: cloud.Offering{Type: "small", Market: cloud.Spot}})
	if err != nil {
		t.Fatal(err)
	}
	for n, one := range got {
		i, node := power.Instance{Provider: "here", Instance: one}, fmt.Sprint("c", n+1)
		i.Assigned, i.State, i.Launched = node, cloud.Running, time.Now()
		c.Instances = append(c.Instances, i)
		c.Nodes = append(c.Nodes, power.Node{Name: node, Pool: "p", Phase: power.Up, Instance: i.ID, AddrSet: true})
	}
	if err := l.store.CommitPower(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	l.start(0)
	return l
}

func (l *till) point(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return errDead
	}
	if strings.Contains(name, "squeue") || strings.Contains(name, "scontrol show") {
		return nil // to die at a reading is to die at what came before it
	}
	if l.points = append(l.points, name); len(l.points) == l.at {
		l.dead = true
		l.stop()
		return errDead
	}
	return nil
}

// start begins a burstd that dies at a point, unless that is 0.
func (l *till) start(at int) {
	d := l.Daemon
	ctx, stop := context.WithCancel(l.Context())
	l.stop, l.points, l.at, l.dead = stop, nil, at, false
	client := slurm.New(crash.InRunner(l.Controller, l.point))
	journal := crash.InJournal(l.store, l.point)
	d.client, d.watcher, d.journal = client, slurm.NewWatcher(client.Snapshot, minGap), journal
	d.cfg = &config.Config{Providers: []config.Provider{{Name: "here"}}, Budget: &config.Budget{Warn: 80, AtCap: l.word}, Pools: []config.Pool{{Power: power.Pool{Name: "p", Nodes: l.nodes}, Slurm: conf.Pool{Partition: "cloud"}}}}
	ctl := controller{client, d.watcher}
	log := slog.New(slog.DiscardHandler)
	d.engine = power.New(power.Config{Cluster: "x", Pools: []power.Pool{{Name: "p", Provider: "here", Nodes: l.nodes}},
		Budget: func(context.Context, power.Standing) (power.Afford, error) {
			return func(...power.Launch) power.Refusal { return power.Refusal{} }, nil
		}}, journal, ctl, map[string]cloud.Provider{"here": l.fake}, log)
	if err := d.engine.Load(ctx); err != nil {
		l.Fatal(err)
	}
	d.keeper = &spending.Keeper{Caps: l.caps, Latest: d.watcher.Latest, Ledger: l.store, Log: log,
		Price:     func(string, cloud.Offering) (float64, bool) { return 1, true },
		Increment: func(string, cloud.Offering) price.Increment { return price.PerSecond }}
	cloudy := d.poolNodes()
	d.keeper.Cloud = func(n string) bool { return cloudy[n] }
	if l.own > 0 {
		d.keeper.Own = func(j slurm.Job) (o spending.Own, read bool) {
			if j.User == "ann" {
				o.USD = l.own
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			return o, !l.unread
		}
	}
	d.ended, d.meters = make(chan struct{}, 1), newMeters(nil, d.watcher.Latest)
	d.prices = newPrices(d.cfg.Providers, map[string]cloud.Provider{"here": &pricer{usd: 1}}, log)
	d.atCap = newAtCap(d)
	rules := ft.Config{Spent: d.atCap}
	if d.hub = l.hub; l.hub != nil {
		rules.Sessions = ft.SessionsOf(l.hub, l.store)
		l.done.Go(func() { l.hub.Run(ctx) })
	}
	d.guard = ft.New(rules, journal, ctl, nil, log)
	l.done.Go(func() { d.engine.Run(ctx) })
	if !l.deaf {
		l.done.Go(func() { _ = d.guard.Run(ctx, nil) })
	}
	l.done.Go(func() { _ = d.keepLedger(ctx) })
	l.done.Go(func() { _ = d.keepAtCap(ctx) })
}

// TestAtCapCountsEachCapAnew: what a job did not do for one cap, or for one period, is not held against it in the next.
func TestAtCapCountsEachCapAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTill(t, config.RequeueJobs, budget.Caps{})
		defer l.past.stop()
		defer func() { l.end() }()
		l.end()
		l.deaf = true
		l.start(0)
		id := l.job("ann", signalScript)
		l.until(time.Minute, "it runs", func() bool { i, _ := l.Info(id); return i.State == "RUNNING" })
		snap, err := l.watcher.Fresh(t.Context(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		asked := func() (n int) {
			l.mu.Lock()
			defer l.mu.Unlock()
			for _, p := range l.points {
				if strings.Contains(p, "before") && strings.Contains(p, "notice") {
					n++
				}
			}
			return n
		}
		day := func(n int) spending.Counted {
			p := budget.Caps{}.Day(time.Now().AddDate(0, 0, n))
			return spending.Counted{Job: snap.Jobs[id], Nodes: []string{"c1"}, Cap: budget.Row{Scope: budget.Scope{Kind: budget.User, Name: "ann"}, Period: p, Cap: 1}}
		}
		for n, c := range []struct {
			day  int
			wait time.Duration
			want int
		}{{0, 0, 1}, {0, time.Minute, 1}, {0, 20 * time.Minute, 2}, {0, 20 * time.Minute, 2}, {1, 0, 3}, {1, time.Minute, 3}, {1, 20 * time.Minute, 4}} {
			time.Sleep(c.wait)
			if err := l.atCap.requeue(t.Context(), []spending.Counted{day(c.day)}); err != nil {
				t.Fatal(err)
			}
			if got := asked(); got != c.want {
				t.Errorf("look %d: it was asked %d times, want %d: %v", n, got, c.want, l.points)
			}
		}
	})
}

func (l *till) end() {
	l.stop()
	l.done.Wait()
}

// until lets time pass until it is so.
func (l *till) until(d time.Duration, what string, is func() bool) {
	l.Helper()
	for end := time.Now().Add(d); !is(); time.Sleep(time.Second) { // synctest's time
		if time.Now().After(end) {
			l.Fatalf("not within %s: %s: %+v", d, what, l.told(0))
		}
	}
}

// told are the events of a job, or of all, by kind.
func (l *till) told(job uint32) map[string]int {
	l.Helper()
	all, err := l.Events(l.Context(), 0, 0)
	if err != nil {
		l.Fatal(err)
	}
	n := map[string]int{}
	for _, e := range all {
		if job == 0 || e.Job == job {
			n[e.Kind]++
		}
	}
	return n
}

const (
	signalScript = "#!/bin/sh\n#BURST signal=USR1 grace=10s\n"
	plainScript  = "#!/bin/sh\nsleep 1000\n"
)

func (l *till) job(user, script string) uint32 {
	return l.Submit(slurmtest.Job{User: user, Script: script, Requeue: true, TimeLimit: 100 * time.Hour, Duration: 50 * time.Hour})
}

// TestAtCapRequeue: when a user's cap is really spent, the user's jobs that can go do, and wait for the
// next day; those that would lose their work stay, and others' are not touched.
func TestAtCapRequeue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTill(t, config.RequeueJobs, budget.Caps{Users: map[string]budget.Limits{"ann": {Day: 1}}})
		defer l.past.stop()
		defer l.end()
		goes, stays, other := l.job("ann", signalScript), l.job("ann", plainScript), l.job("bob", signalScript)
		time.Sleep(20 * time.Minute) // two instances: 0.67
		if i, _ := l.Info(goes); i.State != "RUNNING" || i.AdminComment != "" {
			t.Errorf("before its cap is near: %+v", i)
		}
		time.Sleep(6 * time.Minute)
		for _, id := range []uint32{goes, stays} {
			if i, _ := l.Info(id); !strings.Contains(i.AdminComment, "user ann's budget for ") || !strings.Contains(i.AdminComment, "is nearly spent: at the cap this job is checkpointed and requeued") {
				t.Errorf("it is not told that the cap is near: %+v", i)
			}
		}
		l.until(10*time.Minute, "it is requeued and waits for the next day", func() bool {
			i, _ := l.Info(goes)
			return i.State == "PENDING" && i.Restarts == 1 && strings.Contains(i.AdminComment, "is spent; starts again from ") && strings.Contains(i.AdminComment, "budget: user ann's budget for ")
		})
		time.Sleep(15 * time.Minute)
		i, _ := l.Info(goes)
		if i.State != "PENDING" || i.Restarts != 1 || !slices.Equal(i.Signals, []string{"USR1"}) || l.Node("c1") == "ALLOCATED+CLOUD" {
			t.Errorf("node %s, job %+v", l.Node("c1"), i)
		}
		if i, _ := l.Info(stays); i.State != "RUNNING" || i.Restarts > 0 || len(i.Signals) > 0 || !strings.Contains(i.AdminComment, "is spent; this job goes on to its end: it has no checkpoint method") {
			t.Errorf("%+v", i)
		}
		if i, _ := l.Info(other); i.State != "RUNNING" || i.Restarts > 0 || i.AdminComment != "" || l.Node("c3") != "ALLOCATED+CLOUD" {
			t.Errorf("node %s, job %+v", l.Node("c3"), i)
		}
		if a, b := l.told(goes), l.told(stays); a["budget-requeue"] != 1 || a["requeue"] != 1 || b["budget-finish"] != 1 || len(b) != 1 {
			t.Errorf("%v, %v", a, b)
		}
		l.until(time.Hour, "it runs on the next day", func() bool { i, _ := l.Info(goes); return i.State == "RUNNING" })
		if now := time.Now().In(l.caps.Location); now.Hour() != 0 {
			t.Errorf("it runs at %s", now)
		}
	})
}

// TestAtCapAfterABreak: what nodes have cost while there was no burstd is not charged to who has them
// afterwards.
func TestAtCapAfterABreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTill(t, config.CancelJobs, budget.Caps{Users: map[string]budget.Limits{"bob": {Month: 0.5}}})
		defer l.past.stop()
		defer func() { l.end() }()
		for range 4 {
			l.Submit(slurmtest.Job{User: "ann", TimeLimit: 6 * time.Hour, Duration: 6*time.Hour - 10*time.Minute})
		}
		time.Sleep(5 * time.Minute)
		l.end()
		bobs := l.job("bob", plainScript)
		time.Sleep(6 * time.Hour)
		l.start(0)
		time.Sleep(4 * time.Minute)
		if i, _ := l.Info(bobs); i.State != "RUNNING" || i.AdminComment != "" {
			t.Errorf("bob has spent a third of a dollar: %+v", i)
		}
		l.until(time.Hour, "it is cancelled", func() bool { i, _ := l.Info(bobs); return i.State == "CANCELLED" })
		if ran := time.Since(l.watcher.Latest().Jobs[bobs].Start); ran < 30*time.Minute || ran > 35*time.Minute {
			t.Errorf("after %s", ran)
		}
	})
}

// TestAtCapAsksLessAndLess: a job that does not go is not asked back to back.
func TestAtCapAsksLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTill(t, config.RequeueJobs, budget.Caps{Users: map[string]budget.Limits{"ann": {Month: 0.01}}})
		defer l.past.stop()
		defer func() { l.end() }()
		l.end()
		l.deaf = true
		l.start(0)
		l.job("ann", signalScript)
		time.Sleep(70 * time.Minute)
		l.mu.Lock()
		defer l.mu.Unlock()
		asked := 0
		for _, p := range l.points {
			if strings.Contains(p, "notice") {
				asked++
			}
		}
		if asked != 4 { // before each and after it
			t.Errorf("%d: %v", asked, l.points)
		}
	})
}

// Do is the way from a burst-srun to burstd.
func (l *till) Do(ctx context.Context, _ string, in, out any) (err error) {
	var w session.Word
	switch in := in.(type) {
	case session.Hello:
		w, err = l.hub.Open(ctx, 0, in)
	case session.Question:
		w, err = l.hub.Poll(ctx, 0, in)
	case session.Given:
		return l.hub.Answer(ctx, 0, in)
	case session.End:
		return l.hub.Close(ctx, 0, in)
	}
	if out != nil {
		*out.(*session.Word) = w
	}
	return err
}

// protected is a job of a step under burst-srun, whose checkpoints take so long.
func (l *till) protected(user string, takes time.Duration) uint32 {
	run := func(id uint32, restarts int) {
		ctx, stop := context.WithCancel(l.Context())
		defer stop()
		l.runs.Go(func() {
			for i, _ := l.Info(id); i.State == "RUNNING" && i.Restarts == restarts && ctx.Err() == nil; i, _ = l.Info(id) {
				time.Sleep(5 * time.Second)
			}
			stop()
		})
		hello := session.Hello{Key: session.Key{Job: id, Attempt: restarts, Step: "0"}, Began: time.Now(), Host: "c", Method: "program", Strategy: "both", Dir: "/ckpt", Cost: takes}
		c := session.NewClient(session.ClientConfig{Transport: l, Hello: hello, Say: func(string) {}, Do: func(_ context.Context, r session.Request) session.Answer {
			select {
			case <-time.After(takes):
			case <-ctx.Done():
			}
			return session.Answer{Generation: "/ckpt/gen", N: 1, Took: takes, Iteration: -1, Stopped: r.Kind == session.Stop}
		}})
		l.runs.Add(1)
		defer l.runs.Done()
		c.Run(ctx)
	}
	return l.Submit(slurmtest.Job{User: user, Script: plainScript, Requeue: true, TimeLimit: 100 * time.Hour, Duration: 50 * time.Hour, OnStart: run})
}

// TestAtCapGivesAllATurn: of many jobs with slow checkpoints, of which so many may be written at once, each has its turn
// in the time that the turns take: those that had none are not taken for such as were asked in vain.
func TestAtCapGivesAllATurn(t *testing.T) {
	if testing.Short() {
		t.Skip("an hour and a half of a site: make test has it")
	}
	const many = 20 // 120 with AtOnce 32 go as fast, and take minutes
	synctest.Test(t, func(t *testing.T) {
		var nodes []string
		for n := range many {
			nodes = append(nodes, fmt.Sprint("c", n+1))
		}
		l := newTillOf(t, nodes, config.RequeueJobs, budget.Caps{Users: map[string]budget.Limits{"ann": {Month: 0.01}}})
		defer l.past.stop()
		var jobs []uint32
		defer func() {
			l.end()
			for _, id := range jobs {
				l.Cancel(id)
			}
			l.runs.Wait()
		}()
		for range nodes {
			jobs = append(jobs, l.protected("ann", 10*time.Minute))
		}
		left := func() (n int) {
			for _, id := range jobs {
				if i, _ := l.Info(id); i.State == "RUNNING" && i.Restarts == 0 {
					n++
				}
			}
			return n
		}
		l.until(time.Minute, "they run", func() bool { return left() == len(jobs) })
		// A quarter of the places is kept from those with which nothing hurries. 4 write in each ten minutes, 8 until the time of a
		// request and of its last turns is over; it is asked anew after half an hour.
		began := time.Now()
		for range 9 {
			t.Logf("after %s %d are left", time.Since(began), left())
			time.Sleep(10 * time.Minute)
		}
		if n := left(); n > 0 {
			t.Errorf("%d of %d had no turn in an hour and a half", n, len(jobs))
		}
	})
}

// TestAtCapLeavesThePlaceAtTheSite: a job that was put off, and then was given its place in the site's queue
// again, keeps that when burstd is started anew, and when a longer cap is spent.
func TestAtCapLeavesThePlaceAtTheSite(t *testing.T) {
	for _, again := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			l := newTill(t, config.RequeueJobs, budget.Caps{Users: map[string]budget.Limits{"ann": {Day: 0.2, Month: 0.5}}})
			defer l.past.stop()
			defer func() { l.end() }()
			l.Submit(slurmtest.Job{User: "bob", Partition: "onprem", TimeLimit: 100 * time.Hour, Duration: 30 * time.Minute})
			goes := l.job("ann", signalScript)
			l.until(20*time.Minute, "it is put off", func() bool {
				i, _ := l.Info(goes)
				return i.State == "PENDING" && i.Begin.After(time.Now().Add(time.Hour/2))
			})
			if _, _, err := l.Controller.Run(t.Context(), "scontrol", "update", fmt.Sprint("jobid=", goes), "partition=onprem", "starttime=now"); err != nil {
				t.Fatal(err)
			}
			if l.end(); !again {
				l.caps.Users["ann"] = budget.Limits{Day: 0.2, Month: 0.2} // as if the month's came to be spent
			}
			l.start(0)
			for range 5 {
				time.Sleep(time.Minute)
				if i, _ := l.Info(goes); i.Begin.After(time.Now()) {
					t.Errorf("it may not begin before %s: %+v", i.Begin, i)
				}
			}
			l.until(time.Hour, "it runs at the site", func() bool {
				i, _ := l.Info(goes)
				return i.State == "RUNNING" && slices.Equal(i.Nodes, []string{"on1"})
			})
		})
	}
}

// TestAtCapKilledAtEveryPoint: wherever the burstd dies that finds a lower cap, each job is requeued, or cancelled, once; and
// one that waits for their nodes is told, and waits on.
func TestAtCapKilledAtEveryPoint(t *testing.T) {
	for _, word := range []string{config.RequeueJobs, config.CancelJobs} {
		play := func(t *testing.T, at int) (points []string) {
			synctest.Test(t, func(t *testing.T) {
				l := newTillOf(t, []string{"c1", "c2"}, word, budget.Caps{Cluster: budget.Limits{Day: 100}})
				defer l.past.stop()
				defer func() { l.end() }()
				jobs := []uint32{l.job("ann", signalScript), l.job("bob", signalScript)}
				time.Sleep(80 * time.Second)
				waits := l.job("ann", plainScript)
				l.end()
				l.caps.Cluster.Day = 0.01 // it is lowered
				l.start(at)
				time.Sleep(time.Minute)
				l.until(20*time.Minute, "burstd is dead", func() bool { return at == 0 || l.dead || len(l.points) < at })
				points = l.points
				l.end()
				l.start(0)
				want := "PENDING"
				if word == config.CancelJobs {
					want = "CANCELLED"
				}
				l.until(20*time.Minute, "they are "+want, func() bool {
					return !slices.ContainsFunc(jobs, func(id uint32) bool { i, _ := l.Info(id); return i.State != want })
				})
				time.Sleep(2 * time.Minute)
				for _, id := range jobs {
					i, _ := l.Info(id)
					if i.State != want || want == "PENDING" && (i.Restarts != 1 || !strings.Contains(i.AdminComment, "budget: the cluster's budget for ")) ||
						want == "CANCELLED" && (i.Restarts != 0 || !strings.HasSuffix(i.AdminComment, "is spent; this job is being cancelled")) {
						t.Errorf("%+v, %v", i, l.told(id))
					}
				}
				if i, _ := l.Info(waits); i.State != "PENDING" || !strings.Contains(i.AdminComment, " is spent; starts again from ") || i.Begin.Before(time.Now().Add(10*time.Minute)) {
					t.Errorf("who only waited: %+v, %v", i, l.told(waits))
				}
				closed := func(c slurmtest.Call) bool { return slices.Contains(c.Args, "state=power_down_asap") }
				if !slices.ContainsFunc(l.Calls(), closed) {
					t.Error("their nodes take other jobs")
				}
				if want == "PENDING" {
					l.end()
					l.caps.Cluster.Day = 100 // it is raised
					l.start(0)
					l.until(3*time.Minute, "two of them run, and the third waits for a node", func() bool {
						n := 0
						for _, id := range append(jobs, waits) {
							if i, _ := l.Info(id); i.State == "RUNNING" {
								n++
							} else if i.Begin.After(time.Now()) {
								return false
							}
						}
						return n == 2
					})
				}
			})
			return points
		}
		points := play(t, 0)
		if len(points) < 8 {
			t.Errorf("only %d points: %v", len(points), points)
		}
		for i, p := range points {
			if testing.Short() && i%12 != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s %d %s", word, i+1, p), func(t *testing.T) { play(t, i+1) })
		}
	}
}
