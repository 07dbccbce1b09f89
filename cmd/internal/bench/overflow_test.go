package bench

import "testing"

// TestOverflowRound: the rules decide as the benchmark says, and it measures something.
func TestOverflowRound(t *testing.T) {
	samples, err := runOverflowRound(t.Context(), Env{})
	if err != nil || len(samples) != overflowRounds || Median(samples) <= 0 {
		t.Error(samples, err)
	}
	t.Log(samples)
}
