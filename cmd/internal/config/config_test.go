package config

import (
	"errors"
	"flag"
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
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/power"
)

var update = flag.Bool("update", false, "write the golden files")

func TestLoad(t *testing.T) {
	got, err := Load("testdata/good/full.toml")
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Path:    "testdata/good/full.toml",
		Cluster: "onprem",
		Endpoint: endpoint.Config{
			Socket: "/run/b.sock", Spool: "/var/spool/b", State: "/var/lib/b", Metrics: "127.0.0.1:9810",
			SlurmConf: "/etc/slurm/slurm.conf", SlurmBin: "/opt/slurm/bin", SlurmUser: "slurmadm",
		},
		Checkpoint: Checkpoint{Signal: "USR1", Grace: 20 * time.Second},
		Providers: []Provider{
			{Name: "here", Kind: "local", PriceTable: "/etc/burst/prices.csv",
				Local: Local{Dir: "/var/lib/burst/here", Slurmd: "/opt/slurm/sbin/slurmd", Network: "host"}},
			{Name: "apart", Kind: "local",
				Local: Local{Dir: "/var/lib/burst/local", Slurmd: "/usr/sbin/slurmd", Network: "netns", Subnet: "10.77.0.0/24"}},
		},
		Pools: []Pool{{
			Power: power.Pool{
				Name: "small", Provider: "here", Nodes: []string{"s1", "s2", "s3"}, Partition: "cloud",
				Fleet: fleet.Config{Types: []string{"small", "medium"}, Zones: []string{"a", "b"}, Market: fleet.SpotThenOnDemand},
				Image: "img-1", Tags: map[string]string{"project": "x", "team": "y"},
			},
			Slurm: conf.Pool{
				Name: "small", Nodes: []string{"s1", "s2", "s3"}, Partition: "cloud", CPUs: 2, RealMemory: 3500,
				Ports: "17001-17002,17010", Addr: "127.0.0.1", Hostname: "head", Features: []string{"cloud", "spot"}, Options: "Weight=10",
				SuspendTime: 5 * time.Minute, ResumeTimeout: 5 * time.Minute, SuspendTimeout: 2 * time.Minute,
			},
		}, {
			Power: power.Pool{
				Name: "large", Provider: "apart", Nodes: []string{"l1", "l2"}, Partition: "night",
				Fleet: fleet.Config{Types: []string{"large"}, Market: fleet.OnDemandOnly},
			},
			Slurm: conf.Pool{
				Name: "large", Nodes: []string{"l1", "l2"}, Partition: "night", CPUs: 16, RealMemory: 64000,
				SuspendTime: time.Hour, ResumeTimeout: 30 * time.Minute, SuspendTimeout: 10 * time.Second,
			},
		}},
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Config{})); d != "" {
		t.Errorf("Load (-want +got):\n%s", d)
	}
	if p := got.Power("id"); p.Cluster != "id" || len(p.Pools) != 2 || p.BootTimeout != 30*time.Minute {
		t.Errorf("Power() = %+v", p)
	}
	in := got.Slurm("/usr/bin")
	if len(in.Pools) != 2 || in.User != "slurmadm" || in.Programs.Gate != "/usr/bin/burst-gate" || in.Source != want.Path {
		t.Errorf("Slurm() = %+v", in)
	}
	for _, p := range got.Pools {
		if err := p.Power.Validate(); err != nil {
			t.Errorf("pool %s: %v", p.Power.Name, err)
		}
		if _, ok := got.Provider(p.Power.Provider); !ok {
			t.Errorf("provider of pool %s is not found", p.Power.Name)
		}
	}
}

