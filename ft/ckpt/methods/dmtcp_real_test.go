package methods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// realDMTCP skips without a DMTCP on PATH: it has no package, so not every
// machine has one.
func realDMTCP(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a real DMTCP: slow end-to-end, run by make test")
	}
	if _, err := exec.LookPath("dmtcp_launch"); err != nil {
		t.Skip("NOT TESTED: no DMTCP is here; put the folder of dmtcp_launch into PATH (docs/methods/dmtcp.md)")
	}
	tools, err := findDMTCP(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Log("dmtcp", tools.version)
}

// compiled is a C program of testdata.
func compiled(t *testing.T, name string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), name)
	out, err := exec.CommandContext(t.Context(), "cc", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", bin, filepath.Join("testdata", name+".c")).CombinedOutput()
	if err != nil {
		t.Fatalf("compiling %s (make deps installs gcc): %v\n%s", name, err, out)
	}
	return bin
}

// testJob is a job of which each attempt appends to one output, as Slurm's
// --open-mode=append has it.
type testJob struct {
	t      *testing.T
	method string
	args   []string
	at     int // of the program
	env    []string
	dir    string
	output string
}

func newJob(t *testing.T, method string, args ...string) *testJob {
	dir := t.TempDir()
	return &testJob{t: t, method: method, args: args, env: os.Environ(), dir: dir, output: filepath.Join(dir, "output")}
}

// start begins an attempt, which the test's end ends.
func (j *testJob) start(from *ckpt.Generation) ckpt.Step {
	j.t.Helper()
	s, err := j.tryStart(j.t.Context(), from)
	if err != nil {
		j.t.Fatalf("%v\n%s", err, j.said())
	}
	return s
}

func (j *testJob) tryStart(ctx context.Context, from *ckpt.Generation) (ckpt.Step, error) {
	j.t.Helper()
	out, err := os.OpenFile(j.output, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		j.t.Fatal(err)
	}
	defer out.Close()
	m, err := New(j.method, Options{})
	if err != nil {
		j.t.Fatal(err)
	}
	step, err := m.Start(ctx, ckpt.Launch{Args: j.args, Program: j.at, Env: j.env, Dir: j.dir, Stdout: out, Stderr: out, Scratch: j.t.TempDir(), From: from})
	if err != nil {
		return nil, err
	}
	j.t.Cleanup(func() {
		step.Signal(syscall.SIGKILL)
		step.Wait()
	})
	return step, nil
}

// checkpoint takes one that must be good.
func (j *testJob) checkpoint(s ckpt.Step, stop bool) *ckpt.Generation {
	j.t.Helper()
	into := j.t.TempDir()
	ctx, cancel := context.WithTimeout(j.t.Context(), longEnough)
	defer cancel()
	began := time.Now()
	made, err := s.Checkpoint(ctx, into, stop)
	if err != nil {
		j.t.Fatalf("%v\noutput:\n%s", err, j.said())
	}
	j.t.Logf("checkpoint of %d processes, stop %v: %v", made.Ranks, stop, time.Since(began).Round(time.Millisecond))
	if stop {
		if code, err := s.Wait(); code != endedByUs || err != nil {
			j.t.Errorf("a step that was stopped ended with %d, %v", code, err)
		}
	}
	return &ckpt.Generation{Dir: into, Manifest: ckpt.Manifest{Method: j.method, Ranks: made.Ranks, Iteration: -1, Extra: made.Extra}}
}

func (j *testJob) said() string {
	text, err := os.ReadFile(j.output)
	if err != nil {
		j.t.Fatal(err)
	}
	return string(text)
}

// await waits until the output has the line.
func (j *testJob) await(line string) {
	j.t.Helper()
	for limit := time.Now().Add(longEnough); !strings.Contains("\n"+j.said(), "\n"+line+"\n"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			j.t.Fatalf("%q does not come:\n%s", line, j.said())
		}
	}
}

// ends waits for the end by itself, and wants that exit code and last line.
func (j *testJob) ends(s ckpt.Step, code int, last string) {
	j.t.Helper()
	got, err := s.Wait()
	if err != nil || got != code || lastLine(j.said()) != last {
		j.t.Errorf("ended with %d, %v, and %q; want %d and %q\n%s", got, err, lastLine(j.said()), code, last, j.said())
	}
}

// undisturbedLine is the last line of a run without DMTCP.
func (j *testJob) undisturbedLine() string {
	j.t.Helper()
	cmd := exec.CommandContext(j.t.Context(), j.args[0], j.args[1:]...)
	cmd.Env, cmd.Dir = j.env, j.dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		j.t.Fatal(err)
	}
	return lastLine(string(out))
}

func TestRealDMTCPConforms(t *testing.T) {
	realDMTCP(t)
	conform(t, byImages(t, "dmtcp"))
}

// byImages is a method that makes images of processes.
func byImages(t *testing.T, method string) candidate {
	t.Helper()
	return candidate{
		name: method, options: Options{KillWait: 5 * time.Second}, images: true,
		program: []string{compiled(t, "program")}, wipe: func(string) error { return nil },
	}
}

