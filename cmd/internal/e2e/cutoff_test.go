package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/local"
	"github.com/burst-hpc/burst/cmd/internal/rig"
)

// TestACutOffNodesJobRunsNowhereTwice: a node loses its network, first for less
// than SlurmdTimeout, which requeues nothing, and then for good. slurmctld
// requeues its job while the old attempt runs on, and the next one begins only
// when the old instance is gone.
func TestACutOffNodesJobRunsNowhereTwice(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	s := start(t, rig.Options{Nodes: 3, Gate: true, NetNS: true, SuspendTime: 2 * time.Minute, SlurmdTimeout: 10 * time.Second,
		CredExpire: 5 * time.Second, SlurmExtra: quick})
	id := s.submit(`#!/bin/sh
#SBATCH -N1 --requeue --open-mode=append
date +%s.%N > began-${SLURM_RESTART_COUNT:-0}
[ -z "$SLURM_RESTART_COUNT" ] || exit 0
while :; do date +%s.%N > .beat && mv .beat beat; sleep 0.1; done
`)
	s.wait(60*time.Second, "the job's process writes", func() bool { return s.written("beat") > 0 })
	first := s.since(id)
	if len(first) != 1 {
		t.Fatalf("%d instances for one node", len(first))
	}
	veth := "bv" + strings.TrimPrefix(first[0].ID, "i-")
	link := func(state string) {
		t.Helper()
		if out, err := exec.Command("ip", "link", "set", veth, state).CombinedOutput(); err != nil {
			t.Fatalf("ip link: %v: %s", err, out)
		}
	}

	link("down")
	time.Sleep(6 * time.Second) // a VPN that flaps: shorter than SlurmdTimeout
	link("up")
	time.Sleep(8 * time.Second)
	if j := s.job(id); j.State != "RUNNING" || j.Restarts != 0 {
		t.Fatalf("after a short cut the job is %s and was requeued %d times", j.State, j.Restarts)
	}

	link("down")
	s.wait(2*time.Minute, "slurmctld requeues the job", func() bool { return s.job(id).Restarts == 1 })
	cut := s.written("beat")
	s.wait(5*time.Second, "its old process writes on", func() bool { return s.written("beat") > cut })
	s.wait(3*time.Minute, "the next attempt begins", func() bool { return s.written("began-1") > 0 })
	if last, began := s.written("beat"), s.written("began-1"); last >= began {
		t.Errorf("the old attempt wrote until %.3f, the next began at %.3f", last, began)
	}
	all, err := s.Control.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.ID == first[0].ID && m.State.Live() {
			t.Errorf("the old instance is %s", m.State)
		}
	}
	s.wait(60*time.Second, "the job is done", func() bool { return s.job(id).State == "COMPLETED" })
	events, err := s.API.Events(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	fenced := false
	for _, e := range events {
		fenced = fenced || e.Kind == "fence" && e.Instance == first[0].ID
	}
	if !fenced {
		t.Errorf("no event tells of the fence: %+v", events)
	}
}

// TestAnEvictedAttemptEndsBeforeTheNextBegins, also on a node that is cut off, or
// whose slurmd hangs, at the moment of the notice: slurmctld requeues the job
// at burstd's word, gives the node up with a reason of burstd's, and its hold is
// cleared; what keeps the next attempt is the old one's fence.
func TestAnEvictedAttemptEndsBeforeTheNextBegins(t *testing.T) {
	for _, tt := range []struct {
		name  string
		netns bool
		cut   func(s *site, m local.Machine) error
	}{
		{"its network is cut", true, func(_ *site, m local.Machine) error {
			return exec.Command("ip", "link", "set", "bv"+strings.TrimPrefix(m.ID, "i-"), "down").Run()
		}},
		{"its slurmd hangs", false, func(s *site, m local.Machine) error { return syscall.Kill(s.slurmd(m), syscall.SIGSTOP) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // with the other one alone
			if tt.netns && os.Getuid() != 0 {
				t.Skip("network namespaces need root")
			}
			s := start(t, rig.Options{Nodes: 3, Gate: true, NetNS: tt.netns, SuspendTime: 2 * time.Minute, SlurmdTimeout: 10 * time.Second,
				CredExpire: 5 * time.Second, SlurmExtra: quick})
			id := s.submit(`#!/bin/sh
#SBATCH -N1 --requeue
date +%s.%N > began-${SLURM_RESTART_COUNT:-0}
[ -z "$SLURM_RESTART_COUNT" ] || exit 0
while :; do date +%s.%N > .beat && mv .beat beat; sleep 0.1; done
`)
			s.wait(60*time.Second, "the job's process writes", func() bool { return s.written("beat") > 0 })
			old := s.since(id)[0]
			if err := tt.cut(s, old); err != nil {
				t.Fatal(err)
			}
			if err := s.Control.Evict(old.Node, 5*time.Minute); err != nil { // long after SlurmdTimeout
				t.Fatal(err)
			}
			s.wait(time.Minute, "the job is requeued", func() bool { return s.job(id).Restarts == 1 })
			cut := s.written("beat")
			s.wait(5*time.Second, "its old process writes on", func() bool { return s.written("beat") > cut })
			s.wait(3*time.Minute, "the next attempt begins", func() bool { return s.written("began-1") > 0 })
			if last, began := s.written("beat"), s.written("began-1"); last >= began {
				t.Errorf("the old attempt wrote until %.3f, the next began at %.3f", last, began)
			}
			s.wait(60*time.Second, "the job is done", func() bool { return s.job(id).State == "COMPLETED" })
			if j := s.job(id); j.Restarts != 1 {
				t.Errorf("it began %d times", j.Restarts+1)
			}
		})
	}
}

// slurmd is the process id of an instance's slurmd.
func (s *site) slurmd(m local.Machine) int {
	s.t.Helper()
	for below := []int{m.PID}; len(below) > 0; below = below[1:] {
		proc := filepath.Join("/proc", strconv.Itoa(below[0]))
		if comm, err := os.ReadFile(filepath.Join(proc, "comm")); err == nil && string(comm) == "slurmd\n" {
			return below[0]
		}
		files, _ := filepath.Glob(filepath.Join(proc, "task", "*", "children")) // the pattern is right
		for _, f := range files {
			text, _ := os.ReadFile(f) // gone meanwhile: it has none
			for _, word := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(word); err == nil {
					below = append(below, pid)
				}
			}
		}
	}
	s.t.Fatalf("instance %s has no slurmd", m.ID)
	return 0
}

// written is the time that a file in the job's folder holds, 0 if there is none.
func (s *site) written(name string) float64 {
	text, err := os.ReadFile(filepath.Join(s.Work, name))
	if err != nil {
		return 0
	}
	at, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil {
		return 0
	}
	return at
}
