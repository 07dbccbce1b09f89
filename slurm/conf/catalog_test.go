package conf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// described is a pool as a cloud's catalog describes it.
func described() Input {
	in := input()
	p := in.Pools[2]
	p.CPUs, p.Cores, p.Threads, p.RealMemory, p.Configless = 96, 48, 2, 1100000, true
	p.GPUs = []GPU{{"a100", 8}}
	in.Pools = []Pool{p}
	return in
}

func TestFragmentOfDescribedPool(t *testing.T) {
	got := Fragment(Site{}, described())
	for _, want := range []string{
		"\nSlurmctldParameters=idle_on_node_suspend,power_save_interval=1,enable_configless\n",
		"\nGresTypes=gpu\n",
		"\nNodeName=o[1-3] CPUs=96 Sockets=1 CoresPerSocket=48 ThreadsPerCore=2 RealMemory=1100000 State=CLOUD Gres=gpu:a100:8\n",
		"\n# gres.conf must hold:\n#   NodeName=o[1-3] Name=gpu Type=a100 File=/dev/nvidia[0-7]\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the fragment lacks %q:\n%s", want, got)
		}
	}
}

// What the pool's options say stands alone, and what is not known is not written.
func TestNodeLine(t *testing.T) {
	in := described()
	p := in.Pools[0]
	for _, test := range []struct {
		name   string
		change func(*Pool)
		want   string
	}{
		{"own sockets", func(p *Pool) { p.Options = "Sockets=2 CoresPerSocket=24 ThreadsPerCore=2" },
			"NodeName=o[1-3] CPUs=96 RealMemory=1100000 State=CLOUD Gres=gpu:a100:8 Sockets=2 CoresPerSocket=24 ThreadsPerCore=2"},
		{"own gres", func(p *Pool) { p.Options = "Gres=gpu:4" },
			"NodeName=o[1-3] CPUs=96 Sockets=1 CoresPerSocket=48 ThreadsPerCore=2 RealMemory=1100000 State=CLOUD Gres=gpu:4"},
		{"two kinds of GPU", func(p *Pool) { p.GPUs = []GPU{{"a", 1}, {"b", 2}} },
			"NodeName=o[1-3] CPUs=96 Sockets=1 CoresPerSocket=48 ThreadsPerCore=2 RealMemory=1100000 State=CLOUD Gres=gpu:a:1,gpu:b:2"},
		{"nothing known", func(p *Pool) { p.CPUs, p.Cores, p.RealMemory, p.GPUs = 0, 0, 0, nil }, "NodeName=o[1-3] State=CLOUD"},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := p
			test.change(&q)
			if got := q.nodeLine(); got != test.want {
				t.Errorf("nodeLine =\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// A pool that the catalog has not described is not compared in what it would say.
func TestCheckOfUndescribedPool(t *testing.T) {
	in := described()
	path := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(path, []byte(Fragment(Site{}, in)), 0o600); err != nil {
		t.Fatal(err)
	}
	site, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range Check(site, in) {
		if f.MustChange() {
			t.Errorf("described: %+v", f)
		}
	}
	in.Pools[0].CPUs, in.Pools[0].Cores, in.Pools[0].RealMemory, in.Pools[0].GPUs = 0, 0, 0, nil
	for _, f := range Check(site, in) {
		if f.MustChange() {
			t.Errorf("not described: %+v", f)
		}
	}
	in.Pools[0].GPUs = []GPU{{"a100", 4}}
	found := false
	for _, f := range Check(site, in) {
		found = found || f.Level == Wrong && f.Have == "Gres=gpu:a100:8"
	}
	if !found {
		t.Error("another count of GPUs is not found")
	}
}
