package config

import (
	"fmt"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/paidhour"
)

// TestPaidHours: pools that are paid by the hour use it, unless the site says when
// idle nodes go.
func TestPaidHours(t *testing.T) {
	const head = "cluster = \"c\"\n[daemon]\nlisten = \"head:9811\"\n[slurm]\n%s\n[provider.lon]\nkind = \"vultr\"\nregion = \"lhr\"\n[provider.here]\nkind = \"local\"\n"
	const vhp = "[pool.v]\nprovider = \"lon\"\nnodes = \"v1\"\npartition = \"%s\"\ninstance_types = [\"vhp-8c-16gb\"]\nimage = \"os:1\"\nmunge_key = \"image\"\n%s\n"
	const other = "[pool.h]\nprovider = \"here\"\nnodes = \"h1\"\npartition = \"h\"\ninstance_types = [\"small\"]\ncpus = 1\nreal_memory = 1000\nports = \"17001\"\n"
	for _, c := range []struct {
		name, slurm, partition, pool string
		suspend, unit                time.Duration
		why                          bool
	}{
		{"nothing said", "", "v", "", paidhour.SuspendTime, time.Hour, true},
		{"said of the pool", "", "v", `suspend_time = "20m"`, 20 * time.Minute, 0, false},
		{"said of all", `suspend_time = "7m"`, "v", "", 7 * time.Minute, 0, false},
		{"said as the default is", `suspend_time = "10m"`, "v", "", 10 * time.Minute, 0, false},
		{"other times are none of it", `suspend_timeout = "3m"`, "v", "", paidhour.SuspendTime, time.Hour, true},
		{"a partition shared with a pool that is not", "", "h", "", 10 * time.Minute, time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := fmt.Sprintf(head, c.slurm) + other + fmt.Sprintf(vhp, c.partition, c.pool)
			got, err := parse("burst.toml", text)
			if err != nil {
				t.Fatal(err)
			}
			h, v := got.Pools[0], got.Pools[1]
			if v.Slurm.SuspendTime != c.suspend || v.PaidUnit != c.unit || (v.Slurm.SuspendWhy != "") != c.why {
				t.Errorf("SuspendTime %s, unit %s, why %q; want %s, %s, %v", v.Slurm.SuspendTime, v.PaidUnit, v.Slurm.SuspendWhy, c.suspend, c.unit, c.why)
			}
			if h.PaidUnit != 0 || h.Slurm.SuspendTime == paidhour.SuspendTime || h.Slurm.SuspendWhy != "" {
				t.Errorf("the pool of the other kind: %+v", h)
			}
		})
	}
}
