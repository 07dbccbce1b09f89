package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/local"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// leftovers lists the processes that have the site's folder in their
// environment or arguments: there must be none once it is closed.
func leftovers(dir string) []string {
	var left []string
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		if filepath.Base(p) == itself {
			continue
		}
		env, _ := os.ReadFile(p + "/environ") // gone meanwhile: nothing of ours
		args, _ := os.ReadFile(p + "/cmdline")
		if bytes.Contains(env, []byte(dir)) || bytes.Contains(args, []byte(dir)) {
			left = append(left, filepath.Base(p)+" "+strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return left
}

var itself = func() string { link, _ := os.Readlink("/proc/self"); return link }()

// dump shows the logs of a failed test, and Slurm's jobs and nodes.
func (s *site) dump() {
	for _, what := range []string{"jobs", "nodes"} {
		out, err := s.Cluster.Command(context.Background(), "scontrol", "show", what).CombinedOutput()
		s.t.Logf("scontrol show %s: %v\n%s", what, err, out)
	}
	for _, pattern := range []string{"burstd.log", "log/slurmctld.log", "slurm-*.out"} {
		files, _ := filepath.Glob(filepath.Join(s.Dir, "*", pattern))
		more, _ := filepath.Glob(filepath.Join(s.Dir, pattern))
		for _, f := range append(files, more...) {
			text, _ := os.ReadFile(f)
			lines := strings.Split(string(text), "\n")
			s.t.Logf("%s:\n%s", f, strings.Join(lines[max(0, len(lines)-200):], "\n"))
		}
	}
}

// machines are all instances, also those that have ended.
func (s *site) machines() []local.Machine {
	s.t.Helper()
	all, err := s.Control.List()
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// live counts the instances that run or start.
func (s *site) live() int {
	s.t.Helper()
	n := 0
	for _, m := range s.machines() {
		if m.State.Live() {
			n++
		}
	}
	return n
}

// output is what the job has written so far.
func (s *site) output(id uint32) string {
	text, _ := os.ReadFile(filepath.Join(s.Work, fmt.Sprintf("slurm-%d.out", id))) // not there yet: nothing
	return string(text)
}

// off counts the cloud nodes that are powered down.
func (s *site) off() int {
	nodes, err := s.Slurm().Nodes(s.t.Context())
	if err != nil {
		s.t.Log(err)
	}
	n := 0
	for _, node := range nodes {
		if node.State.Has(slurm.PoweredDown) && node.State.Base == "IDLE" {
			n++
		}
	}
	return n
}

func expand(t *testing.T, list string) []string {
	t.Helper()
	names, err := hostlist.Expand(list)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// fromSlurm says whether Slurm is of that release, or a newer one.
func (s *site) fromSlurm(major, minor int) bool {
	s.t.Helper()
	version, err := s.Slurm().Version(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return conf.ParseRelease(version).Since(conf.Release{Major: major, Minor: minor})
}

func (s *site) nodes() int { return len(s.Nodes()) }

func id10(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

func glob(dir, pattern string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is right
	return files
}

// since lists the instances launched after the job was submitted.
func (s *site) since(id uint32) []local.Machine {
	s.t.Helper()
	submitted := s.job(id).Submitted
	return slices.DeleteFunc(s.machines(), func(m local.Machine) bool { return m.Launched.Before(submitted) })
}

// showsTimes compares what burstd noted of the way up of the nodes that the
// job was given when it ran anew with the time, in seconds since 1970, that its
// script wrote into the file restarted. Their boot took at least so long.
func (s *site) showsTimes(id uint32, first []string, boot time.Duration) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Work, "restarted"))
	if err != nil {
		s.t.Fatal(err)
	}
	began, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil {
		s.t.Fatal(err)
	}
	boots, err := s.API.Boots(s.t.Context(), "", id, 100)
	if err != nil {
		s.t.Fatal(err)
	}
	found := 0
	for _, b := range boots {
		if slices.Contains(first, b.Node) {
			continue // the eviction may have come before Slurm was asked for the job's start
		}
		found++
		for _, stage := range []string{"queued", "launched", "registered", "started"} { // running: the cloud is not asked in such a short boot
			if took, ok := b.Stages[stage]; !ok || took < 0 {
				s.t.Errorf("node %s: stage %s took %v s: %+v", b.Node, stage, took, b)
			}
		}
		if took := b.Stages["running"] + b.Stages["registered"]; took < boot.Seconds() {
			s.t.Errorf("node %s booted in %.3f s: %+v", b.Node, took, b)
		}
		// Slurm says when a job started in whole seconds.
		if started := began - float64(b.Ordered.UnixMicro())/1e6; b.Outcome != "up" || b.Seconds < started-1.5 || b.Seconds > started+1.5 {
			s.t.Errorf("node %s: the job's script began %.3f s after the order: %+v", b.Node, started, b)
		}
	}
	if found == 0 {
		s.t.Errorf("no node beside %v has come up: %+v", first, boots)
	}
}
