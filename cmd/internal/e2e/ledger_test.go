package e2e

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/cmd/internal/rig"
)

// TestTheLedgerHasAllTime: two jobs share a node, one runs on two nodes, and
// burstd is killed and away meanwhile; in the end each instance's whole time is
// booked, and the jobs have what they had.
func TestTheLedgerHasAllTime(t *testing.T) {
	s := start(t, rig.Options{Nodes: 2, CPUs: 2, Gate: true, SuspendTime: 5 * time.Second})
	wide := s.submit("#!/bin/sh\n#SBATCH -N2 --exclusive\nsleep 4\n")
	s.completes(wide)
	if err := s.KillBurstd(); err != nil {
		t.Fatal(err)
	}
	one, other := s.submit("#!/bin/sh\n#SBATCH -N1 -n1\nsleep 6\n"), s.submit("#!/bin/sh\n#SBATCH -N1 -n1\nsleep 6\n")
	s.completes(one)
	s.completes(other)
	if err := s.StartBurstd(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wait(60*time.Second, "no instance lives", func() bool { return s.live() == 0 })

	machines, err := s.Control.List()
	if err != nil {
		t.Fatal(err)
	}
	want := 0.0
	for _, m := range machines {
		want += price.PerSecond.Billed(m.Ended.Sub(m.Launched)).Seconds()
	}
	cfg, err := endpoint.Load(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	client := api.NewClient(cfg.Socket)
	defer client.Close()
	jobs := map[string]api.Usage{}
	s.wait(60*time.Second, "all time is booked", func() bool {
		usage, err := client.Usage(t.Context(), api.UsageQuery{By: "job"})
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, u := range usage {
			sum += u.Seconds
			jobs[u.Key] = u
		}
		return math.Abs(sum-want) < 0.01
	})
	for _, tt := range []struct {
		id     uint32
		nodes  float64
		shares bool
	}{{wide, 2, false}, {one, 1, true}, {other, 1, true}} {
		j, u := s.job(tt.id), jobs[fmt.Sprint(tt.id)]
		most := tt.nodes * j.End.Sub(j.Start).Seconds()
		least := most
		if tt.shares { // by as much as the two have met
			least = most / 2
		}
		round := 1.5 * tt.nodes // Slurm's times are whole seconds
		if u.Seconds < least-round || u.Seconds > most+round || u.User != j.User || u.USD != nil {
			t.Errorf("job %d had %.0f node seconds; the ledger has %+v", tt.id, most, u)
		}
	}
}
