package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
	"github.com/burst-hpc/burst/slurm/slurmd"
)

// A test binary that is started with this variable, the folder of all that it
// needs, is the demo: as an ordinary user where the test itself is root's.
const childEnv = "BURST_TEST_DEMO"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := Run(context.Background(), small(dir)); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// small is a demo of half a minute.
func small(dir string) Options {
	return Options{
		Dir: filepath.Join(dir, "build", "demo"), Bin: filepath.Join(dir, "build", "bin"), JSON: filepath.Join(dir, "report.json"), Out: os.Stdout,
		Nodes: 5, JobNodes: 2, Cells: 64, Iterations: 300, Pace: 20 * time.Millisecond, SuspendTime: 3 * time.Second,
	}
}

func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("a demo on a real cluster: slow end-to-end, run by make test")
	}
	// Not t.TempDir, which is closed to other users.
	dir, err := os.MkdirTemp("", "burst-demo-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	o := small(dir)
	if err := rig.Build(t.Context(), o.Bin); err != nil {
		t.Fatal(err)
	}
	heat := filepath.Join(dir, "build", "heat")
	if out, err := exec.CommandContext(t.Context(), "make", "-s", "-C", "../../../contrib/heat", "OUT="+heat).CombinedOutput(); err != nil {
		t.Fatalf("building heat (make deps installs an MPI and gcc): %v\n%s", err, out)
	}
	t.Run("whole", func(t *testing.T) { testWhole(t, dir) })
	t.Run("broken", func(t *testing.T) { testBroken(t, o) })
	t.Run("interrupted", func(t *testing.T) { testInterrupted(t, o) })
}

func testWhole(t *testing.T, dir string) {
	self := filepath.Join(dir, "demo.test")
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(self, text, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), childEnv+"="+dir, "HOME="+dir, "TMPDIR="+dir)
	if os.Geteuid() == 0 {
		const nobody = 65534
		for _, d := range []string{dir, filepath.Join(dir, "build")} {
			if err := os.Chown(d, nobody, nobody); err != nil {
				t.Fatal(err)
			}
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"goes also to cloud", "stays: says #BURST stay", "takes c2 back: 30s notice", "runs again on", "writes its checkpoint at iteration ", "as that of an uninterrupted run", "The demo has succeeded.",
	} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("the demo did not print %q", want)
		}
	}
	var r Report
	if text, err = os.ReadFile(filepath.Join(dir, "report.json")); err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil || r.overflowed() != 3 || r.Budget.Spent <= 0 || len(r.Evictions) != 2 || r.Evictions[0].From < 100 || r.Evictions[1].From < 200 || r.NodesLaunched < 3 || r.SpotUSD <= 0 {
		t.Errorf("the report is %+v, %v", r, err)
	}
	nothingLeft(t, filepath.Join(dir, "build"))
}

// What cannot run: the demo says so, keeps the logs, and ends all.
func testBroken(t *testing.T, o Options) {
	dir := filepath.Dir(filepath.Dir(o.Dir))
	for name, c := range map[string]struct{ heat, want string }{
		"reference": {"exit 3", "the uninterrupted run: exit status 3"},
		"job": {`[ -n "$SLURM_JOB_ID" ] && exit 3; echo "heat: done iterations=300 checksum=0x1 seconds=0"`,
			"waiting until the job reaches iteration 100: the job has ended as FAILED, exit code 3"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			o.Out, o.Heat = &out, filepath.Join(dir, name)
			if err := os.WriteFile(o.Heat, []byte("#!/bin/sh\n"+c.heat+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			err := Run(t.Context(), o)
			var h interface{ Hint() string }
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, &h) {
				t.Fatalf("%v, want %q\n%s", err, c.want, out.String())
			}
			logs := o.Dir + "-logs"
			if want := "the logs are in " + logs; h.Hint() != want {
				t.Errorf("the hint is %q, want %q", h.Hint(), want)
			}
			for _, name := range []string{"burstd.log", "burst.toml", "slurm/slurm.conf", "slurm/log/slurmctld.log"} {
				if info, err := os.Stat(filepath.Join(logs, name)); err != nil || info.Size() == 0 {
					t.Errorf("of the logs %s is missing or empty: %v", name, err)
				}
			}
			nothingLeft(t, filepath.Dir(o.Dir))
		})
	}
}

func testInterrupted(t *testing.T, o Options) {
	ctx, cancel := context.WithCancel(t.Context())
	o.Out = writer(func(text string) {
		if strings.Contains(text, "runs on c") {
			cancel()
		}
	})
	if err := Run(ctx, o); err == nil || err.Error() != "interrupted" {
		t.Errorf("the error is %v", err)
	}
	nothingLeft(t, filepath.Dir(o.Dir))
}

type writer func(text string)

func (w writer) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}

func nothingLeft(t *testing.T, build string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(build, "demo")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the demo's folder is left: %v", err)
	}
	for _, entry := range []string{"SLURM_CONF=" + filepath.Join(build, "demo/slurm/slurm.conf"), "BURST_RIG=" + filepath.Join(build, "demo")} {
		if pids, err := slurmd.Marked(entry); err != nil || len(pids) > 0 {
			t.Errorf("processes with %s are left: %v, %v", entry, pids, err)
		}
	}
}
