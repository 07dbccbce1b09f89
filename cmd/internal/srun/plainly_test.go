package srun

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/cli"
)

// TestLaunchersAreStartedOnce: srun would start mpiexec for each of the job's tasks, all
// with all ranks on the same files.
func TestLaunchersAreStartedOnce(t *testing.T) {
	const mana = "#BURST ckpt=mana strategy=periodic\n"
	for _, c := range []struct {
		name, script, env, args string
		as                      string
		code                    int
		want                    string // the line that takes its place; "ran": the launcher was run
	}{
		{"turned off", mana, "BURST_SRUN_OFF=1", "mpiexec ./sim", "", cli.Failed, "mpiexec ./sim"},
		{"no burstd, and nothing is asked for", "", "", "mpirun -n 2 ./sim", "", cli.Failed, "mpirun -n 2 ./sim"},
		{"on the word of a burstd that there is not", "#BURST ckpt=mana strategy=preemptive\n", "", "mpiexec ./sim", "", cli.Failed, "mpiexec ./sim"},
		{"the tool is missing", mana, "", "mpiexec ./sim", "", cli.Failed, "mpiexec ./sim"},
		{"below one task", mana, "", "-n1 -N 1 mpiexec ./sim", "", cli.Failed, "mpiexec ./sim"},
		{"several, and the user has asked", mana, "", "-n 4 mpiexec ./sim", "", cli.Usage, ""},
		{"several, and nobody has asked", "", "", "-n 4 mpiexec ./sim", "", cli.Failed, "srun -n 4 mpiexec ./sim"},
		{"of salloc", "", "SLURM_TASK_PID=", "mpiexec ./sim", "", cli.Failed, "mpiexec ./sim"},
		{"outside of a job", "", "SLURM_JOB_ID=", "mpiexec ./sim", "", cli.Failed, "srun mpiexec ./sim"},
		{"by the name srun", "", "", "mpiexec ./sim", "srun", cli.Failed, "srun mpiexec ./sim"},
		{"by the name srun, under mana", mana, "", "mpiexec ./sim", "srun", cli.Failed, "mpiexec ./sim"},
		{"another program", mana, "", "./sim mpiexec", "", cli.Failed, "srun ./sim mpiexec"},
		{"recorded", "", "", "--once x mpiexec ./sim", "", 0, "ran"},
		{"the method refuses", "#BURST ckpt=dmtcp strategy=periodic\n", "SLURM_JOB_NUM_NODES=2", "mpiexec ./sim", "", cli.Failed, "mpiexec ./sim"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newRequeued(t)
			launcher := "#!/bin/sh\necho $BURST_STEP >>" + filepath.Join(a.root, "starts") + "\n"
			for name, text := range map[string]string{
				"mpiexec": launcher, "mpirun": launcher,
				"dmtcp_launch": "#!/bin/sh\necho 'dmtcp_launch (DMTCP) 4.2.0'\n", "dmtcp_restart": "", "dmtcp_command": "", "dmtcp_coordinator": "",
			} {
				if err := os.WriteFile(a.dir("bin/"+name), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", a.dir("bin")+":"+os.Getenv("PATH"))
			a.name, a.script = c.as, "#!/bin/sh\n"+c.script
			a.env = append(a.env, "SLURM_RESTART_COUNT=0", "SLURMD_NODENAME=n1", c.env)
			ctld := a.slurm()
			ctld.job.Restarts = 0
			a.ctld = ctld
			code := a.run(strings.Fields(c.args)...)
			got := strings.Join(a.line, " ")
			if ran := a.starts(); ran != "" {
				got = "ran"
				if ran != "17/plain" {
					t.Errorf("its environment has %q", ran)
				}
			}
			if strings.Contains(a.said.String(), "step 0 of job 17:") {
				t.Errorf("said to be protected: %s", a.said.String())
			}
			if code != c.code || got != c.want || code == cli.Usage && !strings.Contains(a.said.String(), "leave out the number of tasks") {
				t.Errorf("exit code %d, %q, want %q; said %s", code, got, c.want, a.said.String())
			}
		})
	}
}

// TestABusySlurmLeavesNoSign: what the job's comment asks for is not known then.
func TestABusySlurmLeavesNoSign(t *testing.T) {
	a := newRequeued(t)
	a.script = "#!/bin/sh\n"
	a.env = append(a.env, "SLURM_RESTART_COUNT=0")
	synctest.Test(t, func(t *testing.T) {
		a.T = t
		ctld := a.slurm()
		ctld.job.Comment, ctld.job.Restarts = "burst: ckpt=signal signal=USR1", 0
		a.ctld = flaky{ctld, time.Now().Add(time.Hour)}
		if a.run(); !a.direct {
			t.Errorf("not run without its comment: %s", a.said.String())
		}
		a.ctld, a.direct = ctld, false
		if code := a.run(); code != 0 || a.direct || a.starts() != "the beginning" {
			t.Errorf("exit code %d, direct %v, said %s", code, a.direct, a.said.String())
		}
	})
}
