package bench

import "testing"

func TestCostSums(t *testing.T) {
	var notes []string
	samples, err := costSums(t.Context(), Env{Dir: t.TempDir(), notes: &notes}, 2000)
	if err != nil || len(samples) != 1 || samples[0] <= 0 || len(notes) != 2 {
		t.Error(samples, notes, err)
	}
	t.Log(notes)
}
