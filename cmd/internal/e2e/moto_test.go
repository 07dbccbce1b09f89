package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/aws/mototest"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/rig"
	"github.com/burst-hpc/burst/slurm/slurmd"
)

// TestNodesInEC2 is the backbone with the AWS provider: burstd launches in
// moto, an emulator of EC2, and for each instance that moto says is running a
// slurmd comes up that has the instance's address, after it has asked burstd
// which node it is. An instance that EC2 ends is replaced; what is idle ends in EC2.
func TestNodesInEC2(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("e2e: a real Slurm is slow; make test runs it")
	}
	m := mototest.Start(t, mototest.Options{CIDRs: []string{"127.77.0.0/24", "127.77.1.0/24"}, Outside: true})
	listen := freeAddress(t)
	s := start(t, rig.Options{
		Nodes: 3, OnPrem: 1, Gate: true, SuspendTime: 5 * time.Second, Types: []string{"c5.large", "c6i.large"},
		Zones: []string{m.Subnets[0].Zone, m.Subnets[1].Zone}, Market: "spot-then-on-demand", SlurmExtra: quick,
		BurstdEnv:    mototest.Env(),
		DaemonToml:   fmt.Sprintf("listen = %q", listen),
		ProviderToml: fmt.Sprintf("kind = \"aws\"\nregion = %q\nendpoint = %q\n", mototest.Region, m.Endpoint),
		PoolToml: fmt.Sprintf("image = \"ssm:%s\"\nsubnets = [%q, %q]\nsecurity_groups = [%q]\nmunge_key = \"image\"\nroot = { size = \"8G\" }\n",
			m.Parameter, m.Subnets[0].ID, m.Subnets[1].ID, m.SecurityGroup),
	})
	e := &ec2{t: t, s: s, m: m, listen: listen, up: map[string]*exec.Cmd{}}
	e.run()
	id := s.submit(`#!/bin/sh
#SBATCH -N2 --requeue --open-mode=append
srun sh -c 'echo on $SLURMD_NODENAME'
[ "${SLURM_RESTART_COUNT:-0}" = 2 ] || sleep 600
`)
	s.wait(90*time.Second, "the job runs on both nodes", func() bool { return strings.Count(s.output(id), "on c") == 2 })
	first := e.live()
	if len(first) != 2 {
		t.Fatalf("%d instances for two nodes", len(first))
	}
	s.wait(30*time.Second, "the instances are named", func() bool {
		named := 0
		for _, i := range e.live() {
			if strings.HasPrefix(i.Tags["burst:node"], "c") && i.Tags["Name"] == i.Tags["burst:node"] {
				named++
			}
		}
		return named == 2
	})
	for _, i := range first {
		if !i.Spot || i.Tags["burst:pool"] != "cloud" || i.Tags["burst:job"] != id10(id) || i.Tags["burst:token"] == "" ||
			i.Zone != first[0].Zone || i.Type != first[0].Type || !strings.HasPrefix(i.UserData, "#!") {
			t.Errorf("instance %+v", i)
		}
	}
	m.Terminate(t, first[0].ID) // without a notice
	s.wait(150*time.Second, "the job runs on other nodes", func() bool { return strings.Count(s.output(id), "on c") == 4 })
	e.drill(expand(t, s.job(id).Nodes)[0])
	s.wait(150*time.Second, "the job is done on other nodes", func() bool { return s.job(id).State == "COMPLETED" })
	if j := s.job(id); j.Restarts != 2 {
		t.Errorf("it was restarted %d times", j.Restarts)
	}
	s.wait(90*time.Second, "no instance lives and all nodes are off", func() bool { return len(e.live()) == 0 && s.off() == 3 })
	if n := len(m.Instances(t)); n < 4 || n > 6 {
		t.Errorf("%d instances in all, for two nodes and two that were lost", n)
	}
}

var lastPort = new(atomic.Int32)

// freeAddress is one that nobody has, and that the kernel gives to no client while
// burstd is away either.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 2000 {
		address := fmt.Sprint("127.0.0.1:", 10000+(os.Getpid()*16+int(lastPort.Add(1)))%2000)
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("no free port")
	return ""
}

// ec2 plays the machines behind moto's instances.
type ec2 struct {
	t      *testing.T
	s      *site
	m      *mototest.Moto
	listen string
	up     map[string]*exec.Cmd // instance -> its slurmd
}

