package methods

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// contrib/heat on two ranks below one mpirun, evicted so often.
func TestRealDMTCPOpenMPI(t *testing.T) {
	realDMTCP(t)
	for _, times := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(times, " on this node"), func(t *testing.T) { evictHeat(t, times) })
	}
	t.Run("another node", func(t *testing.T) {
		onAnotherNode(t)
		evictHeat(t, 2)
		if name, err := os.ReadFile(filepath.Join(filepath.Dir(t.TempDir()), "hostname")); err != nil || string(name) != "another\n" {
			t.Errorf("the restart ran on %q, %v", name, err)
		}
	})
}

// onAnotherNode has restarts run as on a node that shares only this test's folder
// and the tools: under another name, and with a /tmp of its own.
func onAnotherNode(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: a node's own /tmp needs root for a mount namespace")
	}
	tools, err := findDMTCP(t.Context(), os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, tool := range []string{tools.launch, tools.coordinator, tools.command} {
		if err := os.Symlink(tool, filepath.Join(dir, filepath.Base(tool))); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(dir, "dmtcp_restart"), fmt.Sprintf(`#!/bin/sh
exec unshare -m -u sh -c '
set -e
hostname another
keep=/run/burst-another-node
mkdir -p $keep
mount -t tmpfs none $keep
mkdir $keep/shared $keep/tools
mount --bind "$1" $keep/shared
mount --bind "$2" $keep/tools
mount -t tmpfs none /tmp
mkdir -p "$1" "$2"
mount --bind $keep/shared "$1"
mount --bind $keep/tools "$2"
hostname >"$1"/hostname
shift 2
exec %s "$@"' sh %s %s "$@"
`, tools.restart, filepath.Dir(dir), filepath.Dir(filepath.Dir(tools.restart))))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// newHeat is heat on two ranks, with work for so many evictions, and its checksum when
// nothing disturbs it.
func newHeat(t *testing.T, evictions int) (j *testJob, sum string) {
	heat := filepath.Join(t.TempDir(), "heat")
	if out, err := exec.CommandContext(t.Context(), "make", "-s", "-C", "../../../contrib/heat", "OUT="+heat).CombinedOutput(); err != nil {
		t.Fatalf("building heat (make deps installs Open MPI): %v\n%s", err, out)
	}
	j = newJob(t, "dmtcp", "mpirun", "-n", "2", heat, "-n", "200", "-i", strconv.Itoa(60*(1+evictions)), "--pace", "50")
	j.at = 3
	j.env = append(j.env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "SLURM_JOB_NUM_NODES=1", "SLURM_NTASKS=4")
	return j, checksum(t, (&testJob{t: t, env: j.env, dir: j.dir, args: append([]string{"mpirun", "--oversubscribe"}, j.args[1:len(j.args)-2]...)}).undisturbedLine())
}

// startHeat begins it, and returns the ids of mpirun and the ranks once they run.
func startHeat(j *testJob) (ckpt.Step, []int) {
	j.t.Helper()
	s := j.start(nil)
	for limit := time.Now().Add(longEnough); ; time.Sleep(20 * time.Millisecond) {
		if pids, _ := processesOf(j.t, s); len(pids) == 3 {
			return s, pids
		}
		if time.Now().After(limit) {
			j.t.Fatalf("the ranks do not come:\n%s", j.said())
		}
	}
}

func evictHeat(t *testing.T, times int) {
	t.Helper()
	j, want := newHeat(t, times)
	s, _ := startHeat(j)
	for range times {
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

// A rank or mpirun that dies takes all of the step along.
func TestRealDMTCPOpenMPIKilled(t *testing.T) {
	realDMTCP(t)
	j, _ := newHeat(t, 0)
	for victim, name := range []string{"mpirun", "a rank"} {
		s, pids := startHeat(j)
		slices.Sort(pids) // mpirun has started first
		if err := syscall.Kill(pids[victim], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if code, err := s.Wait(); code == 0 || err != nil && !errors.Is(err, ErrLost) {
			t.Errorf("%s: ended with %d, %v", name, code, err)
		}
		for limit := time.Now().Add(dmtcpLeaveTime); ; time.Sleep(20 * time.Millisecond) {
			left := slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return syscall.Kill(pid, 0) != nil })
			if len(left) == 0 {
				break
			}
			if time.Now().After(limit) {
				t.Fatalf("%s: orphans %v", name, left)
			}
		}
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