func TestRealDMTCPThreads(t *testing.T) {
	realDMTCP(t)
	j := newJob(t, "dmtcp", compiled(t, "threads"), "60", "25", "1", "7")
	want := j.undisturbedLine()
	s := j.start(nil)
	j.await("at 10")
	first := j.checkpoint(s, false) // it goes on
	j.await("at 15")
	second := j.checkpoint(s, true)
	s = j.start(second)
	j.await("at 30")
	third := j.checkpoint(s, false)
	fourth := j.checkpoint(s, true)
	for _, g := range []*ckpt.Generation{first, third, fourth, fourth} { // each, and one twice
		s := j.start(g)
		j.ends(s, 7, want)
	}
}

// A shell with a pipeline is several processes, of which some come and go.
func TestRealDMTCPProcesses(t *testing.T) {
	realDMTCP(t)
	j := newJob(t, "dmtcp", "sh", "-c", `i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo at $i; sleep 0.05; done | cat; echo "end $(pwd) $HOME"; exit 5`)
	want := j.undisturbedLine()
	s := j.start(nil)
	j.await("at 5")
	g := j.checkpoint(s, true)
	if g.Ranks < 3 {
		t.Errorf("%d processes", g.Ranks)
	}
	s = j.start(g)
	j.await("at 20")
	g = j.checkpoint(s, true)
	j.ends(j.start(g), 5, want)
}

func TestRealDMTCPInputAndFiles(t *testing.T) {
	realDMTCP(t)
	j := newJob(t, "dmtcp", "sh", "-c", `exec 3>written; i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo line $i >&3; echo at $i; read x </proc/uptime; sleep 0.05; done; wc -l <written; uniq <written | wc -l`)
	s := j.start(nil)
	j.await("at 5")
	g := j.checkpoint(s, false)
	j.await("at 20")
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, err := s.Wait(); err != nil || code != 128+int(syscall.SIGTERM) {
		t.Errorf("killed: %d, %v", code, err)
	}
	j.ends(j.start(g), 0, "40") // written from where it was, not behind it
}

func TestRealDMTCPCoordinatorKilled(t *testing.T) {
	realDMTCP(t)
	j := newJob(t, "dmtcp", compiled(t, "threads"), "1000", "20", "1", "0")
	for _, during := range []string{"computing", "a checkpoint"} {
		s := j.start(nil).(*dmtcpStep)
		pids, all := processesOf(t, s)
		if !all {
			t.Fatal("no processes")
		}
		var err error
		if during == "a checkpoint" {
			failed := make(chan error, 1)
			go func() {
				_, err := s.Checkpoint(t.Context(), t.TempDir(), true)
				failed <- err
			}()
			awaitLog(t, s, beginLine)
			s.coordinator.signal(syscall.SIGKILL)
			if err = <-failed; err == nil {
				t.Error("the checkpoint is said to be good")
			}
		} else {
			s.coordinator.signal(syscall.SIGKILL)
		}
		code, werr := s.Wait()
		if !errors.Is(werr, ErrLost) {
			t.Errorf("during %s: ended with %d, %v (checkpoint: %v)", during, code, werr, err)
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, 0); err == nil {
				t.Errorf("during %s: process %d is an orphan", during, pid)
			}
		}
	}
}

func processesOf(t *testing.T, step ckpt.Step) ([]int, bool) {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	s := step.(*dmtcpStep)
	awaitLog(t, s, "after exec")
	_, out, err := s.coordinator.command(t.Context(), "-l")
	if err != nil {
		t.Fatal(err)
	}
	return parseClients(out, host)
}

func awaitLog(t *testing.T, step ckpt.Step, text string) {
	t.Helper()
	s := step.(*dmtcpStep)
	for limit := time.Now().Add(longEnough); ; time.Sleep(time.Millisecond) {
		log, err := s.coordinator.logAfter(0)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log, text) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%q does not come:\n%s", text, log)
		}
	}
}

// Images that a verification would refuse are refused by the restart too, or at
// least do not leave anything running.
func TestRealDMTCPDamagedImage(t *testing.T) {
	realDMTCP(t)
	j := newJob(t, "dmtcp", compiled(t, "threads"), "1000", "20", "1", "0")
	s := j.start(nil)
	j.await("at 3")
	g := j.checkpoint(s, true)
	names, err := imageNames(g.Dir)
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	image := filepath.Join(g.Dir, names[0])
	good, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"half":      good[:len(good)/2],
		"its start": good[:5000],
		"header":    append(append([]byte(imageMagic), make([]byte, 4000)...), good[len(imageMagic)+4000:]...),
		"empty":     nil,
	} {
		if err := os.WriteFile(image, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), longEnough)
		s, err := j.tryStart(ctx, g)
		cancel()
		if err == nil {
			code, werr := s.Wait()
			t.Errorf("%s: restarted, and ended with %d, %v", name, code, werr)
		}
		t.Logf("%s, after %v: %v", name, time.Since(began).Round(time.Millisecond), err)
	}
	if err := os.WriteFile(image, good, 0o600); err != nil {
		t.Fatal(err)
	}
	s = j.start(g)
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if code, err := s.Wait(); err != nil || code != 128+int(syscall.SIGTERM) {
		t.Errorf("ended with %d, %v", code, err)
	}
}

