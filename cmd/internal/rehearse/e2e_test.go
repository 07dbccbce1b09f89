package rehearse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/packaging/progtest"
	"github.com/burst-hpc/burst/slurm/sandbox"
)

// site is a real cluster, and a user with jobs.
type site struct {
	*sandbox.Cluster
	bin string
}

// TestRehearse rehearses real jobs on a real cluster.
func TestRehearse(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Slurm cluster: slow end-to-end, run by make test")
	}
	s := site{bin: progtest.Build(t, "burst", "burst-srun")}
	var err error
	// A requeued job is held for as long as Slurm's own default has it: the rehearsal
	// does not wait for that.
	if s.Cluster, err = sandbox.Start(t.Context(), sandbox.Options{OnPrem: 2, CPUs: 4}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("heat is trusted", s.heat)
	t.Run("dmtcp", s.dmtcp)
	t.Run("side by side", func(t *testing.T) {
		t.Run("a restart that is wrong", s.wrong)
		t.Run("only the first restart is right", func(t *testing.T) { s.once(t, 1) })
		t.Run("only the second restart is right", func(t *testing.T) { s.once(t, 2) })
		t.Run("a program that leaves", s.leaves)
	})
	t.Run("no checkpoint", s.never)
	t.Run("no burst-srun", s.plain)
	t.Run("interrupted", s.interrupted)
	out, err := s.Command(t.Context(), "squeue", "-h").CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("jobs are left: %s, %v", out, err)
	}
}

// user makes a folder with a script and a program.
func user(t *testing.T, script, program string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"job.sh": script, "program": program} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (s site) command(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := s.Command(t.Context(), filepath.Join(s.bin, "burst"), append([]string{"checkpoint", "rehearse"}, args...)...)
	cmd.Dir = dir
	for i, kv := range cmd.Env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			cmd.Env[i] = "PATH=" + s.bin + ":" + path
		}
	}
	cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir())
	return cmd
}

