package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/slurm/overflow"
)

// TestShared: what is known of the site's folders on nodes: those that the pool mounts, and that the site says its image has, source by
// source. Of nodes on this host nothing need be said, nor of a server of files, which runs no job.
func TestShared(t *testing.T) {
	text, err := os.ReadFile("testdata/good/then.toml")
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "user-data")
	if err := os.WriteFile(data, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const mounts = `mounts = [{ kind = "nfs", source = "nas:/export/home", target = "/home/" }, { kind = "cvmfs", source = "software.eessi.io" }]`
	east, lon := `setup = ["echo east"]`, `setup = ["echo lon"]`
	for name, tt := range map[string]struct{ east, lon, want string }{
		"nothing":             {want: " "},
		"mounts of the one":   {east: mounts, want: "/home,/cvmfs/software.eessi.io "},
		"keys of both":        {east: `file_systems = ["/home/", "/opt/apps"]`, lon: `file_systems = ["/"]`, want: "/home,/opt/apps /"},
		"both of one":         {lon: mounts + "\nfile_systems = [\"/projects\"]", want: " /home,/cvmfs/software.eessi.io,/projects"},
		"user data of a site": {east: mounts, lon: "REPLACE\nfile_systems = [\"/home\"]", want: "/home,/cvmfs/software.eessi.io /home"},
		"and it says nothing": {east: mounts, lon: "REPLACE", want: "/home,/cvmfs/software.eessi.io "},
	} {
		file := strings.Replace(string(text), east, tt.east, 1)
		if own, is := strings.CutPrefix(tt.lon, "REPLACE"); is {
			head, _, _ := strings.Cut(file, "munge_key")
			file = head + "user_data = \"" + data + "\"" + own + "\n"
		} else {
			file = strings.Replace(file, lon, tt.lon, 1)
		}
		c, err := Parse("burst.toml", file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, s := range c.Overflow.Shared["cloud"] {
			if s.Pool != "c6i" {
				t.Errorf("%s: %+v", name, s)
			}
			got = append(got, strings.Join(s.Folders, ","))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	for path, want := range map[string]map[string][]overflow.Shared{"testdata/good/overflow.toml": nil, "testdata/good/vultr.toml": {"vultr": {{Pool: "vhp", Folders: []string{"/home"}}}, "metal": {{Pool: "metal", Folders: []string{}}}}} {
		if c, err := Load(path); err != nil || cmp.Diff(want, c.Overflow.Shared) != "" {
			t.Errorf("%s: %+v, %v", path, c.Overflow.Shared, err)
		}
	}
	for says, file := range map[string]string{
		`file_systems: "home" is no path such as "/home"`:       strings.Replace(string(text), east, `file_systems = ["home"]`, 1),
		`file_systems: is for providers of kind "aws", "vultr"`: "cluster = \"c\"\n[provider.here]\nkind = \"local\"\n[pool.try]\nprovider = \"here\"\nnodes = \"t1\"\npartition = \"try\"\ninstance_types = [\"s\"]\ncpus = 1\nreal_memory = 500\nports = \"17001\"\nfile_systems = [\"/home\"]\n",
	} {
		if _, err := Parse("burst.toml", file); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
