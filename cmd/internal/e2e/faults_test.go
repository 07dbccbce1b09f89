package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
)

type fault struct {
	name string
	run  func(t *testing.T, s *site)
}

// TestFaultsOfOneSite goes through what goes wrong on a site, one fault after
// the other, on one cluster: each leaves it as it was. Two clusters share them.
func TestFaultsOfOneSite(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string][]fault{"ours": {
		{"slurmctld restarts in the middle of a resume", controllerRestarts},
		{"burstd is away for 20 s", burstdAway},
		{"the journal is lost while a job runs", journalLost},
		{"the disk under the journal is full", diskFull},
		{"orders that make no sense", badOrders},
		{"an evicted attempt has ended before the next begins", attemptsDoNotOverlap},
	}, "the cloud's and the jobs'": {
		{"an instance dies without a notice", instanceDies},
		{"no capacity, then some", noCapacity},
		{"a job cancelled while its nodes boot", cancelled},
		{"an instance that boots too slowly", tooSlow},
		{"a job that cannot be requeued", notRequeueable},
		{"a job that finishes in the grace time", finishes},
	}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			meets(t, faults)
		})
	}
}

func meets(t *testing.T, faults []fault) {
	s := start(t, rig.Options{Nodes: 4, OnPrem: 1, Gate: true, SuspendTime: 2 * time.Second, SuspendTimeout: 2 * time.Second,
		ResumeTimeout: 20 * time.Second, SlurmExtra: quick})
	for _, f := range faults {
		ok := t.Run(f.name, func(t *testing.T) {
			one := &site{s.Site, t, s.bin}
			f.run(t, one)
			one.wait(60*time.Second, "no instance lives and all nodes are off", func() bool { return one.live() == 0 && one.off() == 4 })
			one.once()
		})
		if !ok {
			t.FailNow()
		}
	}
	// All the while the on-prem node had nothing to do, far longer than SuspendTime.
	nodes, err := s.Slurm().Nodes(t.Context(), "o1")
	if err != nil || len(nodes) != 1 {
		t.Fatalf("o1: %v, %v", nodes, err)
	}
	if state := nodes[0].State.String(); strings.Contains(state, "POWER") || nodes[0].State.Base != "IDLE" {
		t.Errorf("the on-prem node is %s", state)
	}
	log, err := os.ReadFile(filepath.Join(s.Cluster.Dir, "log", "slurmctld.log"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(log), "down node o1") || strings.Contains(string(log), "down node(s) o1") {
		t.Error("power saving touched the on-prem node")
	}
}

const sleeper = "#!/bin/sh\n#SBATCH -N2 --requeue --open-mode=append\necho started\nsleep 5\n"

func (s *site) completes(id uint32) {
	s.t.Helper()
	s.wait(90*time.Second, "the job is done", func() bool { return s.job(id).State == "COMPLETED" })
}

func controllerRestarts(t *testing.T, s *site) {
	if err := s.Control.SetBoot(2 * time.Second); err != nil {
		t.Fatal(err)
	}
	defer s.Control.SetBoot(0)
	id := s.submit(sleeper)
	s.wait(20*time.Second, "instances boot", func() bool { return s.live() == 2 })
	if err := s.Cluster.RestartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.completes(id)
	if n := len(s.since(id)); n > 4 {
		t.Errorf("%d instances for a job of two nodes", n)
	}
}

func burstdAway(t *testing.T, s *site) {
	if err := s.KillBurstd(); err != nil {
		t.Fatal(err)
	}
	id := s.submit(sleeper)
	spool := filepath.Join(s.Dir, "spool")
	s.wait(20*time.Second, "the order is spooled", func() bool { return len(glob(spool, "*")) > 0 })
	time.Sleep(15 * time.Second) // that long it is away: ResumeTimeout is 20 s
	if s.live() > 0 {
		t.Error("an instance without burstd")
	}
	if err := s.StartBurstd(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wait(15*time.Second, "the job runs", func() bool { return strings.Contains(s.output(id), "started") })
	s.completes(id)
}

func instanceDies(t *testing.T, s *site) {
	id := s.submit(strings.ReplaceAll(sleeper, "sleep 5", "[ -e again ] || { touch again; sleep 600; }; rm again"))
	s.wait(30*time.Second, "the job runs", func() bool { return strings.Contains(s.output(id), "started") })
	j := s.job(id)
	if err := s.Control.Kill(expand(t, j.Nodes)[0]); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	s.wait(20*time.Second, "the job has left its node: the cloud tells at once, and no round has to find out", func() bool { return s.job(id).State != "RUNNING" })
	t.Logf("after %s", time.Since(killed))
	s.wait(90*time.Second, "the job runs again", func() bool { return strings.Count(s.output(id), "started") == 2 })
	s.completes(id)
	if j = s.job(id); j.Restarts != 1 {
		t.Errorf("restarted %d times", j.Restarts)
	}
}

func noCapacity(t *testing.T, s *site) {
	if err := s.Control.Refuse("*", 0); err != nil {
		t.Fatal(err)
	}
	id := s.submit(sleeper, "--no-requeue") // which must not cost it its place
	s.wait(30*time.Second, "the job is told why it waits", func() bool { return strings.Contains(s.job(id).AdminComment, "no capacity") })
	s.wait(20*time.Second, "it waits in the queue", func() bool { j := s.job(id); return j.State == "PENDING" && j.Reason == "BeginTime" })
	if s.live() > 0 {
		t.Error("an instance lives, though the cloud has none")
	}
	if err := s.Control.Refuse("*", -1); err != nil {
		t.Fatal(err)
	}
	s.completes(id)
	out, err := s.Cluster.Command(t.Context(), "scontrol", "-o", "show", "job", id10(id)).Output()
	if err != nil || !strings.Contains(string(out), "Requeue=0") {
		t.Errorf("its --no-requeue was lost: %v\n%s", err, out)
	}
}

func journalLost(t *testing.T, s *site) {
	id := s.submit(strings.ReplaceAll(sleeper, "sleep 5", "sleep 40"))
	s.wait(30*time.Second, "the job runs", func() bool { return strings.Contains(s.output(id), "started") })
	if err := s.KillBurstd(); err != nil {
		t.Fatal(err)
	}
	for _, f := range glob(filepath.Join(s.Dir, "state"), "burst.db*") {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.StartBurstd(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wait(20*time.Second, "both instances are adopted", func() bool {
		st, err := s.API.Status(t.Context())
		return err == nil && st.Nodes["up"] == 2 && st.Instances == 2
	})
	s.completes(id)
	if j := s.job(id); j.Restarts != 0 {
		t.Errorf("the job was restarted %d times", j.Restarts)
	}
}

// diskFull lets the journal's disk, a small tmpfs, run full: the order stays
// in the spool and is carried out when there is room.
func diskFull(t *testing.T, s *site) {
	if os.Getuid() != 0 {
		t.Log("mounting a tmpfs needs root: not tested as an ordinary user")
		return
	}
	state := filepath.Join(s.Dir, "state")
	if err := s.StopBurstd(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", state, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		err := s.StopBurstd()
		if err = errors.Join(err, syscall.Unmount(state, 0), s.StartBurstd(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	if err := s.StartBurstd(t.Context()); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(state, "filler")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	id := s.submit(sleeper)
	s.wait(15*time.Second, "the order is spooled", func() bool { return len(glob(filepath.Join(s.Dir, "spool"), "*")) > 0 })
	if !s.BurstdAlive() || s.live() > 0 {
		t.Errorf("burstd alive: %v; instances: %d", s.BurstdAlive(), s.live())
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	s.completes(id)
	s.wait(60*time.Second, "no instance lives", func() bool { return s.live() == 0 })
}

func cancelled(t *testing.T, s *site) {
	if err := s.Control.SetBoot(15 * time.Second); err != nil {
		t.Fatal(err)
	}
	defer s.Control.SetBoot(0)
	id := s.submit(sleeper)
	s.wait(20*time.Second, "instances boot", func() bool { return s.live() == 2 })
	if out, err := s.Cluster.Command(t.Context(), "scancel", id10(id)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.wait(12*time.Second, "the instances end before they have booted", func() bool { return s.live() == 0 })
}

func tooSlow(t *testing.T, s *site) {
	if err := s.Control.SetBoot(10 * time.Minute); err != nil {
		t.Fatal(err)
	}
	id := s.submit(sleeper)
	s.wait(20*time.Second, "instances boot", func() bool { return s.live() == 2 })
	if err := s.Control.SetBoot(0); err != nil {
		t.Fatal(err)
	}
	s.wait(60*time.Second, "the job is told", func() bool { return strings.Contains(s.job(id).AdminComment, "ResumeTimeout") })
	s.wait(150*time.Second, "the job is done in its next try", func() bool { return s.job(id).State == "COMPLETED" })
}

func badOrders(t *testing.T, s *site) {
	resume := filepath.Join(s.bin, "burst-resume")
	for _, o := range []struct{ name, nodes, file, event string }{
		{"nodes of no pool", "x[1-3]", "", "no pool has this node"},
		{"a list that does not parse", "c[1-", "", "order"},
		{"a resume file that is not JSON", "c1", "{jobs", "not the JSON"},
		{"a resume file that lacks fields", "c1", `{"jobs":[{"nodes":"c1"}]}`, "lacks job_id"},
	} {
		file := filepath.Join(t.TempDir(), "resume.json")
		if err := os.WriteFile(file, []byte(o.file), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := s.Cluster.Command(t.Context(), resume, o.nodes)
		cmd.Env = append(cmd.Environ(), "BURST_CONFIG="+s.Config, "SLURM_RESUME_FILE="+file)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", o.name, err, out)
		}
		s.wait(10*time.Second, o.name+": "+o.event, func() bool {
			all, err := s.API.Events(t.Context(), -20, 0)
			if err != nil {
				t.Log(err)
			}
			for _, e := range all {
				if strings.Contains(e.Kind+" "+e.Text, o.event) {
					return true
				}
			}
			return false
		})
	}
	if !s.BurstdAlive() || s.live() != 0 {
		t.Errorf("burstd alive: %v, instances: %d", s.BurstdAlive(), s.live())
	}
	id := s.submit(sleeper)
	s.completes(id)
}
