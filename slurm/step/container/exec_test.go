package container

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func node(dirs ...string) Node {
	return Node{Exists: func(d string) bool { return slices.Contains(dirs, d) }}
}

func TestLine(t *testing.T) {
	run := Run{Tool: Tool{"apptainer", "/usr/bin/apptainer"}, Image: "/x.sif", Dir: "/data/a", Program: []string{"./sim", "-n", "4"}}
	gpu := node("/data/a", "/opt/amazon/efa")
	gpu.NVIDIA, gpu.EFA = true, "/opt/amazon/efa"
	for _, tt := range []struct {
		name  string
		node  Node
		binds []string
		want  string
	}{
		{"plain", node("/data/a"), nil, "--bind /data/a --pwd /data/a"},
		{"a checkpoint folder elsewhere", node("/data/a", "/scratch/c"), []string{"/scratch/c"}, "--bind /data/a --bind /scratch/c --pwd /data/a"},
		{"one within another", node("/data/a", "/data", "/data/a/c"), []string{"/data/a/c", "/data", "/data/a"}, "--bind /data --pwd /data/a"},
		{"what is not there, or would hide the image", node("/data/a", "/usr/lib", "/"), []string{"/gone", "/usr/lib", "/", "rel"}, "--bind /data/a --pwd /data/a"},
		{"a name that --bind would part", node("/data/a", `/a:b,"c`), []string{`/a:b,"c`}, `--bind /data/a --mount type=bind,"source=/a:b,""c","destination=/a:b,""c" --pwd /data/a`},
		{"devices", gpu, nil, "--nv --bind /data/a --bind /opt/amazon/efa --pwd /data/a"},
	} {
		run.Binds = tt.binds
		want := "/usr/bin/apptainer exec " + tt.want + " /x.sif ./sim -n 4"
		if got := strings.Join(run.Line(tt.node), " "); got != want {
			t.Errorf("%s: %s\nwant %s", tt.name, got, want)
		}
	}
}

func TestFound(t *testing.T) {
	env := map[string]string{"TMPDIR": "rel", "PMIX_NSDIR": "/run/pmix", "BURST_LIB": "/tmp/burst-lib-1-X/socket"}
	if got := Found(func(name string) string { return env[name] }); !slices.Equal(got, []string{"/run/pmix", "/tmp/burst-lib-1-X"}) {
		t.Errorf("%q", got)
	}
	if got := Found(func(string) string { return "" }); len(got) != 0 {
		t.Errorf("of an empty environment: %q", got)
	}
}

func TestEnviron(t *testing.T) {
	run := Run{Tool: Tool{Name: "apptainer"}}
	environ := []string{"A=1", "PMIX_RANK=0", "SLURM_PROCID=0"}
	if got := run.Environ(node(), environ); !slices.Equal(got, environ) {
		t.Errorf("as it is: %q", got)
	}
	clean := append(environ, "APPTAINER_CLEANENV=1", "APPTAINERENV_SLURM_PROCID=7", "CUDA_VISIBLE_DEVICES=1")
	if got := run.Environ(node(), clean)[len(clean):]; !slices.Equal(got, []string{"APPTAINERENV_PMIX_RANK=0", "APPTAINERENV_CUDA_VISIBLE_DEVICES=1"}) {
		t.Errorf("kept out but for MPI: %q", got)
	}
	efa := Node{EFA: "/e"}
	if got := run.Environ(efa, environ)[3:]; !slices.Equal(got, []string{"APPTAINERENV_LD_LIBRARY_PATH=/e/lib64:/e/lib:/.singularity.d/libs"}) {
		t.Errorf("EFA: %q", got)
	}
	if got := run.Environ(efa, []string{"APPTAINERENV_LD_LIBRARY_PATH=/mine"}); len(got) != 1 {
		t.Errorf("the user's own: %q", got)
	}
}

func TestThisNode(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"dev", "opt/amazon/efa", "sys/class/infiniband/rdmap0/device", "sys/bus/efa", "data"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if n := ThisNode(root); n.NVIDIA || n.AMD || n.EFA != "" {
		t.Errorf("a node without anything: %+v", n)
	}
	if err := os.WriteFile(filepath.Join(root, "dev/nvidiactl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../../../bus/efa", filepath.Join(root, "sys/class/infiniband/rdmap0/device/driver")); err != nil {
		t.Fatal(err)
	}
	n := ThisNode(root)
	if !n.Exists("/data") || !n.NVIDIA || n.AMD || n.EFA != efaFolder {
		t.Errorf("%+v", n)
	}
	if n.Exists("/dev/nvidiactl") {
		t.Error("a file is taken for a folder")
	}
}

func TestTool(t *testing.T) {
	dir := t.TempDir()
	if _, err := FindTool(dir + ":."); err == nil {
		t.Error("found in an empty folder")
	}
	for _, name := range []string{"singularity", "apptainer"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
		if tool, err := FindTool("rel:" + dir); err != nil || tool.Name != name {
			t.Errorf("%+v, %v, want %s", tool, err, name)
		}
	}
}
