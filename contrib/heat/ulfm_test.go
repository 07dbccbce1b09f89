package heat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// writePlan puts a plan in the place of ulfm-run's.
func writePlan(t *testing.T, dir, text string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "ulfm-run.*", "plan"))
	if err != nil || len(found) != 1 {
		t.Fatalf("plans %v, %v", found, err)
	}
	if err := os.WriteFile(found[0]+".test", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(found[0]+".test", found[0]); err != nil {
		t.Fatal(err)
	}
}

// Ranks move over nodes that are names only, and lose nothing by it, also when a
// copy is due in the same iteration.
func (s survivor) testMoved(t *testing.T) {
	dir := t.TempDir()
	var places []string
	o := finish(t, s.command(t, dir, 6, "--pace", "15", "--trace", "--copy-every", "1"), func() {
		s.started(t, dir)
		for i, nodes := range []string{"a b c", "a c", "a c d"} {
			text := fmt.Sprintf("plan %d\nnode %s\n", 100+i, strings.ReplaceAll(nodes, " ", "\nnode "))
			writePlan(t, dir, text)
			until(t, "moved to "+nodes, func() bool {
				out, err := filepath.Glob(filepath.Join(dir, "ulfm-run.*", "out"))
				if err != nil || len(out) != 1 {
					return false
				}
				text, err := os.ReadFile(out[0])
				return err == nil && strings.Count(string(text), ": moved ") == i+1
			})
		}
	})
	s.came(t, o, 0)
	for _, line := range strings.Split(o.stdout, "\n") {
		if _, at, ok := strings.Cut(line, " s, on "); ok {
			places = append(places, at)
		}
	}
	if got := strings.Join(places, "; "); got != "a b c a b c; a a c a c c; a a c d c d" {
		t.Errorf("the ranks were on %s", got)
	}
}

// A rank that is lost in a move ends the move; it is made again then.
func (s survivor) testLostInMove(t *testing.T) {
	dir := t.TempDir()
	var last string
	o := finish(t, s.command(t, dir, 4, "--pace", "15", "--trace", "--copy-every", "1000", "--die", "copy:2:2"), func() {
		s.started(t, dir)
		writePlan(t, dir, "plan 100\nnode a\nnode b\n")
	})
	s.came(t, o, 199)
	for _, line := range strings.Split(o.stdout, "\n") {
		if _, at, ok := strings.Cut(line, " s, on "); ok {
			last = at
		}
	}
	if !strings.Contains(o.stdout, "heat: lost 1 ranks") || !strings.Contains(o.stdout, "heat: plan 100: moved ") || strings.Trim(last, "ab ") != "" {
		t.Errorf("the ranks are on %q:\n%s", last, o.stdout)
	}
}

// A plan that is written while the ranks start is carried out like a later one, and one
// of more nodes than can be held by its first nodes.
func (s survivor) testToldEarly(t *testing.T) {
	dir := t.TempDir()
	o := finish(t, s.command(t, dir, 4, "--pace", "5", "--stall", "20"), func() {
		until(t, "there is a plan", func() bool {
			found, err := filepath.Glob(filepath.Join(dir, "ulfm-run.*", "plan"))
			return err == nil && len(found) == 1
		})
		var plan strings.Builder
		plan.WriteString("plan 100\n")
		for i := range 2000 {
			fmt.Fprintf(&plan, "node n%d\n", i)
		}
		writePlan(t, dir, plan.String())
	})
	s.came(t, o, 0)
	if !strings.Contains(o.stdout, "heat: plan 100: moved 4 ranks at iteration 1, ") || !strings.Contains(o.stdout, " s, on n0 n1 n2 n3\n") {
		t.Errorf("it did not move:\n%s%s", o.stdout, o.stderr)
	}
}

// A plan that failures have ended three times is given up, with a word; the next one is
// carried out.
func (s survivor) testGivenUp(t *testing.T) {
	dir := t.TempDir()
	o := finish(t, s.command(t, dir, 6, "--pace", "15", "--trace", "--copy-every", "1000", "--stall", "20",
		"--die", "restore:2:1", "--die", "restore:3:3", "--die", "restore:1:5"), func() {
		s.started(t, dir)
		writePlan(t, dir, "plan 100\nnode a\nnode b\n")
		until(t, "it is given up", func() bool { return s.says(dir, "heat: plan 100: given up: ") })
		writePlan(t, dir, "plan 101\nnode c\n")
	})
	s.came(t, o, 199)
	if strings.Count(o.stdout, "heat: lost 1 ranks") != 3 || strings.Contains(o.stdout, "plan 100: moved") || !strings.Contains(o.stdout, "heat: plan 101: moved 6 ranks") {
		t.Errorf("what became of the plans:\n%s", o.stdout)
	}
}

