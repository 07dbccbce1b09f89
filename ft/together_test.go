package ft_test

import (
	"slices"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// TestRetriesOfParts: what one part makes, while another never does, is no progress.
func TestRetriesOfParts(t *testing.T) {
	bubble(t, "c[1-8]", func(w *world) {
		s := newSite(w)
		s.start(ft.Config{}, 0)
		hello := session.Hello{Retries: 1, Together: true}
		id := w.begin(s.srun(1, step{hello: hello, takes: time.Second}, step{hello: hello, takes: time.Second, fails: "disk full"}))[0]
		for n := 1; n <= 2; n++ {
			time.Sleep(time.Minute)
			w.evict(w.info(id).Nodes[0], 2*time.Minute)
			if n == 1 {
				w.again(time.Minute, id, n)
			}
		}
		w.closed(5 * time.Minute)
		time.Sleep(time.Hour)
		if i := w.info(id); i.Reason != "JobHeldUser" || s.good(id) != 1 {
			t.Errorf("%+v, and the first part's generation is of attempt %d", i, s.good(id))
		}
	})
}

// TestAHeterogeneousJobIsAskedOnce, whichever of its parts has the nodes that go:
// burst-srun has one session, of the leader.
func TestAHeterogeneousJobIsAskedOnce(t *testing.T) {
	bubble(t, "c[1-6]", func(w *world) {
		s := newSite(w)
		part := slurmtest.Job{Requeue: true, Script: "#!/bin/sh\nexit 0\n"}
		ids := w.begin(s.srun(1, step{takes: 3 * time.Second}), part, part)
		w.rewrite = func(snap *slurm.Snapshot) {
			for _, id := range ids {
				j := snap.Jobs[id]
				j.HetID = ids[0]
				snap.Jobs[id] = j
			}
		}
		s.start(ft.Config{}, 0)
		time.Sleep(time.Minute)
		w.evict("c2", 2*time.Minute)
		w.evict("c3", 2*time.Minute)
		w.again(20*time.Second, ids[0], 1)
		w.closed(time.Minute)
		if got := s.kinds(); !slices.Equal(got, []session.Kind{session.Stop}) || s.good(ids[0]) != 0 {
			t.Errorf("asked %v, the generation is of attempt %d", got, s.good(ids[0]))
		}
		for _, id := range ids {
			if i := w.info(id); len(i.Signals) > 0 {
				t.Errorf("%+v", i)
			}
		}
	})
}
