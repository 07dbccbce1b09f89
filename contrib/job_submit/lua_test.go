package jobsubmit

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// interpreters are the Luas of this host. Slurm is built with one of 5.1 to 5.4.
func interpreters(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, name := range []string{"lua5.1", "lua5.2", "lua5.3", "lua5.4", "luajit", "lua"} {
		if path, err := exec.LookPath(name); err == nil && (name != "lua" || all == nil) {
			all = append(all, path)
		}
	}
	if len(all) == 0 {
		t.Skip("NOT TESTED: job_submit.lua, for there is no Lua: make deps installs it")
	}
	return all
}

// TestLuas says which of the two that matter most was not tried: Slurm of Debian 12 is built
// with 5.1, and with the system's own, as on RHEL 9, with 5.4.
func TestLuas(t *testing.T) {
	for _, name := range []string{"lua5.1", "lua5.4"} {
		t.Run(name, func(t *testing.T) {
			path, err := exec.LookPath(name)
			if err != nil {
				t.Skipf("NOT TESTED: job_submit.lua by %s: make deps installs it", name)
			}
			if !slices.Contains(interpreters(t), path) {
				t.Errorf("the tests do not run %s", path)
			}
		})
	}
}

// lua runs a program of testdata, whose first argument is this folder.
func lua(t *testing.T, interpreter, program string, stdin []byte) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), interpreter, "testdata/"+program, ".")
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v: %s", interpreter, program, err, said.String())
	}
	return out.String()
}

// framed are texts as the programs read them.
func framed(texts ...string) []byte {
	var b bytes.Buffer
	for _, s := range texts {
		fmt.Fprintf(&b, "%d\n%s", len(s), s)
	}
	return b.Bytes()
}

// unframed are the texts that a program has written.
func unframed(t *testing.T, out string) []string {
	t.Helper()
	var all []string
	for out != "" {
		size, rest, _ := strings.Cut(out, "\n")
		n, err := strconv.Atoi(size)
		if err != nil || n > len(rest) {
			t.Fatalf("%q: %v", size, err)
		}
		all, out = append(all, rest[:n]), rest[n:]
	}
	return all
}
