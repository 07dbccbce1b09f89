package bench

import "testing"

// TestStorms: one storm of the benchmark's, which fails by itself if a notice is lost.
func TestStorms(t *testing.T) {
	if testing.Short() {
		t.Skip("a storm of 1,000 notices in real time: slow end-to-end, run by make test")
	}
	f, err := Storms(t.Context(), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Drained) != 1 || f.Updates[0] > 20 {
		t.Errorf("%+v", f)
	}
	t.Logf("%+v", f)
}
