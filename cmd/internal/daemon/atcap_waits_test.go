package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// spent is what counts to ann's cap really.
func (l *till) spent() float64 {
	l.Helper()
	rows, err := l.keeper.Real(l.Context(), l.engine.Standing())
	if err != nil {
		l.Fatal(err)
	}
	for _, r := range rows {
		if r.Kind == budget.User {
			return r.Spent + r.Committed
		}
	}
	return 0
}

// waits says that the job was put off, and told so.
func (l *till) waits(id uint32) bool {
	i, _ := l.Info(id)
	return i.State == "PENDING" && i.Begin.After(time.Now().Add(20*time.Minute)) && strings.Contains(i.AdminComment, "budget: user ann's budget for ") && strings.Contains(i.AdminComment, " is spent; starts again from ")
}

// busy has a job of ann's for 13 minutes and three of bob's for half an hour on all nodes.
func (l *till) busy() {
	l.Helper()
	l.Submit(slurmtest.Job{User: "ann", Script: plainScript, Requeue: true, TimeLimit: 100 * time.Hour, Duration: 13 * time.Minute})
	for range 3 {
		l.Submit(slurmtest.Job{User: "bob", Script: plainScript, TimeLimit: 100 * time.Hour, Duration: 30 * time.Minute})
	}
	l.until(time.Minute, "all nodes are in use", func() bool { return l.Node("c4") == "ALLOCATED+CLOUD" })
}

// TestAtCapWhoWaits: a user whose cap is spent has jobs in the queue while others have all nodes. They are told, none of them begins, and
// none is cancelled. What is submitted while a node is free goes back. With a higher cap all start at once.
func TestAtCapWhoWaits(t *testing.T) {
	for _, word := range []string{config.CancelJobs, config.RequeueJobs, ""} {
		t.Run(word, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTill(t, word, budget.Caps{Users: map[string]budget.Limits{"ann": {Day: 0.2}}})
				defer l.past.stop()
				defer func() { l.end() }()
				l.busy()
				var ids []uint32
				for range 3 {
					ids = append(ids, l.job("ann", plainScript))
				}
				held := l.job("ann", plainScript)
				if _, _, err := l.Controller.Run(t.Context(), "scontrol", "uhold", fmt.Sprint(held)); err != nil {
					t.Fatal(err)
				}
				begins := l.job("ann", plainScript)
				start := time.Now().Add(2 * time.Hour).Truncate(time.Second)
				if _, _, err := l.Controller.Run(t.Context(), "scontrol", "update", fmt.Sprint("jobid=", begins), fmt.Sprint("starttime=uts", start.Unix())); err != nil {
					t.Fatal(err)
				}
				l.until(20*time.Minute, "they are put off", func() bool { return l.waits(ids[0]) && l.waits(ids[1]) && l.waits(ids[2]) })
				if i, _ := l.Info(held); i.AdminComment != "" || i.Begin.After(time.Now()) {
					t.Errorf("one that its user holds: %+v", i)
				}
				if i, _ := l.Info(begins); i.AdminComment != "" || !i.Begin.Equal(start) {
					t.Errorf("one with a start of its own: %+v", i)
				}
				if i, _ := l.Info(ids[0]); !strings.HasPrefix(i.AdminComment, "burst: waits: budget: ") {
					t.Errorf("it has never begun, and is told %q", i.AdminComment)
				}
				l.until(30*time.Minute, "nodes are free", func() bool { return l.Node("c3") == "IDLE+CLOUD" })
				told := len(l.Calls())
				late := l.job("ann", plainScript)
				l.until(2*time.Minute, "what began on a free node waits, too", func() bool { return l.waits(late) })
				for _, id := range ids {
					if i, _ := l.Info(id); i.State != "PENDING" || i.Restarts > 0 {
						t.Errorf("%+v, %v", i, l.told(id))
					}
				}
				if i, _ := l.Info(late); i.Restarts != 1 || l.told(late)["budget-back"] != 1 {
					t.Errorf("%+v, %v", i, l.told(late))
				}
				for _, c := range l.Calls()[told:] { // each is told once
					for _, id := range ids {
						if strings.Contains(strings.Join(c.Args, " "), fmt.Sprintf("update jobid=%d ", id)) {
							t.Errorf("%v", c)
						}
					}
				}
				l.end()
				l.start(0) // nothing changes
				time.Sleep(5 * time.Minute)
				for _, id := range append(ids, late) {
					if !l.waits(id) {
						i, _ := l.Info(id)
						t.Errorf("after a start: %+v", i)
					}
				}
				l.end()
				l.caps.Users["ann"] = budget.Limits{Day: 100}
				l.start(0)
				began := time.Now()
				l.until(time.Minute, "they run", func() bool { i, _ := l.Info(ids[0]); return i.State == "RUNNING" })
				t.Logf("after %s", time.Since(began))
				l.until(time.Minute, "it is said", func() bool { all := l.told(0); return all["budget-spent"] == 1 && all["budget-room"] == 1 })
			})
		})
	}
}

