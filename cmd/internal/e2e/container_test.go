package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
	"github.com/burst-hpc/burst/packaging/progtest"
)

// contained is a site with heat in images.
type contained struct {
	*heats
	path   string // PATH, with the tools
	dir    string // of the images
	folder string // a sandbox
	sif    string
	mpich  string // a sandbox with heat built by MPICH; "": none is here
	cache  string // of all nodes, as %n
	// boxes are images with hello and heat in /opt, each of one of the MPIs.
	boxes []string
	of    []anMPI
}

// TestHeatInContainers: one command line runs heat on the host, and heat and hello in an image of each MPI, on one to
// four nodes, with the same field, two ranks on a node and with --cleanenv too; and what is wrong is said before anything starts.
func TestHeatInContainers(t *testing.T) {
	t.Parallel() // its jobs wait more than they compute
	path := progtest.Containers(t)
	listen := freeAddress(t)
	s := start(t, rig.Options{Nodes: 4, OnPrem: 1, Gate: true, SuspendTime: 20 * time.Second, SuspendTimeout: 5 * time.Second, SlurmExtra: quick,
		DaemonToml: fmt.Sprintf("listen = %q", listen)})
	c := &contained{heats: buildHeat(t, s, listen), path: path, dir: filepath.Join(s.Work, "images")}
	c.cache = filepath.Join(s.Dir, "cache-%n")
	c.images()
	t.Run("the same field on the host and in images, on one to four nodes", c.sameField)
	t.Run("what is wrong is said before the step", c.wrong)
	t.Run("in user namespaces", c.userns)
	t.Run("a heterogeneous job", c.parts)
	t.Run("evictions", c.evicted)
	t.Run("from a registry", c.registry)
}

// images makes an image of each MPI, that of Open MPI 4 as a sandbox and as a SIF file.
func (c *contained) images() {
	c.t.Helper()
	for _, m := range mpis(c.t) {
		if _, err := exec.LookPath(m.mpicc); err != nil && m.name == "mpich" {
			c.t.Log("NOT TESTED: no mpicc.mpich is here, and so no image has another MPI than the host's: make deps")
			continue
		}
		box := c.image(m)
		switch {
		case m.packaged():
			c.folder, c.sif = box, filepath.Join(c.dir, "heat.sif")
			c.command("apptainer", "build", c.sif, c.folder)
			box = c.sif
		case m.name == "mpich":
			c.mpich = box
		}
		c.boxes, c.of = append(c.boxes, box), append(c.of, m)
	}
}

