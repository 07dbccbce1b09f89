package srun

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/step"
)

func TestSrunOnly(t *testing.T) {
	for args, want := range map[string]string{
		"-n4 -N1 -c2 --mpi=none --cpu-bind=cores --mem=1G --exact": "",
		"-w n1":                      "",
		"-i all -o all --export=ALL": "",
		"-i in":                      "--input=in",
		"--mpi=none -oout":           "--output=out",
		"-e err":                     "--error=err",
		"-D run":                     "--chdir=run",
		"-l":                         "--label",
		"--export=A=1":               "--export=A=1",
		"--multi-prog":               "--multi-prog",
		"-t 5":                       "--time=5",
		"--task-prolog=p":            "--task-prolog=p",
		"--container-image=x":        "--container-image=x",
	} {
		r, err := read(t.Context(), append(strings.Fields(args), "./a"), vars(""), realSrun)
		if err != nil {
			t.Fatal(err)
		}
		if got, do := (facts{request: r, job: step.Job{Nodes: 1}}).srunOnly(vars("")); got != want || (do == "") != (want == "") {
			t.Errorf("%s: %q, %q, want %q", args, got, do, want)
		}
	}
	for _, o := range idle {
		if !slices.ContainsFunc(step.Options(""), func(k step.Option) bool { return k.Name == o }) {
			t.Errorf("srun has no option --%s", o)
		}
	}
}

// TestOptionsThatOnlySrunCarriesOut: where srun is left out they are not dropped in
// silence.
func TestOptionsThatOnlySrunCarriesOut(t *testing.T) {
	const bySignal = "#BURST ckpt=signal signal=USR1 strategy=periodic\n"
	for _, c := range []struct {
		name, script, args, env, as string
		code                        int
		line, says                  string
	}{
		{"criu", "#BURST ckpt=criu strategy=periodic\n", "-i in ./sim", "", "", cli.Failed, "srun -i in ./sim", "ckpt=criu starts the program without srun, and --input=in is for srun: the step is not protected"},
		{"blcr", "#BURST ckpt=command preset=blcr strategy=periodic\n", "-i in ./sim", "", "", cli.Failed, "srun -i in ./sim", "preset=blcr starts the program without srun, and --input=in is for srun: the step is not protected"},
		{"a launcher, protected", bySignal, "-n1 --chdir=run mpirun ./sim", "", "", cli.Usage, "", "--chdir=run is for srun, and mpirun is started without srun: cd there before it"},
		{"a launcher, explained", bySignal, "--explain -o out mpirun ./sim", "", "", cli.Usage, "", "--output=out is for srun"},
		{"a launcher under mana", "#BURST ckpt=mana strategy=periodic\n", "-o out mpirun ./sim", "", "srun", cli.Usage, "", "redirect in the shell, with >"},
		{"a launcher, not protected", "", "--label mpirun ./sim", "", "", cli.Usage, "", "--label is for srun"},
		{"of the environment", "", "mpirun ./sim", "SRUN_OUTPUT=out", "", cli.Usage, "", "--output=out of the environment is for srun"},
		{"by the name srun", bySignal, "--explain -o out mpirun ./sim", "", "srun", cli.OK, "", "runs under ckpt=signal"},
		{"what has no effect", bySignal, "--explain --mpi=none --cpu-bind=none mpirun ./sim", "", "", cli.OK, "", "runs under ckpt=signal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newRequeued(t)
			a.name, a.script = c.as, "#!/bin/sh\n"+c.script
			a.env = append(a.env, "SLURM_RESTART_COUNT=0", "SLURMD_NODENAME=n1", c.env)
			ctld := a.slurm()
			ctld.job.Restarts = 0
			a.ctld = ctld
			code := a.run(strings.Fields(c.args)...)
			if got := strings.Join(a.line, " "); code != c.code || got != c.line || !strings.Contains(a.said.String(), c.says) {
				t.Errorf("exit code %d, %q, want %d, %q; said %s", code, got, c.code, c.line, a.said.String())
			}
			if _, err := os.Stat("burst-checkpoints"); err == nil {
				t.Error("it has begun")
			}
		})
	}
}

// TestAPresetLeavesOutSrun before a launcher, as every method does: else there would be a
// launcher for each task.
func TestAPresetLeavesOutSrun(t *testing.T) {
	r, err := read(t.Context(), strings.Fields("mpirun ./sim"), vars(""), realSrun)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{name: "burst-srun", srun: "/usr/bin/srun"}
	k := known{facts: facts{request: r, job: step.Job{ID: 17, Place: step.Batch}, merged: directive.Merged{Directive: directive.Directive{Method: directive.ByCommand, Preset: directive.BLCR}}}}
	l := p.launch(k, "0")
	if got := strings.Join(l.Args, " "); got != "mpirun ./sim" || l.Program != 0 {
		t.Errorf("%q, the program at %d", got, l.Program)
	}
}
