package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
	"github.com/burst-hpc/burst/slurm/conf"
)

// checked is what burst check has found on the host, by what it looked at; programs are beside it.
func (s *site) checked(args ...string) (map[string]conf.Finding, int) {
	s.t.Helper()
	out, errs, code := s.burst(append([]string{"check", "--offline", "--json"}, args...)...)
	var r struct{ Host, Findings []conf.Finding }
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		s.t.Fatalf("%v: %s%s", err, out, errs)
	}
	all := map[string]conf.Finding{}
	for _, f := range append(r.Findings, r.Host...) {
		all[f.Key] = f
	}
	return all, code
}

// TestCheckOfAHost: burst check on a site that runs; then with several things broken at once; and when
// slurmctld, munged and burstd hang, which it says of each, and ends.
func TestCheckOfAHost(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := ln.Addr().(*net.TCPAddr).Port
	s := start(t, rig.Options{Nodes: 2, OnPrem: 1, Gate: true, SlurmExtra: quick})

	all, _ := s.checked("--programs", s.bin)
	for _, key := range []string{"slurmctld", "scontrol", "AuthType", "SlurmctldHost", "json-c", "MUNGE", "state", "spool", "socket", "burst-resume", "burst-suspend", "burst-resume-fail", "burst-gate"} {
		if f := all[key]; f.Level != conf.OK {
			t.Errorf("of a host that is well: %s: %+v", key, f)
		}
	}
	if f := all["PartitionName"]; f.Level == conf.Missing || f.Level == conf.Wrong && strings.Contains(f.Why, "restart slurmctld") {
		t.Errorf("%+v", f)
	}

	// An older program, one that others may write, one that is not there; a spool for all; a port
	// that is taken; a partition that slurmctld has not read; no burstd.
	programs := filepath.Join(s.Dir, "programs")
	if err := os.Mkdir(programs, 0o755); err != nil {
		t.Fatal(err)
	}
	s.must(os.Symlink(filepath.Join(s.bin, "burst-resume"), filepath.Join(programs, "burst-resume")))
	for name, mode := range map[string]os.FileMode{"burst-suspend": 0o755, "burst-resume-fail": 0o775} {
		path := filepath.Join(programs, name)
		s.must(os.WriteFile(path, []byte("#!/bin/sh\necho "+name+" v0.0.1\n"), 0o755))
		s.must(os.Chmod(path, mode))
	}
	spool := filepath.Join(s.Dir, "spool")
	s.must(os.Chmod(spool, 0o777))
	s.must(s.KillBurstd())
	text, err := os.ReadFile(s.Config)
	s.must(err)
	broken := filepath.Join(s.Dir, "broken.toml")
	s.must(os.WriteFile(broken, []byte(strings.Replace(string(text), "[daemon]", fmt.Sprintf("[daemon]\nlisten = \"127.0.0.1:%d\"", port), 1)), 0o646))
	s.must(os.Chmod(broken, 0o646))
	slurmConf, err := os.ReadFile(s.Cluster.Conf)
	s.must(err)
	s.must(os.WriteFile(s.Cluster.Conf, []byte(strings.Replace(string(slurmConf), "PartitionName=cloud ", "PartitionName=clouds Nodes=o1\nPartitionName=cloud ", 1)), 0o644))
	s.must(os.WriteFile(broken, []byte(strings.Replace(readAll(t, broken), "partition = \"cloud\"", "partition = \"clouds\"", 1)), 0o646))

	all, code := s.checked("--programs", programs, "--config", broken)
	for key, want := range map[string]struct {
		level conf.Level
		why   string
	}{
		"slurmctld":         {conf.OK, ""},
		"MUNGE":             {conf.OK, ""},
		"burst-resume":      {conf.OK, ""},
		"burst-suspend":     {conf.Wrong, "It is of version v0.0.1"},
		"burst-resume-fail": {conf.Wrong, "slurmctld does not start what others may write"},
		"burst-gate":        {conf.Missing, "install it, or name its folder"},
		"spool":             {conf.Wrong, "everybody may give burstd orders"},
		"burst.toml":        {conf.Wrong, "others may change what root runs on nodes"},
		"listen":            {conf.Wrong, fmt.Sprintf("Port %d is in use by a process of uid %d, and burstd does not run", port, os.Geteuid())},
		"socket":            {conf.Advice, "burstd does not run"},
		"PartitionName":     {conf.Wrong, "slurmctld has no such partition, and slurm.conf does: restart slurmctld"},
	} {
		if f := all[key]; f.Level != want.level || !strings.Contains(f.Why, want.why) {
			t.Errorf("broken: %s is %+v, want %s %q", key, f, want.level, want.why)
		}
	}
	if code != 1 {
		t.Errorf("exit code %d", code)
	}

	// All hang.
	s.must(s.StartBurstd(t.Context()))
	for _, pid := range append(s.daemons("slurmctld", "munged"), s.BurstdPID()) {
		s.must(syscall.Kill(pid, syscall.SIGSTOP))
		t.Cleanup(func() { syscall.Kill(pid, syscall.SIGCONT) })
	}
	began := time.Now()
	all, code = s.checked("--programs", s.bin)
	took := time.Since(began)
	t.Logf("with all that hang it took %s", took)
	for key, level := range map[string]conf.Level{"slurmctld": conf.Unknown, "MUNGE": conf.Wrong, "socket": conf.Wrong, "burst-resume": conf.OK, "state": conf.OK} {
		if f := all[key]; f.Level != level {
			t.Errorf("hanging: %s is %+v, want %s", key, f, level)
		}
	}
	if code != 1 || took > time.Minute {
		t.Errorf("exit code %d after %s", code, took)
	}
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func readAll(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// daemons are the processes of the site's cluster with these names.
func (s *site) daemons(names ...string) (pids []int) {
	s.t.Helper()
	for _, line := range leftovers(s.Dir) {
		pid, _, _ := strings.Cut(line, " ")
		comm, _ := os.ReadFile("/proc/" + pid + "/comm") // gone meanwhile: none of these
		for _, name := range names {
			if n, err := strconv.Atoi(pid); err == nil && strings.TrimSpace(string(comm)) == name {
				pids = append(pids, n)
			}
		}
	}
	if len(pids) < len(names) {
		s.t.Fatalf("only %v of %v", pids, names)
	}
	return pids
}
