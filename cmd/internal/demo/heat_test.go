package demo

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestParseHeat(t *testing.T) {
	for _, c := range []struct {
		name, line string
		want       heatLine
		ok         bool
	}{
		{"first attempt", "heat: 400 x 400 cells, seed 1, iterations 0 to 1800, 4 ranks as 2 x 2", heatLine{heatBegins, 0, ""}, true},
		{"later attempt", "heat: 400 x 400 cells, seed 1, iterations 617 to 1800, 4 ranks as 2 x 2", heatLine{heatBegins, 617, ""}, true},
		{"progress", "heat: iteration 640 of 1800, 13.2 s", heatLine{heatProgress, 640, ""}, true},
		{"checkpoint on a signal", "heat: checkpoint at iteration 617 (SIGUSR1), 0.012 s", heatLine{heatCheckpoint, 617, ""}, true},
		{"checkpoint at the end", "heat: checkpoint at iteration 1800 (end), 0.012 s", heatLine{}, false},
		{"done", "heat: done iterations=1800 checksum=0xaeb8937541bc8a4d seconds=17.500", heatLine{heatDone, 1800, "0xaeb8937541bc8a4d"}, true},
		{"restarted", "heat: restarted from iteration 617", heatLine{}, false},
		{"a signal without a checkpoint", "heat: SIGUSR1 at iteration 5: no --checkpoint was given, nothing is written", heatLine{}, false},
		{"cut off", "heat: iteration 64", heatLine{}, false},
		{"no number", "heat: iteration many of 1800, 1.0 s", heatLine{}, false},
		{"of Slurm", "srun: Job 1 step creation temporarily disabled, iterations 5 to 6, retrying", heatLine{}, false},
		{"empty", "", heatLine{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := parseHeat(c.line)
			if ok != c.ok || ok && got != c.want {
				t.Errorf("%+v, %t; want %+v, %t", got, ok, c.want, c.ok)
			}
		})
	}
}

func TestLedger(t *testing.T) {
	for _, c := range []struct {
		name     string
		lines    []heatLine
		reached  int64
		restarts []restart
		done     bool
	}{
		{"nothing said", nil, 0, nil, false},
		{"checkpoint, then restart from it",
			[]heatLine{{heatBegins, 0, ""}, {heatProgress, 600, ""}, {heatCheckpoint, 617, ""}, {heatBegins, 617, ""}, {heatProgress, 700, ""}},
			700, []restart{{617, 617}}, false},
		{"killed without a checkpoint",
			[]heatLine{{heatBegins, 0, ""}, {heatProgress, 600, ""}, {heatBegins, 500, ""}}, 500, []restart{{600, 500}}, false},
		{"began again at the start",
			[]heatLine{{heatBegins, 0, ""}, {heatProgress, 600, ""}, {heatBegins, 0, ""}, {heatDone, 900, "0x1"}}, 900, []restart{{600, 0}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l ledger
			for _, h := range c.lines {
				l.add(h)
			}
			if l.reached != c.reached || !slices.Equal(l.restarts, c.restarts) || l.done != c.done {
				t.Errorf("%+v", l)
			}
		})
	}
	// The last progress may have been said before the checkpoint was written.
	if lost := (restart{reached: 600, from: 617}).lost(); lost != 0 {
		t.Errorf("lost %d", lost)
	}
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	in := tail{path: path}
	steps := []struct {
		add  string
		want []string
	}{
		{"", nil},
		{"one\ntw", []string{"one"}},
		{"", nil},
		{"o", nil},
		{"\n\nfour\n", []string{"two", "", "four"}},
	}
	if lines, err := in.lines(); err != nil || lines != nil {
		t.Errorf("a missing file: %q, %v", lines, err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i, s := range steps {
		if _, err := f.WriteString(s.add); err != nil {
			t.Fatal(err)
		}
		if lines, err := in.lines(); err != nil || !slices.Equal(lines, s.want) {
			t.Errorf("step %d: %q, %v; want %q", i, lines, err, s.want)
		}
	}
}

func TestScript(t *testing.T) {
	got := script("/opt/it's here/heat", Options{}.withDefaults())
	const want = `#!/bin/bash
#SBATCH --job-name=heat --partition=onprem --time=10
#SBATCH --nodes=1-4 --ntasks=4
#SBATCH --requeue --open-mode=append --output=heat.out
#BURST signal=USR1 grace=20s

# All nodes are this one host: its cores are shared, and its other networks
# may come and go.
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_tcp_if_include=lo
exec srun --mpi=pmix '/opt/it'\''s here/heat' -n 400 -i 1800 --seed 1 \
	--checkpoint heat.ckpt --restart auto --exit-on-signal \
	--progress 0.5 --pace 20
`
	if got != want {
		t.Errorf("the script is\n%s", got)
	}
}
