package config

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cloud/bootstrap"
	"github.com/burst-hpc/burst/cloud/fleet"
)

func TestLoadAWS(t *testing.T) {
	got, err := Load("testdata/good/aws.toml")
	if err != nil {
		t.Fatal(err)
	}
	if got.Endpoint.Listen != "0.0.0.0:9811" || got.Endpoint.NodeURL != "http://head.example.org:9812" {
		t.Errorf("Endpoint = %+v", got.Endpoint)
	}
	yes := true
	providers := []Provider{
		{Name: "east", Kind: "aws", PriceTable: "/etc/burst/aws.csv", AWS: aws.Config{
			Name: "east", Region: "us-east-1", Profile: "burst", Endpoint: "http://127.0.0.1:5000", Proxy: "http://proxy:3128",
			Endpoints: map[string]string{"ec2": "https://ec2.example.org", "ssm": "https://ssm.example.org"},
			Pools: map[string]aws.Pool{"c6i": {
				Subnets: []string{"subnet-0a", "subnet-0b"}, SecurityGroups: []string{"sg-0a"}, Key: "admin", Profile: "burst-node",
				Root: aws.Root{GiB: 100, Type: "gp3", IOPS: 4000, Throughput: 250, Encrypted: &yes, KMSKey: "alias/burst"},
				EFA:  true, Placement: "cluster", Reservation: "cr-0123456789abcdef0", ThreadsPerCore: 1, PublicIP: true, Fleet: "always",
			}},
		}},
		{Name: "gov", Kind: "aws", AWS: aws.Config{Name: "gov", Region: "us-gov-west-1",
			Pools: map[string]aws.Pool{"plain": {Subnets: []string{"subnet-0c"}, Root: aws.Root{GiB: 1024}}}}},
	}
	if d := cmp.Diff(providers, got.Providers); d != "" {
		t.Errorf("Providers (-want +got):\n%s", d)
	}
	pool := got.Pools[0]
	wantFleet := fleet.Config{Types: []string{"c6i.2xlarge", "c5.2xlarge"}, Zones: []string{"us-east-1a", "us-east-1b"},
		Market: fleet.SpotThenOnDemand, MaxPrice: 0.2, SpotTimeout: 2 * time.Minute, Order: fleet.ByPricePerCore}
	if d := cmp.Diff(wantFleet, pool.Power.Fleet); d != "" {
		t.Errorf("Fleet (-want +got):\n%s", d)
	}
	wantBoot := bootstrap.Config{
		URLs: []string{"http://head.example.org:9812"}, DaemonUID: os.Getuid(), NoCheckpoints: true, ConfServers: []string{"head", "backup:6817"},
		MungeKey: "ssm:/burst/munge-key", KeyEndpoint: "https://ssm.example.org", Region: "us-east-1",
		Mounts: []bootstrap.Mount{{Kind: "nfs", Source: "nas:/home", Target: "/home", Options: "vers=4.2"}, {Kind: "cvmfs", Source: "software.eessi.io"}},
		Users:  bootstrap.Users{SSSD: true, Commands: []string{"authselect select sssd"}, Check: "alice"}, Setup: []string{"dnf -y install htop"},
		Packages: true, NTP: "ntp.example.org", SlurmUser: slurmUser("slurm"), ResumeTimeout: 15 * time.Minute,
		Slurmd: "/opt/slurm/sbin/slurmd", SlurmdOptions: []string{"-vv", "-d", "/opt/slurm/sbin/slurmstepd"}, KeepHostname: true,
	}
	if d := cmp.Diff(wantBoot, pool.Boot, cmpopts.IgnoreUnexported(bootstrap.Config{})); d != "" {
		t.Errorf("Boot (-want +got):\n%s", d)
	}
	if !strings.Contains(pool.Power.UserData, "Made by Burst") {
		t.Errorf("UserData = %q", pool.Power.UserData)
	}
	if pool.Power.MaxBootFailures != 3 || !pool.Slurm.Configless || !pool.Slurm.EFA || pool.Slurm.CPUs != 0 {
		t.Errorf("pool = %+v", pool)
	}
	plain := got.Pools[1]
	if plain.Power.MaxBootFailures != defaultBootFailures || plain.Boot.MungeKey != "image" || plain.Power.Fleet.Order != "" || plain.Slurm.CPUs != 96 {
		t.Errorf("plain pool = %+v", plain)
	}
}