func TestLoadAWS(t *testing.T) {
	got, err := Load("testdata/good/aws.toml")
	if err != nil {
		t.Fatal(err)
	}
	if got.Endpoint.Listen != "head.example.org:9811" {
		t.Errorf("Listen = %q", got.Endpoint.Listen)
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
		URLs: []string{"http://head.example.org:9811"}, DaemonUID: os.Getuid(), ConfServers: []string{"head", "backup:6817"},
		MungeKey: "ssm:/burst/munge.key", KeyEndpoint: "https://ssm.example.org", Region: "us-east-1",
		Mounts: []bootstrap.Mount{{Kind: "nfs", Source: "nas:/home", Target: "/home", Options: "vers=4.2"}, {Kind: "cvmfs", Source: "software.eessi.io"}},
		Users:  bootstrap.Users{Commands: []string{"authselect select sssd"}}, Setup: []string{"dnf -y install htop"},
		Packages: true, NTP: "ntp.example.org", SlurmUser: slurmUser("slurm"), ResumeTimeout: 15 * time.Minute,
	}
	if d := cmp.Diff(wantBoot, pool.Boot); d != "" {
		t.Errorf("Boot (-want +got):\n%s", d)
	}
	if !strings.Contains(pool.Power.UserData, "Made by Burst") {
		t.Errorf("UserData = %q", pool.Power.UserData)
	}
	if pool.Power.MaxBootFailures != 3 || !pool.Slurm.Configless || pool.Slurm.CPUs != 0 {
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

func TestLoadDefaults(t *testing.T) {
	c, err := Load("testdata/good/minimal.toml")
	if err != nil {
		t.Fatal(err)
	}
	if c.Endpoint != endpoint.Default() {
		t.Errorf("Endpoint = %+v", c.Endpoint)
	}
	p := c.Pools[0].Slurm
	if p.SuspendTime != 10*time.Minute || p.ResumeTimeout != 15*time.Minute || p.SuspendTimeout != 2*time.Minute {
		t.Errorf("times of the pool = %+v", p)
	}
}

// What the small programs read must be what all else reads.
func TestEndpointAgrees(t *testing.T) {
	for _, path := range []string{"testdata/good/full.toml", "testdata/good/minimal.toml"} {
		c, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		e, err := endpoint.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.Endpoint, e); d != "" {
			t.Errorf("%s (-config +endpoint):\n%s", path, d)
		}
	}
}

// Nodes on this host get its name where the file gives none.
func TestHostname(t *testing.T) {
	text, err := os.ReadFile("testdata/good/minimal.toml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := parse("x", strings.Replace(string(text), `hostname = "h"`, "", 1))
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	short, _, _ := strings.Cut(full, ".")
	if got := c.Pools[0].Slurm.Hostname; got != short {
		t.Errorf("Hostname = %q, want %q", got, short)
	}
}

func TestErrors(t *testing.T) {
	paths, err := filepath.Glob("testdata/bad/*.toml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			_, err := Load(path)
			var errs Errors
			if !errors.As(err, &errs) {
				t.Fatalf("Load: %v, want Errors", err)
			}
			if errs.ExitCode() != cli.Usage || errs.Hint() == "" {
				t.Errorf("exit code %d, hint %q", errs.ExitCode(), errs.Hint())
			}
			for _, e := range errs {
				if e.Line == 0 {
					t.Errorf("%v has no line", e)
				}
			}
			golden(t, strings.TrimSuffix(path, ".toml")+".golden", err.Error()+"\n")
		})
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}

func TestLoadMissing(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.toml"))
	var out strings.Builder
	if !errors.Is(err, os.ErrNotExist) || cli.Report(&out, err) != cli.Usage || !strings.Contains(out.String(), "burst init") {
		t.Errorf("Load of a missing file: %v, reported as %s", err, out.String())
	}
}

func FuzzParse(f *testing.F) {
	for _, dir := range []string{"good", "bad"} {
		paths, _ := filepath.Glob("testdata/" + dir + "/*.toml")
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(text))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parse("f", text)
		var errs Errors
		switch {
		case err == nil:
			conf.Fragment(conf.Site{}, c.Slurm("/usr/bin"))
		case !errors.As(err, &errs) || len(errs) == 0 || c != nil:
			t.Errorf("parse = %v, %v", c, err)
		}
	})
}
