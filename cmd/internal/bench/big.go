package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud/aws/ec2test"
	"github.com/burst-hpc/burst/cmd/internal/api"
)

// The site of the benchmarks of size.
const (
	bigNodes     = 10_000
	bigUp        = 2_000
	bigJobs      = 500
	bigPages     = 2  // of a list of all instances
	bigRounds    = 3  // that are measured
	bigQuestions = 50 // of each kind, in the storm
	bigAtOnce    = 8
)

// bigFigures are what burstd needs for a site of this size.
type bigFigures struct {
	cpu  []float64 // s of burstd's process from one round to the next
	rss  float64   // MB resident after rounds and storm
	peak float64   // MB, the most that was ever resident
}

// bigBenches are one measurement with two results.
func bigBenches() []Bench {
	measure := once(measureBig)
	method := fmt.Sprintf("a real burstd, its journal on disk, %d nodes configured, %d up with as many instances and %d jobs; Slurm's commands answered by a simulated slurmctld, "+
		"EC2 by a fake, both outside of burstd's process; no real slurmd", bigNodes, bigUp, bigJobs)
	return []Bench{
		{
			Name: "reconcile-10k-cpu", Unit: "s", Better: Lower, Goal: 1,
			Method: fmt.Sprintf("CPU time of burstd's process, user and system, from one round of reconciliation to the next, with all that burstd does meanwhile (reading Slurm and the cloud, "+
				"the ledger), without the commands that it runs: median of %d; %s", bigRounds, method),
			Run: func(ctx context.Context, env Env) ([]float64, error) {
				f, err := measure(ctx, env)
				return f.cpu, err
			},
		},
		{
			Name: "burstd-10k-rss", Unit: "MB", Better: Lower, Goal: 150,
			Method: fmt.Sprintf("resident memory of burstd after %d rounds and a storm (status, nodes and events of the API and /metrics, %d times each, %d at once); %s", bigRounds+2, bigQuestions, bigAtOnce, method),
			Run: func(ctx context.Context, env Env) ([]float64, error) {
				f, err := measure(ctx, env)
				if err != nil {
					return nil, err
				}
				env.note("the peak since its start was %.1f MB", f.peak)
				return []float64{f.rss}, nil
			},
		},
	}
}

func measureBig(ctx context.Context, env Env) (f bigFigures, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 6*time.Minute, errors.New("not within 6 minutes"))
	defer cancel()
	fake := ec2test.New(ec2test.Options{})
	if err := fake.Start(); err != nil {
		return f, fmt.Errorf("starting the fake EC2: %w", err)
	}
	defer func() { err = errors.Join(err, fake.Close()) }()
	w, err := newBigWorld(ctx, env, fake)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	// The first rounds come soon after the start, and take in what is there.
	if err := w.rounds(ctx, 2); err != nil {
		return f, err
	}
	if err := w.unchanged(ctx); err != nil {
		return f, err
	}
	last, err := cpuOf(w.pid())
	if err != nil {
		return f, err
	}
	for n := range bigRounds {
		if err := w.rounds(ctx, 3+n); err != nil {
			return f, err
		}
		now, err := cpuOf(w.pid())
		if err != nil {
			return f, err
		}
		f.cpu = append(f.cpu, (now - last).Seconds())
		last = now
	}
	if err := w.storm(ctx); err != nil {
		return f, err
	}
	if err := w.unchanged(ctx); err != nil {
		return f, err
	}
	f.rss, f.peak, err = memoryOf(w.pid())
	return f, err
}

// storm asks burstd much at once.
func (w *bigWorld) storm(ctx context.Context) error {
	questions := []func() error{
		func() error { _, err := w.api.Status(ctx); return err },
		func() error { _, err := w.api.Nodes(ctx); return err },
		func() error { _, err := w.api.Events(ctx, -1000, 0); return err },
		func() error { return w.scrape(ctx) },
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	next := make(chan func() error)
	for range bigAtOnce {
		wg.Go(func() {
			for q := range next {
				if err := q(); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	for range bigQuestions {
		for _, q := range questions {
			next <- q
		}
	}
	close(next)
	wg.Wait()
	return errors.Join(errs...)
}

func (w *bigWorld) scrape(ctx context.Context) error {
	_, err := w.metricsText(ctx)
	return err
}

func (w *bigWorld) metricsText(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.metrics+"/metrics", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("/metrics: %s", resp.Status)
	}
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// unchanged says whether burstd has left the site as it was: else something
// else was measured.
func (w *bigWorld) unchanged(ctx context.Context) error {
	s, err := w.api.Status(ctx)
	if err != nil {
		return err
	}
	if err := checkBig(s, w.fake.Live()); err != nil {
		return fmt.Errorf("%w; its log begins: %s", err, w.logged())
	}
	return nil
}

func checkBig(s api.Status, live int) error {
	if s.Nodes["up"] != bigUp || s.Instances != bigUp || live != bigUp || !s.SlurmOK {
		return fmt.Errorf("burstd has %v and %d instances, EC2 %d, want %d up; Slurm: %q", s.Nodes, s.Instances, live, bigUp, s.SlurmError)
	}
	return nil
}

// cpuOf is the CPU time that a process has used.
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseCPU(string(text))
}

// parseCPU reads utime and stime of /proc/PID/stat, in ticks of 10 ms, as every
// Linux of today has them. The name before them may hold anything.
func parseCPU(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("%q is no /proc/PID/stat", stat)
	}
	user, uerr := strconv.ParseInt(fields[11], 10, 64)
	system, serr := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(uerr, serr)
}

// memoryOf is what a process has resident, and the most that it ever had, in MB.
func memoryOf(pid int) (now, peak float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	now, err = parseMemory(string(text), "VmRSS")
	peak, perr := parseMemory(string(text), "VmHWM")
	return now, peak, errors.Join(err, perr)
}

// parseMemory reads an amount of /proc/PID/status, in MB.
func parseMemory(status, name string) (float64, error) {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kib * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("/proc/PID/status has no %s", name)
}
