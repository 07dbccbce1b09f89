package slurmtest_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// TestFeatures: what docs/failover.md says that slurmctld was seen to do with active features.
func TestFeatures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctl := slurmtest.New(slurmtest.Options{Nodes: []string{"c1", "c2", "c3"}, Features: []string{"east", "lon"}})
		go ctl.Serve(t.Context())
		client := slurm.New(ctl)
		active := func(features string, nodes ...string) {
			t.Helper()
			if err := client.UpdateNodes(t.Context(), slurm.NodeUpdate{Nodes: nodes, Features: []string{features}}); err != nil {
				t.Fatal(err)
			}
		}
		state := func(id uint32) string {
			time.Sleep(5 * time.Second)
			i, _ := ctl.Info(id)
			return i.State + " " + i.Reason
		}
		active("east", "c1")
		nodes, err := client.Nodes(t.Context(), "c1")
		if err != nil || !slices.Equal(nodes[0].Features, []string{"east"}) || !slices.Equal(nodes[0].Available, []string{"east", "lon"}) {
			t.Fatalf("%+v, %v", nodes, err)
		}
		one := ctl.Submit(slurmtest.Job{Features: "lon", Nodes: 2})
		if got := state(one); got != "CONFIGURING None" {
			t.Errorf("a job of as many nodes as have it is %s", got)
		}
		if i, _ := ctl.Info(one); slices.Contains(i.Nodes, "c1") {
			t.Errorf("it has been given %v", i.Nodes)
		}
		ctl.Cancel(one)
		waits := ctl.Submit(slurmtest.Job{Features: "x86|lon&east", Nodes: 3})
		if got := state(waits); got != "PENDING BadConstraints" {
			t.Errorf("a job of more nodes than have it is %s", got)
		}
		active("lon", "c2", "c3")
		if got := state(waits); got != "PENDING BadConstraints" {
			t.Errorf("when none has it, it is %s", got)
		}
		if id := ctl.Submit(slurmtest.Job{Features: "east&lon"}); id != 0 {
			t.Error("a new job that no node suits is taken")
		}
		ctl.Down()
		ctl.Up()
		if got := ctl.Features("c2"); !slices.Equal(got, []string{"east", "lon"}) {
			t.Errorf("after a start of slurmctld, c2 has %q", got)
		}
		if got := state(waits); got != "PENDING BadConstraints" {
			t.Errorf("it has its priority back by itself: %s", got)
		}
		if err := client.Unhold(t.Context(), waits); err != nil {
			t.Fatal(err)
		}
		if got := state(waits); got != "CONFIGURING None" {
			t.Errorf("released, it is %s", got)
		}
	})
}
