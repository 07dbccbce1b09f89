package methods

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// fakeCRIU puts a script on PATH in the place of criu.
func fakeCRIU(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	put(t, dir+"/criu", "#!/bin/sh\n"+script)
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

const criuWorks = `
case $1 in --version) echo "Version: 4.2"; exit;; check) echo "Looks good."; exit;; esac
for arg; do case $last in -D) dir=$arg;; -W) work=$arg;; --pidfile) pid=$arg;; esac; last=$arg; done
`

func TestCRIUUsable(t *testing.T) {
	const vdso = `echo "Error (criu/vdso.c:270): vdso: Unexpected rt vDSO area bounds" >&2; echo "Error (criu/crtools.c:260): Could not initialize kernel features detection." >&2; exit 1`
	for _, c := range []struct{ name, script, fails string }{
		{"good", criuWorks, ""},
		{"a kernel that is too new", `case $1 in --version) echo "Version: 3.17.1";; *) ` + vdso + `;; esac`,
			"CRIU 3.17.1 does not work for user"},
		{"its word", `case $1 in --version) echo "Version: 3.17.1";; *) ` + vdso + `;; esac`, "vdso: Unexpected rt vDSO area bounds"},
		{"no privilege", `case $1 in --version) echo "Version: 4.2";; *) echo "CRIU needs to have the CAP_SYS_ADMIN or the CAP_CHECKPOINT_RESTORE capability: "; echo "setcap cap_checkpoint_restore+eip $0"; exit 1;; esac`,
			"CRIU needs to have the CAP_SYS_ADMIN or the CAP_CHECKPOINT_RESTORE capability"},
		{"not CRIU", `echo something else`, `does not say which: "something else"`},
		{"does not run", `exit 126`, "does not say which"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fakeCRIU(t, c.script)
			err := Usable(t.Context(), "criu")
			if (c.fails == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%v; want %q", err, c.fails)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
	t.Setenv("PATH", t.TempDir())
	if err := Usable(t.Context(), "criu"); err == nil || !strings.Contains(err.Error(), "criu is not on PATH") {
		t.Errorf("without criu: %v", err)
	}
}

// startCRIU starts a step that sleeps, which the test's end ends.
func startCRIU(t *testing.T, from *ckpt.Generation) (*criuStep, error) {
	t.Helper()
	m, err := New("criu", Options{})
	if err != nil {
		t.Fatal(err)
	}
	step, err := m.Start(t.Context(), ckpt.Launch{Args: []string{"sleep", "1000"}, Env: os.Environ(), Scratch: t.TempDir(), From: from})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		step.Signal(syscall.SIGKILL)
		step.Wait()
	})
	return step.(*criuStep), nil
}

func TestFakeCRIUCheckpoint(t *testing.T) {
	const images = `echo x >$dir/inventory.img; echo x >$dir/pstree.img; : >$dir/mm-7.img; : >$dir/mm-8.img; `
	for _, c := range []struct {
		name, dump string
		stop       bool
		fails      string
	}{
		{"good", images, false, ""},
		{"good, and stop", images, true, ""},
		{"fails", `echo "Error (criu/sk-inet.c:1): inet: Connected TCP socket" >$work/dump.log; exit 1`, true, "criu dump failed: Error (criu/sk-inet.c:1): inet: Connected TCP socket"},
		{"no images", `exit 0`, true, "it is no dump, or half of one"},
		{"late", images + "sleep 1.5", true, "not complete in time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fakeCRIU(t, criuWorks+c.dump)
			s, err := startCRIU(t, nil)
			if err != nil {
				t.Fatal(err)
			}
			limit := longEnough
			if c.name == "late" {
				limit = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			made, err := s.Checkpoint(ctx, t.TempDir(), c.stop)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%+v, %v; want %q", made, err, c.fails)
				}
				if !s.process.running() {
					t.Error("the step does not go on")
				}
				if c.name == "late" { // until the late one has ended
					if _, err := s.Checkpoint(t.Context(), t.TempDir(), false); !errors.Is(err, ckpt.ErrBusy) {
						t.Errorf("another one beside it: %v", err)
					}
				}
				return
			}
			if err != nil || made.Ranks != 2 || made.Tool != "criu 4.2" || !strings.HasPrefix(made.Extra["stdout"], "pipe:[") {
				t.Errorf("%+v, %v", made, err)
			}
			if c.stop {
				if code, err := s.Wait(); code != endedByUs || err != nil {
					t.Errorf("ended with %d, %v", code, err)
				}
			}
		})
	}
}

