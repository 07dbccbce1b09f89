package firstfile

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/config"
)

// given are the answers that have no default, by kind.
var given = map[string]Answers{
	"local": {"provider": "local"},
	"aws":   {"provider": "aws", "region": "eu-north-1", "subnets": "subnet-0a, subnet-0b"},
	"vultr": {"provider": "vultr", "region": "lhr"},
}

var key = regexp.MustCompile(`^[a-z_]+ = `)

// TestDefaultsAreAFile: with no more than it must be told each kind makes a file that burst takes, in
// which a comment stands above each key.
func TestDefaultsAreAFile(t *testing.T) {
	for kind, a := range given {
		for name, f := range map[string]Found{
			"nothing found": {Host: "head"},
			"a site": {SlurmConf: "/opt/slurm/etc/slurm.conf", Cluster: "onprem", SlurmUser: "hpc", Nodes: []string{"n1"}, Taken: []string{"try", "cloud"}, Host: "head",
				AWS: true, Profile: "burst", Region: "us-east-1"},
		} {
			t.Run(kind+", "+name, func(t *testing.T) {
				a := maps.Clone(a)
				if err := Fill(f, a); err != nil {
					t.Fatal(err)
				}
				text := Text(f, a)
				c, err := config.Parse("burst.toml", text)
				if err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
				if len(c.Pools) != 1 || len(c.Providers) != 1 || c.Providers[0].Kind != kind || slices.Contains(f.Taken, c.Pools[0].Power.Partition) {
					t.Errorf("%s", text)
				}
				if f.SlurmUser != "" && (c.Endpoint.SlurmUser != "hpc" || c.Endpoint.SlurmConf != f.SlurmConf || c.Cluster != "onprem") {
					t.Errorf("what was found is lost:\n%s", text)
				}
				before := ""
				for line := range strings.Lines(text) {
					if key.MatchString(line) && !strings.HasPrefix(before, "# ") {
						t.Errorf("%q has no comment", line)
					}
					before = line
				}
				for _, line := range Next(f, a, "/opt/burst.toml", "slurm") {
					if !strings.HasPrefix(line, "  ") {
						t.Errorf("%q", line)
					}
				}
			})
		}
	}
}

// TestOneHostStartsBurstd: of several hosts of slurmctld the first one only is to start it.
func TestOneHostStartsBurstd(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "etc/slurm"), 0o755); err != nil {
		t.Fatal(err)
	}
	const here = "  systemctl enable --now burstd"
	for _, tt := range []struct{ conf, host, want string }{
		{"SlurmctldHost=head\n", "head", here},
		{"", "head", here},
		{"SlurmctldHost=head(192.0.2.1)\nSlurmctldHost=spare\n", "head.example.org", here + "               # on this host only, not on spare"},
		{"SlurmctldHost=head(192.0.2.1)\nSlurmctldHost=spare\n", "spare.example.org", "  burst init                                  # run it on head, and all that it says there: burstd runs there only, never on a backup"},
	} {
		if err := os.WriteFile(filepath.Join(root, "etc/slurm/slurm.conf"), []byte("ClusterName=c\n"+tt.conf), 0o600); err != nil {
			t.Fatal(err)
		}
		f := Look(t.Context(), root, func(string) string { return "" })
		f.Host = tt.host
		got := Next(f, Answers{"provider": "local"}, "/etc/burst/burst.toml", "slurm")
		if !strings.HasPrefix(tt.host, "spare") { // there it is all that is said: nothing else would be done on the right host
			got = slices.DeleteFunc(got, func(l string) bool { return !strings.Contains(l, "enable --now burstd") })
		}
		if len(got) != 1 || got[0] != tt.want {
			t.Errorf("%s on %s: %q, want %q", tt.conf, tt.host, got, tt.want)
		}
	}
}

