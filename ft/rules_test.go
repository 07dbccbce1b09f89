package ft_test

import (
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// TestAPoolThatIgnoresMaintenanceNow: burstd was restarted with another rule;
// what it had begun is undone.
func TestAPoolThatIgnoresMaintenanceNow(t *testing.T) {
	for _, rule := range []string{ft.Drain, ft.Reserve} {
		bubble(t, "c[1-2]", func(w *world) {
			id := w.begin(stays(w))[0]
			w.start(w.rules("c[1-2]", "", rule), 0)
			w.work("c1", "e1", time.Hour)
			time.Sleep(5 * time.Second)
			w.die()
			w.start(w.rules("c[1-2]", "", ft.Ignore), 0)
			w.closed(10 * time.Second)
			time.Sleep(2 * time.Hour)
			if i := w.info(id); i.Restarts > 0 || w.Node("c1") != "ALLOCATED+CLOUD" || len(w.Reservations()) > 0 {
				t.Errorf("%s: node %s, reservations %v, job %+v\n%s", rule, w.Node("c1"), w.Reservations(), i, w.story())
			}
		})
	}
}

// TestANoticeForANodeThatBoots: its job goes elsewhere, unsignalled, and the
// node's next instance takes jobs.
func TestANoticeForANodeThatBoots(t *testing.T) {
	for _, kind := range []cloud.NoticeKind{cloud.SpotInterruption, cloud.Rebalance, cloud.Maintenance} {
		bubble(t, "c[1-2]", func(w *world) {
			w.boot = 40 * time.Second
			id := w.Submit(slurmtest.Job{Requeue: true, Script: script})
			w.start(w.rules("c[1-2]", ft.Drain, ft.Drain), 0)
			time.Sleep(10 * time.Second)
			first := w.instance("c1")
			switch kind {
			case cloud.SpotInterruption:
				w.evictInstance(first, time.Now().Add(2*time.Minute))
			default:
				w.fake.Announce(cloud.Notice{Instance: first, Kind: kind, Deadline: time.Now().Add(20 * time.Minute)})
			}
			w.until(4*time.Minute, "the job runs", func() bool { return w.info(id).State == "RUNNING" })
			i := w.info(id)
			if len(i.Signals) > 0 || kind == cloud.SpotInterruption && i.Nodes[0] != "c2" {
				t.Errorf("%s: %+v\n%s", kind, i, w.story())
			}
			time.Sleep(time.Hour)
			w.closed(time.Minute)
			w.Exit(id, 0)
			time.Sleep(time.Minute)
			w.begin(slurmtest.Job{Nodes: 2}) // on both
		})
	}
}
