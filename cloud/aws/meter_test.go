package aws_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws/ec2test"
)

// TestCallsAreCounted: every call that reaches EC2, by operation and result,
// and none that does not.
func TestCallsAreCounted(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, ec2test.Options{})
	p := over(t, c.URL(), fakePool(""))
	list := func() { p.List(t.Context(), cloud.Filter{Cluster: "c-1"}) }
	list()
	for _, k := range []cloud.Kind{cloud.Throttled, cloud.Auth, cloud.Transient} {
		c.Fail("DescribeInstances", ec2test.Fault{Code: codes[k]})
		list()
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(list)
	}
	wg.Wait()
	got := map[string]uint64{}
	total := uint64(0)
	for _, n := range p.Counts() {
		got[fmt.Sprintf("%s %s %s", n.What, n.Which, n.Result)] = n.N
		total += n.N
	}
	for what, want := range map[string]uint64{"ok": 21, "throttled": 1, "auth": 1, "transient": 1} {
		if n := got["api DescribeInstances "+what]; n != want {
			t.Errorf("%d calls are counted as %s, want %d: %v", n, what, want, got)
		}
	}
	if calls := len(c.Log()); int(total) != calls {
		t.Errorf("%d calls are counted, and EC2 had %d", total, calls)
	}
	// Those of other services too.
	p.Prices(t.Context(), []cloud.Offering{{Type: "c6i.large", Zone: "us-east-1a", Market: cloud.OnDemand}})
	services := false
	for _, n := range p.Counts() {
		services = services || n.Which == "GetProducts" || n.Which == "GetAttributeValues"
	}
	if !services {
		t.Errorf("the price list's calls are not counted: %v", p.Counts())
	}
}
