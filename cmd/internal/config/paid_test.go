package config

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/paidhour"
)

// TestPaidHours: pools that are paid by the hour use it, unless the site says when
// idle nodes go.
func TestPaidHours(t *testing.T) {
	const head = "cluster = \"c\"\n[daemon]\nlisten = \"head:9811\"\n[slurm]\n%s\n[provider.lon]\nkind = \"vultr\"\nregion = \"lhr\"\n[provider.here]\nkind = \"local\"\n"
	const vhp = "[pool.v]\nprovider = \"lon\"\nnodes = \"v1\"\npartition = \"%s\"\ninstance_types = [\"vhp-8c-16gb-amd\"]\nimage = \"os:1\"\nmunge_key = \"image\"\n%s\n"
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

// TestPaidHoursInASharedPartition: a suspend_time of one of its pools is the partition's, and
// turns the rule off for that pool's nodes alone. The copies of a pool's sources have what the pool has.
func TestPaidHoursInASharedPartition(t *testing.T) {
	const head = "cluster = \"c\"\n[daemon]\nlisten = \"head:9811\"\n[provider.lon]\nkind = \"vultr\"\nregion = \"lhr\"\n[provider.ewr]\nkind = \"vultr\"\nregion = \"ewr\"\n" +
		"[provider.east]\nkind = \"aws\"\nregion = \"us-east-1\"\n"
	const vultr = "instance_types = [\"vhp-8c-16gb-amd\"]\nimage = \"os:1\"\nmunge_key = \"image\"\n"
	const aws = "instance_types = [\"c6i.large\"]\nimage = \"ami-0123456789abcdef0\"\nsubnets = [\"subnet-0a\"]\nsecurity_groups = [\"sg-0a\"]\nmunge_key = \"image\"\n"
	pool := func(name, provider, rest string) string {
		return fmt.Sprintf("[pool.%s]\nprovider = %q\nnodes = \"%[1]s1\"\npartition = \"cloud\"\n", name, provider) + rest
	}
	then := func(provider, rest string) string {
		return fmt.Sprintf("[[pool.v.then]]\nprovider = %q\n", provider) + rest
	}
	for _, c := range []struct {
		name, text string
		suspend    time.Duration
		units      []time.Duration // of all sources of all pools
	}{
		{"one of two says it", pool("v", "lon", vultr) + pool("w", "lon", "suspend_time = \"20m\"\n"+vultr), 20 * time.Minute, []time.Duration{time.Hour, 0}},
		{"the other does", pool("v", "lon", "suspend_time = \"20m\"\n"+vultr) + pool("w", "lon", vultr), 20 * time.Minute, []time.Duration{0, time.Hour}},
		{"one by the second says it", pool("v", "lon", vultr) + pool("w", "east", "suspend_time = \"7m\"\n"+aws), 7 * time.Minute, []time.Duration{time.Hour, 0}},
		{"all sources by the hour", pool("v", "lon", vultr) + then("ewr", vultr), paidhour.SuspendTime, []time.Duration{time.Hour, time.Hour}},
		{"and in a partition with others", pool("v", "lon", vultr) + then("ewr", vultr) + pool("w", "east", aws), 10 * time.Minute, []time.Duration{time.Hour, time.Hour, 0}},
		{"sources of both kinds", pool("v", "east", aws) + then("lon", vultr), 10 * time.Minute, []time.Duration{0, time.Hour}},
		{"the other way round", pool("v", "lon", vultr) + then("east", aws), 10 * time.Minute, []time.Duration{time.Hour, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parse("burst.toml", head+c.text)
			if err != nil {
				t.Fatal(err)
			}
			var units []time.Duration
			for _, p := range got.Sources() {
				units = append(units, p.PaidUnit)
				if p.Slurm.SuspendTime != c.suspend || (p.Slurm.SuspendWhy != "") != (c.suspend == paidhour.SuspendTime) {
					t.Errorf("pool %s at %s: SuspendTime %s, why %q; want %s", p.Power.Name, p.Power.Provider, p.Slurm.SuspendTime, p.Slurm.SuspendWhy, c.suspend)
				}
			}
			if !slices.Equal(units, c.units) {
				t.Errorf("units %v, want %v", units, c.units)
			}
		})
	}
}
