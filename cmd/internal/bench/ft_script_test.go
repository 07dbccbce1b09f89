package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm/directive"
)

// scriptWorld has stand-ins for what the jobs' scripts call.
type scriptWorld struct {
	env  Env
	work string   // the job's folder
	vars []string // its environment, without USER
}

// newScriptWorld has srun, burst-srun and ulfm-run write their own name, their arguments
// and some of their environment to the file called, one a line.
func newScriptWorld(t *testing.T) scriptWorld {
	dir := t.TempDir()
	w := scriptWorld{Env{Programs: filepath.Join(dir, "bin")}, filepath.Join(dir, "its work"), nil}
	if err := errors.Join(os.Mkdir(w.env.Programs, 0o755), os.Mkdir(w.work, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"srun", "burst-srun", "../ulfm-run"} {
		standIn(t, filepath.Join(w.env.Programs, name), `printf '%s\n' `+filepath.Base(name)+` "$@" >called; echo "$BURST_URLS $BURST_MUNGE_SOCKET $SCR_PREFIX ${USER-none}" >exported; exit "${CODE-0}"`)
	}
	w.vars = []string{"PATH=" + w.env.Programs + ":/usr/bin:/bin"}
	return w
}

// sh runs a command in the job's folder.
func (w scriptWorld) sh(t *testing.T, args, vars []string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.Env = w.work, append(slices.Clone(w.vars), vars...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (w scriptWorld) read(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.work, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func TestScripts(t *testing.T) {
	w := newScriptWorld(t)
	const heat, size = "srun --mpi=pmix HEAT", " -n 2048 -i 200 --pace 650 --progress 0.001"
	type asked struct{ Method, Strategy, Interval, Signal, Files string }
	for name, tt := range map[string]struct {
		c     FTCase
		calls string // HEAT is its path
		asked asked
	}{
		"undisturbed":         {FTCase{FTNone, "", 2, false}, heat + size, asked{}},
		"no fault tolerance":  {FTCase{FTNone, "", 2, true}, heat + size, asked{}},
		"undisturbed, 1 node": {FTCase{FTNone, "", 1, false}, heat + size, asked{}},
		"signal periodic":     {FTCase{"signal", ftPeriodic, 2, true}, "burst-" + heat + size + " --checkpoint heat.ckpt --restart auto", asked{"signal", "periodic", "6.5s", "USR1", "heat.ckpt"}},
		"signal preemptive":   {FTCase{"signal", ftPreemptive, 2, true}, "burst-" + heat + size + " --checkpoint heat.ckpt --restart auto --exit-on-signal", asked{"signal", "preemptive", "0s", "USR1", "heat.ckpt"}},
		"command periodic":    {FTCase{"command", ftPeriodic, 2, true}, "burst-" + heat + size + " --checkpoint heat.ckpt", asked{"command", "periodic", "6.5s", "", ""}},
		"command preemptive":  {FTCase{"command", ftPreemptive, 2, true}, "burst-" + heat + size + " --checkpoint heat.ckpt", asked{"command", "preemptive", "0s", "", ""}},
		"dmtcp periodic":      {FTCase{"dmtcp", ftPeriodic, 1, true}, "burst-srun mpirun --oversubscribe HEAT" + size, asked{"dmtcp", "periodic", "6.5s", "", ""}},
		"dmtcp preemptive":    {FTCase{"dmtcp", ftPreemptive, 1, true}, "burst-srun mpirun --oversubscribe HEAT" + size, asked{"dmtcp", "preemptive", "0s", "", ""}},
		"libburst periodic":   {FTCase{"libburst", ftPeriodic, 2, true}, "burst-" + heat + "-libburst" + size + " --checkpoint heat.ckpt --restart auto", asked{"libburst", "periodic", "6.5s", "", ""}},
		"libburst preemptive": {FTCase{"libburst", ftPreemptive, 2, true}, "burst-" + heat + "-libburst" + size + " --checkpoint heat.ckpt --restart auto", asked{"libburst", "preemptive", "0s", "", ""}},
		"scr periodic":        {FTCase{"scr", ftPeriodic, 2, true}, "burst-" + heat + "-scr" + size + " --checkpoint heat.ckpt --restart auto --every 10", asked{"scr", "periodic", "6.5s", "", ""}},
		"ulfm":                {FTCase{FTULFM, "", 2, true}, "ulfm-run --mpi BUILT/ulfm --poll 0.5 HEAT-ulfm" + size, asked{}},
		"scr preemptive":      {FTCase{"scr", ftPreemptive, 2, true}, "burst-" + heat + "-scr" + size + " --checkpoint heat.ckpt --restart auto", asked{"scr", "preemptive", "0s", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			script := ftTask{FTCase: tt.c, size: FTDefault()}.script(w.env, "export BURST_URLS=http://127.0.0.1:1 BURST_MUNGE_SOCKET=/run/m")
			requeue := "--requeue"
			if tt.c.Method == FTULFM { // which Slurm and burstd are to leave alone
				requeue = "--no-requeue --no-kill"
			}
			if got, want := strings.Split(script, "\n")[1], fmt.Sprintf("#SBATCH --nodes=%d --ntasks-per-node=%d --exclusive %s --open-mode=append --output=out", tt.c.Nodes, 2/tt.c.Nodes, requeue); got != want {
				t.Errorf("%q, want %q", got, want)
			}
			if err := os.WriteFile(filepath.Join(w.work, "job.sh"), []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := w.sh(t, []string{"bash", "-u", "job.sh"}, []string{"CODE=7"})
			tr := trace(t, out)
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 7 || len(tr.attempts) != 1 || tr.now().code != 7 || tr.now().began.IsZero() || tr.now().ended.Before(tr.now().began) {
				t.Errorf("%v, %+v:\n%s", err, tr, out)
			}
			built := filepath.Dir(w.env.Programs)
			calls := strings.Fields(strings.NewReplacer("HEAT", filepath.Join(built, "heat"), "BUILT", built).Replace(tt.calls))
			if d := diff(calls, w.read(t, "called")); d != "" {
				t.Error(d)
			}
			exported := "http://127.0.0.1:1 /run/m  none"
			if tt.c.Method == "scr" { // which wants a user's name
				id, err := w.sh(t, []string{"id", "-un"}, nil)
				if err != nil {
					t.Fatal(err)
				}
				exported = "http://127.0.0.1:1 /run/m " + w.work + " " + strings.TrimSpace(id)
			}
			if got := w.read(t, "exported"); got[0] != exported {
				t.Errorf("exported %q, want %q", got, exported)
			}
			d := ftDirective(t, script)
			got := asked{}
			if tt.c.Strategy != "" {
				got = asked{d.Method, d.Strategy, d.Interval.String(), d.Signal, d.Files}
			} else if strings.Contains(script, "#BURST") {
				t.Errorf("it asks something of Burst:\n%s", script)
			}
			if got != tt.asked {
				t.Errorf("%+v, want %+v", got, tt.asked)
			}
		})
	}
}

// ftDirective is what a script asks of Burst.
func ftDirective(t *testing.T, script string) directive.Directive {
	t.Helper()
	layer, err := directive.ReadScript(script)
	if err != nil {
		t.Fatal(err)
	}
	m, err := directive.Merge(layer)
	if err != nil || len(m.Unused) > 0 {
		t.Fatalf("%v, %+v", err, m.Unused)
	}
	return m.Directive
}

// The commands that the command method is given do, in the shell that runs them,
// what they should: take the file that heat writes anew, and start from the one that is kept.
func TestCommandsOfTheScript(t *testing.T) {
	w := newScriptWorld(t)
	d := ftDirective(t, ftTask{FTCase: FTCase{"command", ftPeriodic, 2, true}, size: FTDefault()}.script(w.env, ""))
	heat := exec.CommandContext(t.Context(), "sh", "-c", `trap 'n=$((n+1)); echo "checkpoint $n" >new && mv new heat.ckpt' USR1; n=0; : >ready; while :; do sleep 0.02; done`)
	heat.Dir = w.work
	heat.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := heat.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = heat.Process.Kill(), heat.Wait() }()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(w.work, "ready")); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the stand-in of heat does not start")
		}
	}
	for n := 1; n <= 2; n++ {
		generation := filepath.Join(w.work, fmt.Sprintf("generation %d", n))
		if err := os.Mkdir(generation, 0o755); err != nil {
			t.Fatal(err)
		}
		out, err := w.sh(t, []string{"/bin/sh", "-c", d.Checkpoint}, []string{fmt.Sprint("BURST_PID=", heat.Process.Pid), "BURST_DIR=" + generation})
		if got, _ := os.ReadFile(filepath.Join(generation, "heat.ckpt")); err != nil || string(got) != fmt.Sprintf("checkpoint %d\n", n) {
			t.Errorf("checkpoint %d: %q, %v: %s", n, got, err, out)
		}
	}
	first := filepath.Join(w.work, "generation 1")
	out, err := w.sh(t, []string{"/bin/sh", "-c", d.Restart, "sh", "srun", "--comment", "two words", "heat"}, []string{"BURST_GENERATION=" + first})
	if err != nil {
		t.Fatalf("restart: %v: %s", err, out)
	}
	from := filepath.Join(first, "heat.ckpt") // of the generation: the next checkpoint may remove the job's own at once
	if d := diff([]string{"srun", "--comment", "two words", "heat", "--restart", from}, w.read(t, "called")); d != "" {
		t.Error(d)
	}
	if got, err := os.ReadFile(from); err != nil || string(got) != "checkpoint 1\n" {
		t.Errorf("heat goes on from %q, %v", got, err)
	}
}
