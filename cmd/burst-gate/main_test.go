package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/api/apitest"
)

// When the test binary runs with this set it is burst-gate.
const childEnv = "BURST_TEST_GATE"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	socket, config := filepath.Join(dir, "b.sock"), filepath.Join(dir, "burst.toml")
	write(t, config, 0o600, fmt.Sprintf("[daemon]\nsocket = %q\n[slurm]\nbin = %q\n", socket, dir))
	// The site's own program: it sees the job, an untouched SIGPIPE, no arguments.
	site := filepath.Join(dir, "site")
	write(t, site, 0o755, "#!/bin/sh\necho site $SLURM_JOB_ID $#\n/bin/grep SigIgn /proc/self/status\nexit 3\n")
	b := new(apitest.Backend)
	b.SetGate(api.GateAnswer{Go: true, Why: "registered"})
	stop, err := apitest.Serve(b, socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	job := []string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=c[1-2]"}
	for _, test := range []struct {
		name string
		env  []string
		args string
		code int
		out  string
	}{
		{"open", job, "", 0, ""},
		{"site's program", job, "--then " + site, 3, "site 7 0\nSigIgn:\t0000000000000000\n"},
		{"site's program is missing", job, "--then /none", 1, "running the site's PrologSlurmctld /none: no such file"},
		{"no job", nil, "", 0, "SLURM_JOB_ID or SLURM_JOB_NODELIST is not set"},
		{"no job and the site's program", nil, "--then " + site, 3, "site 0\n"},
		{"job is no number", []string{"SLURM_JOB_ID=x", "SLURM_JOB_NODELIST=c1"}, "", 0, "only slurmctld runs this"},
		{"unknown flag", job, "--tehn x", 0, "flag provided but not defined: -tehn: see burst-gate --help"},
		{"argument", job, "x", 0, `argument "x" is ignored`},
		{"help", nil, "--help", 0, "Exit codes: always 0"},
		{"version", nil, "--version", 0, "burst-gate dev"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], strings.Fields(test.args)...)
			cmd.Env = append([]string{childEnv + "=1", "BURST_CONFIG=" + config}, test.env...)
			out, err := cmd.CombinedOutput()
			code := 0
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				code = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			// Signals 32 and 33 are glibc's own: its posix_spawn, and so make, leaves them ignored.
			out = bytes.ReplaceAll(out, []byte("SigIgn:\t0000000080000000"), []byte("SigIgn:\t0000000000000000"))
			out = bytes.ReplaceAll(out, []byte("SigIgn:\t0000000180000000"), []byte("SigIgn:\t0000000000000000"))
			if code != test.code || !strings.Contains(string(out), test.out) {
				t.Errorf("exit %d, printed %q; want %d, %q", code, out, test.code, test.out)
			}
		})
	}
}

func write(t *testing.T, path string, mode os.FileMode, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
