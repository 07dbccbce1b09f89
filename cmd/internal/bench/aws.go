package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud/aws/ec2test"
)

const awsRuns = 5

// awsLimits are EC2's buckets, and the latencies of the fake.
var awsLimits = ec2Limits{
	runRequests: bucket{5, 2}, runInstances: bucket{1000, 2}, fleetRequests: bucket{50, 5},
	run: 2 * time.Second, fleet: 3 * time.Second, describe: 300 * time.Millisecond,
}

// awsSample is what one run took.
type awsSample struct {
	AWSFigures
	bound   time.Duration  // the least that the buckets allow
	calls   map[string]int // of the API, until all addresses were set, by action
	refused int            // of these, how many EC2 refused
	names   int            // CreateTags in the whole run: one for each instance is due
}

func (s awsSample) apiCalls() float64 {
	n := 0
	for _, of := range s.calls {
		n += of
	}
	return float64(n)
}

// awsBenches are three measurements: one job of 1,000 nodes, 20 pools with a
// job of 50 nodes each, and one job of 1,100 nodes.
func awsBenches() []Bench {
	one := once(measureAWS([]int{1000}))
	many := once(measureAWS(slices.Repeat([]int{50}, 20)))
	past := once(measureAWS([]int{1100}))
	result := func(name, unit, what string, goal float64, measure func(context.Context, Env) ([]awsSample, error), of func(awsSample) float64) Bench {
		return Bench{
			Name: name, Unit: unit, Better: Lower, Goal: goal,
			Method: fmt.Sprintf("%s; burstd's engine, journal and AWS provider, which have looked up the pools as at burstd's start, in a process of their own, between a simulated slurmctld and a fake EC2 "+
				"(RunInstances %s, CreateFleet %s, others %s, EC2's token buckets): median of %d runs", what, awsLimits.run, awsLimits.fleet, awsLimits.describe, awsRuns),
			Run: func(ctx context.Context, env Env) ([]float64, error) {
				all, err := measure(ctx, env)
				var samples []float64
				for _, s := range all {
					samples = append(samples, of(s))
				}
				if len(all) > 0 {
					env.note("the first run: %s", all[0].note())
				}
				return samples, err
			},
		}
	}
	wall := func(latency time.Duration) func(awsSample) float64 {
		return func(s awsSample) float64 { return s.Wall / latency.Seconds() }
	}
	bound := func(groups ...int) func(awsSample) float64 { return wall(awsLimits.bound(groups)) }
	const until = "from the order until Slurm has every node's address"
	return []Bench{
		result("aws-1000-wall-ratio", "ratio", "one job of 1,000 nodes, "+until+", to one RunInstances' latency", 1.1, one, wall(awsLimits.run)),
		result("aws-20x50-bound-ratio", "ratio", "20 pools with a job of 50 nodes each, "+until+", to the least time that the buckets allow", 1.2, many, bound(slices.Repeat([]int{50}, 20)...)),
		result("aws-1100-bound-ratio", "ratio", "one job of 1,100 nodes, "+until+", to the least time that the buckets allow", 1.2, past, bound(1100)),
		result("aws-1000-rss", "MB", "one job of 1,000 nodes, peak memory until all are up, with the simulated slurmctld, without the fake", 60, one, func(s awsSample) float64 { return s.RSS }),
		result("aws-1000-scontrol-calls", "calls", "one job of 1,000 nodes, the engine's scontrol calls until all are up in the journal", 10, one, func(s awsSample) float64 { return float64(s.Reads + s.Updates) }),
		result("aws-1000-api-calls", "calls", "one job of 1,000 nodes, the API's calls "+until+"; not the CreateTags that name each instance for the console afterwards, a call each", 0, one, awsSample.apiCalls),
	}
}

// note tells a run by its parts.
func (s awsSample) note() string {
	var parts []string
	for _, action := range slices.Sorted(maps.Keys(s.calls)) {
		parts = append(parts, fmt.Sprintf("%d %s", s.calls[action], action))
	}
	return fmt.Sprintf("%.2f s, bound %.2f s, API %s (%d refused), names in the background %d CreateTags by the end of the run, "+
		"scontrol %d show, %d update, %d squeue, CPU %.2f s, peak %.1f MB",
		s.Wall, s.bound.Seconds(), strings.Join(parts, ", "), s.refused, s.names, s.Reads, s.Updates, s.Queues, s.CPU, s.RSS)
}

func measureAWS(groups []int) func(context.Context, Env) ([]awsSample, error) {
	return func(ctx context.Context, env Env) ([]awsSample, error) {
		var all []awsSample
		for i := range awsRuns {
			dir := filepath.Join(env.Dir, fmt.Sprint("aws", i))
			if err := os.Mkdir(dir, 0o700); err != nil {
				return nil, err
			}
			s, err := awsRun(ctx, env, dir, groups)
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
		return all, nil
	}
}

// awsRun measures once, on a fake of its own.
func awsRun(ctx context.Context, env Env, dir string, groups []int) (s awsSample, err error) {
	fake := ec2test.New(ec2test.Options{
		Latency: map[string]time.Duration{"RunInstances": awsLimits.run, "CreateFleet": awsLimits.fleet},
		Default: awsLimits.describe, Boot: 5 * time.Second, Throttle: true,
	})
	if err := fake.Start(); err != nil {
		return s, fmt.Errorf("starting the fake EC2: %w", err)
	}
	defer func() { err = errors.Join(err, fake.Close()) }()
	args := []string{"bench-aws", dir, fake.URL()}
	for _, n := range groups {
		args = append(args, strconv.Itoa(n))
	}
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(env.Programs, "burst"), args...)
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=bench", "AWS_SECRET_ACCESS_KEY=bench", "AWS_EC2_METADATA_DISABLED=true")
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return s, fmt.Errorf("%s: %w: %s", cmd, err, bytes.TrimSpace(errOut.Bytes()))
	}
	if err := json.Unmarshal(out.Bytes(), &s.AWSFigures); err != nil {
		return s, fmt.Errorf("%s printed %q: %w", cmd, out.Bytes(), err)
	}
	s.calls, s.bound = map[string]int{}, awsLimits.bound(groups)
	for _, c := range fake.Log() {
		if c.Begun.Before(s.Ordered) {
			continue
		}
		if c.Action == "CreateTags" {
			s.names++
		}
		if c.Begun.After(s.Ordered.Add(time.Duration(s.Wall * float64(time.Second)))) {
			continue
		}
		s.calls[c.Action]++
		if c.Code != "" {
			s.refused++
		}
	}
	return s, nil
}
