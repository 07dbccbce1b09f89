package main

import (
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

// someJobs are runs of jobs: one that is over, an array's task that runs, and one
// of which little is known.
func someJobs() []api.Job {
	at := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	usd, lost, computing, writing, since, iteration, of, lostIterations := 1.25, 12.5, 3590.0, 6.25, 65.0, int64(2500), int64(9000), int64(120)
	return []api.Job{
		{Job: 7, Name: "run.sh", Label: "heat-4k", Method: "dmtcp", User: "carol", Account: "phys", Partition: "cloud", Pool: "p", Types: []string{"c6i.large"}, Nodes: 2,
			VCPUs: 4, MemoryMiB: 7000, Ranks: 4, Submitted: at, Started: at, Ended: at.Add(time.Hour), State: "COMPLETED", Over: true, Attempts: 3, Seconds: 3600,
			ComputingSeconds: &computing, Checkpoints: 12, WritingSeconds: &writing, Evictions: 1, LostSeconds: &lost, LostUnknown: 1, LostIterations: &lostIterations, Iteration: &iteration, USD: &usd, InstanceSeconds: 7200},
		{Job: 10, ArrayJob: 9, ArrayTask: "1", Name: "sweep", User: "carol", Partition: "cloud", Pool: "p", Types: []string{}, Nodes: 1, Submitted: at, Started: at.Add(time.Hour),
			State: "RUNNING", Attempts: 1, Seconds: 90, Checkpoints: 1, SinceCheckpoint: &since, LostSeconds: new(float64), Steps: []api.Step{
				{Job: 10, Step: "0", Attempt: 1, Host: "c1", Method: "signal", Checkpoint: &api.LastCheckpoint{Generation: 4, SinceSeconds: since}, Iteration: &iteration, Iterations: &of},
				{Job: 10, Step: "prep", Attempt: 1, Host: "c1"}, {Job: 10, Step: "post", Method: "scr", Silent: true}}},
		{Job: 11, Name: "x\x1b[31m", User: "dave", Partition: "cloud", Types: []string{}, Nodes: 1, Submitted: at, Started: at.Add(2 * time.Hour), Ended: at.Add(3 * time.Hour),
			State: "UNKNOWN", Over: true, Attempts: 2, Seconds: 3600, LostUnknown: 1},
	}
}
