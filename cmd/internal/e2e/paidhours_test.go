package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
	"github.com/burst-hpc/burst/cmd/internal/paidhour"
	"github.com/burst-hpc/burst/cmd/internal/rig"
)

// TestPaidHours: burstd, slurmctld and slurmds are real, the cloud is the fake of Vultr, which says that
// its instances are older than they are, so that their first hour ends within minutes. A node that falls
// idle stays until shortly before that, though Slurm would keep it longer; one with a job outlives that time, and goes
// when the job has ended; then each has cost one hour.
func TestPaidHours(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("e2e: a real Slurm is slow; make test runs it")
	}
	const age = 54*time.Minute + 40*time.Second
	v := vultrtest.New(vultrtest.Options{Age: age, Addr: func(n int) string { return fmt.Sprint("127.81.1.", n) }})
	if err := v.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	listen := freeAddress(t)
	dir := t.TempDir()
	userData := filepath.Join(dir, "user-data")
	if err := os.WriteFile(userData, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := start(t, rig.Options{
		Nodes: 2, Gate: true, SuspendTime: paidhour.SuspendTime, PaidHours: true, Types: []string{vultrtest.Plan}, Zones: []string{""}, Market: "on-demand",
		ResumeTimeout: 2 * time.Minute, SlurmExtra: quick, BurstdEnv: []string{"VULTR_API_KEY=" + vultrtest.Key},
		DaemonToml:   fmt.Sprintf("listen = %q", listen),
		ProviderToml: fmt.Sprintf("kind = \"vultr\"\nregion = %q\nendpoint = %q\ndir = %q\n", vultrtest.Region, v.URL(), filepath.Join(dir, "here")),
		PoolToml:     fmt.Sprintf("image = \"os:%s\"\nuser_data = %q\n", vultrtest.OSName, userData),
	})
	e := &machines{t: t, s: s, listen: listen, list: func(context.Context) (all []machine, err error) {
		for _, i := range v.Machines() {
			all = append(all, machine{i.ID, i.Addr})
		}
		return all, nil
	}}
	e.run()
	short := s.submit("#!/bin/sh\n#SBATCH --exclusive\necho on $SLURMD_NODENAME\n", "--nodelist=c1")
	long := s.submit("#!/bin/sh\n#SBATCH --exclusive\necho on $SLURMD_NODENAME\nwhile ! [ -e go ]; do sleep 0.2; done\n", "--nodelist=c2")
	s.wait(time.Minute, "the short job is done", func() bool { return s.job(short).State == "COMPLETED" })
	s.wait(time.Minute, "the long job runs", func() bool { return strings.Contains(s.output(long), "on c2") })

	end := v.Machines()[0].Created.Add(time.Hour - age) // of the hour of the one that is the older by seconds
	events := func() string { return s.does("events", "--last", "200") }
	s.wait(4*time.Minute, "the idle node goes", func() bool { return v.Count("DELETE instances") > 0 })
	if left := time.Until(end); left < paidhour.Last-20*time.Second || left > paidhour.Lead+20*time.Second {
		t.Errorf("it went %s before its hour ended", left.Round(time.Second))
	}
	if text := events(); !strings.Contains(text, "idle, and what is paid of its instance ends at") || strings.Count(text, "power-down") != 1 {
		t.Errorf("the events are\n%s", text)
	}
	if got := s.job(long).State; got != "RUNNING" || len(v.Machines()) != 1 {
		t.Errorf("the long job is %s, and the cloud has %+v", got, v.Machines())
	}
	if err := os.WriteFile(filepath.Join(s.Work, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.wait(3*time.Minute, "the other goes", func() bool { return len(v.Machines()) == 0 })
	if left := time.Until(end); left < 0 {
		t.Errorf("it went %s after its hour's end", -left.Round(time.Second))
	}
	s.wait(3*time.Minute, "no instance lives", func() bool { return e.live() == 0 && s.off() == 2 })
	e.billed(map[string]bill{"here": byHours(2)})
}
