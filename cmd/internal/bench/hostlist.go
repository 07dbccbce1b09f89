package bench

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

func hostlist100k() Bench {
	return Bench{
		Name:   "hostlist-100k",
		Method: "expand c[00001-50000],gpu[1-50000], and fold it back: the slower of the two, median of 9 interleaved rounds",
		Unit:   "ms",
		Better: Lower,
		Goal:   50,
		Run:    runHostlist100k,
	}
}

func runHostlist100k(ctx context.Context, _ Env) ([]float64, error) {
	const (
		rounds = 9
		list   = "c[00001-50000],gpu[1-50000]"
		nodes  = 100_000
	)
	var samples []float64
	for range rounds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		runtime.GC() // the garbage of one round is not the next one's load
		start := time.Now()
		names, err := hostlist.Expand(list)
		expanded := time.Since(start)
		if err != nil {
			return nil, err
		}
		runtime.GC()
		start = time.Now()
		folded := hostlist.Fold(names)
		took := max(expanded, time.Since(start))
		if len(names) != nodes || folded != list {
			return nil, fmt.Errorf("%d names came out of %s, and %.100s of them", len(names), list, folded)
		}
		samples = append(samples, took.Seconds()*1e3)
	}
	return samples, nil
}
