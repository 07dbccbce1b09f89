package slurm

import (
	"maps"
	"strings"
	"testing"
)

// TestNeeds reads what Slurm 22.05.8 printed of real jobs (the first eight), with Slurm 24.11's words for
// what a task gets.
func TestNeeds(t *testing.T) {
	f := &fake{answer: func(command []string) (string, string, error) {
		var b strings.Builder
		for _, row := range []string{
			"1|1|1|1|0|N/A|N/A|N/A|N/A|(null)",
			"3|2|1|2|0|gres:gpu:a100:2|N/A|N/A|N/A|(null)", // --gres=gpu:a100:2 -N2
			"7|8|2|4|0|N/A|N/A|N/A|N/A|(null)",             // -N1-2 -n4 -c2
			"9|1|1|1|3000M|N/A|N/A|N/A|N/A|(null)",         // --mem=3000
			"12|1|1|1|0|N/A|gres:gpu:2|N/A|N/A|(null)",     // --gpus=2
			"13|2|1|2|0|N/A|N/A|gres:gpu:1|N/A|(null)",     // --gpus-per-task=1 -n2
			"23|1|1|1|0|N/A|N/A|N/A|gres:gpu:1|(null)",     // --gpus-per-socket=1 --sockets-per-node=1
			"24|1|1|1|0|N/A|N/A|N/A|N/A|burst-dry-p",       // --reservation=burst-dry-p
			"30|2|1|2|1.50G|N/A|N/A|cpu=1,gres/gpu=1|N/A|",
		} {
			b.WriteString(strings.ReplaceAll(row, "|", captureMark) + captureMark + "\n")
		}
		return b.String(), "", nil
	}}
	got, err := newFake(f).Needs(t.Context(), []uint32{1, 3, 99})
	if err != nil {
		t.Fatal(err)
	}
	want := map[uint32]Needs{
		1:  {CPUs: 1, MinCPUs: 1, Tasks: 1},
		3:  {CPUs: 2, MinCPUs: 1, Tasks: 2, PerNode: "gres:gpu:a100:2"},
		7:  {CPUs: 8, MinCPUs: 2, Tasks: 4},
		9:  {CPUs: 1, MinCPUs: 1, Tasks: 1, Memory: 3000},
		12: {CPUs: 1, MinCPUs: 1, Tasks: 1, PerJob: "gres:gpu:2"},
		13: {CPUs: 2, MinCPUs: 1, Tasks: 2, PerTask: "gres:gpu:1"},
		23: {CPUs: 1, MinCPUs: 1, Tasks: 1, PerSocket: "gres:gpu:1"},
		24: {CPUs: 1, MinCPUs: 1, Tasks: 1, Reservation: "burst-dry-p"},
		30: {CPUs: 2, MinCPUs: 1, Tasks: 2, Memory: 1536, PerTask: "cpu=1,gres/gpu=1"},
	}
	if !maps.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if line := f.lines()[0]; !strings.HasPrefix(line, "squeue -h -a --local -t all -O JobID:MARK,NumCPUs:MARK,") || !strings.HasSuffix(line, " -j 1,3,99") {
		t.Errorf("asked %s", line)
	}
	f.answer = func([]string) (string, string, error) {
		return "", "slurm_load_jobs error: Invalid job id specified\n", exitError(1)
	}
	many := make([]uint32, maxNeeds+1)
	for i := range many {
		many[i] = 4294967295
	}
	if got, err := newFake(f).Needs(t.Context(), many); err != nil || len(got) > 0 || len(f.lines()) != 3 {
		t.Errorf("of jobs that are gone: %v, %v, in %d commands", got, err, len(f.lines())-1)
	}
	for _, l := range f.lines()[1:] {
		if len(l) > 128<<10 {
			t.Errorf("a command of %d bytes", len(l))
		}
	}
	for _, bad := range []string{"1|x|1|1|0|||||", "1|1|1|1|3Q|||||", "|1|1|1|0|||||", "1|1"} {
		f.answer = func([]string) (string, string, error) {
			return strings.ReplaceAll(bad, "|", captureMark) + captureMark + "\n", "", nil
		}
		if _, err := newFake(f).Needs(t.Context(), []uint32{1}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestGres(t *testing.T) {
	for list, want := range map[string]map[string]int{
		"":                              {},
		"gpu:2":                         {"gpu": 2},
		"gpu:a100:2(S:0,2),shard:8":     {"gpu": 2, "gpu:a100": 2, "shard": 8},
		"gpu:a100:2,gpu:v100:1(S:0-1)":  {"gpu": 3, "gpu:a100": 2, "gpu:v100": 1},
		"gres:gpu:1":                    {"gpu": 1},
		"gres:gpu":                      {"gpu": 1},
		"gres/gpu:a100=2,gres/tmp=4K":   {"gpu": 2, "gpu:a100": 2, "tmp": 4096},
		"cpu=2,gres/gpu=1,mem=10M":      {"gpu": 1},
		"gres:gpu:a100:1,gres:net:2":    {"gpu": 1, "gpu:a100": 1, "net": 2},
		"bandwidth:lustre:no_consume:4": nil,
		"gres:":                         nil,
		"gres:gpu:ı":                    {"gpu": 1, "gpu:ı": 1}, // in upper case it is shorter
		"gres:gpu:2k,gres:net:a:3":      {"gpu": 2048, "net": 3, "net:a": 3},
	} {
		got, ok := Gres(list)
		if !maps.Equal(got, want) || ok != (want != nil) {
			t.Errorf("%q: %v, %v; want %v", list, got, ok, want)
		}
	}
}