// A site's own user data is sent as it is.
func TestUserData(t *testing.T) {
	path := filepath.Join(t.TempDir(), "user-data")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := parse("x", "cluster = \"c\"\n[provider.p]\nkind = \"aws\"\nregion = \"us-east-1\"\n[pool.a]\nprovider = \"p\"\nnodes = \"a1\"\n"+
		"partition = \"q\"\ninstance_types = [\"c5.large\"]\nimage = \"ami-0\"\nsubnets = [\"subnet-0\"]\nuser_data = \""+path+"\"\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Pools[0].Power.UserData; got != "#!/bin/sh\n" {
		t.Errorf("UserData = %q", got)
	}
}

// What a booting node could not work with is an error of the file.
func TestBoot(t *testing.T) {
	const text = "cluster = \"c\"\n[daemon]\nlisten = \"LISTEN\"\n[provider.p]\nkind = \"aws\"\nregion = \"us-east-1\"\n" +
		"[pool.a]\nprovider = \"p\"\nnodes = \"a1\"\npartition = \"q\"\ninstance_types = [\"c5.large\"]\nimage = \"ami-0\"\n" +
		"subnets = [\"subnet-0\"]\nMORE"
	for _, test := range []struct{ name, listen, more, err string }{
		{"fine", "10.0.0.5:9811", "", ""},
		{"IPv6", "[fd00::5]:9811", "", ""},
		{"an address of its own", ":9811\"\nnode_url = \"http://192.0.2.5:80", "", ""},
		{"an address and no listener", "\"\nnode_url = \"http://192.0.2.5:80", "", "add listen"},
		{"a bare address", "h:9811\"\nnode_url = \"192.0.2.5:80", "", "write it as in \"http://"},
		{"TLS", "h:9811\"\nnode_url = \"https://192.0.2.5:80", "", "write it as in \"http://"},
		{"a page", "h:9811\"\nnode_url = \"http://192.0.2.5:80/x", "", "write it as in \"http://"},
		{"a slurmd that is no path", "h:9811", `slurmd = "slurmd"`, "slurmd"},
		{"an option with a newline", "h:9811", `slurmd_options = ["a\nb"]`, "has a control character or a newline"},
		{"listens everywhere", ":9811", "", "name this host, as they know it, in listen"},
		{"listens on no address", "0.0.0.0:9811", "", "name this host, as they know it, in listen"},
		{"a mount without a path", "h:9811", `mounts = [{ kind = "nfs", source = "nas", target = "/home" }]`, "source: want host:/path"},
		{"a mount over the root", "h:9811", `mounts = [{ kind = "nfs", source = "nas:/x", target = "/" }]`, "target /: the root cannot be hidden"},
		{"a key with a dash", "h:9811", `ntp = "-x y"`, "ntp"},
		{"too long", "h:9811", "setup = [\"" + noise(40000) + "\"]", "too long"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := parse("x", strings.NewReplacer("LISTEN", test.listen, "MORE", test.more).Replace(text))
			switch {
			case test.err == "" && err != nil:
				t.Error(err)
			case test.err == "" && len(c.Pools[0].Boot.ConfServers) != 1:
				t.Errorf("Boot = %+v", c.Pools[0].Boot)
			case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
				t.Errorf("parse: %v, want an error with %q", err, test.err)
			}
		})
	}
}

// noise is text that does not pack well.
func noise(n int) string {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = 'a' + byte(r.IntN(26))
	}
	return string(b)
}
