package ft_test

import (
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

func TestDeadlines(t *testing.T) {
	long := slurmtest.Job{Requeue: true, Nodes: 2, Script: "#!/bin/sh\n#BURST signal=USR1 grace=10m\n"}
	requeued := func(w *world, id uint32, want time.Duration) {
		w.Helper()
		told := time.Now()
		w.until(3*time.Minute, "the requeue", func() bool { return w.info(id).Restarts == 1 })
		if took := time.Since(told); took < want-time.Second || took > want+time.Second {
			w.Errorf("requeued after %s, not %s", took, want)
		}
		w.closed(3 * time.Minute)
		if i := w.info(id); len(i.Signals) != 1 {
			w.Errorf("signals %v", i.Signals)
		}
	}
	t.Run("the same notice with an earlier one", func(t *testing.T) {
		bubble(t, "c[1-4]", func(w *world) {
			id := w.begin(long)[0]
			w.start(ft.Config{}, 0)
			i := w.instance("c1")
			w.evictInstance(i, time.Now().Add(2*time.Minute))
			time.Sleep(10 * time.Second)
			w.evictInstance(i, time.Now().Add(30*time.Second))
			w.evictInstance(i, time.Now().Add(time.Hour)) // a later one changes nothing
			requeued(w, id, 25*time.Second)
		})
	})
	t.Run("another node of the job with an earlier one", func(t *testing.T) {
		bubble(t, "c[1-4]", func(w *world) {
			id := w.begin(long)[0]
			w.start(ft.Config{}, 0)
			w.evict("c1", 2*time.Minute)
			time.Sleep(10 * time.Second)
			w.evict("c2", 30*time.Second)
			requeued(w, id, 25*time.Second)
		})
	})
	t.Run("the instance goes before it", func(t *testing.T) {
		bubble(t, "c[1-4]", func(w *world) {
			id := w.begin(long)[0]
			w.start(ft.Config{}, 0)
			i := w.instance("c1")
			w.evictInstance(i, time.Now().Add(2*time.Minute))
			time.Sleep(10 * time.Second)
			w.vanish(i)
			w.again(20*time.Second, id, 1)
			w.closed(time.Minute)
			time.Sleep(5 * time.Minute)
			if i := w.info(id); i.Restarts != 1 || i.State != "RUNNING" {
				t.Errorf("%+v", i)
			}
		})
	})
	t.Run("an earlier one when all is done", func(t *testing.T) {
		bubble(t, "c[1-4]", func(w *world) {
			id := w.begin(leaves(w, 1, 75))[0]
			w.start(ft.Config{}, 0)
			n := cloud.Notice{Instance: w.instance("c1"), Kind: cloud.SpotInterruption, Deadline: time.Now().Add(time.Hour)}
			w.fake.Announce(n)
			w.again(time.Minute, id, 1)
			w.closed(time.Minute)
			w.until(time.Minute, "the node is off", func() bool { return w.Node("c1") == "IDLE+CLOUD+POWERED_DOWN" })
			n.Deadline = n.Deadline.Add(-time.Minute)
			w.fake.Announce(n)
			w.fake.Announce(n)
			time.Sleep(time.Minute)
			w.closed(time.Minute)
			if i := w.info(id); i.Restarts != 1 || w.Node("c1") != "IDLE+CLOUD+POWERED_DOWN" {
				t.Errorf("node %s, job %+v", w.Node("c1"), i)
			}
		})
	})
}

func TestWhatIsNotOursToActUpon(t *testing.T) {
	bubble(t, "c[1-2]", func(w *world) {
		id := w.begin(stays(w))[0]
		l := w.start(ft.Config{}, 0)
		w.fake.Announce(cloud.Notice{Instance: w.instance("c1"), Kind: cloud.Rebalance})
		w.fake.Announce(cloud.Notice{Instance: "i-other", Kind: cloud.SpotInterruption, Deadline: time.Now().Add(2 * time.Minute)})
		w.closed(time.Minute)
		if i := w.info(id); i.Restarts != 0 || len(i.Signals) > 0 || w.Node("c1") != "ALLOCATED+CLOUD" {
			t.Errorf("node %s, job %+v", w.Node("c1"), i)
		}
		if active, foreign := l.guard.Active(); active != 0 || foreign != 1 {
			t.Errorf("%d active, %d foreign", active, foreign)
		}
	})
}

// TestANoticeMayBeFasterThanTheJournal: the launch's answer is still on its way.
func TestANoticeMayBeFasterThanTheJournal(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		w.start(ft.Config{}, 0)
		w.evictInstance("i-c1-1", time.Now().Add(2*time.Minute))
		id := w.Submit(leaves(w, 1, 75))
		w.until(time.Minute, "it runs elsewhere", func() bool { i := w.info(id); return i.State == "RUNNING" && i.Nodes[0] != "c1" })
		w.closed(time.Minute)
	})
}

// TestAcknowledgement: the cloud is told when nothing of ours runs there any more.
func TestAcknowledgement(t *testing.T) {
	bubble(t, "c[1-2]", func(w *world) {
		w.begin(slurmtest.Job{Script: script}) // not to be requeued
		w.start(ft.Config{}, 0)
		w.evict("c1", time.Minute)
		time.Sleep(50 * time.Second)
		if n := len(w.fake.Acknowledged()); n > 0 {
			t.Error("acknowledged while the job runs")
		}
		w.closed(time.Minute)
	})
	for _, kind := range []cloud.Kind{cloud.Transient, cloud.Invalid} {
		bubble(t, "c[1-2]", func(w *world) {
			w.begin(stays(w))
			w.fake.Inject(cloudtest.Acknowledge, cloudtest.Fault{Err: &cloud.Error{Kind: kind, Op: "acknowledge", Err: errDead}, Times: 3})
			w.start(ft.Config{}, 0)
			w.evict("c1", time.Minute)
			w.closed(2 * time.Minute)
			want := 1
			if kind == cloud.Invalid {
				want = 0 // it can never succeed
			}
			if n := len(w.fake.Acknowledged()); n != want {
				t.Errorf("%s: acknowledged %d times", kind, n)
			}
		})
	}
}
