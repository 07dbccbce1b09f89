package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/firstfile"
)

// TestCheckFolders: it is said, with the line, of which of the site's folders burst.toml does not say that nodes have them; where a rule
// would move nothing that is wrong. Of nodes on this host nothing is said.
func TestCheckFolders(t *testing.T) {
	nas, disk := firstfile.Folder{Kind: "nfs4", Source: "nas:/projects", Target: "/projects"}, firstfile.Folder{Target: "/home"}
	const (
		onDisk = "/home (this host's disk)"
		onNAS  = "/projects (nfs4 nas:/projects)"
		rule   = "[[overflow]]\nname = \"small\"\nfrom = [\"main\"]\nto = [\"cloud\"]\n"
		local  = "[provider.here]\nkind = \"local\"\n[pool.try]\nprovider = \"here\"\nnodes = \"t1\"\npartition = \"cloud\"\ninstance_types = [\"s\"]\ncpus = 1\nreal_memory = 500\nports = \"17001\"\n"
		cloud  = "[daemon]\nlisten = \"head.example.org:9811\"\n[provider.lon]\nkind = \"vultr\"\nregion = \"lhr\"\n[pool.v]\nprovider = \"lon\"\nnodes = \"v[1-2]\"\npartition = \"cloud\"\n" +
			"instance_types = [\"vhp-8c-16gb-amd\"]\nimage = \"os:Debian 12 x64 (bookworm)\"\nmunge_key = \"image\"\n"
	)
	for name, tt := range map[string]struct {
		file string
		host []firstfile.Folder
		want string // the beginnings of findings
	}{
		"nodes on this host":         {file: local + rule, host: []firstfile.Folder{nas, disk}},
		"a cloud, and no rule":       {file: cloud, host: []firstfile.Folder{nas, disk}, want: "advice mounts=v: burst.toml:7: the pool does not name " + onNAS + ", " + onDisk + ": a job with its output there ends at once"},
		"one of two is mounted":      {file: cloud + "mounts = [{ kind = \"nfs\", source = \"nas:/projects\", target = \"/projects\" }]\n", host: []firstfile.Folder{nas, disk}, want: "advice mounts=v: burst.toml:7: the pool does not name " + onDisk + ": "},
		"the image has all":          {file: cloud + "file_systems = [\"/\"]\n" + rule, host: []firstfile.Folder{nas, disk}},
		"nothing is found here":      {file: cloud},
		"the site's alone":           {file: cloud + "[onprem]\nfile_systems = [\"/home\", \"/projects\"]\n", host: []firstfile.Folder{nas, disk}},
		"a rule to nowhere":          {file: cloud + rule, want: "wrong overflow=small: burst.toml:14: the rule moves no job that uses a folder, as its home for its output: [pool.v], line 7, names none"},
		"a rule, and not the output": {file: cloud + "file_systems = [\"/projects\"]\n" + rule, host: []firstfile.Folder{nas, disk}, want: "advice overflow=small: burst.toml:15: jobs with a folder below " + onDisk + " stay: [pool.v], line 7, does not name it."},
		"a rule, and all is named":   {file: cloud + "file_systems = [\"/projects\"]\n" + rule + "[onprem]\nfile_systems = [\"/home\"]\n", host: []firstfile.Folder{nas, disk}},
	} {
		c, err := config.Parse("/etc/burst/burst.toml", "cluster = \"c\"\n"+tt.file)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := ""
		for _, f := range checkFolders(c, tt.host) {
			got += fmt.Sprintf("%s %s=%s: %s", f.Level, f.Key, f.Have, f.Why)
		}
		if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%s:\n%s\nwant %s", name, got, tt.want)
		}
	}
}
