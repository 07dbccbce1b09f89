package srun

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/step"
)

// first makes it a job's first attempt.
func (a *requeued) first() *requeued {
	a.env = append(a.env, "SLURM_RESTART_COUNT=0")
	ctld := a.slurm()
	ctld.job.Restarts = 0
	a.ctld = ctld
	return a
}

// TestWithoutBurstdTheUserIsTold, once, that evictions are not heard of.
func TestWithoutBurstdTheUserIsTold(t *testing.T) {
	for _, c := range []struct{ name, script, says string }{
		{"both", "interval=10m", "not protected against evictions: burstd is not known here (BURST_URLS or agent.env); checkpoints are made every 10m"},
		{"both, auto", "", "checkpoints are made as often as pays (interval=auto)"},
		{"periodic alone", "strategy=periodic", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newRequeued(t)
			a.script = "#!/bin/sh\n#BURST ckpt=signal signal=USR1 " + c.script + "\n"
			a.first()
			for range 2 {
				if code := a.run(); code != 0 || a.direct {
					t.Fatalf("exit code %d: %s", code, a.said.String())
				}
			}
			want := 1
			if c.says == "" {
				want = 0
			}
			if said := a.said.String(); strings.Count(said, "not protected") != want || !strings.Contains(said, c.says) || strings.Count(said, " of job 17: ckpt=signal") != 2 {
				t.Error(said)
			}
			a.run("--explain", "./sim")
			if said := a.said.String(); strings.Count(said, "not protected") != 2*want {
				t.Errorf("explained: %s", said)
			}
		})
	}
}

// TestWhereBurstdIsCannotBeRead: that is not to be without burstd.
func TestWhereBurstdIsCannotBeRead(t *testing.T) {
	a := newRequeued(t)
	a.agent, a.ctld = t.TempDir(), a.slurm() // no file, for root too
	if code := a.run(); code != cli.Failed || a.direct || a.starts() != "" || !strings.Contains(a.said.String(), "where burstd is cannot be read") {
		t.Errorf("exit code %d, said %s", code, a.said.String())
	}
	a.script = "#!/bin/sh\n"
	a.first()
	a.run()
	if said := a.said.String(); !a.direct || !strings.Contains(said, "it is not known here where burstd is (") {
		t.Error(said)
	}
}

// TestEachReasonIsSaidOnce: a second step that is not protected may be so for another.
func TestEachReasonIsSaidOnce(t *testing.T) {
	a := newRequeued(t)
	a.script = "#!/bin/sh\n#BURST ckpt=criu strategy=periodic\n"
	a.first()
	for _, file := range []string{"one", "two", "one"} {
		a.run("-i", file, "./sim")
	}
	for _, file := range []string{"one", "two"} {
		if n := strings.Count(a.said.String(), "--input="+file+" is for srun: the step is not protected"); n != 1 {
			t.Errorf("%s: said %d times: %s", file, n, a.said.String())
		}
	}
}

// TestTheStartSaysWhatARestartEmpties.
func TestTheStartSaysWhatARestartEmpties(t *testing.T) {
	for _, c := range []struct {
		name    string
		flags   int
		attempt int
		want    int
	}{
		{"emptied", 0, 0, 1},
		{"appended to", os.O_APPEND, 0, 0},
		{"said in the first attempt alone", 0, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			path := filepath.Join(t.TempDir(), "slurm-17.out")
			f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|c.flags, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var said words
			p := &program{stdout: f, stderr: &said}
			k := known{facts: facts{job: step.Job{ID: 17, Attempt: c.attempt}, burstd: true}}
			p.begun(k, "0")
			p.begun(k, "1")
			if n := strings.Count(said.String(), "a restart empties the output "+path+": write #SBATCH --open-mode=append"); n != c.want {
				t.Errorf("said %d times, want %d: %s", n, c.want, said.String())
			}
		})
	}
}

// TestExplainOfSeveralTasks: an image is of one.
func TestExplainOfSeveralTasks(t *testing.T) {
	for args, want := range map[string]string{
		"-n8 ./sim":            "not protected: ckpt=dmtcp checkpoints one task, and the step has 8\n",
		"./sim":                "",
		"mpirun ./sim -n8":     "",
		"--ckpt scr -n8 ./sim": "",
	} {
		r, err := read(t.Context(), strings.Fields(args), vars(""), realSrun)
		if err != nil {
			t.Fatal(err)
		}
		m, err := directive.Said{Script: "#BURST ckpt=dmtcp", Options: r.ckpt}.Merge()
		if err != nil {
			t.Fatal(err)
		}
		k := known{facts: facts{request: r, job: step.Job{ID: 17, Place: step.Batch}, merged: m, burstd: true}}
		if got := (&program{}).but(k, plan{}); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}
