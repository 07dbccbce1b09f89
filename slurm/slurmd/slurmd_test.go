package slurmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stub writes an executable in place of slurmd.
func stub(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "slurmd")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func conf(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 5 s", what)
		}
	}
}

// pidIn waits for a file that holds a pid, and makes sure that it is killed at the end.
func pidIn(t *testing.T, path string) int {
	t.Helper()
	var pid int
	waitFor(t, path, func() bool {
		data, _ := os.ReadFile(path)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(data)))
		return pid > 1 && strings.HasSuffix(string(data), "\n")
	})
	return pid
}

func gone(pid int) bool {
	_, err := Started(pid)
	return err != nil
}

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	c := conf(t, "ClusterName=x\n slurmdspooldir = "+dir+"/spool/%n # here\nSlurmdPidFile="+dir+"/run/%n.pid\n")
	bin := stub(t, "exit 0")
	cmd, err := Command(Options{Node: "c1", Conf: c, Dir: dir + "/own", Path: bin, Boot: true, Env: []string{"A=b"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{bin, "-D", "-N", "c1", "-f", c, "-L", dir + "/own/slurmd.log", "-b"}
	if !slices.Equal(cmd.Args, want) {
		t.Errorf("arguments are %q, want %q", cmd.Args, want)
	}
	for _, entry := range []string{"PATH=" + searchPath, "SLURM_CONF=" + c, "A=b"} {
		if !slices.Contains(cmd.Env, entry) {
			t.Errorf("environment %q lacks %q", cmd.Env, entry)
		}
	}
	for _, d := range []string{"own", "spool/c1", "run"} {
		if st, err := os.Stat(filepath.Join(dir, d)); err != nil || !st.IsDir() {
			t.Errorf("folder %s was not made: %v", d, err)
		}
	}
}

// A freshly booted node has an empty spool folder, but a folder that nodes
// share is nobody's to empty.
func TestBootEmptiesSpool(t *testing.T) {
	for name, c := range map[string]struct {
		spool string
		boot  bool
		empty bool
	}{
		"boot":                     {"/spool/%n", true, true},
		"no boot":                  {"/spool/%n", false, false},
		"boot with a shared spool": {"/spool/c1", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			stale := filepath.Join(dir, "spool", "c1", "stepd.slurm.pmix.1.0")
			if err := os.MkdirAll(filepath.Dir(stale), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(stale, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Command(Options{Node: "c1", Conf: conf(t, "SlurmdSpoolDir="+dir+c.spool+"\n"), Dir: dir + "/own", Path: stub(t, ""), Boot: c.boot})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(stale); (err != nil) != c.empty {
				t.Errorf("the file of a step before: %v; want it gone: %t", err, c.empty)
			}
			if _, err := os.Stat(filepath.Dir(stale)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCommandErrors(t *testing.T) {
	good := Options{Node: "c1", Conf: conf(t, ""), Dir: t.TempDir(), Path: stub(t, "")}
	tests := map[string]struct {
		change func(*Options)
		want   string
	}{
		"no node":    {func(o *Options) { o.Node = "" }, "node, slurm.conf or folder is missing"},
		"no conf":    {func(o *Options) { o.Conf = "/nowhere/slurm.conf" }, "/nowhere/slurm.conf"},
		"no slurmd":  {func(o *Options) { o.Path = "/nowhere/slurmd" }, "/nowhere/slurmd"},
		"no name":    {func(o *Options) { o.Path = "no-such-slurmd" }, "no-such-slurmd is neither in PATH"},
		"bad folder": {func(o *Options) { o.Dir = o.Conf + "/x" }, "making a folder"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := good
			tt.change(&o)
			if _, err := Command(o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestStartResetsSignalMask(t *testing.T) {
	term := unix.Sigset_t{}
	term.Val[0] = 1 << (unix.SIGTERM - 1)
	done := make(chan struct{})
	var out []byte
	var err error
	go func() { // its own thread, thrown away with its mask
		defer close(done)
		if err = unix.PthreadSigmask(unix.SIG_BLOCK, &term, nil); err != nil {
			return
		}
		var sb strings.Builder
		cmd := exec.Command("grep", "SigBlk", "/proc/self/status")
		cmd.Stdout = &sb
		if err = Start(cmd); err == nil {
			err = cmd.Wait()
		}
		out = []byte(sb.String())
	}()
	<-done
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "0000000000000000") {
		t.Errorf("the child blocks signals: %s", out)
	}
}

// TestKillTree kills a tree with a session of its own in it, as slurmstepd has.
func TestKillTree(t *testing.T) {
	dir := t.TempDir()
	cmd, err := Command(Options{Node: "c1", Conf: conf(t, ""), Dir: dir, Path: stub(t,
		`setsid sh -c 'echo $$ >child; sh -c "echo \$\$ >grandchild; sleep 300; :"; :' & sleep 300`)})
	if err != nil {
		t.Fatal(err)
	}
	if err := Start(cmd); err != nil {
		t.Fatal(err)
	}
	child, grandchild := pidIn(t, dir+"/child"), pidIn(t, dir+"/grandchild")
	if err := KillTree(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{cmd.Process.Pid, child, grandchild} {
		if !gone(pid) {
			t.Errorf("process %d still lives", pid)
		}
	}
	if err := KillTree(cmd.Process.Pid); err != nil {
		t.Errorf("killing a zombie: %v", err)
	}
	_ = cmd.Wait() // killed
	if err := KillTree(cmd.Process.Pid); err != nil {
		t.Errorf("killing what is gone: %v", err)
	}
}

// TestKillMarkedSteps kills a slurmstepd without a mark, with what is below it, in the
// folder of its slurmd alone.
func TestKillMarkedSteps(t *testing.T) {
	sh, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), "slurmstepd")
	if err := os.WriteFile(bin, sh, 0o755); err != nil {
		t.Fatal(err)
	}
	start := func(path, dir string) *exec.Cmd {
		cmd := exec.Command(path, "-c", "sleep 300 & echo $! >task; wait")
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + searchPath}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = KillTree(cmd.Process.Pid)
			_ = cmd.Wait() // killed
		})
		return cmd
	}
	dir, other := t.TempDir(), t.TempDir()
	step, theirs := start(bin, dir), start(bin, other)
	task := pidIn(t, dir+"/task")
	pidIn(t, other+"/task")
	if err := os.Remove(dir + "/task"); err != nil {
		t.Fatal(err)
	}
	user := start("/bin/sh", dir) // who looks into the folder
	pidIn(t, dir+"/task")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := KillMarked("BURST_TEST_MARK=nobody's", link); err != nil {
		t.Fatal(err)
	}
	for pid, want := range map[int]bool{step.Process.Pid: true, task: true, theirs.Process.Pid: false, user.Process.Pid: false} {
		if gone(pid) != want {
			t.Errorf("process %d is gone: %t, want %t", pid, !want, want)
		}
	}
}

// TestKillMarked kills what lost its parent, and the unmarked child of it.
func TestKillMarked(t *testing.T) {
	dir := t.TempDir()
	mark := "BURST_TEST_MARK=" + dir
	cmd, err := Command(Options{Node: "c1", Conf: conf(t, ""), Dir: dir, Env: []string{mark}, Path: stub(t,
		`setsid sh -c 'echo $$ >orphan; env -u BURST_TEST_MARK sh -c "echo \$\$ >job; sleep 300; :"; :' & exit 0`)})
	if err != nil {
		t.Fatal(err)
	}
	if err := Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	orphan, job := pidIn(t, dir+"/orphan"), pidIn(t, dir+"/job")
	if pids, err := Marked(mark); err != nil || !slices.Contains(pids, orphan) || slices.Contains(pids, job) {
		t.Errorf("marked are %v, %v, want %d without %d", pids, err, orphan, job)
	}
	if err := KillMarked(mark); err != nil {
		t.Fatal(err)
	}
	if !gone(orphan) || !gone(job) {
		t.Errorf("orphan %d or its child %d still lives", orphan, job)
	}
}

// TestKilledIsWaitedFor: what was killed counts as long as it lives, though its
// parent is gone and nothing else finds it; but not another process with its number.
func TestKilledIsWaitedFor(t *testing.T) {
	cmd := exec.Command("sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	began, err := Started(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		killed map[int]uint64
		want   []int
	}{{"it lives", map[int]uint64{pid: began}, []int{pid}}, {"its number was given again", map[int]uint64{pid: began - 1}, nil}, {"nothing", map[int]uint64{}, nil}} {
		if got, err := alive(tt.killed, nil); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, %v, want %v", tt.name, got, err, tt.want)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	if got, err := alive(map[int]uint64{pid: began}, nil); err != nil || len(got) > 0 {
		t.Errorf("it is gone: %v, %v", got, err)
	}
}

func TestParseStat(t *testing.T) {
	tests := map[string]struct {
		line string
		want process
		ok   bool
	}{
		"plain":      {"42 (cat) R 7 42 7 0 -1 4194304 90 0 0 0 0 0 0 0 20 0 1 0 123456 5 6", process{parent: 7, started: 123456}, true},
		"odd name":   {"42 (a) b) S 7 42 7 0 -1 4194304 90 0 0 0 0 0 0 0 20 0 1 0 9 5 6", process{parent: 7, started: 9}, true},
		"zombie":     {"42 (x) Z 7 42 7 0 -1 4194304 90 0 0 0 0 0 0 0 20 0 1 0 9 5 6", process{7, 9, true}, true},
		"empty":      {"", process{}, false},
		"short":      {"42 (x) Z 7", process{}, false},
		"bad parent": {"42 (x) Z q 42 7 0 -1 4194304 90 0 0 0 0 0 0 0 20 0 1 0 9 5 6", process{}, false},
		"bad start":  {"42 (x) Z 1 42 7 0 -1 4194304 90 0 0 0 0 0 0 0 20 0 1 0 -9 5 6", process{}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat(tt.line)
			if got != tt.want || (err == nil) != tt.ok {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestBootDelay(t *testing.T) {
	second := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for after, want := range map[time.Duration]time.Duration{
		0:                      1010 * time.Millisecond,
		400 * time.Millisecond: 610 * time.Millisecond,
		999 * time.Millisecond: 11 * time.Millisecond,
	} {
		if got := BootDelay(second.Add(after)); got != want {
			t.Errorf("%s into a second it waits %s, want %s", after, got, want)
		}
	}
}
