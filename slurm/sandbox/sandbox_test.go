package sandbox

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite testdata")

func TestText(t *testing.T) {
	programs := map[string]string{
		"ResumeProgram": "/d/bin/ResumeProgram", "SuspendProgram": "/d/bin/SuspendProgram",
		"ResumeFailProgram": "/d/bin/ResumeFailProgram", gateKey: "/d/bin/PrologSlurmctld",
	}
	base := layout{host: "head", user: "ada", dir: "/d", run: "/d", port: 20000}
	tests := []struct {
		name     string
		o        Options
		programs map[string]string
		pmix     bool
	}{
		{name: "onprem", o: Options{OnPrem: 1}},
		{name: "both", o: Options{OnPrem: 2, OnPremCPUs: 8, CloudNodes: 6, CredExpire: 5 * time.Second, SuspendTime: 2500 * time.Millisecond,
			Extra: "SchedulerParameters=batch_sched_delay=0\n"}, programs: programs, pmix: true},
		{name: "netns", o: Options{CloudNodes: 4, OnPrem: 1, NetNS: true, CtldAddr: "10.9.0.1"},
			programs: map[string]string{"ResumeProgram": "/d/bin/ResumeProgram"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := base
			l.Options, l.programs, l.pmix = tt.o.withDefaults(), tt.programs, tt.pmix
			got := l.text()
			path := filepath.Join("testdata", tt.name+".conf")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("slurm.conf differs (-want +got):\n%s", d)
			}
		})
	}
}

func TestCgroupText(t *testing.T) {
	const disabled, v1 = "CgroupPlugin=disabled\n", "CgroupPlugin=cgroup/v1\n"
	for version, want := range map[string]string{
		"slurm-wlm 22.05.8": v1, "slurm 23.11.4": v1, "slurm 24.05.2": disabled,
		"slurm 24.11.5-rc1": disabled, "slurm 25.05.0": disabled, "": v1, "slurm": v1,
	} {
		if got := cgroupText(version); got != want {
			t.Errorf("for %q: %q, want %q", version, got, want)
		}
	}
}

func TestPortsAreApart(t *testing.T) {
	seen := map[int]bool{}
	for _, n := range []int{1, blockSize, blockSize + 1, 3, 3, 3} {
		p, err := takePorts(n)
		if err != nil {
			t.Fatal(err)
		}
		defer p.release()
		for port := p.first; port < p.first+n; port++ {
			if seen[port] {
				t.Fatalf("port %d was given twice", port)
			}
			seen[port] = true
		}
	}
	if _, err := takePorts(lastPort - firstPort + 1); err == nil {
		t.Error("more ports than there are were given")
	}
}

func TestPortsComeBack(t *testing.T) {
	all := (lastPort - firstPort) / blockSize
	for range 2 * all {
		p, err := takePorts(1)
		if err != nil {
			t.Fatal(err)
		}
		p.release()
	}
}

func TestStartRefuses(t *testing.T) {
	foreign := t.TempDir()
	write(t, filepath.Join(foreign, "thesis.tex"), "")
	text := filepath.Join(t.TempDir(), "text")
	write(t, text, "")
	forged := t.TempDir()
	write(t, filepath.Join(forged, recordFile), `{"id":"0123456789abcdef","run":"/etc"}`)
	tests := []struct {
		name string
		o    Options
		want string
	}{
		{"no nodes", Options{}, "at least one node"},
		{"negative", Options{OnPrem: 3, CloudNodes: -1}, "at least one node"},
		{"program is relative", Options{OnPrem: 1, ResumeProgram: "resume"}, "absolute path"},
		{"program is missing", Options{OnPrem: 1, Gate: "/nowhere/gate"}, "no such file"},
		{"program is no program", Options{OnPrem: 1, SuspendProgram: text}, "not executable"},
		{"namespaces behind loopback", Options{CloudNodes: 1, NetNS: true}, "CtldAddr"},
		{"foreign files", Options{OnPrem: 1, Dir: foreign}, "thesis.tex"},
		{"forged record", Options{OnPrem: 1, Dir: forged}, "not written by a sandbox"},
		{"name with a space", Options{OnPrem: 1, Dir: filepath.Join(t.TempDir(), "a b")}, "slurm.conf cannot hold"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Start(context.Background(), tt.o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one about %q", err, tt.want)
			}
		})
	}
	if entries, err := os.ReadDir(foreign); err != nil || len(entries) != 1 {
		t.Errorf("the foreign folder holds %v after a refusal, %v", entries, err)
	}
}

func TestReapInUse(t *testing.T) {
	dir := t.TempDir()
	lock, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := Reap(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("error is %v, want ErrInUse", err)
	}
	lock.Close()
	if err := Reap(dir); err != nil {
		t.Error(err)
	}
	if err := Reap(dir); err != nil {
		t.Errorf("a folder that is gone: %v", err)
	}
}

func TestShortRun(t *testing.T) {
	const id = "0123456789abcdef"
	t.Setenv("TMPDIR", "/var/tmp")
	if got := shortRun(id); got != "/var/tmp/burst-"+id {
		t.Errorf("folder of sockets is %s", got)
	}
	t.Setenv("TMPDIR", "/"+strings.Repeat("x", 90))
	if got := shortRun(id); got != "/tmp/burst-"+id {
		t.Errorf("folder of sockets is %s", got)
	}
}

func TestEnvironment(t *testing.T) {
	for _, name := range []string{"SLURM_JOB_ID", "SBATCH_PARTITION", "SQUEUE_FORMAT", "BURST_CONFIG"} {
		t.Setenv(name, "outer")
	}
	t.Setenv("HOME", "/home/ada")
	env := environment(Options{Slurm: "/opt/slurm", BurstConfig: "/b.toml"}, "/d/slurm.conf", "BURST_SANDBOX=1")
	for _, want := range []string{"HOME=/home/ada", "SLURM_CONF=/d/slurm.conf", "BURST_SANDBOX=1", "BURST_CONFIG=/b.toml"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, e := range env {
		if strings.HasSuffix(e, "=outer") {
			t.Errorf("%s was passed on", e)
		}
		if path, ok := strings.CutPrefix(e, "PATH="); ok && !strings.HasPrefix(path, "/opt/slurm/bin:/opt/slurm/sbin:") {
			t.Errorf("PATH=%s does not begin with the given Slurm", path)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
