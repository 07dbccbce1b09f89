package heat

import (
	"path/filepath"
	"strings"
	"testing"
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

// libburst builds the library.
func libburst(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	makeIn(t, "../libburst", "OUT="+dir)
	return dir
}
