package main

import (
	"slices"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestUsersOf: an image that only a pool's further source launches is in use, too.
func TestUsersOf(t *testing.T) {
	of := func(pool, provider, image string) config.Pool {
		return config.Pool{Power: power.Pool{Name: pool, Provider: provider, Image: image}}
	}
	big := of("big", "east", "ami-1")
	big.Then = []config.Pool{of("big", "lon", "snapshot:s-1")}
	cfg := &config.Config{Pools: []config.Pool{big, of("small", "east", "ami-1"), of("raw", "lon", "s-2")}}
	for id, want := range map[string][]string{"ami-1": {"big", "small"}, "snapshot:s-1": {"big"}, "snapshot:s-2": {"raw"}, "ami-2": {}} {
		if got := usersOf(cfg, id); !slices.Equal(got, want) {
			t.Errorf("%s is used by %v, want %v", id, got, want)
		}
	}
}
