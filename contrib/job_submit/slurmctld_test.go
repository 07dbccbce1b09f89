package jobsubmit

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm/sandbox"
)

// TestSlurmctld has a real slurmctld load job_submit.lua as it is installed.
func TestSlurmctld(t *testing.T) {
	if testing.Short() {
		t.Skip("a real slurmctld: slow end-to-end, run by make test")
	}
	s := startSite(t)
	s.plugin(t, site)

	t.Run("a wrong line is refused, and named", func(t *testing.T) {
		out, err := s.try(t, "sbatch", s.script(t, "#!/bin/sh\n#SBATCH -p cloud\n\n#BURST ckpt=dmtcp\n#BURST interval=tomato\n"))
		if err == nil || !strings.Contains(out, `sbatch: error: Burst: line 5: #BURST interval: "tomato" is not a time`) {
			t.Errorf("%v: %s", err, out)
		}
		if jobs, err := s.try(t, "squeue", "-h"); err != nil || jobs != "" {
			t.Errorf("%v: %s", err, jobs)
		}
	})
	t.Run("defaults and requeue", func(t *testing.T) {
		s.holds(t, s.submit(t, "#!/bin/sh\n#SBATCH -p cloud\ntrue\n"), "burst-site: ckpt=dmtcp strategy=preemptive retries=3", "1")
		s.holds(t, s.submit(t, "#!/bin/sh\n#SBATCH -p cloud --comment=mine\n#BURST ckpt=scr strategy=both retries=2\n"), "mine", "1")
		s.holds(t, s.submit(t, "#!/bin/sh\n#SBATCH -p cloud --array=1-3\n#BURST interval=1h\n"), "burst-site: ckpt=dmtcp retries=3", "1")
	})
	t.Run("a part of a heterogeneous job", func(t *testing.T) {
		id := s.submit(t, "#!/bin/sh\n#SBATCH -p cloud -N1\n#SBATCH hetjob\n#SBATCH -p cloud -N1\n#SBATCH hetjob\n#SBATCH -p onprem -N1\n#BURST ckpt=scr\n")
		s.holds(t, id+"+0", "burst-site: strategy=preemptive retries=3", "1")
		s.holds(t, id+"+1", "", "1")
		s.holds(t, id+"+2", "", "1") // not one of Burst's partitions
	})
	t.Run("warnings", func(t *testing.T) {
		out, err := s.try(t, "sbatch", "--no-requeue", s.script(t, "#!/bin/sh\n#SBATCH -p cloud -H\ntrue\n#BURST keep=0\n"))
		if err != nil || !strings.Contains(out, "sbatch: Burst: warning: the job asks for checkpoints, but with --no-requeue it ends with its node\n") ||
			!strings.Contains(out, "sbatch: Burst: warning: line 4: #BURST is below the first command") {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Run("another partition is left alone", func(t *testing.T) {
		s.holds(t, s.submit(t, "#!/bin/sh\n#SBATCH --comment=mine\n#BURST nonsense\n"), "mine", "0")
	})
	t.Run("salloc", func(t *testing.T) {
		if out, err := s.try(t, "salloc", "-p", "cloud", "--comment=burst: keep=0", "--no-shell"); err == nil || !strings.Contains(out, `Burst: job comment keep: "0" is not a number`) {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Run("a job is modified", func(t *testing.T) {
		id := s.submit(t, "#!/bin/sh\n#SBATCH -p cloud\ntrue\n")
		const wrong = `Burst: job comment keep: "0" is not a number`
		out, err := s.try(t, "scontrol", "update", "job", id, "comment=burst: keep=0")
		if err == nil {
			t.Errorf("a wrong comment passes: %s", out)
		}
		s.holds(t, id, "burst-site: ckpt=dmtcp strategy=preemptive retries=3", "1")
		if !strings.Contains(out, "scontrol: error: "+wrong) {
			s.logged(t, wrong) // Slurm before 23.02 cannot tell the user
		}
		if out, err := s.try(t, "scontrol", "update", "job", id, "comment=burst: keep=4"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		s.holds(t, id, "burst: keep=4", "1")
	})
	t.Run("a large script", func(t *testing.T) {
		begun := time.Now()
		s.submit(t, "#!/bin/sh\n#SBATCH -p cloud\n"+strings.Repeat("# text\n", 500_000))
		t.Logf("3.5 MB of comments: sbatch took %s", time.Since(begun).Round(time.Millisecond))
	})
	t.Run("the default partition", func(t *testing.T) {
		s.plugin(t, `return { onprem = { defaults = "ckpt=dmtcp" } }`)
		s.holds(t, s.submit(t, "#!/bin/sh\n"), "burst-site: ckpt=dmtcp", "1")
		s.holds(t, s.submit(t, "#!/bin/sh\n#SBATCH -p cloud\n#BURST nonsense\n"), "", "0")
	})
	t.Run("a site's file that is wrong", func(t *testing.T) {
		s.plugin(t, "return { cloud = { defaults = 'keep=0' } }")
		s.holds(t, s.submit(t, "#!/bin/sh\n#SBATCH -p cloud\n#BURST nonsense\n"), "", "0")
		s.logged(t, `all jobs pass unchecked: partition cloud: defaults: keep: "0" is not a number`)
	})
	t.Run("no files of Burst's", func(t *testing.T) {
		s.lib = filepath.Join(t.TempDir(), "gone")
		s.plugin(t, site)
		s.holds(t, s.submit(t, "#!/bin/sh\n#SBATCH -p cloud\n#BURST nonsense\n"), "", "0")
		s.logged(t, "Burst: all jobs pass unchecked: cannot open ")
	})
}

// slurm is a cluster whose slurmctld has the plugin.
type slurm struct {
	*sandbox.Cluster
	lib string // the folder of burst.lua
}

func startSite(t *testing.T) *slurm {
	t.Helper()
	lib, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	c, err := sandbox.Start(t.Context(), sandbox.Options{OnPrem: 1, CloudNodes: 2, Extra: "JobRequeue=0"})
	if err != nil {
		t.Fatal(err)
	}
	s := &slurm{c, lib}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	f, err := os.OpenFile(c.Conf, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString("JobSubmitPlugins=lua\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// plugin puts the plugin's files beside slurm.conf, as installed but for the paths in
// them, and starts slurmctld anew.
func (s *slurm) plugin(t *testing.T, conf string) {
	t.Helper()
	text, err := os.ReadFile("job_submit.lua")
	if err != nil {
		t.Fatal(err)
	}
	entry := string(text)
	for from, to := range map[string]string{"/usr/share/burst/job_submit": s.lib, "/etc/burst": s.Dir} {
		if strings.Count(entry, from) != 1 {
			t.Fatalf("job_submit.lua names %s %d times", from, strings.Count(entry, from))
		}
		entry = strings.Replace(entry, from, to, 1)
	}
	for name, text := range map[string]string{"job_submit.lua": entry, "job_submit_burst.lua": conf} {
		if err := os.WriteFile(filepath.Join(s.Dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.RestartController(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (s *slurm) try(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	cmd := s.Command(t.Context(), name, args...)
	cmd.Dir = s.Dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (s *slurm) script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.sh")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// submit submits a job that is held, and returns its id.
func (s *slurm) submit(t *testing.T, text string) string {
	t.Helper()
	out, err := s.try(t, "sbatch", "--hold", "--parsable", s.script(t, text))
	id := regexp.MustCompile(`(?m)^\d+$`).FindString(out)
	if err != nil || id == "" {
		t.Fatalf("sbatch: %v: %s", err, out)
	}
	return id
}

// holds says what a job's comment and its flag are to be.
func (s *slurm) holds(t *testing.T, id, comment, requeue string) {
	t.Helper()
	out, err := s.try(t, "scontrol", "show", "job", id)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := ""
	if m := regexp.MustCompile(`(?m)^ *Comment=(.*?) *$`).FindStringSubmatch(out); m != nil {
		got = m[1]
	}
	if got != comment || !strings.Contains(out, " Requeue="+requeue+" ") {
		t.Errorf("job %s: comment %q, want %q, with Requeue=%s:\n%s", id, got, comment, requeue, out)
	}
}

// logged awaits a line of slurmctld's log.
func (s *slurm) logged(t *testing.T, part string) {
	t.Helper()
	path := filepath.Join(s.Dir, "log", "slurmctld.log")
	var text []byte
	for deadline := time.Now().Add(5 * time.Second); !strings.Contains(string(text), part); {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("not in slurmctld's log: %s\n%s", part, text)
		}
		time.Sleep(20 * time.Millisecond) // between two looks
	}
}
