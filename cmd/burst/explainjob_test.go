package main

import (
	"reflect"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/slurm/sbatch"
)

// TestWouldOf: a script's options become what the job asks for.
func TestWouldOf(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		head string
		want api.Would
	}{
		"none":            {"", api.Would{Nodes: 1, Tasks: 1, CPUs: 1}},
		"nodes":           {"-N 2-4 --ntasks-per-node=8 -c2 --mem=4G", api.Would{Nodes: 2, Tasks: 16, CPUs: 2, Memory: 4096}},
		"tasks":           {"-n 16 --ntasks-per-node=8 --mem-per-cpu=500", api.Would{Nodes: 2, Tasks: 16, CPUs: 1, Memory: 4000}},
		"no nodes":        {"-n 16 -t 90 --exclusive", api.Would{Tasks: 16, CPUs: 1, Limit: 90 * time.Minute, Whole: true}},
		"days":            {"-t 1-02 -A phys -q long -p a,b", api.Would{Nodes: 1, Tasks: 1, CPUs: 1, Limit: 26 * time.Hour, Account: "phys", QOS: "long", Partition: "a,b"}},
		"gpus":            {"--gres=shard:1 --gpus-per-node=a100:2 -G 4", api.Would{Nodes: 1, Tasks: 1, CPUs: 1, PerNode: "shard:1,gpu:a100:2", PerJob: "gpu:4"}},
		"gpus of tasks":   {"-n 4 -N 2 --gpus-per-task=a100:2 --mem-per-gpu=1G --mincpus=8", api.Would{Nodes: 2, Tasks: 4, CPUs: 1, MinCPUs: 8, Memory: 4096, PerTask: "gpu:a100:2"}},
		"gpus of socket":  {"--gpus-per-socket=2 --mem-per-gpu=1G", api.Would{Nodes: 1, Tasks: 1, CPUs: 1, Memory: 1024, PerSocket: "gpu:2"}},
		"gpus of the job": {"-N 2 --gpus=3 --mem-per-gpu=1G", api.Would{Nodes: 2, Tasks: 2, CPUs: 1, Memory: 2048, PerJob: "gpu:3"}},
		"all memory":      {"--mem=0", api.Would{Nodes: 1, Tasks: 1, CPUs: 1, AllMemory: true}},
		"what is needed":  {"-C ib -L matlab:1 -w n1 --reservation=r -H -i in -o /out/%j", api.Would{Nodes: 1, Tasks: 1, CPUs: 1, Features: "ib", Licenses: "matlab:1", Required: "n1", Reserved: "r", Held: true, Stdin: "/sim/in", Stdout: "/out/%j"}},
		"no numbers":      {"-N x -n -3 --mem=much -t never", api.Would{Nodes: 1, Tasks: 1, CPUs: 1}},
	} {
		script := "#!/bin/sh\n#SBATCH -D /sim " + tt.head + "\n"
		head, err := sbatch.Read(script)
		if err != nil {
			t.Fatal(err)
		}
		tt.want.Script, tt.want.WorkDir = script, "/sim"
		if got := wouldOf(explainOptions{}, batchJob{script: script, head: head}); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}