// TestAtCapSendsBackTwice: a job with --no-requeue that boots at a spent cap goes back, and again when its user has it start all the
// same; each time it has --no-requeue again once it waits.
func TestAtCapSendsBackTwice(t *testing.T) {
	for _, word := range []string{config.CancelJobs, ""} {
		t.Run(word, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTill(t, word, budget.Caps{Users: map[string]budget.Limits{"ann": {Day: 0.2}}})
				defer l.past.stop()
				defer func() { l.end() }()
				l.boot = 15 * time.Second // longer than a look takes to come
				l.Submit(slurmtest.Job{User: "ann", Script: plainScript, Requeue: true, TimeLimit: 100 * time.Hour, Duration: 13 * time.Minute})
				l.until(20*time.Minute, "the cap is spent", func() bool { return l.told(0)["budget-spent"] == 1 })
				id := l.Submit(slurmtest.Job{User: "ann", Script: plainScript, TimeLimit: 100 * time.Hour, Duration: 50 * time.Hour})
				update := func(args ...string) {
					t.Helper()
					if _, _, err := l.Controller.Run(t.Context(), "scontrol", append([]string{"update"}, args...)...); err != nil {
						t.Fatal(err)
					}
				}
				for n := 1; n <= 2; n++ {
					if n == 2 {
						update("nodename=c[1-4]", "state=power_down_force") // it is to boot again
						time.Sleep(5 * time.Minute)                         // and is not kept from starting by Slurm any more
					}
					l.until(5*time.Minute, "it is sent back as it boots", func() bool {
						if l.told(id)["budget-back"] == n {
							return true
						}
						if i, _ := l.Info(id); i.Begin.After(time.Now()) { // at first, or as a look came before it had nodes
							update(fmt.Sprint("jobid=", id), "starttime=now")
						}
						return false
					})
					l.until(time.Minute, "it waits", func() bool { return l.waits(id) })
					time.Sleep(time.Minute)
					snap, err := l.watcher.Fresh(t.Context(), time.Now())
					if err != nil {
						t.Fatal(err)
					}
					if j := snap.Jobs[id]; j.Requeue || j.Restarts != n || !l.waits(id) || l.told(id)["budget-back"] != n {
						t.Errorf("time %d: requeue %v: %+v, %v", n, j.Requeue, j, l.told(id))
					}
				}
			})
		})
	}
}

// TestAtCapHasRoomAgain: those that were put off go on when there is something to spend again, without a start of burstd.
func TestAtCapHasRoomAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caps := map[string]budget.Limits{"ann": {Day: 0.2}}
		l := newTill(t, config.RequeueJobs, budget.Caps{Users: caps})
		defer l.past.stop()
		defer func() { l.end() }()
		l.busy()
		id := l.job("ann", plainScript)
		l.until(20*time.Minute, "it is put off", func() bool { return l.waits(id) })
		caps["ann"] = budget.Limits{Day: 100}
		began := time.Now()
		l.until(15*time.Minute, "it runs", func() bool { i, _ := l.Info(id); return i.State == "RUNNING" })
		if took := time.Since(began); took < atCapRoom {
			t.Errorf("it went on after %s: a cap that has room for a moment moves nobody", took)
		}
		if i, _ := l.Info(id); strings.Contains(i.AdminComment, "was started") || !strings.HasPrefix(i.AdminComment, "burst: waits: there is something to spend for it again") {
			t.Errorf("it is told %q", i.AdminComment)
		}
	})
}

