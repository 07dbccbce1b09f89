package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
	"github.com/burst-hpc/burst/slurm"
)

// TestAtCap: a cap is lowered below what is spent. The job that had overflowed into the cloud saves its
// work, loses its cloud partition, and goes on at the site from there; so one waits that asks for both itself; with at_cap = "cancel" a job ends.
func TestAtCap(t *testing.T) {
	t.Parallel()
	prices := filepath.Join(t.TempDir(), "prices.csv")
	if err := os.WriteFile(prices, []byte("type,zone,market,usd_per_hour,date\nlocal.small,,spot,3600,2026-08-01\nlocal.small,,on-demand,3600,2026-08-01\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	day := noMidnight()
	section := func(usd int, word string) string {
		return fmt.Sprintf("[budget]\n%sday = %d\nat_cap = %q\n", day, usd, word)
	}
	const much, little = 1000000, 3
	last := section(much, "requeue")
	s := start(t, rig.Options{Nodes: 2, OnPrem: 1, CPUs: 1, Gate: true, Prices: prices, SlurmExtra: quick, ExtraToml: overflowRule + last})
	set := func(next string) {
		t.Helper()
		text, err := os.ReadFile(s.Config)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.Config, []byte(strings.Replace(string(text), last, next, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		last = next
		if err := s.StopBurstd(); err != nil {
			t.Fatal(err)
		}
		if err := s.StartBurstd(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	runs := func(id uint32, partition string) func() bool {
		return func() bool { j := s.job(id); return j.State == "RUNNING" && j.Partition == partition }
	}
	blocker := s.submit("#!/bin/sh\nsleep 300\n", "--partition=onprem", "-t", "10")
	s.wait(10*time.Second, "the site's node is in use", func() bool { return s.job(blocker).State == "RUNNING" })
	const saves = `#!/bin/bash
#SBATCH --requeue --open-mode=append
#BURST signal=B:USR1 grace=20s
n=$(cat saved-$SLURM_JOB_ID 2>/dev/null || echo 0)
echo "begins at $n"
trap 'echo $n > saved-$SLURM_JOB_ID; echo "saved $n"; exit 75' USR1
while :; do n=$((n+1)); sleep 0.1; done
`
	moved := s.submit(saves, "--partition=onprem", "-t", "10")
	s.wait(40*time.Second, "it has gone to the cloud", runs(moved, "cloud"))
	none := s.submit("#!/bin/sh\necho begun\nsleep 300\n", "--partition=cloud", "-t", "10")
	s.wait(40*time.Second, "and so has one that cannot be saved", func() bool { return strings.Contains(s.output(none), "begun") })
	s.wait(20*time.Second, "more is spent than the lower cap", func() bool {
		rows, err := s.API.Budget(t.Context(), -1)
		return err == nil && len(rows) == 1 && (rows[0].Spent > little || time.Since(s.job(moved).Start) > 2*little*time.Second)
	})

	set(section(little, "requeue"))
	s.wait(40*time.Second, "it is requeued, and is to run at the site alone", func() bool {
		j := s.job(moved)
		return j.State == "PENDING" && j.Restarts == 1 && j.Partition == "onprem" && time.Until(j.Eligible) < 5*time.Second
	})
	if said := s.output(moved); !strings.Contains(said, "saved ") {
		t.Errorf("it said %q", said)
	}
	either := s.submit("#!/bin/sh\nsleep 300\n", "--partition=onprem,cloud", "-t", "10")
	s.wait(60*time.Second, "who asks for both waits for the site alone, and is told", func() bool {
		j := s.job(either)
		return j.State == "PENDING" && j.Partition == "onprem" && time.Until(j.Eligible) < 5*time.Second && strings.HasPrefix(j.AdminComment, "burst: waits for onprem, and not for cloud")
	})
	if err := s.Cluster.Command(t.Context(), "scancel", id10(blocker)).Run(); err != nil {
		t.Fatal(err)
	}
	s.wait(20*time.Second, "it goes on at the site", func() bool { return runs(moved, "onprem")() && strings.Count(s.output(moved), "begins at ") == 2 })
	if said := s.output(moved); strings.Count(said, "begins at 0\n") != 1 {
		t.Errorf("it did not go on from what it had saved: %q", said)
	}
	if j := s.job(none); j.State != "RUNNING" || !strings.Contains(j.AdminComment, "is spent; this job goes on to its end: it has no checkpoint method") {
		t.Errorf("the job that would lose its work: %+v", j)
	}

	set(section(little, "cancel"))
	s.wait(20*time.Second, "it is cancelled", func() bool { return s.job(none).State == "CANCELLED" })
	if j := s.job(none); !strings.HasSuffix(j.AdminComment, "is spent; this job is being cancelled") {
		t.Errorf("%+v", j)
	}
	if j := s.job(moved); j.State != "RUNNING" {
		t.Errorf("a job at the site counts to no cap: %+v", j)
	}
	s.wait(20*time.Second, "the nodes are given back", func() bool {
		nodes, err := s.Slurm().Nodes(t.Context(), "c1", "c2")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			if !n.State.Has(slurm.PoweredDown) && !n.State.Has(slurm.PoweringDown) {
				return false
			}
		}
		return true
	})
	for kind, job := range map[string]uint32{"budget-requeue": moved, "budget-finish": none, "budget-cancel": none} {
		n := 0
		events, err := s.API.Events(t.Context(), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Kind == kind && e.Job == job {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d events %s of job %d", n, kind, job)
		}
	}
	late := s.submit("#!/bin/sh\nsleep 300\n", "--partition=cloud", "-t", "10", "--array=1-3")
	var tasks []slurm.Job
	s.wait(60*time.Second, "all tasks of an array that came after the cap wait, and are told", func() bool {
		var err error
		if tasks, err = s.Slurm().JobsOf(t.Context(), late); err != nil {
			t.Fatal(err)
		}
		for _, j := range tasks {
			if j.State != "PENDING" || time.Until(j.Eligible) < 30*time.Second || !strings.Contains(j.AdminComment, "budget: the cluster's budget for ") {
				return false
			}
		}
		return len(tasks) > 0
	})
	t.Logf("they wait as %+v", tasks)
	if j := s.job(either); j.State != "PENDING" || j.Partition != "onprem" {
		t.Errorf("who waited for the site: %+v", j)
	}
	set(section(much, "cancel"))
	s.wait(60*time.Second, "with a higher cap they run in the cloud", func() bool {
		all, err := s.Slurm().Jobs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, j := range all {
			if (j.ID == either || j.ArrayID == late) && j.State == "RUNNING" && j.Partition == "cloud" {
				n++
			}
		}
		return n == 2
	})
}
