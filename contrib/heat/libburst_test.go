package heat

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/ckpt/methods"
)

// TestLibburstAlone: heat that is built with libburst is plain heat where no burst-srun
// is: cmd/internal/e2e takes it through evictions. What it is to go on from and cannot
// read ends it.
func TestLibburstAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("heat under mpirun: slow end-to-end, run by make test")
	}
	bin := build(t, "LIBBURST="+libburst(t))
	size := []string{"-n", "60", "-i", "200"}
	want := single(t, build(t), size...).checksum(t)
	dir := t.TempDir()
	args := append(size, "--checkpoint", filepath.Join(dir, "heat.ckpt"), "--restart", "auto")
	if got := run(t, bin, 3, append(args, "-i", "100")...); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if got := run(t, bin, 2, args...); got.checksum(t) != want || !strings.Contains(got.stdout, "heat: restarted from iteration 100\n") {
		t.Errorf("from its own file, want checksum %s:\n%s%s", want, got.stdout, got.stderr)
	}
	t.Setenv("BURST_LIB_RESTART", dir)
	if got := run(t, bin, 2, args...); got.checksum(t) != want || !strings.Contains(got.stdout, "heat: restarted from iteration 200\n") {
		t.Errorf("from a generation's folder, want checksum %s:\n%s%s", want, got.stdout, got.stderr)
	}
	t.Setenv("BURST_LIB_RESTART", t.TempDir())
	if got := run(t, bin, 2, args...); got.code == 0 || strings.Contains(got.stdout, "iterations") || !strings.Contains(got.stderr, "No such file") {
		t.Errorf("from a folder without its file: %+v", got)
	}
}

// TestLibburstRanksDiffer: a launcher that gives only some ranks the environment: one
// rank's word counts, and nobody waits for the others.
func TestLibburstRanksDiffer(t *testing.T) {
	if testing.Short() {
		t.Skip("heat under mpirun: slow end-to-end, run by make test")
	}
	bin, dir := build(t, "LIBBURST="+libburst(t)), t.TempDir()
	args := []string{"-n", "60", "--checkpoint", filepath.Join(dir, "heat.ckpt"), "--restart", "auto"}
	if got := run(t, bin, 1, append(args, "-i", "100")...); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	some := filepath.Join(t.TempDir(), "some")
	script := "#!/bin/sh\n[ $OMPI_COMM_WORLD_RANK != 0 ] || export BURST_LIB_RESTART=$FROM\nexec " + bin + ` "$@"` + "\n"
	if err := os.WriteFile(some, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FROM", dir)
	if got := run(t, some, 2, append(args, "-i", "200")...); got.code != 0 || !strings.Contains(got.stdout, "heat: restarted from iteration 100\n") {
		t.Errorf("from a generation's folder: %+v", got)
	}
	t.Setenv("FROM", t.TempDir())
	began := time.Now()
	if got := run(t, some, 2, append(args, "-i", "300")...); got.code == 0 || !strings.Contains(got.stderr, "No such file") || time.Since(began) > time.Minute {
		t.Errorf("from a folder without its file: %+v after %s", got, time.Since(began))
	}
}

// TestLibburstEvery: heat that writes a file of its own after each iteration still hears
// Burst, and ends with its word.
func TestLibburstEvery(t *testing.T) {
	if testing.Short() {
		t.Skip("heat under mpirun: slow end-to-end, run by make test")
	}
	bin, dir := build(t, "LIBBURST="+libburst(t)), t.TempDir()
	m, err := methods.New("libburst", methods.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s, err := m.Start(t.Context(), ckpt.Launch{
		Args: []string{"mpirun", "--oversubscribe", "--allow-run-as-root", "-n", "2", bin, "-n", "60", "-i", "100000000", "--every", "1", "--pace", "5",
			"--checkpoint", filepath.Join(dir, "heat.ckpt")},
		Env: append(os.Environ(), "OMPI_MCA_orte_tmpdir_base="+t.TempDir()), Dir: dir, Scratch: dir, Stdout: &out, Stderr: &out,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	made, err := s.Checkpoint(ctx, t.TempDir(), true)
	if err != nil {
		s.Signal(os.Kill) // Wait says whether it was of use
	}
	code, ended := s.Wait()
	if err != nil || ended != nil || code != 75 || made.Iteration < 1 {
		t.Errorf("%v, %v, exit code %d, iteration %d:\n%s", err, ended, code, made.Iteration, out.String())
	}
}

// libburst builds the library.
func libburst(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	makeIn(t, "../libburst", "OUT="+dir)
	return dir
}

// TestLibburstAnew: with another libburst.a heat is built anew: the two ends of its link
// are of one version.
func TestLibburstAnew(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for name, at := range map[string]time.Time{"heat": now.Add(time.Hour), "libburst.a": now} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	due := func() int {
		cmd := exec.CommandContext(t.Context(), "make", "-s", "-q", "LIBBURST="+dir, "OUT="+filepath.Join(dir, "heat"))
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatalf("%v: %s", err, out)
		}
		return cmd.ProcessState.ExitCode()
	}
	if code := due(); code != 0 {
		t.Errorf("it is built anew for nothing: exit code %d", code)
	}
	later := now.Add(2 * time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "libburst.a"), later, later); err != nil {
		t.Fatal(err)
	}
	if code := due(); code != 1 {
		t.Errorf("it stays as it was: exit code %d", code)
	}
}
