package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/packaging/progtest"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/sandbox"
)

// site is a real cluster of two nodes, with burst-srun as srun in a folder.
type site struct {
	*sandbox.Cluster
	*slurm.Client
	dir, shim, temp string
}

// TestRealSlurm holds burst-srun to srun, on a real cluster, and restarts real jobs.
func TestRealSlurm(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Slurm cluster: slow end-to-end, run by make test")
	}
	bin := progtest.Build(t, "burst-srun")
	shim := filepath.Join(bin, "shim")
	cluster, err := sandbox.Start(t.Context(), sandbox.Options{OnPrem: 2, CredExpire: 5 * time.Second, Extra: "TaskProlog=" + taskProlog(t, shim)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	s := site{cluster, slurm.New(slurm.Exec{Conf: cluster.Conf}), t.TempDir(), shim, t.TempDir()}
	if err := os.Mkdir(s.shim, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../burst-srun", filepath.Join(s.shim, "srun")); err != nil {
		t.Fatal(err)
	}
	t.Run("as srun", s.likeSrun)
	t.Run("MPI on two nodes", s.mpi)
	t.Run("signals", s.signals)
	t.Run("ranks that begin late", s.late)
	t.Run("a terminal", s.terminal)
	t.Run("wrong directive", s.wrong)
	t.Run("a task of an array is requeued", s.requeued)
	t.Run("an id that is given again", s.givenAgain)
	t.Run("a method that nobody asks for any more", s.adopted)
	t.Run("an MPI launcher", s.launcher)
	t.Run("salloc", s.salloc)
}

// taskProlog is the one in contrib, for another folder: it makes srun burst-srun in
// batch scripts.
func taskProlog(t *testing.T, shim string) string {
	t.Helper()
	text, err := os.ReadFile("../../contrib/taskprolog/taskprolog.sh")
	if err != nil {
		t.Fatal(err)
	}
	own := strings.Replace(string(text), "shim=/usr/lib/burst/shim\n", "shim="+shim+"\n", 1)
	path := filepath.Join(t.TempDir(), "taskprolog.sh")
	if err := os.WriteFile(path, []byte(own), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// submit gives sbatch a script and returns the job's id and its folder.
func (s site) submit(t *testing.T, script string, more ...string) (id uint32, dir string) {
	t.Helper()
	dir, err := os.MkdirTemp(s.dir, "job-")
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--parsable", "--chdir=" + dir, "--output=out", "--error=err", "--open-mode=append"}, more...)
	cmd := s.Command(t.Context(), "sbatch", args...)
	cmd.Env = append(cmd.Env, "TMPDIR="+s.temp)
	cmd.Dir, cmd.Stdin = s.dir, strings.NewReader(script)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("sbatch: %v", err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(out)), 10, 32)
	if err != nil {
		t.Fatalf("sbatch printed %q", out)
	}
	return uint32(n), dir
}

// command has burst-srun as srun first on its PATH, as by `burst env`.
func (s site) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := s.Command(ctx, name, args...)
	for i, kv := range cmd.Env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			cmd.Env[i] = "PATH=" + s.shim + ":" + path
		}
	}
	cmd.Env = append(cmd.Env, "TMPDIR="+s.temp)
	return cmd
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 2 minutes: %s", what)
		}
	}
}