// TestAtCapOwnWaitsADay: a job whose own budget is spent has no row that says so while it waits, and waits its day all the same.
func TestAtCapOwnWaitsADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTill(t, config.RequeueJobs, budget.Caps{})
		defer l.past.stop()
		defer func() { l.end() }()
		l.end()
		l.own = 0.2
		l.start(0)
		id := l.job("ann", signalScript)
		l.until(30*time.Minute, "it is put off", func() bool {
			i, _ := l.Info(id)
			return i.State == "PENDING" && strings.Contains(i.AdminComment, fmt.Sprintf("job %d's budget is spent", id))
		})
		for _, again := range []bool{false, true} {
			if again {
				l.end()
				l.start(0) // nothing has changed
			}
			time.Sleep(30 * time.Minute)
			if i, _ := l.Info(id); i.State != "PENDING" || time.Until(i.Begin) < 20*time.Hour || i.Restarts != 1 {
				t.Errorf("started anew: %t: it does not wait for its day: %+v", again, i)
			}
		}
		l.end()
		l.unread, l.own = true, 100
		l.start(0)
		time.Sleep(5 * time.Minute)
		if i, _ := l.Info(id); i.State != "PENDING" {
			t.Errorf("nobody knows its budget yet: %+v", i)
		}
		l.mu.Lock()
		l.unread = false
		l.mu.Unlock()
		l.until(time.Minute, "it runs, as its budget was raised", func() bool { i, _ := l.Info(id); return i.State == "RUNNING" })
	})
}

// TestAtCapBoundsTheQueue: with nodes that are up, a user's queue spends the cap, and beside it no more than what
// ran when that was reached.
func TestAtCapBoundsTheQueue(t *testing.T) {
	for _, word := range []string{config.CancelJobs, config.RequeueJobs, ""} {
		t.Run(word, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTill(t, word, budget.Caps{Users: map[string]budget.Limits{"ann": {Day: 0.5}}})
				defer l.past.stop()
				defer func() { l.end() }()
				var ids []uint32
				for range 30 {
					ids = append(ids, l.Submit(slurmtest.Job{User: "ann", Script: plainScript, Requeue: true, TimeLimit: 6 * time.Minute, Duration: 5 * time.Minute}))
				}
				time.Sleep(50 * time.Minute)
				// Four ran; a look, and the idle time of a node until it is closed.
				if got, most := l.spent(), 0.5+4*(5.0+1)/60; got < 0.5 || got > most {
					t.Errorf("%.2f USD are spent of a cap of 0.50, want up to %.2f", got, most)
				}
				wait := 0
				for _, id := range ids { // the others have ended, and some of them are forgotten
					if i, _ := l.Info(id); i.State == "PENDING" {
						if wait++; !l.waits(id) {
							t.Errorf("%+v", i)
						}
					}
				}
				if n := l.told(0)["budget-cancel"]; wait < 18 || n > 4 || word != config.CancelJobs && n > 0 {
					t.Errorf("%d wait, %d were cancelled", wait, n)
				}
				if i, _ := l.Info(ids[29]); i.Begin.In(l.caps.Location).Format(time.TimeOnly) != "00:00:00" {
					t.Errorf("the last is to begin at %s", i.Begin.In(l.caps.Location))
				}
			})
		})
	}
}

