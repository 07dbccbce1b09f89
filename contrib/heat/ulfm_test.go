package heat

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// survivor runs heat-ulfm by ulfm-run on this host.
type survivor struct {
	mpi, program string
	size         []string
	want         string // the checksum of plain heat
}

// TestULFM: whatever ranks are lost, and whenever, heat-ulfm comes to plain
// heat's field, and computes no more twice than what was done since the last copy.
func TestULFM(t *testing.T) {
	if testing.Short() {
		t.Skip("a real Open MPI 5: slow end-to-end, run by make test")
	}
	mpi, err := filepath.Abs("../../build/ulfm")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(mpi, "bin", "mpicc")); err != nil {
		t.Skip("NOT TESTED: heat-ulfm needs an Open MPI 5 in build/ulfm: make deps-ulfm")
	}
	s := survivor{mpi: mpi, program: filepath.Join(t.TempDir(), "heat-ulfm"), size: []string{"-n", "256", "-i", "200"}}
	makeIn(t, "ulfm", "OUT="+s.program, "MPICC="+filepath.Join(mpi, "bin", "mpicc"))
	s.want = single(t, build(t), s.size...).checksum(t)
	t.Run("deaths", s.testDeaths)
	t.Run("killed from outside", s.testKilled)
	t.Run("moved", s.testMoved)
	t.Run("lost in a move", s.testLostInMove)
	t.Run("told before it starts", s.testToldEarly)
	t.Run("a plan is given up", s.testGivenUp)
	t.Run("the plan is on one node", s.testOneReads)
	t.Run("ulfm-run is killed", s.testRunKilled)
	t.Run("told to stop", s.testStop)
	t.Run("stuck", s.testStuck)
	t.Run("a new rank dies", s.testNewDies)
	t.Run("mpirun hangs", s.testHung)
	t.Run("a node falls silent", s.testSilent)
	t.Run("bad input", s.testBadInput)
}

// command is ulfm-run with heat-ulfm on that many ranks; its plan is below dir.
func (s survivor) command(t *testing.T, dir string, ranks int, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	all := append([]string{"--mpi", s.mpi, "--poll", "0.1", "-n", strconv.Itoa(ranks), s.program}, s.size...)
	cmd := exec.CommandContext(ctx, "ulfm/ulfm-run", append(all, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	return cmd
}

func (s survivor) run(t *testing.T, ranks int, args ...string) outcome {
	t.Helper()
	return finish(t, s.command(t, t.TempDir(), ranks, args...), nil)
}

// finish runs a command to its end; meanwhile is called when it has begun.
func finish(t *testing.T, cmd *exec.Cmd, meanwhile func()) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if meanwhile != nil {
		meanwhile()
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, &stdout, &stderr)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

var twice = regexp.MustCompile(`repeated=(\d+)`)

// came checks that a run came to the end, and did at most so many iterations twice.
func (s survivor) came(t *testing.T, o outcome, most int) {
	t.Helper()
	if sum := o.checksum(t); sum != s.want || o.code != 0 {
		t.Errorf("checksum %s, exit code %d; want %s, 0", sum, o.code, s.want)
	}
	got, err := strconv.Atoi(twice.FindStringSubmatch(o.stdout + "repeated=0")[1])
	if err != nil || got > most || !twice.MatchString(o.stdout) {
		t.Errorf("%d iterations were done twice, want at most %d", got, most)
	}
	if t.Failed() {
		t.Logf("%s%s", o.stdout, o.stderr)
	}
}

func (s survivor) testDeaths(t *testing.T) {
	for _, test := range []struct {
		name  string
		ranks int
		die   []string // PHASE:RANK:COUNT
		most  int      // iterations done twice
	}{
		{"none", 6, nil, 0},
		{"two neighbours", 6, []string{"step:3:57", "step:4:57"}, 10},
		{"the first two", 6, []string{"step:0:57", "step:1:57"}, 20},
		{"three far ones", 9, []string{"step:0:57", "step:2:57", "step:7:57"}, 20},
		{"one after the other", 4, []string{"step:2:57", "step:1:90", "step:3:120"}, 30},
		{"while it copies", 6, []string{"copy:2:4"}, 10},
		{"in a recovery, before new ones start", 6, []string{"step:2:57", "recover:4:1"}, 10},
		{"in a recovery, when new ones have started", 6, []string{"step:2:57", "restore:4:1"}, 10},
		{"all but one", 4, []string{"step:0:57", "step:1:57", "step:3:57"}, 120},
	} {
		for _, how := range []string{"respawn", "shrink"} {
			t.Run(test.name+", "+how, func(t *testing.T) {
				args := []string{"--on-loss", how, "--stall", "20"}
				for _, d := range test.die {
					args = append(args, "--die", d)
				}
				o := s.run(t, test.ranks, args...)
				s.came(t, o, test.most)
				if lost := strings.Contains(o.stdout, "heat: lost "); lost != (test.die != nil) {
					t.Errorf("lost ranks: %v\n%s", lost, o.stdout)
				}
			})
		}
	}
}

// ranks are the processes of the program, by their rank.
func (s survivor) ranks(t *testing.T) map[string]int {
	return s.ranksWith(t, "")
}

// ranksWith are the processes of the program whose environment has these words, by their rank.
func (s survivor) ranksWith(t *testing.T, words string) map[string]int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, link := range all {
		if exe, err := os.Readlink(link); err != nil || exe != s.program {
			continue
		}
		env, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "environ")) // gone meanwhile: no rank
		if !strings.Contains(string(env), words) {
			continue
		}
		for _, word := range strings.Split(string(env), "\x00") {
			if rank, ok := strings.CutPrefix(word, "OMPI_COMM_WORLD_RANK="); ok {
				pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
				if err != nil {
					t.Fatal(err)
				}
				found[rank] = pid
			}
		}
	}
	return found
}

