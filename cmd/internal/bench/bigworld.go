package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cloud/aws/ec2test"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// bigWorld is a burstd between a simulated Slurm and a fake EC2.
type bigWorld struct {
	fake    *ec2test.Cloud
	ctl     *slurmtest.Controller
	api     *api.Client
	metrics string
	dir     string
	cmd     *exec.Cmd
	began   time.Time // of cmd
	ended   chan error
	stop    func() // the simulated Slurm
}

func newBigWorld(ctx context.Context, env Env, fake *ec2test.Cloud) (*bigWorld, error) {
	w := &bigWorld{fake: fake, dir: env.Dir, ended: make(chan error, 1)}
	names := make([]string, bigNodes)
	for i := range names {
		names[i] = fmt.Sprint("c", i+1)
	}
	w.ctl = slurmtest.New(slurmtest.Options{Nodes: names, SuspendTime: 10 * time.Hour, ResumeTimeout: time.Hour, ReturnToService: 2})
	sctx, cancel := context.WithCancel(ctx)
	answered, err := serveShims(sctx, filepath.Join(env.Dir, "slurm.sock"), w.ctl)
	if err != nil {
		cancel()
		return nil, err
	}
	served := make(chan struct{})
	go func() { w.ctl.Serve(sctx); close(served) }()
	w.stop = func() { cancel(); answered(); <-served }
	if err := w.fill(ctx, names[:bigUp]); err != nil {
		w.stop()
		return nil, fmt.Errorf("making a site of %d nodes: %w", bigNodes, err)
	}
	if err := w.start(ctx, env); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// fill runs the jobs on nodes that have instances, and writes all of it into
// the journal as burstd would have.
func (w *bigWorld) fill(ctx context.Context, nodes []string) error {
	if err := os.Mkdir(filepath.Join(w.dir, "state"), 0o700); err != nil {
		return err
	}
	journal, err := store.Open(ctx, filepath.Join(w.dir, "state", "burst.db"))
	if err != nil {
		return err
	}
	defer journal.Close()
	cluster, err := journal.ClusterID(ctx)
	if err != nil {
		return err
	}
	instances, err := w.launch(ctx, cluster, len(nodes))
	if err != nil {
		return err
	}
	for range bigJobs {
		w.ctl.Submit(slurmtest.Job{Nodes: bigUp / bigJobs, Requeue: true})
	}
	now := time.Now()
	var c power.Change
	var u slurm.NodeUpdate
	for i, n := range nodes {
		in := instances[i]
		c.Instances = append(c.Instances, power.Instance{Instance: in, Provider: "aws", Assigned: n})
		c.Nodes = append(c.Nodes, power.Node{Name: n, Pool: "p", Phase: power.Up, Since: now, Order: "o", Made: now, Instance: in.ID, AddrSet: true})
		u.Nodes, u.Addrs, u.Hostnames = append(u.Nodes, n), append(u.Addrs, in.Addr), append(u.Hostnames, n)
	}
	if err := journal.CommitPower(ctx, c); err != nil {
		return err
	}
	client := slurm.New(w.ctl)
	if err := client.UpdateNodes(ctx, u); err != nil {
		return err
	}
	// The scheduler of the simulated Slurm gives the jobs their nodes in turn.
	for {
		ready := 0
		for _, n := range nodes {
			if state := w.ctl.Node(n); strings.Contains(state, "POWERING_UP") {
				w.ctl.Register(n)
			} else if state == "ALLOCATED+CLOUD" {
				ready++
			}
		}
		if ready == len(nodes) {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d nodes have their jobs: %w", ready, len(nodes), err)
		}
	}
}

// launch has so many instances launched in the fake EC2, with their addresses.
func (w *bigWorld) launch(ctx context.Context, cluster string, n int) ([]cloud.Instance, error) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		if err := os.Setenv(name, "bench"); err != nil {
			return nil, err
		}
	}
	const each = 1000 // which is all that EC2's buckets hold: each launch has its own
	for i := 0; i < n; i += each {
		p, err := aws.New(ctx, aws.Config{Name: "aws", Region: "us-east-1", Endpoint: w.fake.URL() + strings.Repeat("/", i/each),
			Pools: map[string]aws.Pool{"p": {Subnets: []string{ec2test.SubnetIn("a")}, SecurityGroups: []string{ec2test.SecurityGroup}}}})
		if err != nil {
			return nil, err
		}
		r := []cloud.LaunchRequest{{Token: fmt.Sprint("big-", i), Cluster: cluster, Pool: "p", Count: min(each, n-i), Image: ec2test.ImageX86,
			Offering: cloud.Offering{Type: "c6i.large", Zone: "us-east-1a", Market: cloud.OnDemand}}}
		if err := errors.Join(p.Prepare(ctx, r)...); err != nil {
			return nil, err
		}
		if _, err := p.Launch(ctx, r[0]); err != nil {
			return nil, err
		}
	}
	p, err := aws.New(ctx, aws.Config{Name: "aws", Region: "us-east-1", Endpoint: w.fake.URL()})
	if err != nil {
		return nil, err
	}
	for {
		all, err := p.List(ctx, cloud.Filter{Cluster: cluster})
		if err != nil {
			return nil, err
		}
		ready := 0
		for _, i := range all {
			if i.Addr != "" && i.State == cloud.Running {
				ready++
			}
		}
		if ready == n {
			return all, nil
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return nil, fmt.Errorf("%d of %d instances are ready: %w", ready, n, err)
		}
	}
}

