package bench

import (
	"strings"
	"testing"
)

// TestMPIBenches: names and goals that others refer to, and at least five pairs of what is
// compared in pairs.
func TestMPIBenches(t *testing.T) {
	goals := map[string]float64{}
	for _, b := range All() {
		goals[b.Name+" "+b.Unit] = b.Goal
	}
	for name, goal := range map[string]float64{"burst-srun-overhead ms": 30, "container-run-ratio ratio": 1.02, "libburst-idle-call ns": 1000, "ulfm-two-evictions-ratio ratio": 1.1} {
		if got, ok := goals[name]; !ok || got != goal {
			t.Errorf("%s: there: %v, with the goal %g, want %g", name, ok, got, goal)
		}
	}
	if least := min(overheadPairs, coldPairs, containerFull.pairs, containerFull.launches, ulfmFull.pairs); least < 5 {
		t.Errorf("%d pairs tell little", least)
	}
}

// TestULFMMoved: a run whose ranks did not leave the nodes that went says nothing of evictions.
func TestULFMMoved(t *testing.T) {
	const first, joins, second, lost = "heat: plan 2: moved 2 ranks at iteration 1, on a b a b\n", "heat: plan 3: moved 1 ranks at iteration 2, on a b d b\n",
		"heat: plan 4: moved 1 ranks at iteration 3, on a a d d\n", "heat: lost 1 ranks, 1 new ones at iteration 3, on a a d d\n"
	w := ulfmWorld{}
	for name, tt := range map[string]struct {
		out   string
		nodes []string
		want  string // of the error
	}{
		"both were left":           {first + joins + second, []string{"c", "b"}, ""},
		"no move":                  {"heat: step 1\n", []string{"c", "b"}, "have left []"},
		"one was left, one joined": {first + joins, []string{"c", "b"}, "have left [c]"},
		"one was lost":             {first + joins + lost, []string{"c", "b"}, "have left [c]"},
		"one node twice":           {first + joins + second, []string{"c", "c"}, "[c c] were to go"},
	} {
		gone := ulfmGone{nodes: tt.nodes, places: ulfmPlaces{at: []string{"a", "b", "c"}}}
		err := w.moved([]byte(tt.out), gone)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	if err := w.moved(nil, ulfmGone{}); err != nil || len(w.moves) != 5 {
		t.Errorf("undisturbed: %v, %d noted", err, len(w.moves))
	}
}

// TestULFMJudge: a run that was not what it should have been has no time.
func TestULFMJudge(t *testing.T) {
	w := ulfmWorld{}
	for _, c := range []struct {
		line      string
		disturbed bool
		want      string // of the error
	}{
		{"heat: done iterations=6 checksum=0xaa seconds=4.5 repeated=0", true, ""},
		{"heat: done iterations=6 checksum=0xaa seconds=4.5 repeated=0", false, "over before its evictions"},
		{"heat: done iterations=6 checksum=0xab seconds=4.5 repeated=0", true, "checksum 0xab, and 0xaa before"},
		{"heat: done iterations=6 checksum=0xaa seconds=4.5 repeated=2", true, "2 iterations were done twice"},
	} {
		m := ulfmDone.FindSubmatch([]byte("heat: step 6\n" + c.line + "\n"))
		if m == nil {
			t.Fatalf("%q is not read", c.line)
		}
		took, err := w.judge(m, c.disturbed)
		if c.want == "" && (err != nil || took != 4.5) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %g s, %v, want %q", c.line, took, err, c.want)
		}
	}
}
