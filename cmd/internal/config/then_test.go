package config

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestLoadThen: a pool with two sources, each of another kind and with a setup of its own.
func TestLoadThen(t *testing.T) {
	c, err := Load("testdata/good/then.toml")
	if err != nil {
		t.Fatal(err)
	}
	p := c.Pools[0]
	want := []power.Source{{Provider: "lon", Fleet: fleet.Config{Types: []string{"vhp-8c-16gb-amd"}, Market: fleet.OnDemandOnly},
		Image: "snapshot:burst", Tags: map[string]string{"project": "x"}}}
	if d := cmp.Diff(want, p.Power.Then); d != "" {
		t.Errorf("Then (-want +got):\n%s", d)
	}
	if err := p.Power.Validate(); err != nil {
		t.Error(err)
	}
	if got := p.Slurm.Features; !slices.Equal(got, []string{"lon", "big", "east"}) {
		t.Errorf("features are %q", got)
	}
	all := c.Sources()
	if len(all) != 2 || p.Power.UserData == "" || p.SSH != nil || p.OnRebalance != Drain {
		t.Fatalf("%d sources; the first is %+v", len(all), p)
	}
	if f := p.Power.Fleet; f.MaxPrice != 0.2 || f.SpotTimeout != 2*time.Minute || p.Boot.Setup[0] != "echo east" {
		t.Errorf("the first source is %+v, %+v", f, p.Boot)
	}
	lon, ok := p.Source("lon")
	if !ok || lon.Power.Name != "c6i" || lon.Power.UserData != "" || lon.SSH == nil || lon.SSH.Auth.KeyFile != "/etc/burst/other" ||
		lon.Boot.Setup[0] != "echo lon" || lon.Power.Fleet.MaxPrice != 0 || len(lon.Power.Nodes) != 10 || lon.Slurm.ResumeTimeout != 45*time.Minute {
		t.Errorf("the second source is %v, %+v", ok, lon)
	}
	if _, ok := p.Source("west"); ok {
		t.Error("west is a source")
	}
	if aws, _ := c.Provider("east"); len(aws.AWS.Pools["c6i"].Subnets) != 1 {
		t.Errorf("east launches %+v", aws.AWS.Pools)
	}
	if v, _ := c.Provider("lon"); v.Vultr.Pools["c6i"].VPC == "" {
		t.Errorf("lon launches %+v", v.Vultr.Pools)
	}
	if got := c.Power("id").Pools[0]; len(got.Then) != 1 || got.BootTimeout != 45*time.Minute {
		t.Errorf("the engine's pool is %+v", got)
	}
}
