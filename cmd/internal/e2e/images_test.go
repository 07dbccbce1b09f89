package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
	"github.com/burst-hpc/burst/packaging/progtest"
	"github.com/burst-hpc/burst/slurm/step/mpi"
)

// TestDefinitions builds the definitions of contrib/images that need nothing but Debian, each on
// a tree of its Debian in place of the image of a registry, by their own lines and with their own
// tests; burst-srun sees in what was built with it the MPI that the definition is for; and by its
// one command line two ranks on two nodes are one world in it.
func TestDefinitions(t *testing.T) {
	if os.Getenv("BURST_TEST_IMAGES") == "" {
		t.Skip("NOT TESTED: whether the definitions of contrib/images build: make test-images does, of Debian's packages")
	}
	path := progtest.Containers(t)
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: whether the definitions of contrib/images build: it needs root")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	s := start(t, rig.Options{Nodes: 2, Gate: true, SuspendTime: 2 * time.Minute, SlurmExtra: quick})
	site := &contained{heats: &heats{site: s}, path: path, dir: s.Work, cache: filepath.Join(s.Dir, "cache-%n")}
	for _, suite := range []struct {
		name, from string
		defs       []string
	}{{"bookworm", "debian:12", []string{"heat", "mpich", "openmpi4"}}, {"trixie", "debian:13", []string{"openmpi5"}}} {
		t.Run(suite.name, func(t *testing.T) {
			d := definitions{ctx: ctx, site: site, path: path, base: filepath.Join(t.TempDir(), "base"), from: suite.from}
			d.debootstrap(t, suite.name)
			for _, def := range suite.defs {
				t.Run(def, func(t *testing.T) { d.build(t, def) })
			}
		})
	}
}

// definitions are built on a base.
type definitions struct {
	ctx  context.Context
	site *contained
	path string // PATH, with the tools
	base string // a tree
	from string // what it stands for
}

func (d definitions) debootstrap(t *testing.T, suite string) {
	t.Helper()
	args := []string{"--variant=minbase", "--keyring=/usr/share/keyrings/debian-archive-keyring.gpg", suite, d.base}
	if mirror := os.Getenv("MIRROR"); mirror != "" {
		args = append(args, mirror)
	}
	if out, err := exec.CommandContext(d.ctx, "debootstrap", args...).CombinedOutput(); err != nil {
		t.Fatalf("debootstrap (make deps-containers brings it): %v\n%s", err, tail(out))
	}
	// As an image's, and as one that a user namespace may copy.
	if err := os.RemoveAll(filepath.Join(d.base, "dev")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(d.base, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// header is what a definition is built from.
var header = regexp.MustCompile(`(?m)^Bootstrap: docker\nFrom: (\S+)$`)

// label is the MPI that a definition says it is for.
var label = regexp.MustCompile(`(?m)^ +mpi (\S+)$`)

func (d definitions) build(t *testing.T, name string) {
	root, dir := progtest.Root(t), t.TempDir()
	text, err := os.ReadFile(filepath.Join(root, "contrib/images", name+".def"))
	if err != nil {
		t.Fatal(err)
	}
	from, is := header.FindSubmatch(text), label.FindSubmatch(text)
	if from == nil || string(from[1]) != d.from || is == nil {
		t.Fatalf("%s.def is from %q, for %q", name, from, is)
	}
	def, image := filepath.Join(dir, name+".def"), filepath.Join(dir, "image")
	if err := os.WriteFile(def, header.ReplaceAll(text, []byte("Bootstrap: localimage\nFrom: "+d.base)), 0o644); err != nil {
		t.Fatal(err)
	}
	// A user namespace has all rights of root's over what is its own, which a host may not have itself.
	build := exec.CommandContext(d.ctx, tool(d.path, "apptainer"), "build", "--sandbox", image, def)
	ids := []syscall.SysProcIDMap{{Size: 1 << 16}}
	build.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true}
	build.Dir, build.Env = root, append(os.Environ(), "PATH="+d.path, "APPTAINER_TMPDIR="+dir)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("apptainer build %s.def: %v\n%s", name, err, tail(out))
	}
	program := "/opt/heat"
	if name != "heat" {
		program = "/opt/hello"
		source := filepath.Join(dir, "hello.c")
		hello, err := os.ReadFile(filepath.Join(root, "contrib/mpi/hello.c"))
		if err == nil {
			err = os.WriteFile(source, hello, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		made := filepath.Join(dir, "hello")
		cmd := exec.CommandContext(d.ctx, tool(d.path, "apptainer"), "exec", "--bind", dir, image, "mpicc", "-o", made, source)
		cmd.Env = append(os.Environ(), "PATH="+d.path)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("mpicc in the image: %v\n%s", err, tail(out))
		}
		if err := os.Rename(made, filepath.Join(image, program)); err != nil {
			t.Fatal(err)
		}
	}
	found, err := mpi.Detect(image, program, func(string) string { return "" })
	if err != nil || string(found.Kind) != string(is[1]) || found.Missing != "" || found.Version == "" {
		t.Errorf("%s of %s.def: %+v, %v", program, name, found, err)
	}
	out := d.site.batch(t, oneRun+"run of/"+name+"/ranks --container "+image+" "+program, "-N2", "--ntasks-per-node=1")
	lines := helloLine.FindAllStringSubmatch(out, -1)
	switch good := strings.Contains(out, "== of/"+name+"/ranks: 0"); {
	case name == "heat":
		if !good || !checksum.MatchString(out) || !strings.Contains(out, " 2 ranks as ") {
			t.Errorf("heat in the image, on two nodes:\n%s", out)
		}
	case !good || len(lines) != 2 || lines[0][1] != "2" || nodesOf(lines) != 2:
		t.Errorf("hello in the image of %s, on two nodes:\n%s", name, out)
	}
}

// tail is the end of what a tool has said.
func tail(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
