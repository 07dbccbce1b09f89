package bench

import (
	"strings"
	"testing"

	"github.com/burst-hpc/burst/slurm"
)

const ftOutlived = `the attempt begins at 1000.000000000
heat: iteration 1 of 6
heat: iteration 2 of 6
ulfm-run: nodes of the ranks: c1
heat: plan 2: moved 1 ranks at iteration 2, going on from 2 with 2 ranks after 0.200 s, on c1 c1
heat: iteration 3 of 6
ulfm-run: nodes of the ranks: c1 c3
heat: plan 3: moved 1 ranks at iteration 3, going on from 2 with 2 ranks after 0.200 s, on c1 c3
heat: iteration 3 of 6
heat: iteration 4 of 6
heat: iteration 5 of 6
heat: iteration 6 of 6
heat: plan 4: moved 1 ranks at iteration 5, going on from 5 with 2 ranks after 0.010 s, on c1 c1
heat: done iterations=6 checksum=0x00000000000000aa seconds=1.200 repeated=1
the attempt ends with 0 at 1001.500000000
`

// TestOutlived: of a job that its evictions do not end what stands still and what is
// computed again are in one attempt.
func TestOutlived(t *testing.T) {
	c, size := FTCase{Method: FTULFM, Nodes: 2, Evicted: true}, FTSize{Iterations: 6}
	evicted := func(lines string) *ftTrace {
		tr := &ftTrace{gone: ulfmGone{nodes: []string{"c2", "c3"}, places: ulfmPlaces{at: []string{"c1", "c2"}}}}
		return traceOn(t, tr, lines)
	}
	got, err := evicted(ftOutlived).figures(c, size)
	if err != nil {
		t.Fatal(err)
	}
	want := FTRun{FTCase: c, Seconds: 1.5, IterationSeconds: 0.1, IdleSeconds: 0.2, LostIterations: 1, LostSeconds: 0.1, Restarts: []int{}, Checksum: "0x00000000000000aa"}
	for _, p := range []*float64{&got.IterationSeconds, &got.IdleSeconds, &got.LostSeconds, &got.Seconds} {
		*p = round(*p)
	}
	if d := diff(want, got); d != "" {
		t.Error(d)
	}
	for name, bad := range map[string]struct{ lines, want string }{
		"it did not move":   {strings.ReplaceAll(ftOutlived, "moved", "planned"), "have left []"},
		"it left one only":  {strings.Replace(ftOutlived, "on c1 c1\nheat: done", "on c1 c3\nheat: done", 1), "have left [c2]"},
		"it was requeued":   {strings.Replace(ftOutlived, "ulfm-run: nodes of the ranks: c1 c3", "the attempt begins at 1001.000000000", 1), "started 2 times, not 1"},
		"it was not done":   {strings.Replace(ftOutlived, "heat: done", "heat: stopped", 1), "ended after 0 iterations"},
		"its script failed": {strings.Replace(ftOutlived, "with 0 at", "with 1 at", 1), "exit code 1"},
	} {
		if _, err := evicted(bad.lines).figures(c, size); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: %v, want %q", name, err, bad.want)
		}
	}
	if _, err := trace(t, ftOutlived).figures(c, size); err == nil || !strings.Contains(err.Error(), "0 nodes were taken") {
		t.Errorf("without evictions: %v", err)
	}
	alone := strings.ReplaceAll(strings.ReplaceAll(ftOutlived, "moved", "planned"), "repeated=1", "repeated=0")
	if got, err := trace(t, alone).figures(c.Undisturbed(), size); err != nil || got.Name() != "undisturbed, ulfm" || ftOf(got.FTCase).goal != 0 {
		t.Errorf("undisturbed: %+v, %v", got, err)
	}
	base := FTRun{FTCase: c.Undisturbed(), Seconds: 100, AllUSD: 1}
	for seconds, holds := range map[float64]bool{110: true, 111: false} {
		rows := FTRows([]FTRun{base, {FTCase: c, Seconds: seconds, BootSeconds: 5, AllUSD: 1}})
		var table strings.Builder
		if err := FTTable(&table, rows); err != nil || strings.Contains(table.String(), "computes") {
			t.Errorf("%v: it tells of what is not known:\n%s", err, table.String())
		}
		if r := rows[1]; r.Goal == nil || *r.Goal != 1.1 || r.Holds != holds || r.LessBoots != r.Ratio {
			t.Errorf("%g s over 100: %+v", seconds, r)
		}
	}
}

func TestDoomed(t *testing.T) {
	ulfm, other := FTCase{Method: FTULFM}, FTCase{Method: "signal"}
	for name, tt := range map[string]struct {
		c           FTCase
		nodes, last string
		want        string
	}{
		"the first rank's":            {other, "c[1-2]", "c1", "c1"},
		"not the batch host":          {ulfm, "c[1-2]", "", "c2"},
		"nor the one that is leaving": {ulfm, "c[1-3]", "c2", "c3"},
		"none has come yet":           {ulfm, "c[1-2]", "c2", ""},
		"it has left":                 {ulfm, "c1", "c2", ""},
	} {
		if got, err := tt.c.doomed(slurm.Job{ID: 1, Nodes: tt.nodes, BatchHost: "c1"}, tt.last); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tt.want)
		}
	}
	if _, err := ulfm.doomed(slurm.Job{ID: 1}, ""); err == nil {
		t.Error("a job without nodes")
	}
}