const bigConfig = `cluster = "bench"
[slurm]
conf = %[1]q
bin = %[2]q
user = %[3]q
[daemon]
socket = %[4]q
spool = %[5]q
state = %[6]q
metrics = %[7]q
listen = %[8]q
[provider.aws]
kind = "aws"
region = "us-east-1"
endpoint = %[9]q
price_table = %[10]q
[pool.p]
provider = "aws"
nodes = "c[1-%[11]d]"
partition = "cloud"
instance_types = ["c6i.large"]
zones = ["us-east-1a"]
market = "on-demand"
image = %[12]q
subnets = [%[13]q]
security_groups = [%[14]q]
cpus = 2
real_memory = 1000
`

// start starts burstd, and returns when it answers.
func (w *bigWorld) start(ctx context.Context, env Env) error {
	me, err := user.Current()
	if err != nil {
		return err
	}
	path := func(name string) string { return filepath.Join(w.dir, name) }
	var listen string
	for _, addr := range []*string{&w.metrics, &listen} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		*addr = ln.Addr().String()
		if err := ln.Close(); err != nil {
			return err
		}
	}
	text := fmt.Sprintf(bigConfig, path("slurm.conf"), path("bin"), me.Username, path("b.sock"), path("spool"), path("state"), w.metrics, listen,
		w.fake.URL(), path("prices.csv"), bigNodes, ec2test.ImageX86, ec2test.SubnetIn("a"), ec2test.SecurityGroup)
	for name, text := range map[string]string{"burst.toml": text, "slurm.conf": "ClusterName=bench\n",
		"prices.csv": "type,zone,market,usd_per_hour,date\nc6i.large,,on-demand,0.085,2026-01-01\n"} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := writeShims(path("bin"), filepath.Join(env.Programs, "burst"), path("slurm.sock")); err != nil {
		return err
	}
	log, err := os.Create(path("burstd.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	w.cmd = exec.Command(filepath.Join(env.Programs, "burstd"), "--config", path("burst.toml"))
	w.cmd.Env = append(os.Environ(), "AWS_EC2_METADATA_DISABLED=true")
	w.cmd.Stdout, w.cmd.Stderr = log, log
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	w.api = api.NewClient(path("b.sock"))
	return w.await(ctx)
}

func (w *bigWorld) await(ctx context.Context) error {
	w.began = time.Now()
	if err := w.cmd.Start(); err != nil {
		w.cmd = nil
		return err
	}
	go func() { w.ended <- w.cmd.Wait() }()
	for {
		if _, err := w.api.Status(ctx); err == nil {
			return nil
		}
		select {
		case err := <-w.ended:
			w.cmd = nil
			return fmt.Errorf("burstd has ended: %w: %s", err, w.logged())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// logged is the beginning of burstd's log.
func (w *bigWorld) logged() []byte {
	text, err := os.ReadFile(filepath.Join(w.dir, "burstd.log"))
	if err != nil {
		return []byte(err.Error())
	}
	return text[:min(len(text), 3000)]
}

func (w *bigWorld) pid() int { return w.cmd.Process.Pid }

// rounds waits until burstd has done so many rounds since its start: each reads
// all instances of the cluster, page by page, and then Slurm.
func (w *bigWorld) rounds(ctx context.Context, n int) error {
	for {
		pages := 0
		for _, c := range w.fake.Log() {
			if c.Action == "DescribeInstances" && c.Begun.After(w.began) {
				pages++
			}
		}
		if pages >= n*bigPages {
			return pause(ctx, 3*time.Second) // what follows from the round is done by then
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// close ends burstd and then what it talks to.
func (w *bigWorld) close() error {
	var err error
	if w.cmd != nil {
		err = w.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case end := <-w.ended:
			err = errors.Join(err, end)
		case <-time.After(10 * time.Second):
			err = errors.Join(err, errors.New("burstd did not stop within 10 s"), w.cmd.Process.Kill())
		}
	}
	if w.api != nil {
		w.api.Close()
	}
	w.stop()
	return err
}
