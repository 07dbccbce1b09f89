package heat

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestHeat(t *testing.T) {
	if testing.Short() {
		t.Skip("heat under mpirun: slow end-to-end, run by make test")
	}
	bin := build(t)
	for name, test := range map[string]func(*testing.T, string){
		"same result on any ranks": testRanks,
		"signal and restart":       testSignal,
		"exit on signal":           testExitOnSignal,
		"killed while it writes":   testKilled,
		"damaged checkpoint":       testDamaged,
		"full disk":                testFullDisk,
		"stopped in its pace":      testFrozen,
		"bad input":                testBadInput,
	} {
		t.Run(name, func(t *testing.T) { test(t, bin) })
	}
}

func testRanks(t *testing.T, bin string) {
	size := []string{"-n", "101", "-i", "150", "--seed", "7"}
	want := single(t, bin, size...).checksum(t)
	for ranks := 1; ranks <= 4; ranks++ {
		for _, decomp := range []string{"1d", "2d"} {
			t.Run(fmt.Sprintf("%d %s", ranks, decomp), func(t *testing.T) {
				got := run(t, bin, ranks, append(size, "--decomp", decomp)...)
				if sum := got.checksum(t); sum != want || got.code != 0 {
					t.Errorf("checksum %s, exit code %d; want %s, 0", sum, got.code, want)
				}
			})
		}
	}
	if sum := single(t, bin, "-n", "101", "-i", "150", "--seed", "8").checksum(t); sum == want {
		t.Errorf("seeds 7 and 8 give the same checksum %s", sum)
	}
}

// One rank that is not the first gets the signal; all write, and go on.
func testSignal(t *testing.T, bin string) {
	size := []string{"-n", "120", "-i", "400", "--seed", "3"}
	want := single(t, bin, size...).checksum(t)
	file := filepath.Join(t.TempDir(), "heat.ckpt")

	p := start(t, bin, 4, append(size, "--pace", "5", "--progress", "0.1", "--checkpoint", file)...)
	p.await(t, "heat: iteration ")
	if err := syscall.Kill(p.rank(t, 3), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	line := p.await(t, "(SIGUSR1)")
	middle, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if sum := p.wait(t).checksum(t); sum != want {
		t.Errorf("after the signal: checksum %s, want %s", sum, want)
	}

	var iteration int
	if _, err := fmt.Sscanf(line, "heat: checkpoint at iteration %d (SIGUSR1),", &iteration); err != nil || iteration < 1 || iteration >= 400 {
		t.Fatalf("iteration %d in %q: %v", iteration, line, err)
	}
	if err := os.WriteFile(file, middle, 0o600); err != nil {
		t.Fatal(err)
	}
	for ranks := 1; ranks <= 3; ranks++ {
		got := run(t, bin, ranks, "-i", "400", "--restart", file, "--decomp", "2d")
		if sum := got.checksum(t); sum != want {
			t.Errorf("restarted on %d ranks: checksum %s, want %s", ranks, sum, want)
		}
		if said := fmt.Sprintf("heat: restarted from iteration %d\n", iteration); !strings.Contains(got.stdout, said) {
			t.Errorf("restarted on %d ranks without %q:\n%s", ranks, said, got.stdout)
		}
	}
}

// The signal to mpirun reaches all ranks, at different times.
func testExitOnSignal(t *testing.T, bin string) {
	args := []string{"-n", "120", "-i", "400", "--checkpoint", filepath.Join(t.TempDir(), "heat.ckpt"), "--restart", "auto", "--exit-on-signal", "--progress", "0.1"}
	p := start(t, bin, 3, append(args, "--pace", "5")...)
	p.await(t, "heat: no checkpoint at ")
	p.await(t, "heat: iteration ")
	if err := p.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if got := p.wait(t); got.code != 75 || strings.Contains(got.stdout, "heat: done") {
		t.Fatalf("exit code %d, want 75 and no line of done:\n%s%s", got.code, got.stdout, got.stderr)
	}
	got := run(t, bin, 2, args...)
	if !strings.Contains(got.stdout, "heat: restarted from iteration ") {
		t.Errorf("the second run did not restart:\n%s", got.stdout)
	}
	if sum, want := got.checksum(t), single(t, bin, "-n", "120", "-i", "400").checksum(t); sum != want {
		t.Errorf("checksum %s, want %s", sum, want)
	}
}

// Rank 0 dies by SIGKILL in a run that does little else than write.
func testKilled(t *testing.T, bin string) {
	want := single(t, bin, "-n", "500", "-i", "300").checksum(t)
	file := filepath.Join(t.TempDir(), "heat.ckpt")
	for i := range 3 {
		p := start(t, bin, 2, "-n", "500", "-i", "100000", "--every", "1", "--checkpoint", file)
		for range 3 + i {
			p.await(t, "(every)")
		}
		if err := syscall.Kill(p.rank(t, 0), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if got := p.wait(t); got.code == 0 {
			t.Fatalf("mpirun ended with 0 though a rank was killed:\n%s", got.stdout)
		}
		got := single(t, bin, "-i", "300", "--restart", file)
		if sum := got.checksum(t); sum != want {
			t.Errorf("checksum %s, want %s", sum, want)
		}
	}
}

func testDamaged(t *testing.T, bin string) {
	size := []string{"-n", "60", "-i", "50"}
	file := filepath.Join(t.TempDir(), "heat.ckpt")
	want := single(t, bin, append(size, "--checkpoint", file)...).checksum(t)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	flip := func(at int) []byte {
		b := bytes.Clone(whole)
		b[at] ^= 0x10
		return b
	}
	for name, bad := range map[string][]byte{
		"flipped in magic":     flip(1),
		"flipped in iteration": flip(24),
		"flipped in seed":      flip(33),
		"flipped in sum":       flip(41),
		"flipped in data":      flip(len(whole) - 1000),
		"last byte missing":    whole[:len(whole)-1],
		"one byte too many":    append(bytes.Clone(whole), 0),
		"cut off in header":    whole[:20],
		"empty":                nil,
		"zeros":                make([]byte, len(whole)),
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			got := single(t, bin, append(size, "--restart", file)...)
			if got.code != 2 || !strings.Contains(got.errorLine(), "is damaged") || strings.Contains(got.stdout, "done") {
				t.Errorf("refusing: exit code %d, want 2 and \"is damaged\":\n%s%s", got.code, got.stdout, got.stderr)
			}
			got = single(t, bin, append(size, "--checkpoint", file, "--restart", "auto")...)
			if sum := got.checksum(t); sum != want || got.code != 0 {
				t.Errorf("auto: checksum %s, exit code %d; want %s, 0", sum, got.code, want)
			}
			if aside, err := os.ReadFile(file + ".bad"); err != nil || !bytes.Equal(aside, bad) {
				t.Errorf("the damaged file was not set aside as it was: %v", err)
			}
		})
	}
}

