package firstfile

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
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
		"a NAS":               {mounts: "nas:/export/home /home nfs4 rw,vers=4.2 0 0\nnas:/work /work nfs rw 0 0\nmgs@tcp:/scratch /scratch lustre rw 0 0\n", homes: "ann", want: "[/home (nfs4 nas:/export/home) /work (nfs nas:/work) /scratch (lustre mgs@tcp:/scratch)]"},
		"homes beside others": {mounts: "nas:/work /work nfs rw 0 0\n", homes: "ann", want: "[/work (nfs nas:/work) /home (this host's disk)]"},
		"automounted": {mounts: "systemd-1 /proc/sys/fs/binfmt_misc autofs rw 0 0\n/etc/auto.home /home autofs rw 0 0\nnas:/export/ann /home/ann nfs4 rw 0 0\nsystemd-1 /work autofs rw 0 0\nnas:/work /work nfs4 rw 0 0\n",
			homes: "ann", want: "[/home (autofs) /work (nfs4 nas:/work)]"},
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
