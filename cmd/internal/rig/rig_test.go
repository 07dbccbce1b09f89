package rig

import (
	"context"
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

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/slurmd"
)

// A test binary that is started with this variable holds a site in the folder
// that it names, with programs from binEnv, until it is killed.
const (
	holdEnv = "BURST_TEST_HOLD_SITE"
	binEnv  = "BURST_TEST_BIN"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdEnv); dir != "" {
		hold(dir)
	}
	os.Exit(m.Run())
}

// held is the holder's site: the collector would close the lock of one that nobody has.
var held *Site

func hold(dir string) {
	s, err := Start(context.Background(), Options{Dir: dir, Bin: os.Getenv(binEnv), Nodes: 1, Gate: true})
	if err == nil {
		_, err = s.Submit(context.Background(), "#!/bin/sh\nsleep 1000\n")
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	held = s
	fmt.Println("held")
	select {} // burstd's goroutine goes on: no deadlock
}

func TestFolder(t *testing.T) {
	for name, c := range map[string]struct {
		dir  string
		link bool
	}{
		"short": {filepath.Join(t.TempDir(), "s"), false},
		"long":  {filepath.Join(t.TempDir(), strings.Repeat("deep/", 20)), true},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := makeDir(c.dir)
			if err != nil {
				t.Fatal(err)
			}
			socket, err := makeRun(dir)
			if err != nil {
				t.Fatal(err)
			}
			if len(socket) > longestSocket || strings.HasPrefix(socket, dir) == c.link {
				t.Errorf("the socket of %s is %s", dir, socket)
			}
			if err := Reap(dir); err != nil {
				t.Fatal(err)
			}
			for _, gone := range []string{dir, filepath.Dir(socket)} {
				if _, err := os.Stat(gone); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is left: %v", gone, err)
				}
			}
		})
	}
}

func TestForeignFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "burstd"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	const want = "it holds thesis.tex, which is not a site's"
	if err := Reap(dir); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Reap: %v, want %q", err, want)
	}
	if _, err := Start(t.Context(), Options{Dir: dir, Bin: bin, Nodes: 1}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Start: %v, want %q", err, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "thesis.tex")); err != nil {
		t.Error(err)
	}
}

func TestNoPrograms(t *testing.T) {
	_, err := Start(t.Context(), Options{Dir: t.TempDir(), Bin: t.TempDir(), Nodes: 1})
	if err == nil || !strings.Contains(err.Error(), "finding burstd") {
		t.Errorf("Start: %v", err)
	}
}

// programs builds the programs once for all tests.
func programs(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("a site with real daemons: slow end-to-end, run by make test")
	}
	bin := filepath.Join(os.TempDir(), fmt.Sprintf("burst-rig-test-%d", os.Getpid()))
	t.Cleanup(func() { os.RemoveAll(bin) })
	built.dirs = nil // a test before this one has removed them
	if err := Build(t.Context(), bin); err != nil {
		t.Fatal(err)
	}
	return bin
}

func TestSite(t *testing.T) {
	bin := programs(t)
	t.Run("host", func(t *testing.T) {
		testSite(t, Options{Bin: bin, Dir: filepath.Join(t.TempDir(), strings.Repeat("deep/", 20))})
	})
	if os.Geteuid() == 0 { // network namespaces are root's
		t.Run("netns", func(t *testing.T) { testSite(t, Options{Bin: bin, NetNS: true}) })
	}
	t.Run("killed", func(t *testing.T) { testKilled(t, bin) })
}

func testSite(t *testing.T, o Options) {
	o.Nodes, o.OnPrem, o.Gate = 2, 1, true
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		nothingLeft(t, s.Dir)
	})
	cfg, err := config.Load(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(cfg.Pools[0].Power.Nodes); n != 2 {
		t.Errorf("the pool has %d nodes", n)
	}
	if err := s.StartBurstd(t.Context()); err == nil {
		t.Error("a second burstd was started")
	}
	job := submit(t, s, "#!/bin/sh\nsrun printenv SLURMD_NODENAME | sort\n", "-N2", "--output=out")
	await(t, s, job, "COMPLETED")
	if out, err := os.ReadFile(filepath.Join(s.Work, "out")); string(out) != "c1\nc2\n" {
		t.Errorf("the job printed %q, %v", out, err)
	}
	if err := s.KillBurstd(); err != nil {
		t.Fatal(err)
	}
	if s.BurstdAlive() {
		t.Error("burstd lives after its kill")
	}
	if err := s.StartBurstd(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, s, submit(t, s, "#!/bin/sh\nexit 0\n"), "COMPLETED")
	if err := s.StopBurstd(); err != nil {
		t.Error(err)
	}
}

// A killed holder leaves instances and their job; the next Start in the same
// folder ends them.
func testKilled(t *testing.T, bin string) {
	dir := filepath.Join(t.TempDir(), "site")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), holdEnv+"="+dir, binEnv+"="+bin)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() }) // in case the test fails before
	said := make([]byte, 1000)
	n, err := out.Read(said)
	if err != nil || string(said[:n]) != "held\n" {
		t.Fatalf("the holder said %q, %v", said[:n], err)
	}
	if err := Reap(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("Reap of a held site: %v", err)
	}
	s := Site{Control: controlOf(dir)}
	poll(t, "an instance runs", func() bool {
		all, err := s.Control.List()
		return err == nil && len(all) > 0 && all[0].Node != ""
	})
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	next, err := Start(t.Context(), Options{Dir: dir, Bin: bin, Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	if all, err := next.Control.List(); err != nil || len(all) > 0 {
		t.Errorf("instances of the killed site: %v, %v", all, err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
	nothingLeft(t, dir)
}

func submit(t *testing.T, s *Site, script string, args ...string) uint32 {
	t.Helper()
	job, err := s.Submit(t.Context(), script, args...)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func await(t *testing.T, s *Site, job uint32, state string) {
	t.Helper()
	var last slurm.Job
	defer func() {
		if t.Failed() {
			log, _ := os.ReadFile(s.Log())
			t.Logf("job %+v\n%s", last, log)
		}
	}()
	poll(t, fmt.Sprintf("job %d is %s", job, state), func() bool {
		var err error
		last, err = s.Job(t.Context(), job)
		return err == nil && last.State == state
	})
}

func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	for _, entry := range []string{mark(dir), "SLURM_CONF=" + filepath.Join(dir, slurmDir, "slurm.conf")} {
		pids, err := slurmd.Marked(entry)
		if err != nil || len(pids) > 0 {
			t.Errorf("processes with %s are left: %v, %v", entry, pids, err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", dir, err)
	}
}
