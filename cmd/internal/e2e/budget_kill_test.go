package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
	"github.com/burst-hpc/burst/slurm"
)

// TestFiftyJobsAndABurstdThatIsKilled: fifty jobs want a node each at once, the cap has room for six, and burstd
// is killed again and again while their orders come and are refused. No more than six instances are ever
// launched, and six are; of the others nothing is left, and each was told why it waits.
func TestFiftyJobsAndABurstdThatIsKilled(t *testing.T) {
	t.Parallel()
	const jobs, room, kills = 50, 6, 8
	const limit = 20 * time.Minute
	cap, least := atMost(room, limit)
	if one, _ := atMost(1, limit); least+one <= cap {
		t.Fatalf("beside %d that are up another one has room", room)
	}
	s := start(t, cappedSite(t, rig.Options{Nodes: jobs}, dayCap(cap)))
	watch := s.watchCap(cap, room)
	seed := uint64(19)
	if text := os.Getenv("CHAOS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	moments := rand.New(rand.NewPCG(seed, 0))

	script := "#!/bin/sh\necho \"$SLURMD_NODENAME\" >>ran-$SLURM_JOB_ID\nwhile [ ! -e go ]; do sleep 0.3; done\necho done >>ran-$SLURM_JOB_ID\n"
	partition := func(state string) {
		if out, err := s.Cluster.Command(t.Context(), "scontrol", "update", "partition=cloud", "state="+state).CombinedOutput(); err != nil {
			t.Fatalf("scontrol: %v: %s", err, out)
		}
	}
	partition("down")
	for range jobs {
		s.submit(script, "-t", fmt.Sprint(limit.Minutes()))
	}
	partition("up") // now all start at once
	// count lists those that run, and counts those that wait and were told so.
	count := func() (run []slurm.Job, told int) {
		all, err := s.Slurm().Jobs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range all {
			switch {
			case j.State == "RUNNING":
				run = append(run, j)
			case j.State == "PENDING" && strings.Contains(j.AdminComment, "budget: the cluster's budget ") && time.Until(j.Eligible) > time.Minute:
				told++
			}
		}
		return run, told
	}
	t.Logf("CHAOS_SEED=%d", seed)
	for n := range kills { // sooner at first, while they come; later, while they are given back
		after := time.Duration(moments.Int64N(int64(n+1) * int64(700*time.Millisecond)))
		time.Sleep(after)
		if err := s.KillBurstd(); err != nil {
			t.Fatal(err)
		}
		gone := time.Duration(moments.Int64N(int64(500 * time.Millisecond)))
		time.Sleep(gone)
		if err := s.StartBurstd(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, told := count()
		t.Logf("burstd was killed %s after its start, and away for %s: %d instances, and %d jobs were told that they wait", after.Round(time.Millisecond), gone.Round(time.Millisecond), len(s.machines()), told)
	}
	s.wait(90*time.Second, "as many run as the cap has room for, and all others were told why they wait", func() bool {
		run, told := count()
		return len(run) == room && told == jobs-room
	})
	if n := len(s.machines()); n != room {
		t.Errorf("%d instances were launched, and the cap has room for %d", n, room)
	}
	run, _ := count()
	if out, err := s.Cluster.Command(t.Context(), "scancel", "--state=PENDING", "--partition=cloud").CombinedOutput(); err != nil {
		t.Fatalf("scancel: %v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(s.Work, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, j := range run {
		s.completes(j.ID)
	}
	s.closed(room)
	watch.end()
	ran := glob(s.Work, "ran-*")
	for _, f := range ran {
		text, err := os.ReadFile(f)
		if words := strings.Fields(string(text)); err != nil || len(words) != 2 || words[1] != "done" {
			t.Errorf("%s: %q, %v", filepath.Base(f), text, err)
		}
	}
	if len(ran) != room {
		t.Errorf("%d jobs ran: %v", len(ran), ran)
	}
}
