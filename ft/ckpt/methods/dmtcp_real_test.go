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
	tools, err := findDMTCP(t.Context(), os.Environ())
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

func TestRealDMTCPConforms(t *testing.T) {
	realDMTCP(t)
	t.Setenv("TMPDIR", t.TempDir()) // a starter that is killed leaves a folder there
	conform(t, byImages(t, "dmtcp"))
}

// byImages is a method that makes images of processes.
func byImages(t *testing.T, method string) candidate {
	t.Helper()
	return candidate{
		name: method, images: true,
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

// DMTCP runs a static program and never checkpoints it: that is said, and soon.
func TestRealDMTCPStatic(t *testing.T) {
	realDMTCP(t)
	bin := filepath.Join(t.TempDir(), "static")
	if out, err := exec.CommandContext(t.Context(), "cc", "-static", "-pthread", "-o", bin, "testdata/threads.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	j := newJob(t, "dmtcp", bin, "40", "25", "1", "7")
	s := j.start(nil)
	j.await("at 3")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if made, err := s.Checkpoint(ctx, t.TempDir(), true); err == nil || !strings.Contains(err.Error(), "linked statically") {
		t.Errorf("%+v, %v", made, err)
	}
	if code, err := s.Wait(); code != 7 || err != nil {
		t.Errorf("ended with %d, %v", code, err)
	}
}

// A deadline that is too short costs nothing but the checkpoint: the step goes on,
// and the next one is good.
func TestRealDMTCPTooShort(t *testing.T) {
	realDMTCP(t)
	j := newJob(t, "dmtcp", compiled(t, "threads"), "40", "25", "25", "7")
	want := j.undisturbedLine()
	s := j.start(nil)
	j.await("at 3")
	for _, limit := range []time.Duration{0, 20 * time.Millisecond, 60 * time.Millisecond, 150 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		made, err := s.Checkpoint(ctx, t.TempDir(), true)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%v: %+v, %v", limit, made, err)
		}
	}
	g := j.checkpoint(s, true)
	j.ends(j.start(g), 7, want)
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
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // it may wait for what never comes
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
