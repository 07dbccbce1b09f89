package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fullFolder: the folder is full when the notice comes, and still when the job
// comes back.
func fullFolder(t *testing.T, h *heats) {
	if os.Getuid() != 0 {
		t.Skip("A FULL FOLDER IS NOT TESTED: mounting a tmpfs needs root")
	}
	r := h.run(t, heatJob{burst: "strategy=both interval=2s", args: []string{"-N1", "-n1", "-prest"}, cells: 1000, before: "gate mounted"})
	kept := filepath.Join(r.dir, "kept")
	if err := os.Mkdir(kept, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", kept, "tmpfs", 0, "size=100m"); err != nil { // a generation has 8 MB, and 64 MiB are kept free
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(kept, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	r.touch("mounted")
	r.computes(0, 50)
	r.wait(60*time.Second, "two generations", func() bool { return len(r.generations("attempt-0/gen-*[0-9]/manifest.json")) >= 2 })
	filler, err := os.Create(filepath.Join(kept, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	full := func() {
		for err == nil {
			_, err = filler.Write(make([]byte, 4096))
		}
		err = nil
	}
	r.wait(60*time.Second, "no checkpoint fits", func() bool { full(); return strings.Contains(r.output(r.id), "burst-srun: checkpoint: ") })
	full()
	before := r.newest(0)
	r.evict(r.on()[0], 10*time.Second)
	r.wait(120*time.Second, "it goes on", func() bool { return len(r.restarts()) == 1 })
	if n, attempt := r.from(); attempt != 0 || n != before {
		t.Errorf("from generation %d of attempt %d, but generation %d was the last good one", n, attempt, before)
	}
	if err := errors.Join(filler.Close(), os.Remove(filler.Name())); err != nil {
		t.Fatal(err)
	}
	r.wait(60*time.Second, "there are checkpoints again", func() bool { return len(r.generations("attempt-1/gen-*[0-9]/manifest.json")) > 0 })
	r.ends(1)
}

// oneByte damages the newest generation between two attempts.
func oneByte(t *testing.T, h *heats) {
	r := h.run(t, heatJob{burst: "strategy=both interval=2s", args: []string{"-N1", "-n1", "-prest"}, before: `[ $attempt = 0 ] || gate go`})
	r.computes(0, 50)
	r.wait(60*time.Second, "two generations", func() bool { return len(r.generations("attempt-0/gen-*[0-9]/manifest.json")) >= 2 })
	r.evict(r.on()[0], enough)
	r.says("attempt 1 begins", 1)
	newest := r.newest(0)
	r.damage(newest)
	r.touch("go")
	r.wait(120*time.Second, "it goes on", func() bool { return len(r.restarts()) == 1 })
	if n, attempt := r.from(); attempt != 0 || n != newest-1 {
		t.Errorf("from generation %d of attempt %d, where %d is damaged", n, attempt, newest)
	}
	r.ends(1)
	if out := r.output(r.id); !strings.Contains(out, fmt.Sprintf("generation %d of attempt 0 (", newest)) {
		t.Errorf("the user is not told:\n%s", out)
	}
}

// damage changes one byte, in the middle of the largest file, of a generation of attempt 0.
func (r *heatRun) damage(n int) {
	r.t.Helper()
	var largest string
	var text []byte
	dir := filepath.Join(r.dir, "kept", r.folder, "step-0", "attempt-0", fmt.Sprintf("gen-%d", n))
	for _, file := range append(glob(dir, "ckpt_*.dmtcp"), glob(dir, "files/*")...) {
		if all, err := os.ReadFile(file); err == nil && len(all) > len(text) {
			largest, text = file, all
		}
	}
	if largest == "" {
		r.t.Fatalf("no files in %s", dir)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(largest, text, 0o600); err != nil {
		r.t.Fatal(err)
	}
}
