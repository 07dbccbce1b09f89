package firstfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/conf"
)

// TestStock: the image that is offered has a slurmd that the slurmctld here takes.
func TestStock(t *testing.T) {
	for release, want := range map[string]string{"": "Debian 12", "22.05.8": "Debian 12", "23.02.7": "Debian 12", "23.11.4": "Debian 12", "24.05.2": "Ubuntu 24.04",
		"24.11.5": "Debian 13", "25.05.0": "Debian 13", "25.11.0": "Debian 13", "26.05.0": "Debian 13", "26.11.0": "", "21.08.5": ""} {
		for _, kind := range []string{"aws", "vultr"} {
			a := Answers{"provider": kind, "region": map[string]string{"aws": "us-east-1", "vultr": "lhr"}[kind]}
			if kind == "aws" {
				a["subnets"] = "subnet-0a"
			}
			f := Found{Host: "head", Slurm: conf.ParseRelease(release)}
			err := Fill(f, a)
			if want == "" {
				if err == nil || !strings.Contains(err.Error(), "needs --image (no stock image has a slurmd for slurmctld "+f.Slurm.String()+" here: ") {
					t.Errorf("%s, %s: %v", kind, release, err)
				}
				continue
			}
			if s, known := StockOf(a["image"]); err != nil || !known || s.Name != want {
				t.Errorf("%s, %s: %q, %v, want %s", kind, release, a["image"], err, want)
				continue
			}
			if c, err := config.Parse("burst.toml", Text(f, a)); err != nil || !c.Pools[0].Boot.Packages {
				t.Errorf("%s, %s: %v", kind, release, err)
			}
		}
	}
}

// TestStockInstead: nodes of one architecture boot no image of another.
func TestStockInstead(t *testing.T) {
	for image, want := range map[string]string{
		"ssm:/aws/service/debian/release/12/latest/amd64":                                        "ssm:/aws/service/debian/release/13/latest/amd64",
		"ssm:/aws/service/debian/release/12/latest/arm64":                                        "ssm:/aws/service/debian/release/13/latest/arm64",
		"ssm:/aws/service/canonical/ubuntu/server/22.04/stable/current/arm64/hvm/ebs-gp2/ami-id": "ssm:/aws/service/debian/release/13/latest/arm64",
	} {
		if got := StockInstead(image, "aws", conf.ParseRelease("24.11.5")); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
	ubuntu := "ssm:/aws/service/canonical/ubuntu/server/24.04/stable/current/arm64/hvm/ebs-gp3/ami-id"
	if got := StockInstead("ssm:/aws/service/debian/release/12/latest/arm64", "aws", conf.ParseRelease("24.05.2")); got != ubuntu {
		t.Errorf("%q, want %q", got, ubuntu)
	}
	for image, want := range map[string]string{"os:Debian 12 x64 (bookworm)": "os:Debian 13 x64 (trixie)", "os:Debian 12 arm64 (bookworm)": ""} {
		if got := StockInstead(image, "vultr", conf.ParseRelease("24.11.5")); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
}

// TestRelease asks the slurmctld that is below root, and none of this host.
func TestRelease(t *testing.T) {
	root := t.TempDir()
	if got := release(t.Context(), root); got != (conf.Release{}) {
		t.Errorf("of nothing: %v", got)
	}
	path := filepath.Join(root, "usr/local/sbin/slurmctld")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho slurm-wlm 24.11.5\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	f := Look(t.Context(), root, func(string) string { return "" })
	if f.Slurm != (conf.Release{Major: 24, Minor: 11}) || !strings.Contains(strings.Join(f.Said(), "\n"), "slurmctld 24.11") {
		t.Errorf("%+v", f)
	}
}
