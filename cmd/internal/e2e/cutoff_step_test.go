package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
)

// TestACutOffStepLeavesTheNextAlone is the worst that a cut network can do: burstd is
// away, nothing fences, and a step computes and writes generations on while its job
// already runs elsewhere. Its burst-srun sees that, and takes no more of them; srun
// cannot end the step without slurmctld, but its node's end does.
func TestACutOffStepLeavesTheNextAlone(t *testing.T) {
	t.Parallel() // its jobs wait more than they compute
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	_, port, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, rig.Options{Nodes: 3, NetNS: true, SuspendTime: 3 * time.Minute, SlurmdTimeout: 10 * time.Second,
		CredExpire: 5 * time.Second, SlurmExtra: quick, DaemonToml: fmt.Sprintf("listen = \"0.0.0.0:%s\"", port)})
	conf, err := os.ReadFile(s.Cluster.Conf)
	if err != nil {
		t.Fatal(err)
	}
	host := regexp.MustCompile(`(?m)^SlurmctldHost=.*\((.*)\)$`).FindSubmatch(conf)
	if host == nil {
		t.Fatalf("no address of slurmctld in\n%s", conf)
	}
	h := buildHeat(t, s, net.JoinHostPort(string(host[1]), port))

	r := h.run(t, heatJob{burst: "strategy=both interval=3s", args: []string{"-N1", "-n1"}, iterations: 6000})
	r.computes(0, 50)
	r.submit("#!/bin/sh\n#SBATCH -N1 --exclusive\ntrue\n") // another node is up by it
	r.wait(60*time.Second, "two nodes are up", func() bool { return s.live() == 2 })
	r.wait(60*time.Second, "a generation", func() bool { return len(r.generations("attempt-0/gen-*[0-9]/manifest.json")) > 0 })
	old := s.since(r.id)[0]
	if old.Node != r.on()[0] {
		t.Fatalf("the job is on %v, its instance on %s", r.on(), old.Node)
	}
	r.wait(60*time.Second, "only the job runs", func() bool {
		for _, j := range s.jobs() {
			if j.ID != r.id && j.State != "COMPLETED" {
				return false
			}
		}
		return true
	})
	if err := s.KillBurstd(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("ip", "link", "set", "bv"+strings.TrimPrefix(old.ID, "i-"), "down").CombinedOutput(); err != nil {
		t.Fatalf("ip link: %v: %s", err, out)
	}
	cut := r.newest(0)
	r.wait(2*time.Minute, "slurmctld requeues the job", func() bool { return r.job(r.id).Restarts == 1 && r.job(r.id).State == "PENDING" })
	r.wait(30*time.Second, "the cut off step writes on", func() bool { return r.newest(0) > cut })
	r.scontrol("update", "jobid="+id10(r.id), "starttime=now") // else in two minutes
	r.says("restarts from generation", 1)
	n, attempt := r.from()
	if attempt != 0 || n <= cut {
		t.Errorf("from generation %d of attempt %d, cut off after %d", n, attempt, cut)
	}
	if now := r.on(); len(now) != 1 || now[0] == old.Node {
		t.Errorf("it goes on on %v", now)
	}
	r.wait(60*time.Second, "the new attempt has generations of its own", func() bool { return len(r.generations("attempt-1/gen-*[0-9]/manifest.json")) > 1 })
	for _, g := range r.generations("attempt-0/gen-*[0-9]/manifest.json") {
		if later, err := strconv.Atoi(regexp.MustCompile(`gen-(\d+)/`).FindStringSubmatch(g)[1]); err != nil || later > n {
			t.Errorf("the old attempt has made %s after the next had begun from generation %d", g, n)
		}
	}
	if err := s.StartBurstd(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.wait(60*time.Second, "the old instance is ended", func() bool {
		for _, m := range s.machines() {
			if m.ID == old.ID {
				return !m.State.Live()
			}
		}
		return true
	})
	r.evict(r.on()[0], enough)
	r.says("restarts from generation", 2)
	if _, attempt := r.from(); attempt != 1 {
		t.Errorf("it goes on from attempt %d, and not from the one that counts", attempt)
	}
	r.failures = strings.Count(r.output(r.id), "the script ends with 75") // the old attempt's, if its srun has given up in time
	r.ends(2)
}
