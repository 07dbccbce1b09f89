package endpoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLoad(t *testing.T) {
	moved := Default()
	moved.Socket, moved.SlurmBin = "/tmp/b.sock", "/opt/slurm/bin"
	full := Config{"/s", "/sp", "/st", "127.0.0.1:9810", "head:9811", "http://h:1", "/c", "/b", "u"}
	for _, test := range []struct {
		name, text string
		want       Config
		err        string // part of the error
	}{
		{"empty", "", Default(), ""},
		{"full", `
[daemon]
socket = "/s"
spool = "/sp"
state = "/st"
metrics = "127.0.0.1:9810"
listen = "head:9811"
node_url = "http://h:1"
[slurm]
conf = "/c"
bin = "/b"
user = "u"
`, full, ""},
		{"other sections are ignored", "cluster = 7\n[daemon]\nsocket = \"/tmp/b.sock\"\nlater = \":1\"\n" +
			"[slurm]\nbin = \"/opt/slurm/bin\"\n[pool.x]\nnodes = 3\n", moved, ""},
		{"another section is half edited", "[daemon]\nsocket = \"/tmp/b.sock\"\n[pool.x]\nnodes = \"x[1-\n" +
			"[slurm]\nbin = \"/opt/slurm/bin\"\n", moved, ""},
		{"empty values keep the defaults", "[daemon]\nsocket = \"\"\n[slurm]\nbin = \"\"\nuser = \"\"\n", Default(), ""},
		{"wrong type", "[daemon]\nsocket = 3\n", Default(), "socket"},
		{"own section broken", "[daemon]\nsocket = \"/x\n", Default(), "line 2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "burst.toml")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := Load(path)
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("Load (-want +got):\n%s", d)
			}
			switch {
			case test.err == "" && err != nil:
				t.Errorf("Load: %v", err)
			case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err) || !strings.Contains(err.Error(), path)):
				t.Errorf("Load: error %v, want one with %q and the path", err, test.err)
			}
		})
	}
}

func TestLoadMissing(t *testing.T) {
	c, err := Load(filepath.Join(t.TempDir(), "none"))
	if !errors.Is(err, fs.ErrNotExist) || c != Default() {
		t.Errorf("Load of a missing file = %+v, %v; want the defaults and a not-exist error", c, err)
	}
}

func TestPath(t *testing.T) {
	t.Setenv("BURST_CONFIG", "")
	if got := Path(""); got != DefaultPath {
		t.Errorf("Path with nothing set = %q", got)
	}
	t.Setenv("BURST_CONFIG", "/env")
	if got := Path(""); got != "/env" {
		t.Errorf("Path with BURST_CONFIG = %q", got)
	}
	if got := Path("/flag"); got != "/flag" {
		t.Errorf("Path with flag = %q", got)
	}
}

func TestDB(t *testing.T) {
	if got := Default().DB(); got != "/var/lib/burst/burst.db" {
		t.Errorf("DB = %q", got)
	}
}
