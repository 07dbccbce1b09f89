package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/rig"
	"github.com/burst-hpc/burst/slurm"
)

// reservations is what Slurm has of them.
func (s *site) reservations() string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "scontrol", "-o", "show", "reservation")
	cmd.Env = s.Env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Errorf("scontrol show reservation: %v: %s", err, out)
	}
	return string(out)
}

func (s *site) node(name string) slurm.Node {
	s.t.Helper()
	nodes, err := s.Slurm().Nodes(s.t.Context(), name)
	if err != nil || len(nodes) != 1 {
		s.t.Logf("node %s: %v", name, err)
		return slurm.Node{}
	}
	return nodes[0]
}

func (s *site) announce(node string, n cloud.Notice) {
	s.t.Helper()
	if err := s.Control.Announce(node, n); err != nil {
		s.t.Fatal(err)
	}
}

// TestNoticesOtherThanInterruptions: a job lives through a rebalance, the
// interruption that follows it, and maintenances that are cancelled, also while
// burstd is away; the last one comes, and moves it.
func TestNoticesOtherThanInterruptions(t *testing.T) {
	t.Parallel()
	s := start(t, rig.Options{Nodes: 4, Gate: true, SuspendTime: 20 * time.Second, PoolToml: "on_rebalance = \"replace\"\non_maintenance = \"drain\"\n"})
	id := s.submit(`#!/bin/sh
#BURST signal=B:USR1 grace=10s
#SBATCH -N1 --requeue --open-mode=append
trap "echo checkpoint; exit 75" USR1
echo started
while ! [ -e stop ]; do sleep 0.1; done
`)
	runs := func(restarts int) string {
		t.Helper()
		s.wait(60*time.Second, "the job runs", func() bool {
			return strings.Count(s.output(id), "started") == restarts+1 && s.job(id).State == "RUNNING"
		})
		if j := s.job(id); j.Restarts != restarts || strings.Count(s.output(id), "checkpoint") != restarts {
			t.Fatalf("restarts %d, want %d; output:\n%s", j.Restarts, restarts, s.output(id))
		}
		return s.job(id).Nodes
	}
	drained := func(node string) bool { return s.node(node).State.Has(slurm.Drain) }

	first := runs(0)
	s.announce(first, cloud.Notice{Kind: cloud.Rebalance})
	ready := ""
	s.wait(20*time.Second, "another node is launched, and the first is drained", func() bool {
		if all := s.since(id); len(all) == 2 {
			ready = all[1].Node // none, before burstd has given it one
		}
		return drained(first) && s.live() == 2 && ready != ""
	})
	runs(0) // it has stayed
	s.wait(20*time.Second, "the other node is idle", func() bool { st := s.node(ready).State; return st.Base == "IDLE" && len(st.Flags) == 1 })
	if err := s.Control.Evict(first, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	second := runs(1)
	if second != ready {
		t.Errorf("the job runs on %s, not on %s that was raised for it", second, ready)
	}

	work := cloud.Notice{Kind: cloud.Maintenance, Event: "e1", Action: "instance-retirement", Deadline: time.Now().Add(time.Hour)}
	s.announce(second, work)
	s.wait(10*time.Second, "it is drained for the maintenance", func() bool {
		return drained(second) && strings.HasPrefix(s.node(second).Reason, "burst: maintenance (instance-retirement): work begins at")
	})
	work.Cancelled = true
	s.announce(second, work)
	s.wait(15*time.Second, "it is drained no longer", func() bool { return !drained(second) })
	work.Event, work.Cancelled = "e2", false
	s.announce(second, work)
	s.wait(10*time.Second, "it is drained for the next", func() bool { return drained(second) })
	if err := s.KillBurstd(); err != nil {
		t.Fatal(err)
	}
	work.Cancelled = true
	s.announce(second, work)
	text, err := os.ReadFile(s.Config)
	if err == nil {
		err = os.WriteFile(s.Config, bytes.Replace(text, []byte(`on_maintenance = "drain"`), []byte(`on_maintenance = "reserve"`), 1), 0o644)
	}
	if err == nil {
		err = s.StartBurstd(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	s.wait(15*time.Second, "what was cancelled while burstd was away is undone", func() bool { return !drained(second) })
	runs(1)

	instance := ""
	all, err := s.Control.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.Node == second && m.State.Live() {
			instance = m.ID
		}
	}
	work = cloud.Notice{Kind: cloud.Maintenance, Event: "e3", Action: "system-reboot", Deadline: time.Now().Add(time.Hour)}
	s.announce(second, work)
	s.wait(10*time.Second, "it is reserved", func() bool { return strings.Contains(s.reservations(), "ReservationName=burst-"+instance+" ") })
	work.Cancelled = true
	s.announce(second, work)
	s.wait(10*time.Second, "it is reserved no longer", func() bool { return !strings.Contains(s.reservations(), "burst-"+instance) })
	runs(1)
	work.Event, work.Cancelled, work.Deadline = "e4", false, time.Now().Add(80*time.Second)
	s.announce(second, work)
	s.wait(10*time.Second, "it is reserved for the next", func() bool { return strings.Contains(s.reservations(), "burst-"+instance) })
	if third := runs(2); third == second {
		t.Errorf("it runs where the work begins")
	}
	s.wait(30*time.Second, "the reservation is gone", func() bool { return !strings.Contains(s.reservations(), "burst-"+instance) })
	if err := os.WriteFile(filepath.Join(s.Work, "stop"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.completes(id)
	s.wait(60*time.Second, "no instance lives", func() bool { return s.live() == 0 })
}