// Checkpoints around the end of a short program: each is good, or the program
// ends as it would have.
func TestRealDMTCPCheckpointDuringExit(t *testing.T) {
	realDMTCP(t)
	j := newJob(t, "dmtcp", compiled(t, "threads"), "8", "25", "1", "7")
	want := j.undisturbedLine()
	good, late := 0, 0
	for i := range 12 {
		s := j.start(nil)
		awaitLog(t, s, "after exec")
		if !pause(t.Context(), time.Duration(i)*25*time.Millisecond) {
			t.Fatal(t.Context().Err())
		}
		into := t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), longEnough)
		made, err := s.Checkpoint(ctx, into, true)
		cancel()
		switch {
		case err == nil:
			good++
			if code, err := s.Wait(); code != endedByUs || err != nil {
				t.Errorf("stopped with %d, %v", code, err)
			}
			j.ends(j.start(&ckpt.Generation{Dir: into, Manifest: ckpt.Manifest{Ranks: made.Ranks}}), 7, want)
		case errors.Is(err, ckpt.ErrFinishing):
			late++
			j.ends(s, 7, want)
		default:
			t.Errorf("%v", err)
		}
	}
	t.Logf("%d checkpoints were good, %d too late", good, late)
}

// contrib/heat on two ranks below one mpirun, evicted twice.
func TestRealDMTCPOpenMPI(t *testing.T) {
	realDMTCP(t)
	heat := filepath.Join(t.TempDir(), "heat")
	if out, err := exec.CommandContext(t.Context(), "make", "-s", "-C", "../../../contrib/heat", "OUT="+heat).CombinedOutput(); err != nil {
		t.Fatalf("building heat (make deps installs Open MPI): %v\n%s", err, out)
	}
	j := newJob(t, "dmtcp", "mpirun", "-n", "2", heat, "-n", "200", "-i", "60", "--pace", "50")
	j.at = 3
	j.env = append(j.env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "SLURM_JOB_NUM_NODES=1", "SLURM_NTASKS=4")
	want := checksum(t, (&testJob{t: t, env: j.env, dir: j.dir, args: append([]string{"mpirun", "--oversubscribe"}, j.args[1:]...)}).undisturbedLine())
	s := j.start(nil)
	for limit := time.Now().Add(longEnough); ; time.Sleep(20 * time.Millisecond) {
		if pids, _ := processesOf(t, s); len(pids) == 3 {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("the ranks do not come:\n%s", j.said())
		}
	}
	for range 2 {
		if !pause(t.Context(), time.Second) { // of work
			t.Fatal(t.Context().Err())
		}
		g := j.checkpoint(s, true)
		if g.Ranks != 3 {
			t.Errorf("%d processes, want mpirun and 2 ranks", g.Ranks)
		}
		began := time.Now()
		s = j.start(g)
		t.Logf("restarted in %v", time.Since(began).Round(time.Millisecond))
	}
	if code, err := s.Wait(); code != 0 || err != nil {
		t.Fatalf("ended with %d, %v\n%s", code, err, j.said())
	}
	if got := checksum(t, lastLine(j.said())); got != want {
		t.Errorf("checksum %s, undisturbed %s\n%s", got, want, j.said())
	}
}

func checksum(t *testing.T, line string) string {
	t.Helper()
	_, sum, ok := strings.Cut(line, "checksum=")
	if !ok {
		t.Fatalf("no checksum: %q", line)
	}
	return strings.Fields(sum)[0]
}

// What dmtcp.md says of times and sizes is printed here.
func TestRealDMTCPCost(t *testing.T) {
	realDMTCP(t)
	for _, mb := range []string{"25", "100"} { // of each of four threads
		j := newJob(t, "dmtcp", compiled(t, "threads"), "1000", "20", mb, "0")
		s := j.start(nil)
		j.await("at 2")
		pids, _ := processesOf(t, s)
		status, err1 := os.ReadFile(fmt.Sprintf("/proc/%d/status", pids[0]))
		maps, err2 := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pids[0]))
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		guess := imageSize(string(status), string(maps))
		began := time.Now()
		g := j.checkpoint(s, true)
		took := time.Since(began)
		names, err := imageNames(g.Dir)
		if err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(filepath.Join(g.Dir, names[0]))
		if err != nil {
			t.Fatal(err)
		}
		if st.Size() > guess || guess > 2*st.Size()+64<<20 {
			t.Errorf("an image of %d bytes was thought to take up to %d", st.Size(), guess)
		}
		began = time.Now()
		s = j.start(g)
		t.Logf("4 x %s MB: checkpoint and stop %v, image %d MB (%d thought), restart %v", mb, took.Round(time.Millisecond), st.Size()>>20, guess>>20, time.Since(began).Round(time.Millisecond))
		s.Signal(syscall.SIGKILL)
	}
}
