package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
