package heat

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSCR: heat that is built with SCR keeps its checkpoints there, leaves when it
// is halted, and goes on from the checkpoint that it wrote for that, to the same field.
func TestSCR(t *testing.T) {
	if testing.Short() {
		t.Skip("a real SCR: slow end-to-end, run by make test")
	}
	halt, err := exec.LookPath("scr_halt")
	if err != nil {
		t.Skip("NOT TESTED: no SCR is here; put the folder of scr_halt into PATH (docs/methods/scr.md)")
	}
	want := single(t, build(t), "-n", "60", "-i", "200").checksum(t)
	bin, dir := build(t, "SCR="+filepath.Dir(filepath.Dir(halt))), t.TempDir()
	for name, value := range map[string]string{"SCR_PREFIX": dir, "USER": "heat", "SCR_JOB_ID": "1", "SCR_HALT_EXIT": "1",
		"SCR_CACHE_BASE": t.TempDir(), "SCR_CNTL_BASE": t.TempDir()} {
		t.Setenv(name, value)
	}
	args := []string{"-n", "60", "-i", "200", "--checkpoint", filepath.Join(dir, "heat.ckpt"), "--restart", "auto", "--progress", "0.1"}
	p := start(t, bin, 2, append(args, "--pace", "50")...)
	p.await(t, "heat: no checkpoint at ")
	p.await(t, "heat: iteration ")
	order := func(args ...string) {
		if out, err := exec.CommandContext(t.Context(), halt, append(args, dir)...).CombinedOutput(); err != nil {
			t.Fatalf("scr_halt: %v: %s", err, out)
		}
	}
	order()
	if got := p.wait(t); got.code == 0 || strings.Contains(got.stdout, "heat: done") {
		t.Fatalf("halted, it ended with %d:\n%s%s", got.code, got.stdout, got.stderr)
	}
	order("-r")
	got := run(t, bin, 2, args...)
	if !strings.Contains(got.stdout, "heat: restarted from iteration ") || got.checksum(t) != want {
		t.Errorf("after the restart, want checksum %s:\n%s%s", want, got.stdout, got.stderr)
	}
}