// rehearse returns the result and the exit code.
func (s site) rehearse(t *testing.T, dir string, args ...string) (r Result, code int) {
	t.Helper()
	cmd := s.command(t, dir, append(args, "--json")...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	t.Logf("%v\n%s%s", err, errs.String(), out.String())
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Folder != "" { // it is kept for its user to see, and the test's folder is not
		_ = filepath.WalkDir(r.Folder, func(path string, d fs.DirEntry, err error) error {
			if err == nil && (d.Name() == "job.out" || d.Name() == "job.err") {
				text, err := os.ReadFile(path)
				t.Logf("%s: %v\n%s", path, err, text)
			}
			return err
		})
	}
	return r, cmd.ProcessState.ExitCode()
}

// heat restarts right; what lies in the user's folder is not touched.
func (s site) heat(t *testing.T) {
	dir := user(t, `#!/bin/bash
#SBATCH -N2 --ntasks-per-node=1 --array=5-9 --output=results.out --export=PATH,TMPDIR,HOME
#BURST ckpt=signal signal=USR1 strategy=both interval=2s files=heat.ckpt
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_tcp_if_include=lo
burst-srun --mpi=pmix ./program -n 64 -i 300 --pace 20 --checkpoint heat.ckpt --restart auto
`, "")
	program := filepath.Join(dir, "program")
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "make", "-s", "-C", "../../../contrib/heat", "OUT="+program).CombinedOutput(); err != nil {
		t.Fatalf("building heat (make deps installs an MPI and gcc): %v\n%s", err, out)
	}
	alone, err := exec.CommandContext(t.Context(), program, "-n", "64", "-i", "300").CombinedOutput()
	if err != nil {
		t.Fatalf("heat alone: %v\n%s", err, alone)
	}
	mine := filepath.Join(dir, "results.out")
	if err := os.WriteFile(mine, []byte("mine\n"), 0o444); err != nil {
		t.Fatal(err)
	}
	checksum := regexp.MustCompile(`checksum=\S+`).FindString(string(alone))
	// Both restarts begin with the output of the attempt that was killed, and only that.
	verify := fmt.Sprintf(`test $(grep -c %s "$BURST_REHEARSE_OUTPUT") = 1 && test $(grep -c "restarted from" "$BURST_REHEARSE_OUTPUT") = 1`, checksum)
	r, code := s.rehearse(t, dir, "job.sh", "--copy", "program", "--for", "2s", "--verify", verify)
	switch {
	case code != 0 || r.Verdict != Trusted || r.Folder != "":
		t.Errorf("exit code %d, %+v", code, r)
	case r.Checkpoint == nil || r.Checkpoint.Bytes < 64*64*8 || r.Checkpoint.Seconds <= 0 || *r.Checkpoint.Iteration < 20:
		t.Errorf("checkpoint %+v", r.Checkpoint)
	case len(r.Restarts) != 2 || r.Restarts[0].Seconds <= 0 || !r.Restarts[1].Ended || !*r.Restarts[1].Verified:
		t.Errorf("restarts %+v", r.Restarts)
	case r.Method != "signal" || r.Nodes != 2 || r.Machine.Glibc == "":
		t.Errorf("%+v", r)
	}
	if text, err := os.ReadFile(mine); err != nil || string(text) != "mine\n" {
		t.Errorf("the user's file has %q, %v", text, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "burst-*", "*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != verdicts {
		t.Errorf("left: %v, %v", left, err)
	}
	t.Setenv("PATH", dir)
	if v := Of(filepath.Join(dir, "burst-checkpoints"), "signal", "program", dir); v == nil || v.Verdict != Trusted {
		t.Errorf("the verdict on it is %+v", v)
	}
}

const sums = `#include <stdio.h>
#include <unistd.h>
int main() {
	long sum = 0;
	for (int i = 1; i <= 60; i++) {
		sum += i;
		usleep(100000);
	}
	FILE *f = fopen("sum", "w");
	fprintf(f, "%ld\n", sum);
	return fclose(f);
}
`

// dmtcp in place of the script's method, in a folder of the user's own, for a part
// of the job.
func (s site) dmtcp(t *testing.T) {
	if _, err := exec.LookPath("dmtcp_launch"); err != nil {
		t.Skip("NOT TESTED: there is no dmtcp_launch on PATH")
	}
	dir := user(t, batch, "")
	source := filepath.Join(t.TempDir(), "sums.c")
	if err := os.WriteFile(source, []byte(sums), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "gcc", "-o", filepath.Join(dir, "program"), source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	r, code := s.rehearse(t, dir, "job.sh", "--method", "dmtcp", "--copy", "program", "--for", "2s", "--verify", "test $(cat sum) = 1830")
	if code != 0 || r.Verdict != Trusted || r.Method != "dmtcp" || !strings.HasPrefix(r.Checkpoint.Tool, "dmtcp ") || r.Checkpoint.Bytes < 1e6 {
		t.Errorf("exit code %d, %+v", code, r)
	}
	r, code = s.rehearse(t, dir, "job.sh", "--method", "dmtcp", "--chdir", ".", "--for", "1s", "--run-for", "1s", "--verify", "test ! -e sum")
	if code != 0 || r.Verdict != Trusted || r.Restarts[1].Ended {
		t.Errorf("exit code %d, %+v", code, r)
	}
}

const batch = `#!/bin/bash
#BURST ckpt=signal signal=USR1 strategy=periodic interval=1h files=ck
burst-srun ./program
`

// counts is a program that adds up the numbers to 60, and forgets the sum at a
// restart.
const counts = `#!/bin/bash
n=0 sum=0
test -e ck && n=$(cat ck)
trap 'echo $n >ck.new; mv ck.new ck' USR1
while [ $n -lt 60 ]; do n=$((n+1)) sum=$((sum+n)); sleep 0.1; done
echo $sum >sum
`

func (s site) wrong(t *testing.T) {
	t.Parallel()
	dir := user(t, batch, counts)
	r, code := s.rehearse(t, dir, "job.sh", "--copy", "program", "--for", "2s", "--verify", `echo "sum $(cat sum)" >&2; test $(cat sum) = 1830`)
	if code != 3 || r.Verdict != Unverified || len(r.Restarts) != 2 || *r.Restarts[0].Verified || *r.Restarts[1].Verified {
		t.Errorf("exit code %d, %+v", code, r)
	}
	if _, err := os.Stat(filepath.Join(r.Folder, "work", "sum")); err != nil {
		t.Errorf("its results are gone: %v", err)
	}
	if all, err := Known(filepath.Join(dir, "burst-checkpoints")); err != nil || len(all) != 1 || all[0].Verdict != Unverified {
		t.Errorf("verdicts %+v, %v", all, err)
	}
}

// once: trusted is only what was right after both restarts.
func (s site) once(t *testing.T, right int) {
	t.Parallel()
	dir := user(t, batch, counts)
	r, code := s.rehearse(t, dir, "job.sh", "--copy", "program", "--for", "2s", "--run-for", "1s", "--verify", fmt.Sprintf("test $BURST_REHEARSE_RESTART = %d", right))
	if code != 3 || r.Verdict != Unverified || len(r.Restarts) != 2 || *r.Restarts[0].Verified != (right == 1) || *r.Restarts[1].Verified != (right == 2) ||
		!strings.Contains(r.Reason, fmt.Sprintf("after restart %d that the results are not right", 3-right)) {
		t.Errorf("exit code %d, %+v", code, r)
	}
}

// leaves: the default strategy has the program go on after the periodic checkpoints.
func (s site) leaves(t *testing.T) {
	t.Parallel()
	dir := user(t, strings.Replace(batch, "strategy=periodic ", "", 1), strings.Replace(counts, "mv ck.new ck", "mv ck.new ck; exit 75", 1))
	r, code := s.rehearse(t, dir, "job.sh", "--copy", "program", "--for", "2s", "--run-for", "1s", "--verify", "true")
	if code != 3 || r.Verdict != Unverified || len(r.Restarts) != 2 || !strings.Contains(r.Reason, "left with exit code 75 at a checkpoint after which strategy=both has it go on") {
		t.Errorf("exit code %d, %+v", code, r)
	}
}

func (s site) never(t *testing.T) {
	dir := user(t, batch, "#!/bin/bash\ntrap : USR1\nwhile :; do sleep 0.1; done\n")
	r, code := s.rehearse(t, dir, "job.sh", "--copy", "program", "--for", "1s", "--within", "5s", "--verify", "true")
	if code != 1 || r.Verdict != Failed || r.Checkpoint != nil || !strings.Contains(r.Reason, "no checkpoint after SIGUSR1") {
		t.Errorf("exit code %d, %+v", code, r)
	}
}

func (s site) plain(t *testing.T) {
	dir := user(t, "#!/bin/bash\n./program\n", "")
	r, code := s.rehearse(t, dir, "job.sh", "--for", "1s", "--verify", "true")
	if code != 1 || r.Verdict != Failed || !strings.Contains(r.Reason, "no step of it ran under burst-srun") || !strings.Contains(r.Reason, "--copy") {
		t.Errorf("exit code %d, %+v", code, r)
	}
}

// interrupted: a Ctrl-C cancels the job.
func (s site) interrupted(t *testing.T) {
	dir := user(t, batch, counts)
	cmd := s.command(t, dir, "job.sh", "--copy", "program", "--for", "1h")
	var errs shared
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(dir, "burst-rehearsals", "*", "report", "attempt-0-step-0.json")
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if found, err := filepath.Glob(report); err == nil && len(found) > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the step does not begin: %s", errs.text())
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(errs.text(), "broken off") {
		t.Errorf("%v\n%s", err, errs.text())
	}
}

// shared is a buffer that is read while it is written.
type shared struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *shared) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}
