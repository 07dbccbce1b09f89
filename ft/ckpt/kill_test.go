package ckpt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	childDir   = "BURST_TEST_CKPT_DIR"
	childPoint = "BURST_TEST_CKPT_POINT" // "sealed 3": the third time there
)

// TestKillChild is no test but the process that TestKill9 kills: it writes,
// blesses and prunes generations for ever, and tells each.
func TestKillChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("it is TestKill9's other process")
	}
	point, when, _ := strings.Cut(os.Getenv(childPoint), "/")
	times := map[string]int{}
	die := func(at string) error {
		if times[at]++; at == point && fmt.Sprint(times[at]) == when {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	}
	for {
		if err := childRound(t.Context(), dir, die); err != nil {
			fmt.Println("failed", err)
			t.Fatal(err)
		}
	}
}

// childRound opens the folder, writes three generations, and damages the last.
func childRound(ctx context.Context, dir string, die func(string) error) error {
	f, err := open(optionsIn(dir), true)
	if err != nil {
		return err
	}
	defer f.Close()
	f.fault = die
	if err := f.begin(ctx); err != nil {
		return err
	}
	scratch, err := f.Scratch()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(scratch, "image"), []byte("x"), 0o600); err != nil {
		return err
	}
	var g Generation
	for range 3 {
		p, err := f.Begin(ctx, 0)
		if err != nil {
			return err
		}
		for i := range 2 {
			name := filepath.Join(p.Dir, fmt.Sprintf("image.%d", i))
			if err := os.WriteFile(name, []byte(strings.Repeat("x", 50_000)), 0o600); err != nil {
				return err
			}
			if err := die("writing"); err != nil {
				return err
			}
		}
		if g, err = p.Commit(ctx, About{Method: "signal"}); err != nil {
			return err
		}
		fmt.Println("committed", g.N)
		f.Bless(g.ID())
		if _, err := f.Prune(ctx); err != nil {
			return err
		}
	}
	fmt.Println("damaged", g.N)
	if err := os.Truncate(filepath.Join(g.Dir, "image.0"), 7); err != nil {
		return err
	}
	c, err := f.Newest(ctx)
	if err == nil && (c.From == nil || c.From.N != g.N-1) {
		err = fmt.Errorf("after damage of %d it takes %v", g.N, c.From)
	}
	return err
}

// killed runs the child until it is killed, at the point, or after so long, and
// returns the newest generation that it had told and not damaged.
func killed(t *testing.T, dir, point string, after time.Duration) (told int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKillChild$", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), childDir+"="+dir, childPoint+"="+point)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if point == "" {
		timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var n int
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "failed"):
			t.Error(line)
		case second(fmt.Sscanf(line, "committed %d", &n)) == nil:
			told = n
		case second(fmt.Sscanf(line, "damaged %d", &n)) == nil:
			told = n - 1
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended with %v, and was to be killed", err)
	}
	return told
}

// survived checks what a kill has left: nothing that was told is lost, nothing
// half is taken, nothing is left behind, and work goes on.
func survived(t *testing.T, dir string, told int) {
	t.Helper()
	f := openIn(t, dir, 0)
	defer f.Close()
	c, err := f.Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if c.From != nil {
		n = c.From.N
	}
	// The last may have been committed and not told, and damaged ones count not.
	if n < told || n > told+2 {
		t.Errorf("a restart takes generation %d, and %d was told", n, told)
	}
	all, err := f.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.State != Good && e.State != Aside {
			t.Errorf("%s is %s: %v", e.ID, e.State, e.Why)
		}
	}
	for _, name := range filesBelow(t, dir) {
		if strings.Contains(name, trashPrefix) || strings.Contains(name, partSuffix) || strings.Contains(name, ".tmp") || strings.Contains(name, scratchPrefix) {
			t.Errorf("left behind: %s", name)
		}
	}
	if g := mustWrite(t, f, 1); g.N <= n {
		t.Errorf("the next has number %d", g.N)
	}
	if err := os.RemoveAll(filepath.Join(dir, "job-17")); err != nil {
		t.Fatal(err)
	}
}

func TestKill9(t *testing.T) {
	points := []string{"attempt made/1", "scratch made/1", "begun/1", "part made/1", "part made/3", "writing/1", "writing/3", "sealed/2", "sum written/2",
		"manifest written/1", "manifest written/3", "renamed/1", "renamed/3", "trash/1", "trash/2", "set aside/1"}
	random := 25
	if testing.Short() {
		points, random = []string{"scratch made/1", "begun/1", "manifest written/2", "renamed/2", "trash/1"}, 2
	}
	dir := t.TempDir()
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			survived(t, dir, killed(t, dir, point, 0))
		})
	}
	t.Run("at any time", func(t *testing.T) {
		for range random {
			survived(t, dir, killed(t, dir, "", time.Duration(rand.Int64N(int64(250*time.Millisecond)))))
		}
	})
}
