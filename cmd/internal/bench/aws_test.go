package bench

import (
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/aws/ec2test"
)

// TestAWS runs what the benchmarks run, small.
func TestAWS(t *testing.T) {
	if testing.Short() {
		t.Skip("bench: nodes that boot in real time are slow end-to-end, run by make test")
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	fake := ec2test.New(ec2test.Options{Throttle: true})
	if err := fake.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fake.Close(); err != nil {
			t.Error(err)
		}
	})
	f, err := AWS(t.Context(), t.TempDir(), fake.URL(), []int{3, 2})
	if err != nil {
		t.Fatal(err)
	}
	if f.Wall <= 0 || f.Wall > 5 || f.Updates < 1 || f.Reads < 1 || f.Queues < 1 || f.CPU <= 0 || f.RSS <= 0 {
		t.Errorf("figures %+v", f)
	}
	if n := fake.Calls("RunInstances"); n != 2 {
		t.Errorf("%d RunInstances for two jobs", n)
	}
	if since := time.Since(f.Ordered); since < awsBootMin {
		t.Errorf("done %s after the order, before any node could boot", since)
	}
}