// image makes the sandbox of one MPI.
func (c *contained) image(m anMPI) string {
	c.t.Helper()
	folder, heat, hello := filepath.Join(c.dir, m.name), c.program, filepath.Join(c.bin, "hello-"+m.name)
	image, link := rig.Image{}, "LDFLAGS="
	switch {
	case m.packaged():
		image.Files = rig.OpenMPI()
	case m.name == "openmpi5": // all of it is in one folder, which is another one in the image
		link += "-Wl,-rpath,/opt/ompi5/lib"
	}
	if !m.packaged() {
		heat += "-" + m.name
		buildAt(c.t, heat, "MPICC="+m.mpicc, link)
	}
	args := append([]string{"-o", hello, "../../../contrib/mpi/hello.c"}, strings.Fields(strings.TrimPrefix(link, "LDFLAGS="))...)
	if out, err := exec.CommandContext(c.t.Context(), m.mpicc, args...).CombinedOutput(); err != nil {
		c.t.Fatalf("building hello by %s (make deps brings it): %v\n%s", m.mpicc, err, out)
	}
	image.Put = map[string]string{"/opt/heat": heat, "/opt/hello": hello}
	if m.packaged() {
		image.Put["/opt/heat-libburst"] = c.withLibburst(c.t)
	}
	if err := image.Make(c.t.Context(), folder); err != nil {
		c.t.Fatal(err)
	}
	if m.name == "openmpi5" {
		home, err := filepath.EvalSymlinks(filepath.Join(filepath.Dir(m.mpicc), ".."))
		if err == nil {
			err = os.CopyFS(filepath.Join(folder, "opt/ompi5"), os.DirFS(home))
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
	return folder
}

// tool is the path of a program on a PATH; "": there is none.
func tool(path, name string) string {
	for _, dir := range filepath.SplitList(path) {
		if st, err := os.Stat(filepath.Join(dir, name)); err == nil && st.Mode().IsRegular() {
			return filepath.Join(dir, name)
		}
	}
	return ""
}

// command runs a tool, as the test's user.
func (c *contained) command(name string, args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), tool(c.path, name), args...)
	cmd.Env = append(os.Environ(), "APPTAINER_NOHTTPS=true", "APPTAINER_CACHEDIR="+filepath.Join(c.dir, "tool"), "PATH="+c.path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// batch runs a script of burst-srun and returns what it said, and its exit code.
func (c *contained) batch(t *testing.T, script string, args ...string) string {
	t.Helper()
	s := &site{c.Site, t, c.bin}
	dir, err := os.MkdirTemp(s.Work, "box-")
	if err != nil {
		t.Fatal(err)
	}
	id := s.submit(fmt.Sprintf(`#!/bin/bash
export PATH=%s BURST_CONTAINER_CACHE=%s APPTAINER_CACHEDIR=%s APPTAINER_NOHTTPS=true
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_tcp_if_include=lo UCX_NET_DEVICES=lo
burst=%s/burst-srun host=%s
trap 'echo "the script ends with $?"' EXIT
%s
`, c.path, c.cache, filepath.Join(c.dir, "tool"), c.bin, c.program, script), append([]string{"--exclusive", "--chdir=" + dir, "--output=" + filepath.Join(s.Work, "slurm-%j.out")}, args...)...)
	s.wait(90*time.Second, "the script ends", func() bool { return strings.Contains(s.output(id), "the script ends with") })
	return s.output(id)
}

const boxed = "-n 64 -i 200"

// sameField has one command line for the host, a sandbox, a SIF file and the images of all MPIs.
func (c *contained) sameField(t *testing.T) {
	want, ways := c.undisturbed(t, 64, 200), 2+len(c.boxes)
	for nodes := 1; nodes <= 4; nodes++ {
		before, perNode := "", 1
		switch nodes {
		case 1:
			// They share its memory. On several of the sandbox's nodes, which are one host,
			// Open MPI 4 would give those of each the same names of memory.
			perNode = 2
		case 3:
			before = "export APPTAINER_CLEANENV=1\n"
		}
		script := before + oneRun + fmt.Sprintf(`tries=6
$burst --container none $host %[1]s || exit
$burst --container %[2]s /opt/heat %[1]s || exit
for image in %[3]s; do
	run $image/hello --container $image /opt/hello
	run $image/heat --container $image /opt/heat %[1]s
done`, boxed, c.folder, strings.Join(c.boxes, " "))
		out := c.batch(t, script, fmt.Sprintf("-N%d", nodes), fmt.Sprintf("--ntasks-per-node=%d", perNode), "-pcloud")
		sums := checksum.FindAllString(out, -1)
		if len(sums) != ways || slices.ContainsFunc(sums, func(sum string) bool { return sum != want }) || strings.Count(out, fmt.Sprintf(" %d ranks as", nodes*perNode)) != ways {
			t.Fatalf("on %d nodes %v, want %d times %s:\n%s", nodes, sums, ways, want, out)
		}
		judgeWorlds(t, out, c.boxes, c.of, worldOf{nodes, nodes * perNode, want})
	}
	// Each node has made its own copy, whole, and nothing else.
	caches := glob(c.Dir, "cache-*")
	if len(caches) != 4 {
		t.Errorf("copies in %v", caches)
	}
	st, err := os.Stat(c.sif)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range caches {
		copies, parts := glob(dir, "*.sif"), glob(dir, "*.tmp")
		if len(copies) != 1 || len(parts) != 0 {
			t.Errorf("%s has %v and %v", dir, copies, parts)
			continue
		}
		if got, err := os.Stat(copies[0]); err != nil || got.Size() != st.Size() {
			t.Errorf("%s: %v, %v", copies[0], got, err)
		}
	}
}

// wrong: exit code 2 and the reason, and no rank has begun.
func (c *contained) wrong(t *testing.T) {
	// The host's program in an image without its MPI's library.
	other := filepath.Join(c.dir, "other")
	if err := (rig.Image{}).Make(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, script, want string }{
		{"another MPI in the image", "$burst --container " + other + " $host", "the image lacks"},
		{"no such program", "$burst --container " + c.sif + " /opt/nothing", "no such program in the image"},
		{"no such image", "$burst --container gone.sif /opt/heat", "there is no such file or folder"},
		{"no image", "$burst --container $0 /opt/heat", "is no SIF file"},
		{"a method that cannot", "$burst --ckpt dmtcp --container " + c.sif + " /opt/heat", "ckpt=dmtcp: it makes images of processes"},
		{"mpirun", "$burst --container " + c.sif + " mpirun /opt/heat", "write the program in place of mpirun"},
		{"turned off", "BURST_SRUN_OFF=1 $burst --container " + c.sif + " /opt/heat", "nor with BURST_SRUN_OFF=1"},
		{"a library", "$burst --container library://x/y /opt/heat", "apptainer pull image.sif library://x/y"},
	}
	if many, _ := manyPMI(t); c.mpich != "" && !many {
		tests = append(tests, struct{ name, script, want string }{"another MPI than what srun is told", "$burst --mpi=pmix --container " + c.mpich + " /opt/heat", "/opt/heat is built with MPICH"})
	}
	var script strings.Builder
	for _, tt := range tests {
		fmt.Fprintf(&script, "echo %s\n%s\necho code=$?\n", tt.name, tt.script)
	}
	out := c.batch(t, script.String(), "-N1", "-n2", "-ponprem")
	if strings.Contains(out, "heat:") || strings.Contains(out, "slurmstepd") {
		t.Errorf("something was started:\n%s", out)
	}
	for _, tt := range tests {
		_, rest, _ := strings.Cut(out, tt.name+"\n")
		said, rest, _ := strings.Cut(rest, "code=")
		if !strings.Contains(said, tt.want) || !strings.HasPrefix(rest, "2\n") {
			t.Errorf("%s: %s, exit code %.1s, want %q", tt.name, said, rest, tt.want)
		}
	}
}

// userns: as of an Apptainer that is not setuid, two ranks on a node and ranks on two.
func (c *contained) userns(t *testing.T) {
	want := c.undisturbed(t, 64, 200)
	for nodes, perNode := range map[int]int{1: 2, 2: 1} {
		out := c.batch(t, fmt.Sprintf("export APPTAINER_USERNS=1\n$burst --container %s /opt/heat %s", c.folder, boxed), fmt.Sprintf("-N%d", nodes), fmt.Sprintf("--ntasks-per-node=%d", perNode), "-pcloud")
		if sums := checksum.FindAllString(out, -1); len(sums) != 1 || sums[0] != want || !strings.Contains(out, " 2 ranks as") {
			t.Errorf("on %d nodes %v, want %s:\n%s", nodes, sums, want, out)
		}
	}
}

// parts: a step of a heterogeneous job's components has its image made ready on the nodes of all.
// srun of Slurm 22.05 hangs now and then in such a step with PMIx: docs/slurm-states.md.
func (c *contained) parts(t *testing.T) {
	cache := filepath.Join(c.Dir, "parts-%n")
	out := c.batch(t, fmt.Sprintf(`export BURST_CONTAINER_CACHE=%s
$burst --mpi=none --container %s --het-group=0,1 /usr/bin/env sh -c 'echo ran on $SLURMD_NODENAME'
env | grep ^SLURM_JOB_NUM_NODES_HET_GROUP
ls "${TMPDIR:-/tmp}"/burst-srun-*/$SLURM_JOB_ID.*image-*`, cache, c.sif), "-N1", "--ntasks-per-node=1", "-pcloud", ":", "-N2", "--ntasks-per-node=1", "-pcloud", "--exclusive")
	if copies := glob(c.Dir, "parts-*/*.sif"); strings.Count(out, "ran on ") != 3 || len(copies) != 3 {
		t.Errorf("copies in %v:\n%s", copies, out)
	}
	if !strings.Contains(out, "_HET_GROUP_1=2") || !strings.Contains(out, ".image-sif-") {
		t.Errorf("the nodes of the components were not asked:\n%s", out)
	}
}

// evicted: programs in images get the signal, or Burst's word by libburst though their /tmp is none of the host's,
// and go on elsewhere.
func (c *contained) evicted(t *testing.T) {
	before := fmt.Sprintf("export PATH=%s BURST_CONTAINER_CACHE=%s", c.path, c.cache)
	const step = " -n 64 -i %d --pace 10 --progress 1 --checkpoint heat.ckpt --restart auto"
	var wg sync.WaitGroup
	wg.Go(func() {
		t.Run("by a signal", func(t *testing.T) {
			r := c.run(t, heatJob{burst: "strategy=preemptive container=" + c.sif, args: []string{"-N2", "--ntasks-per-node=1", "-pcloud"}, before: before, step: "/opt/heat" + fmt.Sprintf(step, 1500)})
			r.evictions(1, 1)
			r.ends(1)
		})
	})
	wg.Go(func() {
		t.Run("by libburst", func(t *testing.T) {
			r := c.run(t, heatJob{ckpt: "ckpt=libburst", burst: "strategy=preemptive container=" + c.folder, args: []string{"-N1", "-n1", "-pcloud"},
				before: before + " APPTAINER_CONTAINALL=1", step: "/opt/heat-libburst" + fmt.Sprintf(step, 700), iterations: 700})
			r.evictions(1, 1)
			r.leaves(1)
		})
	})
	wg.Wait()
}
