package bench

import "testing"

// TestOverflowRound: the rules decide as the benchmark says, and it measures something.
func TestOverflowRound(t *testing.T) {
	rounds := overflowRounds
	if testing.Short() {
		rounds = 1
	}
	samples, err := overflowSamples(t.Context(), Env{}, rounds)
	if err != nil || len(samples) != rounds || Median(samples) <= 0 {
		t.Error(samples, err)
	}
	t.Log(samples)
}