// The first checkpoint fits, the next ones do not: RLIMIT_FSIZE is lowered in
// between.
func testFullDisk(t *testing.T, bin string) {
	dir := t.TempDir()
	file := filepath.Join(dir, "heat.ckpt")
	p := start(t, bin, 2, "-n", "200", "-i", "300", "--pace", "5", "--progress", "0.1", "--checkpoint", file, "--exit-on-signal", "--every", "50")
	p.await(t, "(every)")
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid := p.rank(t, 0)
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 64 << 10, Max: unix.RLIM_INFINITY}, nil); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	got := p.wait(t)
	if got.code != 1 || !strings.Contains(got.errorLine(), "File too large") {
		t.Errorf("exit code %d, want 1 and \"File too large\":\n%s", got.code, got.stderr)
	}
	if sum, want := got.checksum(t), single(t, bin, "-n", "200", "-i", "300").checksum(t); sum != want {
		t.Errorf("checksum %s, want %s", sum, want)
	}
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, first) {
		t.Errorf("the first checkpoint is not as it was: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("files left behind: %v", left)
	}
}

// What stops heat while it sleeps, as DMTCP does, makes the run as much longer,
// and does not pass within the sleep.
func testFrozen(t *testing.T, bin string) {
	const iterations, pace, frozen = 3, 400 * time.Millisecond, 300 * time.Millisecond
	p := start(t, bin, 1, "-n", "20", "-i", strconv.Itoa(iterations), "--pace", strconv.FormatInt(pace.Milliseconds(), 10), "--progress", "0.001")
	p.await(t, "heat: iteration 1 of ")
	pid := p.rank(t, 0)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(frozen) // which is what is tested
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	got := p.wait(t)
	_, rest, _ := strings.Cut(got.stdout, " seconds=")
	var took, compute float64
	if _, err := fmt.Sscanf(rest, "%f compute=%f", &took, &compute); err != nil {
		t.Fatalf("%v:\n%s", err, got.stdout)
	}
	const slice = 10 * time.Millisecond // of heat's sleep: so much of the stop may pass in it
	if least := (iterations*pace + frozen - slice).Seconds(); took < least {
		t.Errorf("it took %g s, want at least %g: the time in which it was stopped is not in it", took, least)
	}
	if compute <= 0 || compute > pace.Seconds() {
		t.Errorf("an iteration computed for %g s", compute)
	}
}

func testBadInput(t *testing.T, bin string) {
	file := filepath.Join(t.TempDir(), "heat.ckpt")
	single(t, bin, "-n", "20", "-i", "10", "--seed", "5", "--checkpoint", file)
	for _, c := range []struct {
		args, want string
	}{
		{"-n", "-n needs a value"},
		{"-n 0", `-n takes a number from 1 to 1000000, not "0"`},
		{"-n 12x", "-n takes a number"},
		{"-n 99999999999999999999", "-n takes a number"},
		{"-i -1", "-i takes a number"},
		{"--seed -1", "--seed takes a number"},
		{"--decomp 3d", "--decomp takes 1d, 2d or auto"},
		{"--pace nan", "--pace takes milliseconds"},
		{"--progress soon", "--progress takes seconds"},
		{"--every 0 --checkpoint x", "--every takes a number from 1 on"},
		{"--every 5", "--every needs --checkpoint FILE"},
		{"--exit-on-signal", "--exit-on-signal needs --checkpoint FILE"},
		{"--restart auto", "--restart auto needs --checkpoint FILE"},
		{"--frobnicate", "--frobnicate is not an option"},
		{"-x", "-x is not an option"},
		{"more", `"more" is not an option`},
		{"--restart /nonexistent/heat.ckpt", "No such file or directory"},
		{"--restart /", "is not a file"},
		{"-n 21 --restart " + file, "has a grid of -n 20, not 21"},
		{"--seed 6 --restart " + file, "has --seed 5, not 6"},
		{"-i 9 --restart " + file, "is at iteration 10, beyond -i 9"},
	} {
		got := single(t, bin, strings.Fields(c.args)...)
		if got.code != 2 || !strings.Contains(got.errorLine(), c.want) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("heat %s: exit code %d, want 2 and one line with %q:\n%s", c.args, got.code, c.want, got.stderr)
		}
	}
	if got := run(t, bin, 2, "-n", "1"); got.code != 2 || !strings.Contains(got.errorLine(), "cannot be split") {
		t.Errorf("2 ranks for 1 cell: exit code %d, want 2:\n%s", got.code, got.stderr)
	}
}
