package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/aws/mototest"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
	"github.com/burst-hpc/burst/cmd/internal/rig"
)

// TestTwoPools: a pool in moto, of c[1-2], and one at the fake of Vultr, of c[3-6], in one
// partition. EC2's capacity is gone: a job that Slurm gives EC2's nodes runs on Vultr's
// within seconds, with a partition of each pool, too. EC2 has capacity again: its nodes are as
// before, and the next job runs there. Each cloud's instances are billed as it does. There is a budget, and one of the types
// that EC2 is asked for has no price.
func TestTwoPools(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("e2e: a real Slurm is slow; make test runs it")
	}
	m := mototest.Start(t, mototest.Options{CIDRs: []string{"127.83.0.0/24"}, Outside: true})
	front, gone := capacityGate(t, m.Endpoint)
	gone.Store(true)
	v := vultrtest.New(vultrtest.Options{Addr: func(n int) string { return fmt.Sprint("127.83.1.", n) }})
	if err := v.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	listen := freeAddress(t)
	dir := t.TempDir()
	userData, prices := filepath.Join(dir, "user-data"), filepath.Join(dir, "prices.csv")
	for path, text := range map[string]string{userData: "#!/bin/sh\n", prices: "type,zone,market,usd_per_hour,date\nc5.large,,on-demand,0.1,2026-01-01\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const times = "SuspendTime=5 SuspendTimeout=3 ResumeTimeout=120"
	s := start(t, rig.Options{
		Nodes: 6, Gate: true, SuspendTime: 5 * time.Second, Types: []string{"c5.large", "c4.large"}, Zones: []string{m.Subnets[0].Zone}, Market: "on-demand",
		ResumeTimeout: 2 * time.Minute, BurstdEnv: append(mototest.Env(), "VULTR_API_KEY="+vultrtest.Key),
		// Whether a partition's nodes are free is judged otherwise by backfill, whose cycle every 30 s
		// may fall between a job's submission and the main scheduler, which goes by PriorityTier.
		SlurmExtra:   strings.TrimSuffix(quick, "\n") + ",bf_interval=600\nPartitionName=a Nodes=c[1-2] PriorityTier=2 " + times + "\nPartitionName=b Nodes=c[5-6] " + times + "\n",
		DaemonToml:   fmt.Sprintf("listen = %q", listen),
		ProviderToml: fmt.Sprintf("kind = \"aws\"\nregion = %q\nendpoint = %q\nprice_table = %q\n", mototest.Region, front, prices),
		PoolToml: fmt.Sprintf("image = %q\nsubnets = [%q]\nsecurity_groups = [%q]\nfleet = \"never\"\nroot = { size = \"8G\" }\nuser_data = %q\n",
			m.Image, m.Subnets[0].ID, m.SecurityGroup, userData),
		ExtraToml: fmt.Sprintf("[provider.lon]\nkind = \"vultr\"\nregion = %q\nendpoint = %q\ndir = %q\n", vultrtest.Region, v.URL(), filepath.Join(dir, "lon")) +
			"[budget]\nmonth = 10000.0\n",
	})
	s.secondPool(fmt.Sprintf("provider = \"lon\"\ninstance_types = [%q]\nimage = \"os:%s\"\nuser_data = %q\n", vultrtest.Plan, vultrtest.OSName, userData))
	e := &machines{t: t, s: s, listen: listen, list: func(ctx context.Context) ([]machine, error) { return bothClouds(ctx, m, v) }}
	e.run()

	const script = "#!/bin/sh\n#SBATCH -N2 --exclusive --requeue\nsrun sh -c 'echo on $SLURMD_NODENAME'\n"
	began := time.Now()
	pair := s.submit(script)
	s.wait(25*time.Second, "the job of two nodes is done, at the second pool", func() bool { return s.job(pair).State == "COMPLETED" })
	t.Logf("the job was done %s after its submission", time.Since(began).Round(100*time.Millisecond))
	out := s.output(pair)
	if !strings.Contains(out, "on c3") || !strings.Contains(out, "on c4") || s.job(pair).Restarts != 1 {
		t.Errorf("it was restarted %d times, and said %q", s.job(pair).Restarts, out)
	}
	if told := s.job(pair).AdminComment; !strings.Contains(told, "no capacity in pool cloud (c5.large") || !strings.Contains(told, "; it goes to pool two; starts again from ") {
		t.Errorf("it was told %q", told)
	}
	if ec2, lon := len(m.Instances(t)), v.Count("POST instances"); ec2 != 0 || lon != 2 {
		t.Errorf("%d instances were launched in EC2 and %d at Vultr, want none and 2", ec2, lon)
	}
	if r := s.reservations(); !strings.Contains(r, "ReservationName=burst-dry-cloud ") || !strings.Contains(r, " Nodes=c[1-2] ") {
		t.Errorf("reservations: %s", r)
	}
	// burstd is killed: its next life takes the nodes back when the cooldown is over.
	if err := s.KillBurstd(); err != nil {
		t.Fatal(err)
	}
	if err := s.StartBurstd(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wait(90*time.Second, "no instance lives, and all nodes are off", func() bool { return e.live() == 0 && s.off() == 6 })
	s.wait(60*time.Second, "the first pool's nodes are in use again", func() bool { return s.plain("c1") && s.plain("c2") })

	began = time.Now()
	either := s.submit(script, "-p", "a,b")
	s.wait(25*time.Second, "the job of two partitions is done", func() bool { return s.job(either).State == "COMPLETED" })
	t.Logf("the job of two partitions was done %s after its submission", time.Since(began).Round(100*time.Millisecond))
	if out, lon := s.output(either), v.Count("POST instances"); lon != 4 || !strings.Contains(out, "on c5") || s.job(either).Restarts != 1 {
		t.Errorf("%d instances were launched at Vultr, want 4; the job was restarted %d times, and said %q", lon, s.job(either).Restarts, out)
	}
	gone.Store(false)
	s.wait(90*time.Second, "no instance lives, and all nodes are off", func() bool { return e.live() == 0 && s.off() == 6 })
	s.wait(2*time.Minute, "the first pool's nodes are in use again", func() bool { return s.plain("c1") && s.plain("c2") })
	back := s.submit(script, "-p", "a") // in a partition of both Slurm may choose either
	s.wait(60*time.Second, "the next job is done", func() bool { return s.job(back).State == "COMPLETED" })
	if j := s.job(back); j.Restarts != 0 || !strings.Contains(s.output(back), "on c1") {
		t.Errorf("the next job was restarted %d times, and said %q", j.Restarts, s.output(back))
	}
	if ec2, lon := len(m.Instances(t)), v.Count("POST instances"); ec2 != 2 || lon != 4 {
		t.Errorf("%d instances were launched in EC2 and %d at Vultr, want 2 and 4", ec2, lon)
	}
	s.wait(90*time.Second, "no instance lives", func() bool { return e.live() == 0 })
	e.billed(map[string]bill{"here": e.bySeconds(m, 0.1), "lon": byHours(4)})
}

// plain says that the node is off, and that no reservation has it.
func (s *site) plain(node string) bool {
	return s.node(node).State.String() == "IDLE+CLOUD+POWERED_DOWN" && !strings.Contains(s.reservations(), "burst-dry")
}

// secondPool gives four of the cloud's six nodes to a pool two in the same partition.
func (s *site) secondPool(toml string) {
	s.t.Helper()
	if err := s.StopBurstd(); err != nil {
		s.t.Fatal(err)
	}
	text, err := os.ReadFile(s.Config)
	if err != nil {
		s.t.Fatal(err)
	}
	first := strings.Replace(string(text), `nodes = "c[1-6]"`, `nodes = "c[1-2]"`, 1)
	if first == string(text) {
		s.t.Fatalf("there is no pool of six nodes in\n%s", text)
	}
	second := "\n[pool.two]\nnodes = \"c[3-6]\"\npartition = \"cloud\"\ncpus = 2\nreal_memory = 1000\n" + toml
	if err := os.WriteFile(s.Config, []byte(first+second), 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := s.StartBurstd(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}
