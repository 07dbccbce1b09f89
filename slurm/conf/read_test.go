package conf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestRead(t *testing.T) {
	got, err := Read("testdata/site/slurm.conf")
	if err != nil {
		t.Fatal(err)
	}
	want := Site{
		Lines:       true,
		NodeDefault: map[string]string{"cpus": "64", "realmemory": "250000"},
		Prologs:     []string{"/etc/slurm/prolog.sh"},
		Settings: map[string]string{
			"clustername":         "onprem",
			"slurmctldhost":       "head",
			"slurmuser":           "slurm",
			"slurmctldparameters": "enable_configless, power_save_interval=30",
			"prologslurmctld":     "/etc/slurm/prolog.sh",
			"prologepilogtimeout": "120",
			"privatedata":         "jobs,users",
		},
		Nodes: []Line{
			{"n[001-004]", map[string]string{"cpus": "64", "realmemory": "250000", "feature": "ib", "state": "UNKNOWN"}},
			{"fat1", map[string]string{"cpus": "64", "realmemory": "1000000", "reason": `slow disk \# 3`}},
		},
		Partitions: []Line{
			{"batch", map[string]string{"maxtime": "24:00:00", "state": "UP", "nodes": "n[001-004]", "default": "YES"}},
			{"any", map[string]string{"maxtime": "24:00:00", "state": "UP", "nodes": "ALL"}},
		},
		PartitionDefault: map[string]string{"maxtime": "24:00:00", "state": "UP"},
		NodeSets:         []Line{{"all", map[string]string{"nodes": "ALL"}}},
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Site{})); d != "" {
		t.Errorf("Read (-want +got):\n%s", d)
	}
}

func TestReadFails(t *testing.T) {
	dir := t.TempDir()
	loop := filepath.Join(dir, "loop.conf")
	lost := filepath.Join(dir, "lost.conf")
	for path, text := range map[string]string{loop: "Include loop.conf\n", lost: "Include none.conf\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		loop:                         "include itself",
		lost:                         "none.conf",
		filepath.Join(dir, "absent"): "absent",
	} {
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Read(%s): error %v, want one with %q", path, err, want)
		}
	}
}

func TestRunning(t *testing.T) {
	got := Running(map[string]string{
		"PrologSlurmctld":     "(null)",
		"PrivateData":         "none",
		"SlurmUser":           "slurm(64030)",
		"SuspendTime":         "600 sec",
		"ResumeRate":          "300 nodes/min",
		"PrologEpilogTimeout": "65534",
		"ReturnToService":     "1",
		"Prolog[0]":           "/a",
		"SlurmctldHost[0]":    "head(192.0.2.1)",
		"SlurmctldHost[1]":    "spare",
	}).Settings
	want := map[string]string{
		"prologslurmctld":     "",
		"privatedata":         "",
		"slurmuser":           "slurm",
		"suspendtime":         "600",
		"resumerate":          "300",
		"prologepilogtimeout": "",
		"returntoservice":     "1",
		"prolog":              "/a",
		"slurmctldhost":       "head(192.0.2.1),spare",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Running (-want +got):\n%s", d)
	}
}

// TestHosts: each line of SlurmctldHost is a host more.
func TestHosts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(path, []byte("SlurmctldHost=head(192.0.2.1)\nSlurmctldHost=spare\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if site, err := Read(path); err != nil || site.Get("SlurmctldHost") != "head(192.0.2.1),spare" {
		t.Errorf("%q, %v", site.Get("SlurmctldHost"), err)
	}
}

func FuzzRead(f *testing.F) {
	for _, text := range []string{
		"NodeName=a CPUs=2\n", "a=\"b\" c=d\\\ne=f", "Include =x", "include", "=", "A+=\"", "# x\\\n", "PartitionName=DEFAULT",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, line := range logical(text) {
			if n := strings.Count(text, "\n"); line.first > line.last || line.last > n {
				t.Errorf("%+v of %d lines", line, n)
			}
			if _, ok := include(line.text); ok {
				continue
			}
			r := reader{site: Site{Settings: map[string]string{}}}
			r.line(pairs(line.text))
			for key := range r.site.Settings {
				if key == "" || key != strings.ToLower(key) {
					t.Errorf("line %q has key %q", line.text, key)
				}
			}
		}
	})
}
