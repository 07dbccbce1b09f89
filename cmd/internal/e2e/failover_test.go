package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/aws/mototest"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
	"github.com/burst-hpc/burst/cmd/internal/rig"
	"github.com/burst-hpc/burst/slurm"
)

// TestFailOverBetweenClouds: a pool buys in moto, an emulator of EC2, and where
// that has nothing at the fake of Vultr; the machines behind the instances of
// both are real slurmds. EC2's capacity is gone: a job of two nodes runs on Vultr,
// with both nodes. EC2 has capacity again: a job that wants Vultr runs there, one that
// does not on EC2, and the ledger books each instance as its cloud bills.
func TestFailOverBetweenClouds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("e2e: a real Slurm is slow; make test runs it")
	}
	m := mototest.Start(t, mototest.Options{CIDRs: []string{"127.79.0.0/24"}, Outside: true})
	front, gone := capacityGate(t, m.Endpoint)
	gone.Store(true)
	v := vultrtest.New(vultrtest.Options{Addr: func(n int) string { return fmt.Sprint("127.79.1.", n) }})
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
	s := start(t, rig.Options{
		Nodes: 4, Gate: true, SuspendTime: 5 * time.Second, Types: []string{"c5.large"}, Zones: []string{m.Subnets[0].Zone}, Market: "on-demand",
		ResumeTimeout: 2 * time.Minute, SlurmExtra: quick, BurstdEnv: append(mototest.Env(), "VULTR_API_KEY="+vultrtest.Key),
		DaemonToml:   fmt.Sprintf("listen = %q", listen),
		ProviderToml: fmt.Sprintf("kind = \"aws\"\nregion = %q\nendpoint = %q\nprice_table = %q\n", mototest.Region, front, prices),
		PoolToml: fmt.Sprintf(`image = %q
subnets = [%q]
security_groups = [%q]
fleet = "never"
root = { size = "8G" }
user_data = %[4]q
[[pool.cloud.then]]
provider = "lon"
instance_types = [%[5]q]
image = "os:%[6]s"
user_data = %[4]q
`, m.Image, m.Subnets[0].ID, m.SecurityGroup, userData, vultrtest.Plan, vultrtest.OSName),
		ExtraToml: fmt.Sprintf("[provider.lon]\nkind = \"vultr\"\nregion = %q\nendpoint = %q\ndir = %q\n", vultrtest.Region, v.URL(), filepath.Join(dir, "lon")),
	})
	s.declareFeatures("here,lon")
	e := &machines{t: t, s: s, listen: listen, list: func(ctx context.Context) ([]machine, error) { return bothClouds(ctx, m, v) }}
	e.run()

	began := time.Now()
	pair := s.submit("#!/bin/sh\n#SBATCH -N2 --exclusive\nsrun sh -c 'echo on $SLURMD_NODENAME'\n")
	s.wait(90*time.Second, "the job of two nodes is done", func() bool { return s.job(pair).State == "COMPLETED" })
	t.Logf("the job of two nodes was done %s after its submission", time.Since(began).Round(100*time.Millisecond))
	if j := s.job(pair); j.Restarts != 0 || strings.Count(s.output(pair), "on c") != 2 {
		t.Errorf("it was restarted %d times, and said %q", j.Restarts, s.output(pair))
	}
	if ec2, lon := len(m.Instances(t)), v.Count("POST instances"); ec2 != 0 || lon != 2 {
		t.Errorf("%d instances were launched in EC2 and %d at Vultr, want none and 2", ec2, lon)
	}
	// Their nodes go down: the next jobs need new ones.
	s.wait(90*time.Second, "no instance lives", func() bool { return e.live() == 0 && s.off() == 4 })
	gone.Store(false)
	s.wait(60*time.Second, "EC2's offering has cooled down", func() bool { return time.Since(began) > 31*time.Second })

	// A job that wants Vultr has half of a node there; others have to keep off it, or not.
	lon := s.submit("#!/bin/sh\n#SBATCH -n1\necho on $SLURMD_NODENAME\nwhile ! [ -e go ]; do sleep 0.2; done\n", "--constraint=lon")
	s.wait(90*time.Second, "the job that wants Vultr runs", func() bool { return strings.Contains(s.output(lon), "on c") })
	if ec2, at := len(m.Instances(t)), v.Count("POST instances"); ec2 != 0 || at != 3 {
		t.Errorf("the job with --constraint=lon: %d instances in EC2 and %d at Vultr, want none and 3", ec2, at)
	}
	node := s.job(lon).Nodes
	if f := s.node(node).Features; !slices.Equal(f, []string{"lon"}) {
		t.Errorf("node %s has the active features %q", node, f)
	}
	here := s.submit("#!/bin/sh\n#SBATCH -n1\nsrun sh -c 'echo on $SLURMD_NODENAME'\n", "--constraint=here")
	free := s.submit("#!/bin/sh\n#SBATCH --exclusive\nsrun sh -c 'echo on $SLURMD_NODENAME'\n")
	for _, id := range []uint32{here, free} {
		s.wait(2*time.Minute, "the jobs that want EC2, or nothing, are done", func() bool { return s.job(id).State == "COMPLETED" })
		if strings.Contains(s.output(id), "on "+node+"\n") {
			t.Errorf("job %d ran on %s, which is Vultr's", id, node)
		}
	}
	if ec2, at := len(m.Instances(t)), v.Count("POST instances"); ec2 < 1 || ec2 > 2 || at != 3 {
		t.Errorf("the jobs that want EC2, or nothing: %d instances in EC2 and %d at Vultr, want 1 or 2, and 3", ec2, at)
	}
	// slurmctld forgets active features when it starts.
	if err := s.Cluster.RestartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wait(60*time.Second, "the node has its active features again", func() bool { return slices.Equal(s.node(node).Features, []string{"lon"}) })
	if err := os.WriteFile(filepath.Join(s.Work, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.wait(2*time.Minute, "no instance lives", func() bool { return e.live() == 0 && s.off() == 4 })
	s.wait(60*time.Second, "all nodes have all features again", func() bool {
		return !slices.ContainsFunc(s.Nodes(), func(name string) bool { return len(s.node(name).Features) != 2 })
	})
	e.billed(map[string]bill{"here": e.bySeconds(m, 0.1), "lon": byHours(3)})
}

// TestAJobLeavesANodeOfAnEmptyCloud: half of a node is free at EC2, where there is no capacity for another.
// Slurm gives it to a job of two nodes: that one begins anew, with two nodes of Vultr's, and the job that
// runs on the other half of the first node runs on there, until its node goes.
func TestAJobLeavesANodeOfAnEmptyCloud(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("e2e: a real Slurm is slow; make test runs it")
	}
	m := mototest.Start(t, mototest.Options{CIDRs: []string{"127.80.0.0/24"}, Outside: true})
	front, gone := capacityGate(t, m.Endpoint)
	v := vultrtest.New(vultrtest.Options{Addr: func(n int) string { return fmt.Sprint("127.80.1.", n) }})
	if err := v.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	listen, dir := freeAddress(t), t.TempDir()
	userData := filepath.Join(dir, "user-data")
	if err := os.WriteFile(userData, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := start(t, rig.Options{
		Nodes: 4, Gate: true, SuspendTime: 20 * time.Minute, Types: []string{"c5.large"}, Zones: []string{m.Subnets[0].Zone}, Market: "on-demand",
		ResumeTimeout: 2 * time.Minute, SlurmExtra: quick, BurstdEnv: append(mototest.Env(), "VULTR_API_KEY="+vultrtest.Key),
		DaemonToml:   fmt.Sprintf("listen = %q", listen),
		ProviderToml: fmt.Sprintf("kind = \"aws\"\nregion = %q\nendpoint = %q\n", mototest.Region, front),
		PoolToml: fmt.Sprintf("image = %q\nsubnets = [%q]\nsecurity_groups = [%q]\nfleet = \"never\"\nroot = { size = \"8G\" }\nuser_data = %[4]q\n"+
			"[[pool.cloud.then]]\nprovider = \"lon\"\ninstance_types = [%[5]q]\nimage = \"os:%[6]s\"\nuser_data = %[4]q\n",
			m.Image, m.Subnets[0].ID, m.SecurityGroup, userData, vultrtest.Plan, vultrtest.OSName),
		ExtraToml: fmt.Sprintf("[provider.lon]\nkind = \"vultr\"\nregion = %q\nendpoint = %q\ndir = %q\n", vultrtest.Region, v.URL(), filepath.Join(dir, "lon")),
	})
	s.declareFeatures("here,lon")
	e := &machines{t: t, s: s, listen: listen, list: func(ctx context.Context) ([]machine, error) { return bothClouds(ctx, m, v) }}
	e.run()

	half := s.submit("#!/bin/sh\n#SBATCH -n1\necho on $SLURMD_NODENAME\nwhile ! [ -e go ]; do sleep 0.2; done\n")
	s.wait(90*time.Second, "the job on half a node runs", func() bool { return strings.Contains(s.output(half), "on c") })
	node := s.job(half).Nodes
	gone.Store(true)
	pair := s.submit("#!/bin/sh\n#SBATCH -N2 -n2 --ntasks-per-node=1\nsrun sh -c 'echo on $SLURMD_NODENAME'\n")
	s.wait(60*time.Second, "Slurm is asked to power the half used node down", func() bool {
		state := s.node(node).State
		return state.Has(slurm.Drain) && state.Has(slurm.PowerDown)
	})
	s.wait(3*time.Minute, "the job of two nodes is done", func() bool { return s.job(pair).State == "COMPLETED" })
	out := s.output(pair)
	if j := s.job(pair); j.Restarts != 1 || strings.Count(out, "on c") != 2 || strings.Contains(out, "on "+node+"\n") || !strings.Contains(j.AdminComment, "begin anew at another provider") {
		t.Errorf("it was restarted %d times, said %q and was told %q", j.Restarts, out, j.AdminComment)
	}
	if ec2, lon := len(m.Instances(t)), v.Count("POST instances"); ec2 != 1 || lon != 2 {
		t.Errorf("%d instances were launched in EC2 and %d at Vultr, want 1 and 2", ec2, lon)
	}
	if j := s.job(half); j.State != "RUNNING" || j.Restarts != 0 {
		t.Errorf("the job beside it is %s, restarted %d times", j.State, j.Restarts)
	}
	if err := os.WriteFile(filepath.Join(s.Work, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.wait(60*time.Second, "its node goes when it has ended", func() bool { return s.job(half).State == "COMPLETED" && e.live() == 2 })
}
