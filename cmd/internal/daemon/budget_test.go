package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/spending"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// TestHowBudgetsStand: what the ledger has booked counts, what has no price as the site says,
// and once a cap is nearly reached that is an event, one also after a restart.
func TestHowBudgetsStand(t *testing.T) {
	s := newSite(t)
	st, err := store.Open(t.Context(), s.config.Endpoint.DB())
	if err != nil {
		t.Fatal(err)
	}
	s.write("prices.csv", "type,zone,market,usd_per_hour,date\nsmall,,on-demand,0.085,2026-08-01\n", 0o644)
	s.config.Providers[0].PriceTable = filepath.Join(s.dir, "prices.csv")
	now := time.Now().UTC()
	noon := time.Date(now.Year(), now.Month(), now.Day(), 12, 0, 0, 0, time.UTC)
	s.config.Budget = &config.Budget{Warn: 80, AtCap: config.CancelJobs, Caps: budget.Caps{Cluster: budget.Limits{Day: 1.2, Month: 100}, Users: map[string]budget.Limits{"ann": {Day: 5}},
		Unknown: 1, Location: time.FixedZone("noon", int(noon.Sub(now).Seconds()))}} // the instances are today's at any hour
	known, unknown := machine("i-1", cloud.Offering{Type: "small", Market: cloud.OnDemand}), machine("i-2", cloud.Offering{Type: "odd", Market: cloud.Spot})
	for _, i := range []*power.Instance{&known, &unknown} {
		i.State, i.Launched, i.Ended, i.Gone = cloud.Terminated, now.Add(-2*time.Hour), now.Add(-time.Hour), now.Add(-time.Hour)
	}
	if err := st.CommitPower(t.Context(), power.Change{Instances: []power.Instance{known, unknown}}); err != nil {
		t.Fatal(err)
	}
	st.Close()
	for _, life := range []string{"the first", "the second"} {
		r := s.start()
		var rows []api.BudgetRow
		r.until(life+" has booked it", func() bool {
			rows, err = r.Budget(t.Context(), -1)
			return err == nil && len(rows) == 3 && rows[0].Spent > 0
		})
		for n, want := range []api.BudgetRow{{Of: "cluster", Period: "day", Cap: 1.2, Spent: 1.085}, {Of: "cluster", Period: "month", Cap: 100, Spent: 1.085}, {Of: "user", Name: "ann", Period: "day", Cap: 5}} {
			if r := rows[n]; r.Of != want.Of || r.Name != want.Name || r.Period != want.Period || r.Cap != want.Cap || r.Spent < want.Spent-1e-6 || r.Spent > want.Spent+1e-6 || r.Committed != 0 || r.AtCap != "cancel" {
				t.Errorf("%s: %+v, want %+v", life, r, want)
			}
		}
		warned := func() (n int) {
			events, err := r.Events(t.Context(), 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				if e.Kind == "budget-warn" && strings.Contains(e.Text, "the cluster's budget of 1.20 USD a day on ") && strings.Contains(e.Text, ": 90 % are spent (") {
					n++
				}
			}
			return n
		}
		r.until("the cap of the day is nearly reached", func() bool { return warned() > 0 })
		r.until("metrics", func() bool { return strings.Contains(r.scrape(), `burst_budget_cap_usd{kind="day"} 1.2`) })
		if n := warned(); n != 1 {
			t.Errorf("%s: said %d times", life, n)
		}
		r.finish() // the next one would else be asked while this one still answers
	}
}

// scripts are batch scripts of Slurm's.
type scripts struct {
	mu    sync.Mutex
	texts map[uint32]string
	reads int
}

func (s *scripts) BatchScript(_ context.Context, id uint32) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	text, ok := s.texts[id]
	if !ok {
		return "", slurm.ErrNoJob
	}
	if text == "" {
		return "", errors.New("slurmctld does not answer")
	}
	return text, nil
}

func TestOwnBudgets(t *testing.T) {
	s := &scripts{texts: map[uint32]string{1: "#!/bin/sh\n#BURST budget=20\n", 2: "#!/bin/sh\n#BURST signal=USR1\n", 3: "#BURST budget=much\n", 4: "#BURST keep=x\n", 5: "#BURST keep=x budget=3\n"}}
	woken := make(chan bool, 100)
	b := newOwnBudgets(t.Context(), nil, func() *slurm.Snapshot { return nil }, func() { woken <- true })
	b.slurm = s
	for _, c := range []struct {
		name  string
		job   slurm.Job
		usd   float64
		wrong string
	}{
		{"of the script", slurm.Job{ID: 1, Batch: true}, 20, ""},
		{"the comment is over it", slurm.Job{ID: 1, Batch: true, Comment: "burst: budget=7.50"}, 7.5, ""},
		{"a task of an array", slurm.Job{ID: 1, ArrayID: 1, ArrayTask: "3", Batch: true}, 20, ""},
		{"none", slurm.Job{ID: 2, Batch: true}, 0, ""},
		{"no amount", slurm.Job{ID: 3, Batch: true}, 0, `"much" is not an amount of USD`},
		{"another key is wrong", slurm.Job{ID: 4, Batch: true}, 0, ""},
		{"another key is wrong beside it", slurm.Job{ID: 5, Batch: true}, 0, "keep"},
		{"no script", slurm.Job{ID: 6}, 0, ""},
		{"gone", slurm.Job{ID: 7, Batch: true}, 0, ""},
	} {
		own, read := b.of(c.job)
		for !read {
			<-woken
			own, read = b.of(c.job)
		}
		if own.USD != c.usd || (own.Wrong == "") != (c.wrong == "") || !strings.Contains(own.Wrong, c.wrong) {
			t.Errorf("%s: %+v", c.name, own)
		}
	}
	if s.reads != 6 {
		t.Errorf("scripts were read %d times, and there are 6", s.reads)
	}
}