// TestAtCapManyWait: of many that wait some are put off in each look, and each is told once.
func TestAtCapManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTill(t, config.CancelJobs, budget.Caps{Users: map[string]budget.Limits{"ann": {Day: 0.2}}})
		defer l.past.stop()
		defer func() { l.end() }()
		l.Submit(slurmtest.Job{User: "ann", TimeLimit: 100 * time.Hour, Duration: 15 * time.Minute})
		for range 3 {
			l.Submit(slurmtest.Job{User: "bob", TimeLimit: 100 * time.Hour, Duration: time.Hour})
		}
		l.until(time.Minute, "all nodes are in use", func() bool { return l.Node("c4") == "ALLOCATED+CLOUD" })
		var ids []uint32
		for range 250 {
			ids = append(ids, l.job("ann", plainScript))
		}
		last := 0
		l.until(20*time.Minute, "all are put off", func() bool {
			off := len(l.engine.AllPutOff(time.Now()))
			if off-last > atCapWaiting {
				t.Errorf("%d were put off at once", off-last)
			}
			last = off
			return off == len(ids)
		})
		time.Sleep(3 * time.Minute)
		told := map[string]int{}
		for _, c := range l.Calls() {
			if c.Name == "scontrol" && strings.Contains(strings.Join(c.Args, " "), " starttime=uts") {
				told[c.Args[1]]++
			}
		}
		for _, id := range ids {
			if n := told[fmt.Sprint("jobid=", id)]; n != 1 || !l.waits(id) {
				i, _ := l.Info(id)
				t.Fatalf("told %d times: %+v", n, i)
			}
		}
	})
}

// TestAtCapInAMixedPartition: a partition that has nodes of the site and of a pool. At a spent cap its jobs are not kept from the
// site's, and what begins in the cloud goes back, for some minutes.
func TestAtCapInAMixedPartition(t *testing.T) {
	for _, word := range []string{"", config.RequeueJobs, config.CancelJobs} {
		t.Run(word, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTillIn(t, slurmtest.Options{Nodes: []string{"c1"}, Partition: "onprem"}, word, budget.Caps{Users: map[string]budget.Limits{"ann": {Month: 0.2}}})
				defer l.past.stop()
				defer func() { l.end() }()
				on := func(id uint32, node string) func() bool {
					return func() bool { i, _ := l.Info(id); return i.State == "RUNNING" && slices.Equal(i.Nodes, []string{node}) }
				}
				bobs := l.Submit(slurmtest.Job{User: "bob", Partition: "onprem", TimeLimit: time.Hour, Duration: 20 * time.Minute})
				l.until(time.Minute, "bob's runs at the site", on(bobs, "on1"))
				first := l.Submit(slurmtest.Job{User: "ann", Script: signalScript, Requeue: true, TimeLimit: 100 * time.Hour, Duration: 15 * time.Minute})
				l.until(time.Minute, "ann's first runs in the cloud", on(first, "c1"))
				ids := []uint32{l.job("ann", plainScript), l.job("ann", plainScript)}
				if word != "" { // it goes at the cap, and then is one of those that wait
					ids = append(ids, first)
				}
				l.until(20*time.Minute, "bob's has ended", func() bool { i, _ := l.Info(bobs); return i.State == "COMPLETED" })
				for _, id := range ids {
					if i, _ := l.Info(id); i.State == "PENDING" && i.Begin.After(time.Now().Add(atCapMixed)) {
						t.Errorf("kept from the site too: %+v", i)
					}
				}
				l.until(atCapMixed+time.Minute, "one of ann's runs at the site", func() bool {
					return slices.ContainsFunc(ids, func(id uint32) bool { return on(id, "on1")() })
				})
				spent := l.spent()
				for range 60 { // to and fro
					time.Sleep(time.Minute)
					for _, id := range ids {
						if i, _ := l.Info(id); i.State == "PENDING" && i.Begin.After(time.Now().Add(atCapMixed)) {
							t.Fatalf("kept from the site too: %+v", i)
						}
					}
				}
				if more := l.spent() - spent; spent > 0.3 || more > 0.05 {
					t.Errorf("ann has spent %.2f of 0.20, and %.2f in the hour after it", spent, more)
				}
			})
		})
	}
}
