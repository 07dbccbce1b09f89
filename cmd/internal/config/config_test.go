package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/burst-hpc/burst/cloud/bootstrap"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/cmd/internal/history"
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
		Checkpoint: Checkpoint{Signal: "USR1", Grace: 20 * time.Second, AtOnce: 16, Reserve: 10 << 30, Margin: 8 * time.Second, Layers: fullLayers},
		Health:     Health{SlurmdRestarts: 0, SlurmdWindow: 5 * time.Minute, SpoolFull: 90, AgentSilent: 2 * time.Minute},
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
				Ports: "17001-17002,17010", Addr: "127.0.0.1", Hostname: "head", Features: []string{"cloud", "spot"}, Options: "Weight=10", OneHost: true,
				SuspendTime: 5 * time.Minute, ResumeTimeout: 5 * time.Minute, SuspendTimeout: 2 * time.Minute,
			},
			Line: 52, OnRebalance: Replace, OnMaintenance: Reserve,
		}, {
			Power: power.Pool{
				Name: "large", Provider: "apart", Nodes: []string{"l1", "l2"}, Partition: "night",
				Fleet: fleet.Config{Types: []string{"large"}, Market: fleet.OnDemandOnly},
			},
			Slurm: conf.Pool{
				Name: "large", Nodes: []string{"l1", "l2"}, Partition: "night", OneHost: true, CPUs: 16, RealMemory: 64000,
				SuspendTime: time.Hour, ResumeTimeout: 30 * time.Minute, SuspendTimeout: 10 * time.Second,
			},
			Line: 71, OnRebalance: Ignore, OnMaintenance: Drain, Measured: history.Measured{NetworkGbit: 12.5, StorageIOPS: 3000},
		}},
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Config{}, bootstrap.Config{})); d != "" {
		t.Errorf("Load (-want +got):\n%s", d)
	}
	if p := got.Power("id"); p.Cluster != "id" || len(p.Pools) != 2 || p.BootTimeout != 30*time.Minute || p.Pools[1].BootTimeout != 30*time.Minute || p.Pools[0].BootTimeout != want.Pools[0].Slurm.ResumeTimeout {
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

// Jobs that take in nodes while they run.
func TestExpand(t *testing.T) {
	text, err := os.ReadFile("testdata/good/minimal.toml")
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]bool{"": false, "expand = false\n": false, "expand = true\n": true} {
		c, err := parse("x", string(text)+"\n[slurm]\n"+line)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Slurm("/usr/sbin").Expand; got != want {
			t.Errorf("%q: expand is %v", line, got)
		}
	}
}

// Partitions of the site that are to hold the cloud's nodes.
func TestMixedPartitions(t *testing.T) {
	text, err := os.ReadFile("testdata/good/minimal.toml")
	if err != nil {
		t.Fatal(err)
	}
	good, err := parse("x", string(text))
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		`["any", "main"]`: "",
		`["any", "m n"]`:  `"m n" is no partition's name`,
		`["` + good.Pools[0].Slurm.Partition + `"]`: "is the partition of a pool: name the site's own",
	} {
		c, err := parse("x", string(text)+"\n[slurm]\nmixed_partitions = "+line+"\n")
		if want == "" && (err != nil || !slices.Equal(c.Slurm("/usr/sbin").Mixed, []string{"any", "main"})) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