// TestOwnBudgetOfAnArrayWithoutOneTask: that Slurm has forgotten one task says nothing of the others' budget.
func TestOwnBudgetOfAnArrayWithoutOneTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripts{texts: map[uint32]string{10: "#BURST budget=20\n", 12: "#BURST budget=20\n"}}
		b := newOwnBudgets(t.Context(), nil, func() *slurm.Snapshot { return &slurm.Snapshot{} }, func() {})
		b.slurm = s
		over, runs := slurm.Job{ID: 11, ArrayID: 10, Batch: true}, slurm.Job{ID: 12, ArrayID: 10, Batch: true}
		ask := func(j slurm.Job, usd float64, want bool) {
			t.Helper()
			own, read := b.of(j)
			if synctest.Wait(); own.USD != usd || own.Wrong != "" || read != want {
				t.Errorf("of job %d: %+v, %v", j.ID, own, read)
			}
		}
		ask(over, 0, false)
		ask(over, 0, true) // and is not asked for again
		if s.reads != 1 {
			t.Errorf("%d reads", s.reads)
		}
		ask(runs, 0, false)
		ask(runs, 20, true)
		ask(over, 20, true)
		if s.reads != 2 {
			t.Errorf("%d reads", s.reads)
		}
		b.kept = 0
		ask(slurm.Job{ID: 13, Batch: true}, 0, false)
		if !b.none[11].IsZero() || b.none[13].IsZero() || len(b.known) > 0 {
			t.Errorf("what Slurm does not show is kept: %v, %v", b.known, b.none)
		}
	})
}

// TestOwnBudgetAfterAWrongAnswer: that Slurm once knew no such job drops the budget of one that it shows for no longer than a minute.
func TestOwnBudgetAfterAWrongAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripts{texts: map[uint32]string{}}
		j := slurm.Job{ID: 10, State: "PENDING", Batch: true}
		b := newOwnBudgets(t.Context(), nil, func() *slurm.Snapshot { return &slurm.Snapshot{Jobs: map[uint32]slurm.Job{10: j}} }, func() {})
		b.slurm = s
		ask := func(after time.Duration, usd float64, want bool, reads int) {
			t.Helper()
			time.Sleep(after)
			own, read := b.of(j)
			if synctest.Wait(); own.USD != usd || read != want || s.reads != reads {
				t.Errorf("%+v, %v, %d reads", own, read, s.reads)
			}
		}
		ask(0, 0, false, 1)
		ask(time.Second, 0, false, 1) // it is not believed at once
		ask(2*afterPause, 0, true, 2)
		ask(time.Second, 0, true, 2)
		s.texts[10] = "#BURST budget=20\n"
		ask(noneAgain, 0, true, 3)
		ask(0, 20, true, 3)
	})
}

// TestOwnBudgetsOfManyJobs: each script is read once, however many Slurm shows; those of jobs that it does not show are forgotten.
func TestOwnBudgetsOfManyJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripts{texts: map[uint32]string{}}
		snap := &slurm.Snapshot{Jobs: map[uint32]slurm.Job{}}
		b := newOwnBudgets(t.Context(), nil, func() *slurm.Snapshot { return snap }, func() {})
		b.slurm = s
		show := func(from, to uint32) {
			snap = &slurm.Snapshot{Jobs: map[uint32]slurm.Job{}}
			for id := from; id < to; id++ {
				snap.Jobs[id], s.texts[id] = slurm.Job{ID: id, Batch: true}, "#BURST budget=20\n"
			}
		}
		ask := func() (unread int) {
			for _, j := range snap.Jobs {
				if _, read := b.of(j); !read {
					unread++
				}
			}
			synctest.Wait()
			return unread
		}
		const many = ownKept + 200
		show(1, 1+many)
		ask()
		if n := ask(); n > 0 || s.reads != many {
			t.Errorf("%d of %d scripts are not known, and there were %d reads", n, many, s.reads)
		}
		for n := range uint32(3) {
			show((n+1)*many, (n+2)*many)
			ask()
		}
		if n := len(b.known); n > 3*many {
			t.Errorf("%d budgets are kept, and Slurm shows %d jobs", n, many)
		}
	})
}

// heldScripts are scripts that are read when they may be.
type heldScripts struct {
	*scripts
	begun chan uint32
	may   chan bool
}

