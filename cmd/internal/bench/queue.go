package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud/aws/mototest/motoserver"
	"github.com/burst-hpc/burst/cmd/internal/rig"
)

const (
	queueNotices = 200
	queueAtOnce  = 10
	queueRegion  = "us-east-1"
)

func noticeQueue() Bench {
	return Bench{
		Name: "notice-sqs-p99",
		Method: fmt.Sprintf("%d spot warnings, as EventBridge writes them, for as many instances, %d at once, sent to an SQS queue of moto; from before the sending, by burstd's "+
			"AWS provider, which has the queue and no pools, its journal and real Slurm, to the trap of the signal in the job's script; local instances (a slurmd, no VM boot): 99th percentile", queueNotices, queueAtOnce),
		Unit:    "s",
		Better:  Lower,
		Goal:    2,
		Run:     measureQueue,
		Summary: func(samples []float64) float64 { return Percentile(samples, 99) },
	}
}

func measureQueue(ctx context.Context, env Env) (samples []float64, err error) {
	moto, err := motoserver.Start(ctx, env.Dir)
	if err != nil {
		return nil, err
	}
	defer moto.Close()
	q, err := motoserver.MakeQueue(ctx, moto.Config(queueRegion), "burst-notices", "")
	if err != nil {
		return nil, err
	}
	r, err := rig.Start(ctx, rig.Options{Bin: env.Programs, Dir: filepath.Join(env.Dir, "q"), Nodes: 2 * queueAtOnce, Gate: true, SuspendTime: time.Hour,
		BurstdEnv: []string{"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true"},
		ExtraToml: fmt.Sprintf("[provider.notices]\nkind = \"aws\"\nregion = %q\nendpoint = %q\nqueue = %q\n", queueRegion, moto.Endpoint, q.URL)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	w := agentWorld{site: site{r}}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mu   sync.Mutex
		next int
		wg   sync.WaitGroup
	)
	for range queueAtOnce {
		wg.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= queueNotices {
					return
				}
				took, err := w.warned(ctx, q)
				if err != nil {
					cancel(fmt.Errorf("notice %d: %w", i+1, err))
					return
				}
				mu.Lock()
				samples = append(samples, took.Seconds())
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return samples, context.Cause(ctx)
}

// warned runs a job, sends a spot warning for its instance to the queue, and
// says how long it took until the job's script had its signal.
func (w agentWorld) warned(ctx context.Context, q *motoserver.Queue) (time.Duration, error) {
	id, err := w.Submit(ctx, signalled, "--nodes=1", "--exclusive", "--requeue", "--output=/dev/null")
	if err != nil {
		return 0, err
	}
	if _, err := w.started(ctx, id, 1); err != nil {
		return 0, err
	}
	instance, err := w.instance(ctx, id)
	if err != nil {
		return 0, err
	}
	at := time.Now()
	err = q.Send(ctx, fmt.Sprintf(`{"version":"0","id":"%s","detail-type":"EC2 Spot Instance Interruption Warning","source":"aws.ec2","account":"123456789012",`+
		`"time":%q,"region":%q,"resources":[],"detail":{"instance-id":%q,"instance-action":"terminate"}}`, instance, at.UTC().Format(time.RFC3339), queueRegion, instance))
	if err != nil {
		return 0, fmt.Errorf("sending a warning for %s: %w", instance, err)
	}
	trapped, err := w.stamp(ctx, traps, id, 1)
	return trapped.Sub(at), err
}
