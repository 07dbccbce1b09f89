package srun

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/ckpt/methods"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/step"
)

func TestExplain(t *testing.T) {
	m, err := directive.Said{Script: "#BURST ckpt=dmtcp interval=5m", Options: []string{"interval=10m"}}.Merge()
	if err != nil {
		t.Fatal(err)
	}
	k := known{facts: facts{request: request{once: "prep"}, merged: m, burstd: true}, dir: "/scratch/x"}
	for _, c := range []struct {
		plan
		want []string
	}{
		{plan{}, []string{"runs under ckpt=dmtcp, every 10m and on a notice of burstd, in /scratch/x", "step prep, recorded in /scratch/x", "not used: interval=5m of the script"}},
		{direct("nothing is there"), []string{"runs srun: nothing is there"}},
	} {
		got := k.explained(c.plan)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("without %q:\n%s", want, got)
			}
		}
	}
}

func TestSummary(t *testing.T) {
	for _, c := range []struct {
		steprecord.Stats
		unsaved time.Duration
		want    string
	}{
		{steprecord.Stats{Ran: 90 * time.Minute}, 0, "job 17_3 step prep: ran 1h30m0s, 0 checkpoints (0s), 0 restarts, no work lost"},
		{steprecord.Stats{Ran: 90 * time.Minute}, time.Minute, "job 17_3 step prep: ran 1h30m0s, 0 checkpoints (0s), 0 restarts, 1m0s of work in no checkpoint"},
		{steprecord.Stats{Ran: 1500 * time.Millisecond, Checkpoints: 3, Writing: 2 * time.Second, Restarts: 1, Lost: 61 * time.Second}, 2 * time.Second,
			"job 17_3 step prep: ran 1.5s, 3 checkpoints (2s), 1 restarts, 1m1s of work lost, 2s of work in no checkpoint"},
		{steprecord.Stats{Ran: 1500 * time.Millisecond, Checkpoints: 3, Writing: 2 * time.Second, Restarts: 1, Lost: 61 * time.Second}, 0,
			"job 17_3 step prep: ran 1.5s, 3 checkpoints (2s), 1 restarts, 1m1s of work lost"},
		{steprecord.Stats{Restarts: 1, Lost: 61 * time.Second, LostIterations: 120}, 0, "job 17_3 step prep: ran 0s, 0 checkpoints (0s), 1 restarts, 1m1s of work lost (120 iterations)"},
		{steprecord.Stats{Restarts: 2, LostUnknown: 1}, 0, "job 17_3 step prep: ran 0s, 0 checkpoints (0s), 2 restarts, work lost (not known for 1 of the restarts)"},
	} {
		if got := summary(step.Job{ID: 20, Array: 17, Task: "3"}, steprecord.Step{Name: "prep", Stats: c.Stats}, c.unsaved); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}

func TestOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	for flags, want := range map[int]string{os.O_WRONLY: path, os.O_WRONLY | os.O_APPEND: ""} {
		f, err := os.OpenFile(path, flags|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if got := overwritten(f); got != want {
			t.Errorf("flags %x: %q", flags, got)
		}
		f.Close()
	}
	if got := overwritten(os.NewFile(^uintptr(0), "closed")); got != "" {
		t.Errorf("%q", got)
	}
}

// TestLaunch: where the program begins, and what is appended to.
func TestLaunch(t *testing.T) {
	for _, c := range []struct {
		args    string
		attempt int
		want    string
		program string
	}{
		{"-n4 -o out ./a b", 0, "/bin/srun -n4 -o out ./a b", "./a"},
		{"-n4 -o out ./a b", 1, "/bin/srun --open-mode=append -n4 -o out ./a b", "./a"},
		{"-n4 --open-mode=truncate -o out ./a", 1, "/bin/srun --open-mode=append -n4 --open-mode=truncate -o out ./a", "./a"},
		{"-n4 ./a", 1, "/bin/srun -n4 ./a", "./a"},
		{"-o x ./a : ./b", 1, "/bin/srun -o x ./a : ./b", "./a"},
		{"-N1 mpirun ./a", 0, "mpirun ./a", "mpirun"},
		{"-n4 mpirun ./a", 0, "/bin/srun -n4 mpirun ./a", "mpirun"},
	} {
		r, err := read(t.Context(), strings.Fields(c.args), vars(""), realSrun)
		if err != nil {
			t.Fatal(err)
		}
		p := &program{srun: "/bin/srun", environ: []string{"A=b", loopName + "=1", markName + "=x"}}
		l := p.launch(known{facts: facts{request: r, job: step.Job{ID: 17, Attempt: c.attempt}}}, "0")
		if got := strings.Join(l.Args, " "); got != c.want || l.Args[l.Program] != c.program {
			t.Errorf("%s, program %s, want %s", got, l.Args[l.Program], c.want)
		}
		if got := strings.Join(l.Env, " "); got != "A=b BURST_STEP=17/0" {
			t.Errorf("environment %s", got)
		}
	}
}

// TestFilesAreJudgedBeforeTheJob: what the method refuses on the node, burst explain does.
func TestFilesAreJudgedBeforeTheJob(t *testing.T) {
	for _, files := range []string{"heat.ckpt", "out/*.ckpt", "out", "/scratch/x", "./heat.ckpt", "out/", "../x", ".", "/", "/a/../b", "a//b", "a[", "..", "x/..", "a b/"} {
		_, err := methods.New(directive.BySignal, methods.Options{Signal: "USR1", Files: strings.Fields(files)})
		if said := directive.Check("files", files); (said == nil) != (err == nil) {
			t.Errorf("files=%s: at submission %v, on the node %v", files, said, err)
		}
	}
}