// The plan's file is on the batch host only, the first of the plan's nodes. When all ranks
// there are lost, or the first of them, there is one that hears of the next plan.
func (s survivor) testOneReads(t *testing.T) {
	run, err := filepath.Abs("ulfm/ulfm-run")
	if err != nil {
		t.Fatal(err)
	}
	for how, first := range map[string]string{"respawn": "a b c", "shrink": "a b"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			launcher := filepath.Join(dir, "launcher") // rank --on NODE -- PROGRAM --plan FILE ...
			script := fmt.Sprintf("#!/bin/bash\nplan=/nowhere\n[ $3 != a ] || plan=$ULFM_DIR/plan\nset -- \"${@:1:6}\" $plan \"${@:8}\"\nexec %s \"$@\"\n", run)
			if err := os.WriteFile(launcher, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			ranks := len(strings.Fields(first))
			if how == "shrink" {
				ranks = 4 // on a b a b: one is left on a, and it is not the first
			}
			o := finish(t, s.command(t, dir, ranks, "--pace", "15", "--trace", "--stall", "20", "--on-loss", how, "--launcher", launcher), func() {
				s.started(t, dir)
				writePlan(t, dir, "plan 100\nnode "+strings.ReplaceAll(first, " ", "\nnode ")+"\n")
				until(t, "it has moved", func() bool { return s.says(dir, "heat: plan 100: moved ") })
				pid := s.ranksWith(t, "HEAT_PLACE=a\x00")["0"]
				if err := syscall.Kill(pid, syscall.SIGKILL); pid == 0 || err != nil {
					t.Errorf("killing rank 0, process %d: %v", pid, err)
				}
				until(t, "it is lost", func() bool { return s.says(dir, "heat: lost 1 ranks") })
				writePlan(t, dir, "plan 101\nnode a\nnode d\n")
			})
			s.came(t, o, 20)
			if !strings.Contains(o.stdout, "heat: plan 101: moved ") {
				t.Errorf("nobody has read the next plan:\n%s%s", o.stdout, o.stderr)
			}
		})
	}
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

// What a killed ulfm-run leaves behind ends soon: it must not write the checkpoint's
// file beside those that take its place.
func (s survivor) testRunKilled(t *testing.T) {
	dir := t.TempDir()
	cmd := s.command(t, dir, 4, "--pace", "1000", "--stall", "60")
	o := finish(t, cmd, func() {
		until(t, "its ranks are there", func() bool { return len(s.ranks(t)) == 4 })
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		until(t, "no rank is left", func() bool { return len(s.ranks(t)) == 0 })
		until(t, "nor a folder", func() bool {
			left, err := filepath.Glob(filepath.Join(dir, "ulfm-run.*"))
			return err == nil && len(left) == 0
		})
	})
	if o.code != -1 {
		t.Errorf("exit code %d", o.code)
	}
}

// A plan may tell it to stop: it leaves a checkpoint, from which it goes on.
func (s survivor) testStop(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "heat.ckpt")
	args := []string{"--checkpoint", file, "--restart", "auto"}
	o := finish(t, s.command(t, dir, 4, append(args, "--pace", "15", "--trace")...), func() {
		s.started(t, dir)
		writePlan(t, dir, "plan 100\nstop\n")
	})
	if o.code != 1 || !strings.Contains(o.stdout, "heat: stopped at iteration ") || strings.Contains(o.stdout, "heat: done") {
		t.Fatalf("exit code %d:\n%s%s", o.code, o.stdout, o.stderr)
	}
	o = s.run(t, 3, args...)
	s.came(t, o, 0)
	if !strings.Contains(o.stdout, "heat: restarted from iteration ") {
		t.Errorf("it did not go on from the checkpoint:\n%s", o.stdout)
	}
}

// A rank that does nothing any more ends the attempt, with a word, in bounded time,
// and the next one comes to the end.
func (s survivor) testStuck(t *testing.T) {
	dir := t.TempDir()
	begun := time.Now()
	o := finish(t, s.command(t, dir, 4, "--pace", "15", "--trace", "--stall", "2"), func() {
		s.started(t, dir)
		pids := s.ranks(t)
		if err := syscall.Kill(pids["2"], syscall.SIGSTOP); pids["2"] == 0 || err != nil {
			t.Errorf("stopping rank 2 of %v: %v", pids, err)
		}
	})
	s.came(t, o, 0)
	if !strings.Contains(o.stderr, "nothing has moved for 2 s") || !strings.Contains(o.stderr, "ulfm-run: attempt 1 came to nothing") {
		t.Errorf("it said nothing of the stuck rank:\n%s", o.stderr)
	}
	if took := time.Since(begun); took > 45*time.Second {
		t.Errorf("it ended after %s", took)
	}
	until(t, "no rank is left", func() bool { return len(s.ranks(t)) == 0 })
}

