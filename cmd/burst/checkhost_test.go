package main

import (
	"slices"
	"testing"

	"github.com/burst-hpc/burst/cloud/bootstrap"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/power"
)

// Of a pool whose image has the keys, whose commands name slurm.key, or whose user data is the site's, nothing is said.
func TestKeyless(t *testing.T) {
	pool := func(name string, boot bootstrap.Config) config.Pool {
		return config.Pool{Power: power.Pool{Name: name}, Boot: boot}
	}
	cfg := &config.Config{Pools: []config.Pool{
		pool("sent", bootstrap.Config{MungeKey: "ssh:/etc/burst/munge.key", Setup: []string{"apt-get -y install hwloc"}}),
		pool("stored", bootstrap.Config{MungeKey: "ssm:/burst/munge-key"}),
		pool("image", bootstrap.Config{MungeKey: "image"}),
		pool("setup", bootstrap.Config{MungeKey: "ssm:/burst/munge-key", Setup: []string{"true", "fetch >/etc/slurm/slurm.key"}}),
		pool("users", bootstrap.Config{MungeKey: "ssm:/burst/munge-key", Users: bootstrap.Users{Commands: []string{"fetch >/etc/slurm/slurm.key"}}}),
		pool("user data", bootstrap.Config{}),
	}}
	if got := keyless(cfg); !slices.Equal(got, []string{"sent", "stored"}) {
		t.Errorf("%q", got)
	}
}
