package srun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/slurm/step"
	"github.com/burst-hpc/burst/slurm/step/container"
)

func TestReadNodeCall(t *testing.T) {
	c, err := readNodeCall(strings.Fields("--image=/x.sif --key=sif-1 --size=7 --tool=/opt/a/apptainer --cache=/c/%n --max=5G --bind=/a --bind=/b=c --dir=/w -- ./sim --image=/y -- z"))
	if err != nil || c.image.Path != "/x.sif" || c.image.Key != "sif-1" || c.image.Size != 7 || c.dir != "/w" ||
		c.tool != "/opt/a/apptainer" || c.env["BURST_CONTAINER_CACHE"] != "/c/%n" || c.env["BURST_CONTAINER_CACHE_MAX"] != "5G" ||
		!slices.Equal(c.binds, []string{"/a", "/b=c"}) || !slices.Equal(c.program, []string{"./sim", "--image=/y", "--", "z"}) {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []string{"", "--image=", "--size=x", "--other=1", "--image=library://x"} {
		if c, err := readNodeCall(strings.Fields(bad)); err == nil {
			t.Errorf("%q: %+v", bad, c)
		}
	}
}

func TestImageCache(t *testing.T) {
	mine := fmt.Sprintf("/var/tmp/burst-images-%d", os.Geteuid())
	for _, tt := range []struct {
		dir, most string
		want      string
		max       int64
	}{
		{"", "", mine, container.DefaultMax},
		{"none", "", "", container.DefaultMax},
		{"/d/%n/i", "500M", "/d/n1/i", 500 << 20},
		{"/d", "20G", "/d", 20 << 30},
		{"/d", "7", "/d", 7},
		{"d", "", "error", 0},
		{"/d", "many", "error", 0},
		{"/d", "-1G", "error", 0},
		{"/d", "99999999T", "error", 0},
	} {
		env := map[string]string{"BURST_CONTAINER_CACHE": tt.dir, "BURST_CONTAINER_CACHE_MAX": tt.most, "SLURMD_NODENAME": "n1"}
		c, err := imageCache(func(n string) string { return env[n] }, nil)
		if tt.want == "error" {
			if err == nil {
				t.Errorf("%s %s: %+v", tt.dir, tt.most, c)
			}
		} else if err != nil || c.Dir != tt.want || c.Max != tt.max {
			t.Errorf("%s %s: %+v, %v", tt.dir, tt.most, c, err)
		}
	}
}

// TestAheadEnviron: options of the job's own steps do not shape the one that fetches images.
func TestAheadEnviron(t *testing.T) {
	got := aheadEnviron([]string{"PATH=/bin", "SLURM_JOB_ID=7", "SLURM_CONF=/c", "SLURM_NTASKS=8", "SLURM_CPUS_PER_TASK=4", "SRUN_CPUS_PER_TASK=4", "SLURM_MEM_PER_CPU=1", "BURST_CONTAINER_CACHE=/d", markName + "=7/0"})
	if want := []string{"PATH=/bin", "SLURM_JOB_ID=7", "SLURM_CONF=/c", "BURST_CONTAINER_CACHE=/d", markName + "=images"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestAheadNodes: the nodes of the step are asked for, and not one that the job has lost.
func TestAheadNodes(t *testing.T) {
	for args, want := range map[string]string{
		"sim":                     "--nodes=4 --ntasks=4",
		"-N3 sim":                 "--nodes=3 --ntasks=3",
		"-n2 sim":                 "--nodes=2 --ntasks=2",
		"-w n[1-2] sim":           "--nodelist=n[1-2] --nodes=2 --ntasks=2",
		"-N3 -x n4 -n12 sim":      "--exclude=n4 --nodes=3 --ntasks=3",
		"-N1 -n1 --relative=2 ./": "--relative=2 --nodes=1 --ntasks=1",
	} {
		p := &program{environ: []string{"SLURM_JOB_NUM_NODES=4"}}
		r, err := read(t.Context(), strings.Fields(args), p.env, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(p.aheadNodes(known{facts: facts{request: r, job: step.Job{Nodes: 4}}}), " "); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

// TestANodeWithoutATool is not ready, though the image needs none to be copied.
func TestANodeWithoutATool(t *testing.T) {
	dir := t.TempDir()
	sif := filepath.Join(dir, "x.sif")
	head := make([]byte, 200)
	copy(head[32:], "SIF_MAGIC\x00")
	if err := os.WriteFile(sif, head, 0o600); err != nil {
		t.Fatal(err)
	}
	i, err := container.Identify(container.Ref{Kind: container.File, Path: sif})
	if err != nil {
		t.Fatal(err)
	}
	for _, has := range []bool{false, true} {
		if has {
			if err := os.WriteFile(filepath.Join(dir, "singularity"), nil, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		var said strings.Builder
		p := &program{stderr: &said, environ: []string{"PATH=" + dir, "SLURMD_NODENAME=n7"},
			args: []string{aheadWord, "--image=" + sif, "--key=" + i.Key, "--size=200", "--cache=" + filepath.Join(dir, "cache")}}
		code, is := p.onNode(t.Context())
		if !is || (code == cli.OK) != has || strings.Contains(said.String(), "node n7: neither apptainer nor singularity") == has {
			t.Errorf("a tool is there: %t; exit code %d, said %s", has, code, said.String())
		}
	}
}

// TestAheadParts: of a heterogeneous job the nodes of the components that the step runs on are asked for.
func TestAheadParts(t *testing.T) {
	for args, want := range map[string]string{
		"sim":                       "[[--het-group=0 --nodes=1 --ntasks=1]]",
		"--het-group=1-2 sim":       "[[--het-group=1 --nodes=4 --ntasks=4] [--het-group=2 --nodes=3 --ntasks=3]]",
		"--het-group=3 sim":         "[]", // not known
		"--het-group=1 -n2 -N2 sim": "[[--het-group=1 --nodes=4 --ntasks=4]]",
	} {
		p := &program{environ: []string{"SLURM_JOB_NUM_NODES=1", "SLURM_JOB_NUM_NODES_HET_GROUP_0=1", "SLURM_JOB_NUM_NODES_HET_GROUP_1=4", "SLURM_JOB_NODELIST_HET_GROUP_2=n[1-3]"}}
		r, err := read(t.Context(), strings.Fields(args), p.env, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(p.aheadParts(known{facts: facts{request: r, job: step.Job{Nodes: 1, Components: 4}}})); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

// TestOneStepAsksTheNodes: of two steps at once one has the nodes make the image ready.
func TestOneStepAsksTheNodes(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	p, k := &program{stderr: io.Discard}, known{facts: facts{job: step.Job{ID: 7}}}
	unlock, err := p.lockSign(t.Context(), k, "image-x")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*aheadPause)
	defer cancel()
	if _, err := p.lockSign(ctx, k, "image-x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while another has it: %v", err)
	}
	unlock()
	if unlock, err = p.lockSign(t.Context(), k, "image-x"); err != nil {
		t.Fatal(err)
	}
	unlock()
}

// TestContainerIsRefused: what cannot be started in a container ends with exit code 2, and
// srun is not called; what is srun's own is left to it.
func TestContainerIsRefused(t *testing.T) {
	a := newRequeued(t)
	sif := a.dir("x.sif")
	head := make([]byte, 200)
	copy(head[32:], "SIF_MAGIC\x00")
	for path, text := range map[string]string{
		sif: string(head), a.dir("bundle/config.json"): "{}", a.dir("bin/mpirun"): "#!/bin/sh\n",
		// It looks into any image, and finds no MPI in it.
		a.dir("bin/apptainer"): "#!/bin/sh\necho '{\"Found\":{}}'\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	base := slices.Concat(a.env, []string{"SLURM_RESTART_COUNT=0", "SLURM_JOB_NUM_NODES=1", "PATH=" + a.dir("bin") + ":" + os.Getenv("PATH"), "BURST_CONTAINER_CACHE=" + a.dir("cache")})
	for _, tt := range []struct {
		name, script, env, args string
		said                    string // "": the line is run
		line, hear              string // hear is said as well
		gone                    bool   // the script cannot be read
	}{
		{name: "a method that the user names", args: "--ckpt dmtcp --container " + sif + " sim", said: "ckpt=dmtcp: it makes images of processes"},
		{name: "in the script", script: "#BURST ckpt=criu container=" + sif + "\n", args: "sim", said: "ckpt=criu: it makes images of processes"},
		{name: "by a preset", script: "#BURST ckpt=command preset=blcr container=" + sif + "\n", args: "sim", said: "preset=blcr: it makes images of processes"},
		{name: "several programs", args: "--container " + sif + " sim : sim", said: "a step of several programs"},
		{name: "mpirun", args: "--container " + sif + " mpirun sim", said: "write the program in place of mpirun"},
		{name: "a signal that the tools keep", script: "#BURST ckpt=signal strategy=periodic interval=1h signal=URG container=" + sif + "\n", args: "sim", said: "signal=URG does not reach"},
		{name: "outside of a job", env: "SLURM_JOB_ID=", args: "--container " + sif + " sim", said: "in jobs and allocations only"},
		{name: "turned off", env: "BURST_SRUN_OFF=1", args: "--container " + sif + " sim", said: "in jobs and allocations only"},
		{name: "no such file", args: "--container gone sim", said: "there is no such file"},
		{name: "of a registry, without a cache", env: "BURST_CONTAINER_CACHE=none", args: "--container docker://h.org/x sim", said: "is for images that are files"},
		{name: "by --ckpt, outside of a job", env: "SLURM_JOB_ID=", args: "--ckpt container=" + sif + " sim", said: "in jobs and allocations only"},
		{name: "by --ckpt, of another job", args: "--ckpt container=" + sif + " --jobid=18 sim", said: "in jobs and allocations only"},
		{name: "a line that is not understood", script: "#BURST container=" + sif + "\n", args: "--no-such-option sim", said: "srun's arguments are not understood"},
		{name: "none", script: "#BURST container=" + sif + "\n", args: "--container none sim", line: "srun sim"},
		{name: "an OCI bundle", args: "--container " + a.dir("bundle") + " sim", line: "srun --container=" + a.dir("bundle") + " sim"},
		{name: "an OCI bundle of the script", script: "#BURST container=" + a.dir("bundle") + "\n", args: "sim", line: "srun --container=" + a.dir("bundle") + " sim"},
		{name: "explained", args: "--explain -n1 --container " + sif + " sim 1", hear: "that is: " + a.dir("bin/apptainer") + " exec --"},
		{name: "explained before it is there", env: "BURST_CONTAINER_CACHE=" + a.dir("empty"), args: "--explain -n2 --container " + sif + " sim", hear: "keeps srun's own choice of MPI: which MPI sim has in its image is not known here ("},
		{name: "where it cannot be looked into", env: "SLURM_TASK_PID=\nPATH=/nowhere\nBURST_CONTAINER_CACHE=none", args: "-n2 --container " + sif + " sim", line: "--container-exec", hear: "which MPI sim has in its image is not known here ("},
		{name: "where it cannot be looked into, and MPI is named", env: "SLURM_TASK_PID=\nPATH=/nowhere\nBURST_CONTAINER_CACHE=none", args: "-n2 --mpi=mpich --container " + sif + " sim", line: "--container-exec"},
		{name: "run", args: "-n1 --container " + sif + " sim 1", line: "--container-exec --image=" + sif + " --key=sif-"},
		{name: "by the script, at a terminal", script: "#BURST container=" + sif + "\n", args: "--pty sim", line: "--container-exec --image=" + sif},
		{name: "by --ckpt, in salloc", env: "SLURM_TASK_PID=\nBURST_CONTAINER_CACHE=none", args: "-n1 --ckpt container=" + sif + " sim", line: "--container-exec --image=" + sif},
		{name: "by BURST_CKPT, where the script is not known", gone: true, env: "BURST_CKPT=container=" + sif, args: "--pty sim", line: "--container-exec --image=" + sif},
		{name: "by a script that is not known", gone: true, args: "--pty sim", line: "srun --pty sim", hear: "the step runs on the host"},
		{name: "by --ckpt, turned off", env: "BURST_SRUN_OFF=1", args: "-n1 --ckpt container=" + sif + " sim", line: "srun -n1 sim", hear: "BURST_SRUN_OFF=1: the step runs on the host"},
		{name: "of the environment, within a step", env: "BURST_CKPT=container=" + sif + "\n" + markName + "=17/0", args: "-n1 sim", line: "srun -n1 sim"},
		{name: "by the script, where it is", script: "#BURST container=" + sif + "\n", env: "BURST_CONTAINER_CACHE=none", args: "sim", line: "--container-exec --image=" + sif + " --cache=none --tool=" + a.dir("bin/apptainer") + " --dir=" + a.dir("work") + " -- sim"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir()) // no case knows of another
			a.T, a.line, a.direct = t, nil, false
			before := len(a.said.String())
			a.script, a.env = "#!/bin/sh\n"+tt.script, append(slices.Clone(base), strings.Split(tt.env, "\n")...)
			ctld := a.slurm()
			ctld.job.Restarts = 0
			a.ctld = ctld
			if tt.gone {
				a.ctld = slurmctld{err: errors.New("slurmctld is away")}
			}
			code := a.run(strings.Fields(tt.args)...)
			line, said := strings.Join(a.line, " "), a.said.String()[before:]
			switch {
			case tt.said != "":
				if code != cli.Usage || !strings.Contains(said, tt.said) || line != "" {
					t.Errorf("exit code %d, ran %q, said %s", code, line, said)
				}
			case !strings.Contains(line, tt.line) || !strings.Contains(said, tt.hear):
				t.Errorf("ran %q, want %s; said %s", line, tt.line, said)
			}
		})
	}
}

// TestBeforeStar: what the checkpoints' files are below is bound.
func TestBeforeStar(t *testing.T) {
	for glob, want := range map[string]string{"/s/a.ckpt": "/s", "/s/*/a": "/s", "/s/run[0-9]/a": "/s", "/*": "/", "/s/t/x?": "/s/t"} {
		if got := beforeStar(glob); got != want {
			t.Errorf("%s: %s, want %s", glob, got, want)
		}
	}
}

// TestFilesOfAnImage: what an image's files set for its Open MPI is known by the look into it.
func TestFilesOfAnImage(t *testing.T) {
	var out strings.Builder
	p := &program{stdout: &out, stderr: io.Discard, environ: []string{"PATH=" + os.Getenv("PATH")}}
	if code := p.probed([]string{"sh"}); code != cli.OK {
		t.Fatal(out.String())
	}
	var a answer
	if err := json.Unmarshal([]byte(out.String()), &a); err != nil || a.Params != nil {
		t.Errorf("of a program without MPI: %s, %v", out.String(), err)
	}
	for _, want := range []map[string]string{nil, {}, {"btl_tcp_if_include": "/etc/x"}} {
		r, err := read(t.Context(), []string{"sim"}, p.env, nil)
		if err != nil {
			t.Fatal(err)
		}
		k := known{facts: facts{request: r}, inside: &inside{sets: want}}
		if got := p.mpiWorld(t.Context(), k, k.inside.found).Params(k.inside.found); (got == nil) != (want == nil) || len(got) != len(want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// TestNotes: an answer that may be old is not believed.
func TestNotes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "note")
	keepNote(file, answer{Unread: "x"})
	var a answer
	if !readNote(file, &a) || a.Unread != "x" {
		t.Errorf("%+v", a)
	}
	old := time.Now().Add(-2 * noteFor)
	if err := os.Chtimes(file, old, old); err != nil || readNote(file, &a) {
		t.Errorf("an old one is believed: %v", err)
	}
}

// TestNoteOfOwnFiles: what the user's own files set for Open MPI is looked at anew when one of
// them is written, or others are named.
func TestNoteOfOwnFiles(t *testing.T) {
	home := t.TempDir()
	in := inside{image: container.Image{Key: "sif-x"}, cache: container.Cache{Dir: "/cache"}, dir: home}
	name := func(environ ...string) string { return in.note("sim", &program{environ: environ}) }
	seen := []string{name("HOME=" + home)}
	now := func(what string, environ ...string) {
		t.Helper()
		if n := name(environ...); slices.Contains(seen, n) {
			t.Errorf("%s: the note of before is believed", what)
		} else if seen = append(seen, n); name(environ...) != n {
			t.Errorf("%s: the note is not found again", what)
		}
	}
	write := func(file, text string) {
		t.Helper()
		path := filepath.Join(home, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(".openmpi/mca-params.conf", "btl_tcp_if_include=ib0\n")
	now("a file", "HOME="+home)
	write(".openmpi/mca-params.conf", "btl_tcp_if_exclude=ib0\n") // of the same size
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(home, ".openmpi/mca-params.conf"), old, old); err != nil {
		t.Fatal(err)
	}
	now("another time", "HOME="+home)
	write(".prte/mca-params.conf", "prte_if_include=ib0\n")
	now("PRRTE's", "HOME="+home)
	now("another home folder", "HOME="+t.TempDir())
	named := []string{"HOME=" + home, "OMPI_MCA_mca_base_param_files=my.conf,/none"}
	now("a file that is named", named...)
	write("my.conf", "btl=self\n")
	now("that is written", named...)
}