// A new rank that dies before it has joined leaves the others in MPI_Comm_spawn,
// which nothing ends but the watchdog. The next attempt goes on from the checkpoint.
func (s survivor) testNewDies(t *testing.T) {
	dir := t.TempDir()
	run, err := filepath.Abs("ulfm/ulfm-run")
	if err != nil {
		t.Fatal(err)
	}
	launcher := filepath.Join(dir, "launcher")
	script := fmt.Sprintf("#!/bin/sh\nmkdir %s/one 2>/dev/null && exit 0\nexec %s \"$@\"\n", dir, run)
	if err := os.WriteFile(launcher, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	o := finish(t, s.command(t, dir, 4, "--pace", "15", "--trace", "--stall", "3", "--launcher", launcher,
		"--checkpoint", filepath.Join(dir, "heat.ckpt"), "--every", "5", "--restart", "auto"), func() {
		s.started(t, dir)
		writePlan(t, dir, "plan 100\nnode elsewhere\n")
	})
	s.came(t, o, 0)
	if !strings.Contains(o.stderr, "nothing has moved for 3 s (spawn") || !strings.Contains(o.stdout, "heat: restarted from iteration ") {
		t.Errorf("it did not go on from the checkpoint:\n%s%s", o.stdout, o.stderr)
	}
	if took := time.Since(begun); took > 45*time.Second {
		t.Errorf("it ended after %s", took)
	}
	until(t, "no rank is left", func() bool { return len(s.ranks(t)) == 0 })
}

// An mpirun that has no rank any more and does not end, nor hears SIGTERM, is killed,
// and the program started again.
func (s survivor) testHung(t *testing.T) {
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nmkdir %[1]s/one 2>/dev/null || exec %[2]s/bin/mpirun \"$@\"\ntrap '' TERM\nsleep 1\necho $$ >%[1]s/pid\nexec sleep 1000\n", dir, s.mpi)
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", "mpirun"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(s.mpi, "bin", "ompi_info"), filepath.Join(dir, "bin", "ompi_info")); err != nil {
		t.Fatal(err)
	}
	hung := s
	hung.mpi = dir
	o := finish(t, hung.command(t, dir, 4), nil)
	s.came(t, o, 0)
	if !strings.Contains(o.stderr, "ulfm-run: mpirun hangs") {
		t.Errorf("it said nothing of the hung mpirun:\n%s", o.stderr)
	}
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the hung mpirun, process %d, is still there: %v", pid, err)
	}
}

// A node whose ranks say nothing any more, and end no connection, is left as soon as Slurm says
// that it is down, or no node of the job any more, long before the stall: the copies in memory
// are not lost with it. Its srun knows nothing of it.
func (s survivor) testSilent(t *testing.T) {
	for how, after := range map[string]string{"down": "h1,h2", "left": "h1"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			bin := filepath.Join(dir, "bin")
			if err := os.Mkdir(bin, 0o700); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{
				"scancel": "",
				"srun":    `while [ "${1#--}" != "$1" ]; do shift; done; setsid "$@" & wait`,
				"scontrol": `gone=; [ ! -e "$TMPDIR/gone" ] || gone=yes
					case $* in
					*"show job"*) echo "JobId=7 JobState=RUNNING NodeList=h[1-2] " ;;
					*hostnames*) [ -n "$gone" ] && tr , '\n' <<<` + after + ` || printf 'h1\nh2\n' ;;
					*"show node"*)
						for node in ${4//,/ }; do
							state=MIXED
							[ $node$gone != h2yes ] || state=DOWN+CLOUD+NOT_RESPONDING
							echo "NodeName=$node NodeAddr=127.0.0.1 State=$state"
						done ;;
					esac`,
			} {
				if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/bash\n"+text+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			cmd := s.command(t, dir, 4, "--pace", "15", "--trace")
			cmd.Args = slices.Insert(cmd.Args, 1, "--no-replace")
			cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"), "SLURM_JOB_ID=7", "SLURMD_NODENAME=h1")
			o := finish(t, cmd, func() {
				s.started(t, dir)
				pids := s.ranksWith(t, "HEAT_PLACE=h2\x00")
				t.Cleanup(func() {
					for _, pid := range pids {
						_ = syscall.Kill(pid, syscall.SIGKILL) // ended already, perhaps
					}
				})
				for rank, pid := range pids {
					if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
						t.Errorf("stopping rank %s: %v", rank, err)
					}
				}
				if err := os.WriteFile(filepath.Join(dir, "gone"), nil, 0o600); err != nil || len(pids) != 2 {
					t.Errorf("%v; ranks on h2: %v", err, pids)
				}
				until(t, "they go on without h2", func() bool { return s.says(dir, "heat: lost 2 ranks") })
			})
			s.came(t, o, 20)
		})
	}
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
