package srun

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/packaging/progtest"
	"github.com/burst-hpc/burst/slurm/step"
	"github.com/burst-hpc/burst/slurm/step/mpi"
)

// TestALostNodeIsNotDone: a launcher that says that it has lost a node and ends with exit code 0.
func TestALostNodeIsNotDone(t *testing.T) {
	const words = "PRTE " + mpi.LostNode + "."
	for _, c := range []struct {
		name, script, args, nodes, says string
		want                            int
	}{
		{"under a method", "#BURST ckpt=signal signal=USR1\n", "", "2", words, cli.Failed},
		{"with --once", "", "--once a", "2", words, cli.Failed},
		{"that was not lost", "#BURST ckpt=signal signal=USR1\n", "", "2", "all is well", cli.OK},
		{"that is outlived", "", "--once a", "2", words + "\\n A job that loses a process\\n" + mpi.GoesOn + "\\nsurvive that", cli.OK},
		{"on one node", "#BURST ckpt=signal signal=USR1\n", "", "1", words, cli.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newRequeued(t)
			a.script = "#!/bin/sh\n" + c.script
			ctld := a.slurm()
			ctld.job.Restarts = 0
			a.ctld = ctld
			source := "#include <stdio.h>\nint main(void) { fputs(\"" + c.says + "\\n\", stderr); return 0; }\n"
			if err := os.WriteFile("m.c", []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"mpirun", "prterun"} {
				if out, err := exec.CommandContext(t.Context(), "gcc", "-o", a.dir("bin/"+name), "m.c").CombinedOutput(); err != nil {
					t.Fatalf("gcc (make deps brings it): %v\n%s", err, out)
				}
			}
			a.env = slices.Concat(a.env, []string{"SLURM_RESTART_COUNT=0", "SLURM_JOB_NUM_NODES=" + c.nodes})
			code := a.run(append(strings.Fields(c.args), a.dir("bin/mpirun"), "sim")...)
			if said := a.said.String(); code != c.want || strings.Contains(said, "has lost a node, by its own word") != (c.want != cli.OK) {
				t.Errorf("exit code %d, want %d; said %s", code, c.want, said)
			}
			b := known{facts: facts{job: step.Job{ID: 17}}, seen: seen{script: a.script}}.book(a.dir("work/burst-checkpoints"))
			r, there, err := b.At(0)
			if err != nil || !there || slices.ContainsFunc(r.Steps, func(s steprecord.Step) bool { return s.Done }) != (c.want == cli.OK) {
				t.Errorf("recorded: %+v, %t, %v", r.Steps, there, err)
			}
		})
	}
}

// TestLossWatch: the words are seen however they come, and passed on as they are.
func TestLossWatch(t *testing.T) {
	for _, size := range []int{1, 7, 4096} {
		var out bytes.Buffer
		w := &lossWatch{to: &out}
		text := strings.Repeat("x", 100) + "\nPRTE " + mpi.LostNode + ".\n" + strings.Repeat("y", 100)
		for b := []byte(text); len(b) > 0; b = b[min(size, len(b)):] {
			if n, err := w.Write(b[:min(size, len(b))]); err != nil || n == 0 {
				t.Fatal(n, err)
			}
		}
		if code, said := w.judge(3, step.Job{}); out.String() != text || code != 3 || said != "" {
			t.Errorf("by %d bytes: %q, exit code %d, %q", size, out.String(), code, said)
		}
		if code, _ := w.judge(0, step.Job{}); code != 0 {
			t.Error("a launcher that is started again is judged by the words of the one before")
		}
	}
	for by := 1; by <= 80; by += 13 {
		w := &lossWatch{to: new(bytes.Buffer)}
		text := []byte("PRTE " + mpi.LostNode + ".\nA job that loses a process\n" + mpi.GoesOn + "\n")
		for b := range slices.Chunk(text, by) {
			if _, err := w.Write(b); err != nil {
				t.Fatal(err)
			}
		}
		if code, said := w.judge(0, step.Job{}); code != 0 || said != "" {
			t.Errorf("by %d bytes, of one that goes on: exit code %d, %q", by, code, said)
		}
		if _, err := w.Write([]byte(mpi.LostNode)); err != nil {
			t.Fatal(err)
		}
		if code, _ := w.judge(0, step.Job{}); code != cli.Failed {
			t.Error("a launcher that is started again goes on by the words of the one before")
		}
	}
	w := &lossWatch{to: new(bytes.Buffer)}
	if _, err := w.Write([]byte(mpi.LostNode)); err != nil {
		t.Fatal(err)
	}
	if code, said := w.judge(0, step.Job{ID: 7}); code != cli.Failed || !strings.Contains(said, "scontrol requeue 7") {
		t.Errorf("exit code %d, %q", code, said)
	}
}

// TestWhatOpenMPI5SaysOfALostNode: its own words, and its exit code; it ends with the node whatever
// fault tolerance it is told of.
func TestWhatOpenMPI5SaysOfALostNode(t *testing.T) {
	if testing.Short() {
		t.Skip("starts daemons of Open MPI's")
	}
	mpirun := filepath.Join(progtest.Root(t), "build/ulfm/bin/mpirun")
	if _, err := os.Stat(mpirun); err != nil {
		t.Skip("NOT TESTED: what Open MPI 5's mpirun says when it has lost a node: make deps-ulfm")
	}
	for _, ft := range []string{"", "--with-ft ulfm"} {
		t.Run(ft, func(t *testing.T) { losesANode(t, mpirun, strings.Fields(ft)) })
	}
}

// losesANode starts a rank on each of two nodes that are none, of which one goes.
func losesANode(t *testing.T, mpirun string, options []string) {
	dir := t.TempDir()
	// It starts the daemons on this host, and kills the second one and its rank, as of a node that is gone.
	agent := filepath.Join(dir, "agent")
	const script = `#!/bin/bash
while [[ $1 == -* ]]; do shift; done
host=$1; shift
[ $host = nodea ] && exec sh -c "$*"
sh -c "$*" &
of() { cat /proc/$1/task/*/children; }
until [ "$(cat "${0%/*}/ranks" | wc -l)" = 2 ]; do sleep 0.1; done 2>/dev/null
daemon=$(of $!)
kill -9 $daemon $(of $daemon)
`
	rank := filepath.Join(dir, "rank")
	for path, text := range map[string]string{agent: script, rank: "#!/bin/sh\necho it runs >>" + dir + "/ranks\nexec sleep 60\n"} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	w := &lossWatch{to: &out}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, mpirun, append(options, "--prtemca", "plm_ssh_agent", agent, "--host", "nodea:1,nodeb:1", "-n", "2", rank)...)
	cmd.Stderr, cmd.Dir = w, dir
	cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "TMPDIR="+dir)
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); ctx.Err() != nil {
		t.Fatalf("it does not end: %s", out.String())
	} else if err != nil {
		t.Logf("it ends with %v now", err)
		return
	}
	if code, _ := w.judge(0, step.Job{}); code != cli.Failed {
		t.Errorf("it has lost a daemon, ends with exit code 0 and says %s", out.String())
	}
}
