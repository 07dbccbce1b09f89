package config

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestSlowBoots: what boots slowly has longer by default, and so have all pools of its
// partition, whose time Slurm's is; what the site says holds.
func TestSlowBoots(t *testing.T) {
	const head = "cluster = \"c\"\n[daemon]\nlisten = \"head:9811\"\n[slurm]\n%s\n[provider.lon]\nkind = \"vultr\"\nregion = \"lhr\"\n[provider.ewr]\nkind = \"vultr\"\nregion = \"ewr\"\n" +
		"[provider.east]\nkind = \"aws\"\nregion = \"us-east-1\"\n"
	const aws = "instance_types = [\"c6i.large\"]\nimage = \"ami-0123456789abcdef0\"\nsubnets = [\"subnet-0a\"]\nsecurity_groups = [\"sg-0a\"]\nmunge_key = \"image\"\n"
	vultr := func(plan, image string) string {
		return fmt.Sprintf("instance_types = [%q]\nimage = %q\nmunge_key = \"image\"\n", plan, image)
	}
	pool := func(name, partition, provider, rest string) string {
		return fmt.Sprintf("[pool.%s]\nnodes = \"%[1]s1\"\n", name) + fmt.Sprintf("provider = %q\npartition = %q\n", provider, partition) + rest
	}
	const minute = time.Minute
	system, snapshot := vultr("vhp-8c-16gb-amd", "os:1"), vultr("vhp-8c-16gb-amd", "snapshot:mine")
	for _, c := range []struct {
		name, slurm, text string
		want              []time.Duration
		slow              []bool // of all sources
	}{
		{"a system", "", pool("v", "p", "lon", system), []time.Duration{15 * minute}, []bool{false}},
		{"a snapshot", "", pool("v", "p", "lon", snapshot), []time.Duration{45 * minute}, []bool{true}},
		{"by its id", "", pool("v", "p", "lon", vultr("vhp-8c-16gb-amd", "cb676a46-66fd-4dfb-b839-443f2e6c0b60")), []time.Duration{45 * minute}, []bool{true}},
		{"bare metal", "", pool("v", "p", "lon", vultr("vbm-6c-32gb", "os:1")), []time.Duration{45 * minute}, []bool{true}},
		{"not AWS's", "", pool("v", "p", "east", aws), []time.Duration{15 * minute}, []bool{false}},
		{"said of the pool", "", pool("v", "p", "lon", "resume_timeout = \"20m\"\n"+snapshot), []time.Duration{20 * minute}, []bool{true}},
		{"said of all, less", `resume_timeout = "20m"`, pool("v", "p", "lon", snapshot) + pool("w", "q", "lon", system), []time.Duration{45 * minute, 20 * minute}, []bool{true, false}},
		{"said of all, more", `resume_timeout = "1h"`, pool("v", "p", "lon", snapshot), []time.Duration{60 * minute}, []bool{true}},
		{"the second source", "", pool("v", "p", "east", aws) + "[[pool.v.then]]\nprovider = \"lon\"\n" + snapshot, []time.Duration{45 * minute}, []bool{false, true}},
		{"in a list", "", pool("v", "p", "lon", system+"then = [{ provider = \"ewr\", instance_types = [\"vc2-2c-4gb\"], image = \"snapshot:x\", munge_key = \"image\" }]\n"),
			[]time.Duration{45 * minute}, []bool{false, true}},
		{"a partition with another pool", "", pool("v", "p", "east", aws) + pool("w", "p", "lon", snapshot), []time.Duration{45 * minute, 45 * minute}, []bool{false, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parse("burst.toml", fmt.Sprintf(head, c.slurm)+c.text)
			if err != nil {
				t.Fatal(err)
			}
			var have []time.Duration
			for _, p := range got.Pools {
				have = append(have, p.Slurm.ResumeTimeout)
			}
			var slow []bool
			for _, p := range got.Sources() {
				slow = append(slow, got.SlowBoot(p) != "")
			}
			if !slices.Equal(have, c.want) || !slices.Equal(slow, c.slow) {
				t.Errorf("resume_timeout is %v, slow %v; want %v, %v", have, slow, c.want, c.slow)
			}
		})
	}
}