// until polls for something that becomes true within 20 s.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// started waits until rank 0 has said its first words.
func (s survivor) started(t *testing.T, dir string) {
	t.Helper()
	until(t, "it computes", func() bool { return s.says(dir, "heat: step 5\n") })
}

func (s survivor) testKilled(t *testing.T) {
	dir := t.TempDir()
	o := finish(t, s.command(t, dir, 6, "--pace", "10", "--trace", "--stall", "20"), func() {
		s.started(t, dir)
		pids := s.ranks(t)
		for _, rank := range []string{"2", "3"} {
			if err := syscall.Kill(pids[rank], syscall.SIGKILL); pids[rank] == 0 || err != nil {
				t.Errorf("killing rank %s of %v: %v", rank, pids, err)
			}
		}
	})
	s.came(t, o, 20)
}

// says looks for words in what the ranks have said so far.
func (s survivor) says(dir, words string) bool {
	out, err := filepath.Glob(filepath.Join(dir, "ulfm-run.*", "out"))
	if err != nil || len(out) != 1 {
		return false
	}
	text, err := os.ReadFile(out[0])
	return err == nil && bytes.Contains(text, []byte(words))
}

func (s survivor) testBadInput(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--die", "step"}, `heat: error: --die takes PHASE:RANK:COUNT, at most 8 times, not "step"`},
		{[]string{"--on-loss", "weep"}, `heat: error: --on-loss takes respawn or shrink, not "weep"`},
		{[]string{"--copy-every"}, "heat: error: --copy-every needs a value; see --help"},
		{[]string{"--colour"}, "heat: error: --colour is not an option; see --help"},
	} {
		cmd := exec.CommandContext(t.Context(), s.program, test.args...)
		if o := finish(t, cmd, nil); o.code != 2 || o.errorLine() != test.want {
			t.Errorf("%v: exit code %d, %q; want 2, %q", test.args, o.code, o.errorLine(), test.want)
		}
	}
	for _, args := range [][]string{{}, {"-n", "x", "true"}, {"--poll"}, {"--what"}, {"--mpi", "/nowhere", "true"}} {
		cmd := exec.CommandContext(t.Context(), "ulfm/ulfm-run", args...)
		if o := finish(t, cmd, nil); o.code != 2 || !strings.HasPrefix(o.stderr, "ulfm-run: error: ") {
			t.Errorf("ulfm-run %v: exit code %d, %q", args, o.code, o.stderr)
		}
	}
}
