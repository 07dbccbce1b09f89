package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

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
