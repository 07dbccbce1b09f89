package firstfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/config"
)

func TestFolders(t *testing.T) {
	for name, tt := range map[string]struct {
		mounts string
		homes  string
		want   string
	}{
		"no mounts, no homes": {want: "[]"},
		"homes on the disk":   {mounts: "/dev/sda1 / ext4 rw 0 0\ntmpfs /run tmpfs rw 0 0\n", homes: "ann", want: "[/home (this host's disk)]"},
		"nobody's homes":      {mounts: "/dev/sda1 / ext4 rw 0 0\n", homes: "lost+found", want: "[]"},
		"a NAS":               {mounts: "nas:/export/home /home nfs4 rw,vers=4.2 0 0\nnas:/projects /projects nfs rw 0 0\nmgs@tcp:/scratch /scratch lustre rw 0 0\n", homes: "ann", want: "[/home (nfs4 nas:/export/home) /projects (nfs nas:/projects) /scratch (lustre mgs@tcp:/scratch)]"},
		"homes beside others": {mounts: "nas:/projects /projects nfs rw 0 0\n", homes: "ann", want: "[/projects (nfs nas:/projects) /home (this host's disk)]"},
		"automounted": {mounts: "systemd-1 /proc/sys/fs/binfmt_misc autofs rw 0 0\n/etc/auto.home /home autofs rw 0 0\nnas:/export/ann /home/ann nfs4 rw 0 0\nsystemd-1 /projects autofs rw 0 0\nnas:/projects /projects nfs4 rw 0 0\n",
			homes: "ann", want: "[/home (autofs) /projects (nfs4 nas:/projects)]"},
		"one within another": {mounts: "nas:/a/b /a/b nfs rw 0 0\nnas:/a /a nfs rw 0 0\nnas:/ab /ab nfs rw 0 0\n", want: "[/a (nfs nas:/a) /ab (nfs nas:/ab)]"},
		"a diskless host":    {mounts: "nas:/root / nfs rw 0 0\nnas:/run /run/x nfs rw 0 0\n", want: "[]"},
		"signs":              {mounts: "nas:/a\\040b /a\\040b nfs rw 0 0\nx\n\n", want: "[/a b (nfs nas:/a b)]"},
	} {
		root := t.TempDir()
		for path, text := range map[string]string{"proc/mounts": tt.mounts, filepath.Join("home", tt.homes, "x"): ""} {
			if path == "home/x" && tt.homes == "" {
				continue
			}
			if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := fmt.Sprint(Folders(root)); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestFoldersOfTheFile: the answer becomes the keys of which burst check and the rules of overflow know what nodes have, and the first job
// that is proposed can write its output.
func TestFoldersOfTheFile(t *testing.T) {
	nas := []Folder{{"nfs4", "nas:/export/home", "/home"}, {"nfs", "nas:/projects", "/projects"}, {"nfs", "[fd00::1]:/x", "/x"}, {"", "", "/local"}}
	for name, tt := range map[string]struct {
		provider, folders string
		found             []Folder
		want, kinds, job  string
	}{
		"none":                     {"aws", "-", nil, "", "", "sbatch -p cloud -D /tmp -o /dev/null --wrap hostname"},
		"nothing on this host":     {"vultr", "", nil, "", "", "sbatch -p cloud -D /tmp -o /dev/null --wrap hostname"},
		"those of this host":       {"vultr", "", nas, "/home /projects", "nfs nfs", "sbatch -p cloud --wrap hostname"},
		"on the image":             {"aws", "/home, /opt/apps/", nas, "/home /opt/apps", "", "sbatch -p cloud --wrap hostname"},
		"of each kind":             {"aws", "nas:/home,fs-0123=/efs,fs-1.fsx.us-east-1.amazonaws.com@tcp:/x=/lustre,/opt", nas, "/home /efs /lustre /opt", "nfs efs fsx", "sbatch -p cloud --wrap hostname"},
		"none though there is one": {"vultr", "-", nas, "", "", "sbatch -p cloud -D /tmp -o /dev/null --wrap hostname"},
	} {
		a := Answers{"provider": tt.provider, "region": map[string]string{"aws": "us-east-1", "vultr": "lhr"}[tt.provider]}
		if tt.provider == "aws" {
			a["subnets"] = "subnet-0a"
		}
		if tt.folders != "" {
			a["folders"] = strings.TrimPrefix(tt.folders, "-")
		}
		f := Found{Host: "head", Folders: tt.found}
		if err := Fill(f, a); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := Text(f, a)
		c, err := config.Parse("burst.toml", text)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			continue
		}
		var kinds []string
		for _, m := range c.Pools[0].Boot.Mounts {
			kinds = append(kinds, m.Kind)
		}
		if got := strings.Join(c.Pools[0].Folders, " "); got != tt.want || strings.Join(kinds, " ") != tt.kinds {
			t.Errorf("%s: %q, mounts %q\n%s", name, got, kinds, text)
		}
		if strings.Contains(text, "\n#mounts = ") != (tt.want == "") {
			t.Errorf("%s: %s", name, text)
		}
		if next := Next(f, a, "/etc/burst/burst.toml", "slurm"); !slices.ContainsFunc(next, func(l string) bool { return strings.HasPrefix(l, "  "+tt.job+" ") }) {
			t.Errorf("%s: %q", name, next)
		}
	}
}
