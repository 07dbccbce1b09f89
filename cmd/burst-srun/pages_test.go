package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/packaging/progtest"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/sandbox"
)

// TestMethodPages runs the scripts of the methods' pages on a real cluster, with
// heat: they checkpoint, are requeued, go on, and their result is the undisturbed
// run's.
func TestMethodPages(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Slurm cluster: slow end-to-end, run by make test")
	}
	bin := progtest.Build(t, "burst-srun")
	heat := exec.CommandContext(t.Context(), "make", "-s", "-C", "../../contrib/heat", "OUT="+filepath.Join(bin, "heat"))
	if out, err := heat.CombinedOutput(); err != nil {
		t.Fatalf("building heat: %v\n%s", err, out)
	}
	cluster, err := sandbox.Start(t.Context(), sandbox.Options{OnPrem: 4, CredExpire: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	s := site{cluster, slurm.New(slurm.Exec{Conf: cluster.Conf}), t.TempDir(), bin, t.TempDir()}
	const size = "-n 150 -i 250"
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "heat"), strings.Fields(size)...).Output()
	if err != nil {
		t.Fatalf("heat: %v", err)
	}
	sum := regexp.MustCompile(`checksum=\S+`).FindString(string(out))
	for _, page := range []string{"signal", "command"} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile("../../docs/methods/" + page + ".md")
			if err != nil {
				t.Fatal(err)
			}
			_, rest, _ := strings.Cut(string(text), "```sh\n")
			script, _, _ := strings.Cut(rest, "```\n")
			// A rank that has not begun dies of the signal: the interval leaves a busy machine time to start them.
			for old, short := range map[string]string{"interval=10m": "interval=3s", "-n 4096 -i 20000": size + " --pace 60",
				"\n\nmkdir": "\n\nexport PATH=" + bin + ":$PATH\nmkdir"} {
				if strings.Count(script, old) != 1 {
					t.Fatalf("no single %q in the script:\n%s", old, script)
				}
				script = strings.Replace(script, old, short, 1)
			}
			s.survives(t, script, sum)
		})
	}
}

// survives requeues a job after its second checkpoint.
func (s site) survives(t *testing.T, script, sum string) {
	id, dir := s.submit(t, script, "--partition=onprem")
	said := func() string { return read(t, dir, "out") + read(t, dir, "err") }
	defer func() {
		if t.Failed() {
			t.Logf("the job said:\n%s", said())
		}
	}()
	step := filepath.Join(dir, "burst-checkpoints", fmt.Sprintf("job-%d", id), "step-0")
	until(t, "there are checkpoints", func() bool {
		_, err := os.Stat(filepath.Join(step, "attempt-0", "gen-2"))
		if strings.Contains(said(), "heat: done") {
			t.Fatalf("it ended without:\n%s", said())
		}
		return err == nil
	})
	if err := s.Requeue(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), id, 1, time.Now()); err != nil {
		t.Fatal(err)
	}
	code := s.ended(t, id)
	from := regexp.MustCompile(`heat: restarted from iteration ([1-9][0-9]*)`).FindStringSubmatch(said())
	if code != 0 || from == nil || !strings.Contains(said(), sum) {
		t.Errorf("exit code %d, restarted from %v, want %s:\n%s", code, from, sum, said())
	}
}
