package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud/vultr"
)

func TestLoadVultr(t *testing.T) {
	got, err := Load("testdata/good/vultr.toml")
	if err != nil {
		t.Fatal(err)
	}
	want := []Provider{
		{Name: "lon", Kind: "vultr", Vultr: vultr.Config{
			Name: "lon", Region: "lhr", KeyFile: "/etc/burst/vultr.key", Dir: "/var/lib/burst/lon", Endpoint: "http://127.0.0.1:5001", Proxy: "http://proxy:3128",
			Pools: map[string]vultr.Pool{"vhp": {VPC: "e3f2a3de-8e57-4a0b-b9a0-3a3f4d4b7c55", VPCOnly: true, SSHKeys: []string{"admin"}, Login: vultr.LimitedUser,
				FirewallGroup: "fda87416-9e46-4cbb-abee-3f0a15be17b5"}},
		}},
		{Name: "ewr", Kind: "vultr", Vultr: vultr.Config{Name: "ewr", Region: "ewr", Dir: "/var/lib/burst/vultr/ewr",
			Pools: map[string]vultr.Pool{"metal": {Login: "root", StartupScript: "cb676a46-66fd-4dfb-b839-443f2e6c0b60"}}}},
	}
	if d := cmp.Diff(want, got.Providers); d != "" {
		t.Errorf("Providers (-want +got):\n%s", d)
	}
	pool := got.Pools[0]
	if pool.Power.UserData != "" || pool.Boot.MungeKey != "ssh:/etc/munge/munge.key" || pool.Boot.NTP != "image" || len(pool.Boot.Setup) != 1 ||
		len(pool.Boot.Mounts) != 1 || pool.Boot.Region != "" || !pool.Slurm.Configless || pool.Power.MaxBootFailures != defaultBootFailures {
		t.Errorf("pool = %+v", pool)
	}
	if metal := got.Pools[1]; metal.Slurm.ResumeTimeout != 45*time.Minute || pool.Slurm.ResumeTimeout != 15*time.Minute || metal.Boot.MungeKey != "image" {
		t.Errorf("pool of bare metal = %+v", metal)
	}
}

// TestFormerFolder: it is named where it is there and is not the one that the new section has.
func TestFormerFolder(t *testing.T) {
	c := &Config{}
	c.Endpoint.State = t.TempDir()
	dir := filepath.Join(c.Endpoint.State, "vultr", "old")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]Provider{"lon": {Kind: "vultr", Vultr: vultr.Config{Dir: "/elsewhere"}}, "same": {Kind: "vultr", Vultr: vultr.Config{Dir: dir}}, "aws": {Kind: "aws"}} {
		p.Name = name
		c.Providers = append(c.Providers, p)
	}
	for _, tt := range []struct {
		old, name string
		told      bool
	}{{"old", "lon", true}, {"older", "lon", false}, {"old", "same", false}, {"old", "aws", false}} {
		if got := c.Power("c").Former(tt.old, tt.name); (got != "") != tt.told || tt.told && !strings.Contains(got, `set dir = "`+dir+`" in [provider.lon]`) {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}
