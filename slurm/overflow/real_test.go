package overflow_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow"
	"github.com/burst-hpc/burst/slurm/sandbox"
)

// TestJobsWithoutTheirFolders: Slurm ends a job at once, before its script begins, whose output or input it cannot open on the node, and
// those are told by their paths while they still wait.
func TestJobsWithoutTheirFolders(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real daemons: slow end-to-end, run by make test")
	}
	home := t.TempDir()
	c, err := sandbox.Start(t.Context(), sandbox.Options{OnPrem: 1, Dir: t.TempDir() + "/s"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	const away = "/nonexistent/home/ann"
	jobs := map[string]struct {
		args  []string
		lacks string // "": it has all
		fails bool
	}{
		"all is there":      {args: []string{"-D", home}},
		"output elsewhere":  {args: []string{"-D", home, "-o", "/dev/null"}},
		"no output folder":  {args: []string{"-D", home, "-o", away + "/slurm-%j.out"}, lacks: "its output", fails: true},
		"no errors' folder": {args: []string{"-D", home, "-e", away + "/slurm-%j.err"}, lacks: "its error output", fails: true},
		"no input":          {args: []string{"-D", home, "-i", away + "/in"}, lacks: "its input", fails: true},
		"no home":           {args: []string{"-D", away}, lacks: "its working directory", fails: true},
		// The script runs in /tmp: it does not find what it is made for.
		"no home, and no output": {args: []string{"-D", away, "-o", "/dev/null"}, lacks: "its working directory"},
	}
	client, ids := slurm.New(slurm.Exec{Conf: c.Conf}), map[string]uint32{}
	began := func(name string) string { return filepath.Join(home, strings.ReplaceAll(name, " ", "-")) }
	for name, j := range jobs {
		cmd := c.Command(t.Context(), "sbatch", append([]string{"--parsable", "--hold", "-p", "onprem", "-n1", "--wrap", "pwd >" + began(name)}, j.args...)...)
		out, err := cmd.Output()
		id, perr := strconv.ParseUint(strings.TrimSpace(string(out)), 10, 32)
		if err != nil || perr != nil {
			t.Fatalf("%s: %v, %v", name, err, perr)
		}
		ids[name] = uint32(id)
	}
	waiting, err := client.Waiting(t.Context())
	if err != nil || len(waiting) != len(jobs) {
		t.Fatalf("%d jobs wait, %v", len(waiting), err)
	}
	for name, j := range jobs {
		for i, w := range waiting {
			if w.ID != ids[name] {
				continue
			}
			got := overflow.Lacks([]overflow.Shared{{Pool: "p", Folders: []string{home}}}, &waiting[i])
			if (got == "") != (j.lacks == "") || !strings.Contains(got, "do not have "+away) && j.lacks != "" || !strings.Contains(got, ", "+j.lacks+", as far as") && j.lacks != "" {
				t.Errorf("%s: %q, want %q", name, got, j.lacks)
			}
		}
		if out, err := c.Command(t.Context(), "scontrol", "release", strconv.Itoa(int(ids[name]))).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
	}
	for name, j := range jobs {
		var last slurm.Job
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // between two looks
			if last, err = client.Job(t.Context(), ids[name]); err == nil && (last.State == "FAILED" || last.State == "COMPLETED") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v, %v", name, last, err)
			}
		}
		shown, _ := c.Command(t.Context(), "scontrol", "show", "job", strconv.Itoa(int(ids[name]))).Output()
		where, err := os.ReadFile(began(name))
		switch {
		case j.fails && (last.State != "FAILED" || err == nil || !strings.Contains(string(shown), "ExitCode=0:53")):
			t.Errorf("%s: %s, its script wrote %q\n%s", name, last.State, where, shown)
		case !j.fails && (last.State != "COMPLETED" || err != nil):
			t.Errorf("%s: %s, %v\n%s", name, last.State, err, shown)
		case !j.fails && j.lacks != "" && strings.TrimSpace(string(where)) != "/tmp":
			t.Errorf("%s: it ran in %s", name, where)
		}
	}
}
