package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cloud/aws/ec2test"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// AWSFigures are what one resume by the AWS provider took.
type AWSFigures struct {
	Ordered time.Time `json:"ordered"` // when Slurm asked
	Wall    float64   `json:"wall"`    // s from then until Slurm has every node's address
	Reads   int       `json:"reads"`   // calls of scontrol show until all nodes are up in the journal
	Updates int       `json:"updates"` // calls of scontrol update until then
	Queues  int       `json:"queues"`  // calls of squeue until then
	CPU     float64   `json:"cpu"`     // s of this process, user and system
	RSS     float64   `json:"rss"`     // MB, the most that this process ever had
}

// The nodes of AWS boot sooner than real ones, so that a run does not take
// minutes: none of it is in Wall.
const (
	awsBootMin = 8 * time.Second
	awsBootMax = 12 * time.Second
)

// settle is how long the buckets need to be full again after the start.
const settle = 8 * time.Second

// AWS resumes a job of so many nodes in each of some pools, all at once, on
// the EC2 at the endpoint, and measures it. It is for a process of its own: dir
// takes the journal.
func AWS(ctx context.Context, dir, endpoint string, groups []int) (AWSFigures, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*time.Minute, errors.New("the nodes were not up within 3 minutes"))
	defer cancel()
	w, err := newAWSWorld(ctx, dir, endpoint, groups)
	if err != nil {
		return AWSFigures{}, err
	}
	var wg sync.WaitGroup
	wg.Go(func() { w.ctl.Serve(ctx) })
	wg.Go(func() { w.engine.Run(ctx) })
	f, err := w.measure(ctx, groups)
	cancel()
	wg.Wait()
	return f, errors.Join(err, w.journal.Close())
}

// awsWorld is a burstd's engine between a simulated Slurm and the AWS provider.
type awsWorld struct {
	scaleWorld
	provider *awsCloud
	pools    []power.Pool
	nodes    []string
}

func newAWSWorld(ctx context.Context, dir, endpoint string, groups []int) (*awsWorld, error) {
	w := &awsWorld{scaleWorld: scaleWorld{orders: make(chan power.Order, len(groups))}}
	settings := map[string]aws.Pool{}
	for i, n := range groups {
		p := power.Pool{Name: fmt.Sprint("p", i+1), Provider: "aws", Partition: "cloud", Image: ec2test.ImageX86,
			Fleet: fleet.Config{Types: []string{"c6i.large"}, Zones: []string{"us-east-1a"}}}
		for j := range n {
			p.Nodes = append(p.Nodes, fmt.Sprintf("p%d-%d", i+1, j+1))
		}
		w.pools, w.nodes = append(w.pools, p), append(w.nodes, p.Nodes...)
		settings[p.Name] = aws.Pool{Subnets: []string{ec2test.SubnetIn("a")}, SecurityGroups: []string{ec2test.SecurityGroup}}
	}
	w.ctl = slurmtest.New(slurmtest.Options{
		Nodes: w.nodes, SuspendTime: time.Hour, ResumeTimeout: 10 * time.Minute, ReturnToService: 2,
		OnResume: func(nodes, file string) {
			w.orders <- power.Order{ID: nodes, Kind: power.Resume, Nodes: nodes, ResumeFile: file, Made: time.Now()}
		},
	})
	p, err := aws.New(ctx, aws.Config{Name: "aws", Region: "us-east-1", Endpoint: endpoint, Pools: settings})
	if err != nil {
		return nil, err
	}
	w.provider = &awsCloud{Provider: p, ctl: w.ctl, of: len(w.nodes)}
	if w.journal, err = store.Open(ctx, filepath.Join(dir, "burst.db")); err != nil {
		return nil, err
	}
	cluster, err := w.journal.ClusterID(ctx)
	if err != nil {
		return nil, errors.Join(err, w.journal.Close())
	}
	client := slurm.New(w.ctl)
	ctl := struct {
		*slurm.Client
		*slurm.Watcher
	}{client, slurm.NewWatcher(client.Snapshot, 100*time.Millisecond)}
	w.engine = power.New(power.Config{Cluster: cluster, Pools: w.pools}, w.journal, ctl,
		map[string]cloud.Provider{"aws": w.provider}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err := w.engine.Load(ctx); err != nil {
		return nil, errors.Join(err, w.journal.Close())
	}
	return w, nil
}

// awsCloud boots a slurmd on each instance that is told its node.
type awsCloud struct {
	*aws.Provider
	ctl *slurmtest.Controller
	of  int

	mu     sync.Mutex
	booted int
}

// Assign implements cloud.Assigner.
func (a *awsCloud) Assign(ctx context.Context, nodes map[string]string) error {
	if err := a.Provider.Assign(ctx, nodes); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	born := time.Now()
	for _, node := range nodes {
		boot := awsBootMin + (awsBootMax-awsBootMin)*time.Duration(a.booted)/time.Duration(a.of)
		a.booted++
		time.AfterFunc(boot, func() { a.ctl.RegisterBooted(node, born) })
	}
	return nil
}

func (w *awsWorld) measure(ctx context.Context, groups []int) (f AWSFigures, err error) {
	// As burstd does when it starts.
	var examples []cloud.LaunchRequest
	for _, p := range w.pools {
		examples = append(examples, p.Example("bench"))
	}
	if err := errors.Join(w.provider.Warm(ctx, examples)...); err != nil {
		return f, err
	}
	if err := pause(ctx, settle); err != nil {
		return f, err
	}
	for _, n := range groups {
		w.ctl.Submit(slurmtest.Job{Nodes: n})
	}
	for !w.addressed() {
		select {
		case <-ctx.Done():
			return f, context.Cause(ctx)
		case order := <-w.orders:
			if f.Ordered.IsZero() {
				f.Ordered = order.Made
			}
			if err := w.engine.AddOrder(ctx, order); err != nil {
				return f, err
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
	f.Wall = time.Since(f.Ordered).Seconds()
	if err := w.until(ctx, func() bool { return w.engine.Health().Orders == 0 }); err != nil {
		return f, err
	}
	f.Reads, f.Updates, f.Queues = commands(w.ctl, f.Ordered)
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return f, err
	}
	f.CPU = time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
	f.RSS, err = peakRSS()
	return f, err
}

// addressed says whether Slurm has an address for every node.
func (w *awsWorld) addressed() bool {
	for _, n := range w.nodes {
		if w.ctl.Addr(n) == n {
			return false
		}
	}
	return true
}