// drill takes the node's instance away: burstd, not the cloud, ends it, at the
// deadline or once its jobs have left; also one that was killed after it had
// heard the notice.
func (e *ec2) drill(node string) {
	e.t.Helper()
	var drilled []api.Evicted
	if err := json.Unmarshal([]byte(e.s.does("evict", node, "--lead", "10s", "--yes", "--json")), &drilled); err != nil || len(drilled) != 1 || drilled[0].Way != "burstd" {
		e.t.Fatalf("the drill is %+v, %v", drilled, err)
	}
	if err := e.s.KillBurstd(); err != nil {
		e.t.Fatal(err)
	}
	if err := e.s.StartBurstd(e.t.Context()); err != nil {
		e.t.Fatal(err)
	}
	e.s.wait(60*time.Second, "the drill's instance has ended", func() bool {
		return !slices.ContainsFunc(e.live(), func(i mototest.Instance) bool { return i.ID == drilled[0].Instance })
	})
}

// live lists the instances that are not terminated.
func (e *ec2) live() []mototest.Instance {
	e.t.Helper()
	var live []mototest.Instance
	for _, i := range e.m.Instances(e.t) {
		if i.State != "terminated" {
			live = append(live, i)
		}
	}
	return live
}

// run boots and ends machines until the test ends.
func (e *ec2) run() {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			e.round(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
		for id := range e.up {
			e.end(id)
		}
	})
	e.t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

func (e *ec2) round(ctx context.Context) {
	all, err := e.m.List(ctx)
	if err != nil {
		if ctx.Err() == nil {
			e.t.Errorf("listing moto's instances: %v", err)
		}
		return
	}
	for _, i := range all {
		switch {
		case i.State == "terminated":
			e.end(i.ID)
		case i.State == "running" && e.up[i.ID] == nil:
			if node := e.whoami(ctx, i); node != "" {
				e.boot(i, node)
			}
		}
	}
}

// whoami asks burstd from the instance's address, as the node's bootstrap
// does. burstd believes root only: an ordinary user reads the name from its tag.
func (e *ec2) whoami(ctx context.Context, i mototest.Instance) string {
	if os.Geteuid() != 0 {
		return i.Tags["burst:node"]
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", `
body="{\"instance\":\"$1\"}"
sum=$(printf %s "$body" | sha256sum | cut -d' ' -f1)
credential=$(printf 'POST /v1/node/whoami %s' "$sum" | munge --socket="$4")
curl -sf --interface "$2" -H "Authorization: MUNGE $credential" -d "$body" "http://$3/v1/node/whoami" | sed -n 's/.*"node":"\([^"]*\)".*/\1/p'`,
		"whoami", i.ID, i.Addr, e.listen, mungeSocket(e.s.Cluster.Conf))
	out, err := cmd.Output()
	if err != nil && ctx.Err() == nil {
		e.t.Logf("whoami of %s: %v", i.ID, err)
	}
	return strings.TrimSpace(string(out))
}

// mungeSocket is that of the cluster's own munged.
func mungeSocket(conf string) string {
	text, _ := os.ReadFile(conf) // without it munge says what it misses
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "AuthInfo="); ok {
			for part := range strings.SplitSeq(strings.TrimSpace(rest), ",") {
				if path, ok := strings.CutPrefix(part, "socket="); ok {
					return path
				}
			}
		}
	}
	return ""
}

func (e *ec2) boot(i mototest.Instance, node string) {
	cmd, err := slurmd.Command(slurmd.Options{Node: node, Conf: e.s.Cluster.Conf, Dir: filepath.Join(e.s.Work, i.ID), Boot: true})
	time.Sleep(slurmd.BootDelay(time.Now()))
	if err == nil {
		err = slurmd.Start(cmd)
	}
	if err != nil {
		e.t.Errorf("booting %s as %s: %v", i.ID, node, err)
		return
	}
	e.t.Logf("%s (%s) boots as %s", i.ID, i.Addr, node)
	e.up[i.ID] = cmd
}

func (e *ec2) end(id string) {
	cmd := e.up[id]
	if cmd == nil {
		return
	}
	if err := slurmd.KillTree(cmd.Process.Pid); err != nil {
		e.t.Errorf("ending %s: %v", id, err)
	}
	_ = cmd.Wait() // killed
	delete(e.up, id)
}