// A step whose output cannot be written ends, and is not held up for ever by a pipe
// that nobody reads.
func TestCRIUOutputThatIsLost(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	pipes, err := newCRIUPipes(launch{Stdout: full, Stderr: full})
	if err != nil {
		t.Fatal(err)
	}
	p, err := startProcess(&exec.Cmd{Path: shell, Args: []string{"sh", "-c", "exec dd if=/dev/zero bs=1M count=4"}, Env: os.Environ(),
		Stdin: pipes.child[0], Stdout: pipes.child[1], Stderr: pipes.child[2]})
	if err != nil {
		t.Fatal(err)
	}
	pipes.started()
	s := &criuStep{pipes: pipes, process: p}
	ended := make(chan error, 1)
	go func() {
		_, err := s.Wait()
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(err.Error(), "output: ") {
			t.Errorf("%v", err)
		}
	case <-time.After(longEnough):
		p.signalGroup(syscall.SIGKILL)
		t.Error("it waits for ever")
	}
}

func TestFakeCRIURestart(t *testing.T) {
	for _, c := range []struct{ name, restore, fails string }{
		{"the process id is taken", `echo "Error (criu/cr-restore.c:1514): Can't fork for 17: File exists" >$work/restore.log; exit 1`, "criu restore failed (code 1): Error (criu/cr-restore.c:1514): Can't fork for 17: File exists"},
		{"no process", "exit 0", "no such file"},
		{"an empty word", ": >$pid", "did not say which process it is"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fakeCRIU(t, criuWorks+c.restore)
			g := &ckpt.Generation{Dir: t.TempDir(), Manifest: ckpt.Manifest{Method: "criu", Extra: map[string]string{"stdout": "pipe:[7]", "stderr": "pipe:[7]"}}}
			put(t, g.Dir+"/inventory.img", "x")
			put(t, g.Dir+"/pstree.img", "x")
			if s, err := startCRIU(t, g); err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%v, %v; want %q", s, err, c.fails)
			}
		})
	}
	fakeCRIU(t, criuWorks)
	half := &ckpt.Generation{Dir: t.TempDir()}
	put(t, half.Dir+"/mm-7.img", "x")
	if s, err := startCRIU(t, half); err == nil || !strings.Contains(err.Error(), "half of one") {
		t.Errorf("from half of a dump: %v, %v", s, err)
	}
}

func TestCRIUFits(t *testing.T) {
	for _, c := range []struct {
		name, args string
		program    int
		env, fails string
	}{
		{"below srun", "srun -n 1 /bin/true", 3, "SLURM_JOB_NUM_NODES=1", ""},
		{"two tasks", "srun -n 2 /bin/true", 3, "", "one task, and the step has 2"},
		{"two nodes", "/bin/true", 0, "SLURM_JOB_NUM_NODES=2", "one node only, and the job has 2"},
		{"mpirun", "mpirun /bin/true", 1, "", "use dmtcp"},
		{"salloc", "srun /bin/true", 1, "SLURM_JOB_ID=7", "none of the job's"},
		{"no program", "srun", 1, "", "no program is given"},
		{"not there", "/nonexistent/program", 0, "", "no such file"},
	} {
		err := launch{Args: strings.Fields(c.args), Program: c.program, Env: []string{c.env}}.fitsAlone("CRIU")
		if (c.fails == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v; want %q", c.name, err, c.fails)
		}
	}
}

// realCRIU skips where CRIU does not work.
func realCRIU(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a real CRIU: slow end-to-end, run by make test")
	}
	if _, err := exec.LookPath("criu"); err != nil {
		t.Skip("NOT TESTED: no criu is on PATH")
	}
	tool, err := findCRIU(t.Context())
	if err != nil {
		t.Skip("NOT TESTED: ", err)
	}
	t.Log("criu", tool.version)
}

func TestRealCRIUConforms(t *testing.T) {
	realCRIU(t)
	conform(t, byImages(t, "criu"))
}

func TestRealCRIU(t *testing.T) {
	realCRIU(t)
	j := newJob(t, "criu", compiled(t, "threads"), "60", "25", "1", "7")
	want := j.undisturbedLine()
	s := j.start(nil)
	j.await("at 10")
	first := j.checkpoint(s, false) // it goes on
	j.await("at 15")
	second := j.checkpoint(s, true)
	s = j.start(second)
	j.await("at 30")
	third := j.checkpoint(s, true)
	for _, g := range []*ckpt.Generation{first, third, third} {
		j.ends(j.start(g), 7, want)
	}
	if err := os.Truncate(filepath.Join(third.Dir, "pstree.img"), 20); err != nil {
		t.Fatal(err)
	}
	if s, err := j.tryStart(t.Context(), third); err == nil {
		t.Errorf("restarted from half of a dump: %v", s)
	}
}
