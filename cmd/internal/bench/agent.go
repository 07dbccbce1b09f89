package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud/aws/imds/imdstest"
	"github.com/burst-hpc/burst/cmd/internal/rig"
)

const (
	agentNotices = 200
	agentAtOnce  = 10
	agentPhase   = 2 * time.Second // between two looks of an agent: the notices come at all moments of it
	agentLead    = 120 * time.Second
)

func noticeAgent() Bench {
	return Bench{
		Name: "notice-agent-p99",
		Method: fmt.Sprintf("%d notices of %s for as many instances, %d at once, put into a fake of EC2's metadata service at evenly spread moments; from there, by burst-agent, "+
			"real MUNGE, burstd and Slurm, to the trap of the signal in the job's script; local instances (a slurmd, no VM boot): 99th percentile", agentNotices, agentLead, agentAtOnce),
		Unit:    "s",
		Better:  Lower,
		Goal:    3,
		Run:     measureAgent,
		Summary: func(samples []float64) float64 { return Percentile(samples, 99) },
	}
}

// signalled is a job that writes down when its signal comes, and leaves.
const signalled = "#!/bin/sh\n#BURST signal=B:USR1 grace=10s\n" +
	"trap 'date +%s.%N >>" + traps + "$SLURM_JOB_ID; kill $!; exit 0' USR1\nsleep 3600 &\ndate +%s.%N >>" + stamps + "$SLURM_JOB_ID\nwait\n"

const traps = "signalled-"

func measureAgent(ctx context.Context, env Env) (samples []float64, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("burstd takes notices under root's MUNGE credentials alone: run it as root")
	}
	listen, err := freeAddr()
	if err != nil {
		return nil, err
	}
	// The agents all see the slurmds of all instances, which are on this host.
	r, err := rig.Start(ctx, rig.Options{Bin: env.Programs, Dir: filepath.Join(env.Dir, "a"), Nodes: 2 * agentAtOnce, Gate: true, SuspendTime: time.Hour,
		DaemonToml: fmt.Sprintf("listen = %q", listen), ExtraToml: "[health]\nslurmd_restarts = 0\nagent_silent = \"10h\""})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	w := agentWorld{site: site{r}, program: filepath.Join(env.Programs, "burst-agent"), listen: listen}
	if w.munge, err = w.mungeSocket(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mu   sync.Mutex
		next int
		wg   sync.WaitGroup
	)
	for range agentAtOnce {
		wg.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= agentNotices {
					return
				}
				took, err := w.heard(ctx, agentPhase*time.Duration(i)/agentNotices)
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

// freeAddr is an address of this host that nobody listened on a moment ago.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// agentWorld is a site whose instances have agents.
type agentWorld struct {
	site
	program, listen, munge string
}

func (s site) mungeSocket(ctx context.Context) (string, error) {
	config, err := s.Slurm().ShowConfig(ctx)
	if err != nil {
		return "", err
	}
	for word := range strings.SplitSeq(config["AuthInfo"], ",") {
		if path, ok := strings.CutPrefix(strings.TrimSpace(word), "socket="); ok {
			return path, nil
		}
	}
	return "", fmt.Errorf("the site's Slurm names no socket of munged: %q", config["AuthInfo"])
}

// heard runs a job with an agent on its node, announces that the instance
// goes, at some moment between two looks of the agent, and says how long it
// took until the job's script had its signal.
func (w agentWorld) heard(ctx context.Context, phase time.Duration) (time.Duration, error) {
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
	// The agent lives until the job has its signal, as on a node.
	ctx, cancel := context.WithCancel(ctx)
	service := imdstest.New(instance)
	url, err := service.Serve(ctx)
	if err != nil {
		cancel()
		return 0, err
	}
	cmd := exec.CommandContext(ctx, w.program, "--imds", url, "--urls", "http://"+w.listen, "--munge-socket", w.munge, "--spool", w.Dir)
	cmd.Env = w.Env()
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		cancel()
		return 0, fmt.Errorf("starting burst-agent: %w", err)
	}
	took, err := w.announce(ctx, service, id, phase)
	cancel()
	_ = cmd.Wait() // it was killed
	if err != nil {
		err = fmt.Errorf("job %d on instance %s: %w; its agent's log: %s", id, instance, err, log.String())
	}
	return took, err
}

func (w agentWorld) announce(ctx context.Context, service *imdstest.Service, id uint32, phase time.Duration) (time.Duration, error) {
	const looks = 4 // the id, and the first at each topic
	for begin := time.Now(); ; {
		if _, gets, _ := service.Count(); gets >= looks {
			break
		}
		if time.Since(begin) > 30*time.Second {
			return 0, errors.New("the agent does not read the metadata")
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
	if err := pause(ctx, phase); err != nil {
		return 0, err
	}
	at := time.Now()
	service.Spot("terminate", at.Add(agentLead))
	trapped, err := w.stamp(ctx, traps, id, 1)
	return trapped.Sub(at), err
}

// instance is the one behind the node that the job has.
func (w agentWorld) instance(ctx context.Context, id uint32) (string, error) {
	j, err := w.Job(ctx, id)
	if err != nil {
		return "", err
	}
	all, err := w.Control.List()
	if err != nil {
		return "", err
	}
	for _, m := range all {
		if m.Node == j.Nodes && m.Reason == "" {
			return m.ID, nil
		}
	}
	return "", fmt.Errorf("no instance is behind node %q of job %d", j.Nodes, id)
}