// ended waits for the job's end and returns its exit code.
func (s site) ended(t *testing.T, id uint32) int {
	t.Helper()
	var j slurm.Job
	defer func() {
		if t.Failed() {
			t.Logf("job %d: %+v", id, j)
			for _, name := range []string{"out", "err"} {
				files, _ := filepath.Glob(filepath.Join(s.dir, "*", name))
				for _, f := range files {
					text, _ := os.ReadFile(f)
					t.Logf("%s:\n%s", f, text)
				}
			}
		}
	}()
	until(t, fmt.Sprintf("job %d has ended", id), func() bool {
		var err error
		if j, err = s.Job(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return j.State == "COMPLETED" || j.State == "FAILED" || j.State == "CANCELLED"
	})
	return j.ExitCode
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

const protection = "#BURST ckpt=signal signal=USR1 files=ck strategy=periodic interval=1h\n"

// likeSrun has one script run by srun, by burst-srun, and by one that protects. srun
// itself hangs now and then when it starts two programs (docs/slurm-states.md), and says
// that it waits where the last step's CPUs are not free yet: they are waited for.
func (s site) likeSrun(t *testing.T) {
	const script = `echo in | srun cat
srun sh -c 'exit 7'; echo "code $?"
srun sh -c 'kill -9 $$' 2>/dev/null; echo "code $?"
for try in $(seq 100); do squeue -h -s -j $SLURM_JOB_ID -o %i | grep -q '[.][0-9]' || break; sleep 0.1; done
srun -N2 -n2 --label sh -c 'echo $SLURM_PROCID; echo e >&2' 2>errors | sort
sort errors | grep -v burst-srun
srun -n 2 --ntasks-per-node 1 -- sh -c 'echo task $SLURM_PROCID of $SLURM_NTASKS' | sort
for try in 1 2 3 4; do timeout -s KILL 10 srun -n1 sh -c 'echo a' : -n1 sh -c 'echo b' >both && break; done
sort both
srun --no-such-option ./x 2>/dev/null; echo "code $?"
srun ./there-is-no-such-program 2>/dev/null; echo "code $?"
srun sh -c 'srun --version >/dev/null; echo "within $?"'
echo "place $SLURM_STEP_ID."
`
	head := "#!/bin/sh\n#SBATCH -N2 -n2\n"
	real, err := exec.LookPath("srun")
	if err != nil {
		t.Fatal(err)
	}
	var want string
	for _, c := range []struct{ name, script string }{
		{"srun", head + "export PATH=" + filepath.Dir(real) + ":$PATH\n" + script},
		{"not protected", head + script},
		{"protected", head + protection + script},
	} {
		id, dir := s.submit(t, c.script)
		code, out, errs := s.ended(t, id), read(t, dir, "out"), read(t, dir, "err")
		if want == "" {
			want = out
			t.Logf("%s", out)
		}
		if code != 0 || out != want {
			t.Errorf("%s: exit code %d\n%s\nsrun alone:\n%s\nerrors:\n%s", c.name, code, out, want, errs)
		}
		t.Logf("%s, errors:\n%s", c.name, errs)
		switch c.name {
		case "srun":
			if strings.Contains(errs, "burst-srun") {
				t.Errorf("srun is not srun: %s", errs)
			}
		case "not protected":
			if n := strings.Count(errs, "the job is not protected"); n != 1 {
				t.Errorf("%d times said that it is not protected", n)
			}
		case "protected":
			if n := strings.Count(errs, "ckpt=signal, every 1h, in "+dir); n < 5 {
				t.Errorf("%d steps were protected", n)
			}
		}
	}
}

const hello = `#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
	int rank, size, sum;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0) printf("%d ranks, sum %d\n", size, sum);
	MPI_Finalize();
}
`

func (s site) mpi(t *testing.T) {
	program := filepath.Join(s.dir, "hello")
	if err := os.WriteFile(program+".c", []byte(hello), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "mpicc", "-o", program, program+".c").CombinedOutput(); err != nil {
		t.Fatalf("mpicc: %v\n%s", err, out)
	}
	id, dir := s.submit(t, "#!/bin/sh\n#SBATCH -N2 -n2\n"+protection+"srun --mpi=pmix "+program+"\n")
	if code, out := s.ended(t, id), read(t, dir, "out"); code != 0 || out != "2 ranks, sum 1\n" {
		t.Errorf("exit code %d\n%s%s", code, out, read(t, dir, "err"))
	}
}

// signals reach the step, and end it as they end srun's.
func (s site) signals(t *testing.T) {
	id, dir := s.submit(t, "#!/bin/bash\n"+protection+`
srun sh -c 'trap "echo usr2" USR2; touch up; while ! test -e go; do sleep 0.1; done; echo went; exit 5' &
while ! test -e up; do sleep 0.1; done
kill -USR2 $!; sleep 1; touch go
wait $!; echo "code $?"
rm up
srun sh -c 'touch up; sleep 1000' &
while ! test -e up; do sleep 0.1; done
kill -TERM $!; wait $!; echo "ended $(test $? -ne 0 && echo by it)"
rm up
srun sh -c 'echo $$ >pid; touch up; sleep 1000' &
while ! test -e up; do sleep 0.1; done
kill -9 $!; wait $!; echo "code $?"
while test -e /proc/$(cat pid); do sleep 0.1; done; echo "gone with it"
`)
	code, out := s.ended(t, id), read(t, dir, "out")
	if code != 0 || out != "usr2\nwent\ncode 5\nended by it\ncode 137\ngone with it\n" {
		t.Errorf("exit code %d\n%s%s", code, out, read(t, dir, "err"))
	}
}

// terminal has a step with one: script(1) gives srun itself one.
func (s site) terminal(t *testing.T) {
	id, dir := s.submit(t, "#!/bin/sh\n"+protection+`
script -qec 'srun --pty sh -c "test -t 0 && test -t 1 && echo terminal; exit 6"' /dev/null; echo "code $?"
script -qec 'srun sh -c "echo plain; exit 4"' /dev/null; echo "code $?"
`)
	code, out := s.ended(t, id), strings.ReplaceAll(read(t, dir, "out"), "\r", "")
	for _, want := range []string{"terminal\n", "code 6\n", "plain\n", "code 4\n", "a step with --pty is not protected"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, without %q\n%s%s", code, want, out, read(t, dir, "err"))
		}
	}
}

func (s site) wrong(t *testing.T) {
	id, dir := s.submit(t, "#!/bin/sh\n#BURST ckpt=dmtpc\nsrun touch started\n")
	code, errs := s.ended(t, id), read(t, dir, "err")
	if _, err := os.Stat(filepath.Join(dir, "started")); code != 2 || !os.IsNotExist(err) || !strings.Contains(errs, "line 2: #BURST ckpt") || strings.Count(errs, "burst-srun") != 1 {
		t.Errorf("exit code %d, started: %v\n%s", code, err, errs)
	}
}

// count is a program that counts to 200 and writes its count when it is told to.
const count = `#!/bin/bash
n=0; test -e ck && n=$(cat ck)
trap 'echo $n >ck.new; mv ck.new ck' USR1
echo "start $n"
while [ $n -lt 200 ]; do n=$((n+1)); sleep 0.05; done
echo "done $n"
`

// requeued: the finished step is passed over, and the one that ran goes on from its
// checkpoint. burstd is not there.
func (s site) requeued(t *testing.T) {
	program := filepath.Join(s.dir, "count")
	if err := os.WriteFile(program, []byte(count), 0o755); err != nil {
		t.Fatal(err)
	}
	id, dir := s.submit(t, `#!/bin/bash
#SBATCH --array=3 --requeue
#BURST ckpt=signal signal=USR1 files=ck strategy=both interval=1s dir=ckpt
export BURST_URLS=http://127.0.0.1:1
srun --once prepare sh -c 'echo prepared' || exit
srun -o counted `+program+`
echo "code $?"
`)
	step := filepath.Join(dir, "ckpt", fmt.Sprintf("job-%d_3", id), "step-0")
	until(t, "there is a checkpoint", func() bool {
		_, err := os.Stat(filepath.Join(step, "attempt-0", "gen-2"))
		return err == nil
	})
	if err := s.Requeue(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), id, 1, time.Now()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Logf("out:\n%s\nerrors:\n%s\ncounted:\n%s", read(t, dir, "out"), read(t, dir, "err"), read(t, dir, "counted"))
		}
	}()
	code, out, errs := s.ended(t, id), read(t, dir, "out"), read(t, dir, "err")
	t.Logf("errors:\n%s", errs)
	if code != 0 || out != "prepared\ncode 0\n" {
		t.Errorf("exit code %d\n%s", code, out)
	}
	// -o has srun empty the file: burst-srun has it append at a restart.
	var began, done string
	if _, err := fmt.Sscan(between(read(t, dir, "counted")), &began, &done); err != nil || began == "0" || done != "200" {
		t.Errorf("it went on at %s, and ended at %s", began, done)
	}
	for _, want := range []string{"step prepare is done since attempt 0", "step 0 restarts from generation", "burstd has not answered", "1 restarts, ", "of work lost"} {
		if !strings.Contains(errs, want) {
			t.Errorf("errors without %q", want)
		}
	}
}

// between reads "start 0 … start 30 … done 200" as "30 200".
func between(counted string) string {
	var first, all []string
	for line := range strings.Lines(counted) {
		switch words := strings.Fields(line); {
		case len(words) != 2 || words[0] != "start" && words[0] != "done":
		case len(first) == 0:
			first = words
		default:
			all = append(all, words[1])
		}
	}
	if len(first) == 0 || first[1] != "0" {
		return "" // what the first attempt wrote is lost
	}
	return strings.Join(all, " ")
}

func (s site) salloc(t *testing.T) {
	cmd := s.command(t.Context(), "salloc", "-Q", "-n1", "srun", "--ckpt", "signal signal=USR1", "sh", "-c", "echo ran; exit 3")
	cmd.Dir = s.dir
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if string(out) != "ran\n" || cmd.ProcessState.ExitCode() != 3 || !strings.Contains(errs.String(), "never requeued") {
		t.Errorf("%q, %v\n%s", out, err, errs.String())
	}
}
