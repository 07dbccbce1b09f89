package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
)

const (
	sbatchPairs = 10
	// Slurm starts an ungated job at a tick of 30 s, and powers nodes up at one
	// of 1 s. This far apart, ten jobs meet both evenly at ten moments.
	sbatchApart = 9100 * time.Millisecond
)

// waits are seconds from sbatch's return to the first act of the job's script.
type waits struct{ gated, ungated []float64 }

// sbatchToRunning measures with burst-gate and without, at the same time on
// the same host.
func sbatchToRunning() []Bench {
	measure := once(measureSbatch)
	const method = "two sites on this host, one with burst-gate, one without; %d jobs each in turn, %s apart, each on a node that was powered down; " +
		"local instances (a slurmd, no VM boot); from sbatch's return to the script's first act: median"
	b := Bench{
		Name:   "sbatch-to-running-gated",
		Method: fmt.Sprintf(method, sbatchPairs, sbatchApart),
		Unit:   "s",
		Better: Lower,
		Goal:   3,
		Run: func(ctx context.Context, env Env) ([]float64, error) {
			w, err := measure(ctx, env)
			return w.gated, err
		},
	}
	u := b
	u.Name, u.Goal = "sbatch-to-running-ungated", 0
	u.Run = func(ctx context.Context, env Env) ([]float64, error) {
		w, err := measure(ctx, env)
		return w.ungated, err
	}
	return []Bench{b, u}
}

func measureSbatch(ctx context.Context, env Env) (w waits, err error) {
	gated, err := startSite(ctx, env, "g", rig.Options{Nodes: sbatchPairs, Gate: true})
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, gated.Close()) }()
	ungated, err := startSite(ctx, env, "u", rig.Options{Nodes: sbatchPairs})
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, ungated.Close()) }()

	var waits []func() error // a job may start long after the next is submitted
	next := time.Now()
	for range sbatchPairs {
		for _, one := range []struct {
			site    site
			samples *[]float64
		}{{gated, &w.gated}, {ungated, &w.ungated}} {
			if err := pause(ctx, time.Until(next)); err != nil {
				return w, err
			}
			next = next.Add(sbatchApart / 2)
			wait, err := submitted(ctx, one.site, one.samples)
			if err != nil {
				return w, err
			}
			waits = append(waits, wait)
		}
	}
	for _, wait := range waits {
		if err := wait(); err != nil {
			return w, err
		}
	}
	return w, nil
}

// submitted submits a job; wait adds to samples how long it took to start.
func submitted(ctx context.Context, s site, samples *[]float64) (wait func() error, err error) {
	off, err := s.off(ctx)
	if err != nil {
		return nil, err
	}
	id, at, err := s.submit(ctx)
	if err != nil {
		return nil, err
	}
	return func() error {
		started, err := s.started(ctx, id, 1)
		if err != nil {
			return err
		}
		*samples = append(*samples, started.Sub(at).Seconds())
		_, err = s.on(ctx, id, off)
		return err
	}, nil
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
