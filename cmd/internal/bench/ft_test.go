package bench

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
)

// TestHeatThroughEvictions runs the experiment with real parts, and small.
func TestHeatThroughEvictions(t *testing.T) {
	if testing.Short() {
		t.Skip("heat on a real Slurm through evictions: slow end-to-end, run by make test")
	}
	dir := t.TempDir()
	env := Env{Dir: t.TempDir(), Programs: filepath.Join(dir, "bin")}
	if err := rig.Build(t.Context(), env.Programs); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "make", "-s", "-C", "../../../contrib/heat", "OUT="+env.heat("signal")).CombinedOutput(); err != nil {
		t.Fatalf("building heat (make deps installs an MPI and gcc): %v\n%s", err, out)
	}
	size := FTSize{Cells: 64, Iterations: 45, Pace: 100 * time.Millisecond, Notice: 20 * time.Second}
	cases := []FTCase{{Method: FTNone, Nodes: 2}, {Method: "signal", Strategy: "preemptive", Nodes: 2, Evicted: true}}
	runs, err := FT(t.Context(), env, FTOptions{Size: size, Cases: cases, Runs: 1, Say: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	rows := FTRows(runs)
	if len(rows) != 2 {
		t.Fatalf("rows %+v", rows)
	}
	got, base := rows[1], rows[0]
	if len(got.Restarts) != 2 || got.Restarts[0] < size.Iterations/3 || got.Restarts[1] < 2*size.Iterations/3 || got.Checkpoints != 2 {
		t.Errorf("it went on from iterations %v, with %d checkpoints", got.Restarts, got.Checkpoints)
	}
	if got.Checksum != base.Checksum || got.Ratio <= 1 || got.ComputeSeconds <= 0 || got.USD <= 0 || got.BootSeconds <= 0 || got.AllUSD < got.USD || base.USD <= 0 || got.IdleSeconds <= 0 {
		t.Errorf("%+v,\nundisturbed %+v", got, base)
	}
	var table strings.Builder
	if err := FTTable(&table, rows); err != nil {
		t.Error(err)
	}
	t.Logf("\n%s", table.String())
}

// trace reads lines of a job's output, one each 100 ms.
func trace(t *testing.T, lines string) *ftTrace {
	t.Helper()
	return traceOn(t, &ftTrace{}, lines)
}

// traceOn goes on with one that knows something already.
func traceOn(t *testing.T, tr *ftTrace, lines string) *ftTrace {
	t.Helper()
	at := time.Unix(1000, 0)
	for line := range strings.Lines(lines) {
		if err := tr.add(at, strings.TrimSpace(line)); err != nil {
			t.Fatal(err)
		}
		at = at.Add(100 * time.Millisecond)
	}
	return tr
}

const ftThreeAttempts = `the attempt begins at 1000.000000000
heat: iteration 1 of 6, 0.1 s
heat: iteration 2 of 6, 0.2 s
heat: iteration 3 of 6, 0.3 s
burst-srun: job 1 step 0: ran 4s, 1 checkpoints (100ms), 0 restarts, no work lost
srun: error: it was evicted
the attempt begins at 1000.600000000
heat: restarted from iteration 2
heat: iteration 3 of 6, 0.1 s
heat: iteration 4 of 6, 0.2 s
the attempt begins at 1001.000000000
heat: iteration 5 of 6, 0.1 s
heat: iteration 6 of 6, 0.2 s
heat: done iterations=6 checksum=0x00000000000000aa seconds=0.2 compute=0.025000
burst-srun: job 1 step 0: ran 14s, 3 checkpoints (1.5s), 2 restarts, 200ms of work lost
the attempt ends with 0 at 1001.500000000
`

func TestFigures(t *testing.T) {
	c, size := FTCase{Method: "signal", Strategy: "periodic", Nodes: 2, Evicted: true}, FTSize{Iterations: 6}
	got, err := trace(t, ftThreeAttempts).figures(c, size)
	if err != nil {
		t.Fatal(err)
	}
	want := FTRun{FTCase: c, Seconds: 1.5, IterationSeconds: 0.1, ComputeSeconds: 0.025, Checkpoints: 3, CheckpointSeconds: 1.5, IdleSeconds: 0.5,
		LostIterations: 1, LostSeconds: 0.1, Restarts: []int{2, 4}, Checksum: "0x00000000000000aa"}
	for _, p := range []*float64{&got.IterationSeconds, &got.IdleSeconds, &got.LostSeconds, &got.Seconds} {
		*p = round(*p)
	}
	if d := diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestFiguresOfABadRun(t *testing.T) {
	c, size := FTCase{Method: "signal", Strategy: "periodic", Nodes: 2, Evicted: true}, FTSize{Iterations: 6}
	whole := ftThreeAttempts
	for name, bad := range map[string]struct{ lines, want string }{
		"nothing":                {"", "started 0 times"},
		"not evicted":            {whole[strings.LastIndex(whole, "the attempt begins"):], "started 1 times, not 3"},
		"it failed":              {strings.Replace(whole, "with 0 at", "with 1 at", 1), "exit code 1"},
		"it was killed":          {whole[:strings.LastIndex(whole, "the attempt ends")], "did not end well"},
		"too few iterations":     {strings.Replace(whole, "iterations=6", "iterations=5", 1), "ended after 5 iterations"},
		"from its beginning":     {strings.Replace(whole, "heat: iteration 3 of 6, 0.1 s", "heat: iteration 1 of 6, 0.1 s", 1), "restart 1 began from iteration 0"},
		"no line of iterations":  {strings.ReplaceAll(whole, "heat: iteration", "heat: it"), "no iterations"},
		"a restart without line": {strings.Replace(strings.Replace(whole, "heat: iteration 5 of 6, 0.1 s\n", "", 1), "heat: iteration 6 of 6, 0.2 s\n", "", 1), "restart 2 told of no iterations"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := trace(t, bad.lines).figures(c, size); err == nil || !strings.Contains(err.Error(), bad.want) {
				t.Errorf("%v, want %q", err, bad.want)
			}
		})
	}
}

func TestSizes(t *testing.T) {
	if err := FTDefault().Check(); err != nil {
		t.Error(err)
	}
	if s := FTDefault(); s.Iterations < 200 || time.Duration(s.Iterations)*s.Pace < 2*time.Minute {
		t.Errorf("%+v is too small for the figures that are asked for", s)
	}
	for name, change := range map[string]func(*FTSize){
		"cells":      func(s *FTSize) { s.Cells = 1 },
		"iterations": func(s *FTSize) { s.Iterations = 29 },
		"pace":       func(s *FTSize) { s.Pace = time.Millisecond },
		"notice":     func(s *FTSize) { s.Notice = 0 },
	} {
		s := FTDefault()
		if change(&s); s.Check() == nil {
			t.Errorf("%s: %+v is accepted", name, s)
		}
	}
}