func (s heldScripts) BatchScript(ctx context.Context, id uint32) (string, error) {
	s.begun <- id
	<-s.may
	return s.scripts.BatchScript(ctx, id)
}

// TestOwnBudgetsInTheirOrder: a launch that waits for a script does not wait for all others that are asked for.
func TestOwnBudgetsInTheirOrder(t *testing.T) {
	s := heldScripts{&scripts{texts: map[uint32]string{}}, make(chan uint32, 200), make(chan bool)}
	b := newOwnBudgets(t.Context(), nil, func() *slurm.Snapshot { return nil }, func() {})
	b.slurm = s
	for id := range uint32(100) {
		b.of(slurm.Job{ID: 1 + id, Batch: true})
	}
	for range ownAtOnce {
		<-s.begun
	}
	b.of(slurm.Job{ID: 50, Batch: true}) // it is asked for again
	s.may <- true
	if id := <-s.begun; id != 50 {
		t.Errorf("after those that were under way that of %d is read, want 50", id)
	}
	close(s.may)
}

// mute is a Slurm that cannot be told of nodes.
type mute struct{ slurm.Runner }

func (m mute) Run(ctx context.Context, name string, args ...string) (stdout, stderr []byte, err error) {
	if name == "scontrol" && args[0] == "update" {
		return nil, nil, errors.New("slurmctld does not answer")
	}
	return m.Runner.Run(ctx, name, args...)
}

// TestNodesCloseWhenTheBudgetIsExceeded: a job that Slurm starts on a node that is up is not asked
// for; no other follows it, and the node goes when it has ended.
func TestNodesCloseWhenTheBudgetIsExceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast(t, slurmtest.Options{Nodes: []string{"c1"}, SuspendTime: time.Minute})
		defer p.stop()
		d := p.Daemon
		d.cfg = &config.Config{Budget: &config.Budget{Warn: 80}}
		d.client, d.journal, d.meters = slurm.New(p.Controller), d.store, newMeters(nil, d.watcher.Latest)
		i := machine("i-1", cloud.Offering{Type: "small", Market: cloud.Spot})
		i.Assigned, i.State, i.Launched = "c1", cloud.Running, time.Now()
		if err := d.store.CommitPower(t.Context(), power.Change{Instances: []power.Instance{i}, Nodes: []power.Node{{Name: "c1", Pool: "p", Phase: power.Up, Instance: "i-1", AddrSet: true}}}); err != nil {
			t.Fatal(err)
		}
		d.engine = power.New(power.Config{Cluster: "x", Pools: []power.Pool{{Name: "p", Provider: "here", Nodes: []string{"c1"}}}}, d.store, nil, nil, d.log)
		if err := d.engine.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		limits := func(usd float64) {
			d.keeper = &spending.Keeper{Caps: budget.Caps{Cluster: budget.Limits{Day: usd}, Location: time.FixedZone("noon", 12*3600)}, Latest: d.watcher.Latest, Ledger: d.store,
				Price:     func(string, cloud.Offering) (float64, bool) { return 1, true },
				Increment: func(string, cloud.Offering) price.Increment { return price.PerSecond }}
		}
		look := func() (flags []string) {
			if _, err := d.watcher.Fresh(t.Context(), time.Now()); err != nil {
				t.Fatal(err)
			}
			if err := d.lookAtBudget(t.Context(), map[budget.Key]bool{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			snap, err := d.watcher.Fresh(t.Context(), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return snap.Nodes["c1"].State.Flags
		}
		first := p.Submit(slurmtest.Job{TimeLimit: 2 * time.Hour, Duration: time.Hour})
		second := p.Submit(slurmtest.Job{TimeLimit: 2 * time.Hour, Duration: time.Hour})
		time.Sleep(time.Minute)
		limits(5)
		if flags := look(); slices.Contains(flags, slurm.Drain) || slices.Contains(flags, slurm.PowerDown) {
			t.Errorf("within the budget the node is %v", flags)
		}
		limits(1)
		d.client = slurm.New(mute{p.Controller})
		for range 3 {
			if err := d.lookAtBudget(t.Context(), map[budget.Key]bool{}); err == nil || !strings.Contains(err.Error(), "closing nodes") {
				t.Errorf("Slurm does not hear it, and the error is %v", err)
			}
		}
		d.client = slurm.New(p.Controller)
		if flags := look(); !slices.Contains(flags, slurm.Drain) && !slices.Contains(flags, slurm.PowerDown) {
			t.Errorf("the node is %v, and is to take no more jobs", flags)
		}
		look() // once is enough
		time.Sleep(59*time.Minute + 30*time.Second)
		if a, _ := p.Info(first); a.State != "COMPLETED" {
			t.Errorf("the first job is %s", a.State)
		}
		if b, _ := p.Info(second); b.State == "RUNNING" {
			t.Error("the second job runs on the same node")
		}
		events, err := d.Events(t.Context(), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, e := range events {
			if e.Kind == "budget-leave" && e.Node == "c1" && strings.Contains(e.Text, "USD more than all of it could be spent") {
				n++
			}
		}
		if n != 1 { // nor while Slurm could not be told
			t.Errorf("%d events say so: %+v", n, events)
		}
	})
}