func TestFill(t *testing.T) {
	site := Found{SlurmConf: "/etc/slurm/slurm.conf", Usual: true, Nodes: []string{"n1", "n2"}, Taken: []string{"main"}, Host: "head"}
	for name, tt := range map[string]struct {
		a    Answers
		want string
	}{
		"lacks what the site alone knows": {Answers{"provider": "aws"}, `provider "aws" needs --region, --subnets too`},
		"no such provider":                {Answers{"provider": "azure"}, `--provider: "azure" is none of local, aws and vultr`},
		"another provider's flag":         {Answers{"provider": "local", "subnets": "subnet-0a"}, `--subnets is not for provider "local": name --provider aws`},
		"flags of two providers, and none named": {Answers{"region": "us-east-1", "types": "c6i.2xlarge", "image": "ami-1", "munge-key": "ssm:/x", "listen": "head:9811"},
			`--image is not for provider "local": name --provider aws or vultr`},
		"a flag says the provider":  {Answers{"subnets": "subnet-0a"}, `provider "aws" needs --region too`},
		"no region":                 {Answers{"provider": "aws", "region": "useast1", "subnets": "subnet-0a"}, `"useast1" is no region`},
		"no subnet":                 {Answers{"provider": "aws", "region": "us-east-1", "subnets": "mine"}, `--subnets "mine": `},
		"a node of the site's":      {Answers{"provider": "local", "nodes": "n[2-4]"}, "/etc/slurm/slurm.conf has a node n2 already"},
		"a partition of the site's": {Answers{"provider": "local", "partition": "main"}, "has a partition main already"},
		"no list of nodes":          {Answers{"provider": "local", "nodes": "c[1-"}, "write it as Slurm does"},
		"a quotation mark":          {Answers{"provider": "local", "cluster": `a"b`}, "a quotation mark"},
		"a port without a host":     {Answers{"provider": "vultr", "region": "lhr", "listen": ":9811"}, "name this host, as they know it"},
		"no folder":                 {Answers{"provider": "vultr", "region": "lhr", "folders": "/home,nas"}, `--folders "/home,nas": "nas" is no folder: write SERVER:/path`},
		"a folder of AWS's":         {Answers{"provider": "vultr", "region": "lhr", "folders": "fs-0123=/home"}, `"fs-0123=/home" is a file system of AWS's`},
		"no place for a folder":     {Answers{"provider": "aws", "region": "us-east-1", "subnets": "subnet-0a", "folders": "fs-0123"}, "\"fs-0123\" does not say where nodes mount it: write fs-0123=/target"},
		"a folder over all":         {Answers{"provider": "vultr", "region": "lhr", "folders": "nas:/"}, "does not say where nodes mount it"},
		"folders on this host":      {Answers{"provider": "local", "folders": "/home"}, `--folders is not for provider "local"`},
		"an empty answer":           {Answers{"provider": "vultr", "region": ""}, "it cannot do without an answer"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Fill(site, tt.a); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestAsk: a dialogue in which answers are wrong at first.
func TestAsk(t *testing.T) {
	f := Found{SlurmConf: "/etc/slurm/slurm.conf", Usual: true, Cluster: "onprem", Nodes: []string{"n1"}, Taken: []string{"main"}, Host: "head",
		Folders: []Folder{{"nfs4", "nas:/export/home", "/home"}, {"lustre", "mgs@tcp:/scratch", "/scratch"}}}
	answers := strings.Join([]string{
		"azure", "aws", // provider
		"",                   // cluster
		"", "x", "us-east-1", // region
		"-",                // profile
		"",                 // types
		"debian", "ami-0a", // image
		"subnet-0a,subnet-0b",
		"",          // security groups
		"image",     // MUNGE key
		"",          // instance profile: none, by the answer before
		"homes", "", // folders: those that this host mounts
		"head:http", "head:9811",
		"n[1-3]", "cloud-[1-3]",
		"main", "cloud",
	}, "\n") + "\n"
	a, out := Answers{}, &strings.Builder{}
	if err := Ask(t.Context(), strings.NewReader(answers), out, f, a); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{`"azure" is none of`, "it cannot do without an answer", `"x" is no region`, `"debian" is no image`, "is no address to listen on", "has a node n1 already", "has a partition main already", "[onprem]",
		`"homes" is no folder`, "[nas:/export/home=/home, - for none]", "this host has /scratch (lustre mgs@tcp:/scratch), which nodes have only if you name it"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not said:\n%s", want, out)
		}
	}
	if n := strings.Count(out.String(), "That does not do: "); n != 8 {
		t.Errorf("%d answers were refused, want 8", n)
	}
	c, err := config.Parse("burst.toml", Text(f, a))
	if err != nil || len(c.Pools[0].Power.Nodes) != 3 || c.Cluster != "onprem" || c.Providers[0].AWS.Profile != "" ||
		len(c.Pools[0].Boot.Mounts) != 1 || c.Pools[0].Boot.Mounts[0].Source != "nas:/export/home" || c.Pools[0].Boot.Mounts[0].Target != "/home" {
		t.Errorf("%v\n%s", err, Text(f, a))
	}
}

func TestAskEnds(t *testing.T) {
	f := Found{Host: "head"}
	a := Answers{"provider": "local", "cluster": "c", "nodes": "x[1-2]"} // by flags: what is left is the partition
	out := &strings.Builder{}
	if err := Ask(t.Context(), strings.NewReader("\n"), out, f, a); err != nil || a["partition"] != "try" || strings.Count(out.String(), "> ") != 1 {
		t.Errorf("%v, %v, %s", err, a, out)
	}
	if err := Ask(t.Context(), strings.NewReader("local\n"), out, f, Answers{}); err == nil || !strings.Contains(err.Error(), "the input has ended; nothing is written") {
		t.Error(err)
	}
	a = Answers{"region": "lhr"} // by a flag, which the answer has no use for
	if err := Ask(t.Context(), strings.NewReader("local\n"), out, f, a); err == nil || !strings.Contains(err.Error(), `--region is not for provider "local": name --provider aws or vultr`) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, w, err := os.Pipe() // on which nobody ever writes
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	defer r.Close()
	if err := Ask(ctx, r, out, f, Answers{}); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Error(err)
	}
	if err := Ask(t.Context(), strings.NewReader(""), out, f, Answers{"provider": "x"}); err == nil || !strings.Contains(err.Error(), "is none of") {
		t.Error(err)
	}
}

// TestLook finds a site in a folder.
func TestLook(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{}
	look := func() Found { return Look(t.Context(), root, func(name string) string { return env[name] }) }
	if f := look(); f.SlurmConf != "" || f.AWS || f.Vultr || !strings.Contains(f.Said()[0], "is this the host of slurmctld?") {
		t.Errorf("of nothing: %+v", f)
	}
	write("/opt/slurm/etc/slurm.conf", "ClusterName=onprem\nSlurmUser=hpc\nNodeName=n[1-2] CPUs=4\nNodeName=c[1-9] State=CLOUD\nPartitionName=main Nodes=ALL\n")
	write("/home/ann/.aws/config", "[default]\nregion = us-west-2\n[profile burst]\n region=eu-north-1\n")
	env["HOME"], env["AWS_PROFILE"] = "/home/ann", "burst"
	f := look()
	if f.SlurmConf != "/opt/slurm/etc/slurm.conf" || f.Usual || f.Cluster != "onprem" || f.SlurmUser != "hpc" || !slices.Equal(f.Nodes, []string{"n1", "n2"}) ||
		!slices.Equal(f.Taken, []string{"main"}) || !f.AWS || f.Profile != "burst" || f.Region != "eu-north-1" || f.Vultr {
		t.Errorf("%+v", f)
	}
	if said := strings.Join(f.Said(), "\n"); !strings.Contains(said, "cluster onprem, nodes n[1-2], partitions main") || !strings.Contains(said, "profile burst eu-north-1") || !strings.Contains(said, "Nodes=ALL in main: ") {
		t.Error(said)
	}
	env["AWS_REGION"], env["VULTR_API_KEY"] = "us-east-1", "k"
	write("/etc/slurm/slurm.conf", "ClusterName=usual\n")
	if f := look(); f.Region != "us-east-1" || !f.Vultr || f.Cluster != "usual" || !f.Usual {
		t.Errorf("%+v", f)
	}
}
