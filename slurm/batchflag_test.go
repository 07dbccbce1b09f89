package slurm

import "testing"

// TestBatchFlag: Slurm raises it with each start of the script that fails; a
// job with 2 must not make all jobs unreadable.
func TestBatchFlag(t *testing.T) {
	for text, want := range map[string]bool{"0": false, "1": true, "2": true, "7": true} {
		var batch bool
		if err := parseBatch(text, &batch); err != nil || batch != want {
			t.Errorf("BatchFlag=%s: %v, %v, want %v", text, batch, err, want)
		}
	}
	for _, text := range []string{"-1", "x"} {
		var batch bool
		if err := parseBatch(text, &batch); err == nil {
			t.Errorf("BatchFlag=%s is taken", text)
		}
	}
}
