package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/rig"
)

// burst runs the command as root or SlurmUser, and returns its exit code.
func (s *site) burst(args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	cmd := s.Cluster.Command(s.t.Context(), filepath.Join(s.bin, "burst"), args...)
	cmd.Env = append(cmd.Environ(), "BURST_CONFIG="+s.Config)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatalf("burst %v: %v", args, err)
	}
	s.t.Logf("burst %s: exit code %d\n%s%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), out.String(), errs.String())
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// does is burst for a command that must succeed.
func (s *site) does(args ...string) string {
	s.t.Helper()
	out, _, code := s.burst(args...)
	if code != 0 {
		s.t.Fatalf("burst %v: exit code %d", args, code)
	}
	return out
}

// TestAnAdminSteers: a pause that outlives burstd, a node that goes with its job, drills with and without a
// notice, a plan, and at last the red button when burstd, the journal and
// slurmctld are gone.
func TestAnAdminSteers(t *testing.T) {
	t.Parallel()
	s := start(t, rig.Options{Nodes: 9, OnPrem: 1, Gate: true, SuspendTime: 5 * time.Minute, SuspendTimeout: 15 * time.Second, SlurmExtra: quick})
	const script = `#!/bin/sh
#BURST signal=B:USR1 grace=10s
#SBATCH --requeue --open-mode=append
trap 'echo signalled; exit 75' USR1
echo began
echo $$ >pid
i=0; while [ $i -lt 6000 ]; do sleep 0.1; i=$((i+1)); done
`
	s.does("pause", "--reason", "the bill")
	id := s.submit(script)
	s.wait(60*time.Second, "the job is told why it waits", func() bool {
		j := s.job(id)
		return strings.Contains(j.AdminComment, "launches are paused: the bill (by uid ") && j.State == "PENDING"
	})
	if err := s.KillBurstd(); err != nil {
		t.Fatal(err)
	}
	if err := s.StartBurstd(t.Context()); err != nil {
		t.Fatal(err)
	}
	st, err := s.API.Status(t.Context())
	if err != nil || st.Paused == nil || s.live() != 0 {
		t.Fatalf("after a restart: %+v, %v, %d instances", st.Paused, err, s.live())
	}
	s.does("resume")
	s.wait(60*time.Second, "the job runs, long before it was told", func() bool { return strings.Count(s.output(id), "began") == 1 })

	s.leavesANode(s.job(id).Nodes)

	node := s.job(id).Nodes
	out := s.does("evict", node, "--lead", "20s", "--yes", "--wait")
	for _, want := range []string{" cloud\n", "drill", "notice", " gone "} {
		if !strings.Contains(out, want) {
			t.Errorf("the drill does not say %q", want)
		}
	}
	s.wait(60*time.Second, "the job has begun again", func() bool { return strings.Count(s.output(id), "began") == 2 })
	if !strings.Contains(s.output(id), "signalled") || s.job(id).Nodes == node {
		t.Errorf("on %s after %s:\n%s", s.job(id).Nodes, node, s.output(id))
	}

	node = s.job(id).Nodes
	s.does("evict", node, "--no-notice", "--yes", "--json")
	s.wait(120*time.Second, "the job has begun once more", func() bool { return strings.Count(s.output(id), "began") == 3 })
	if n := strings.Count(s.output(id), "signalled"); n != 1 {
		t.Errorf("%d signals: a death without a notice has none", n)
	}
	if j := s.job(id); j.Restarts != 3 { // the pause is one
		t.Errorf("%d restarts", j.Restarts)
	}
	s.does("reconcile", "--dry-run")
	var plan []api.Planned
	if err := json.Unmarshal([]byte(s.does("reconcile", "--json")), &plan); err != nil {
		t.Error(err)
	}

	// With burstd there: it launches nothing more, and the job is told why.
	s.does("stop-all", "--yes")
	st, err = s.API.Status(t.Context())
	if err != nil || st.Paused == nil || s.live() != 0 {
		t.Errorf("after stop-all: %+v, %v, %d instances", st.Paused, err, s.live())
	}
	s.wait(120*time.Second, "the job is told why it waits", func() bool {
		j := s.job(id)
		return strings.Contains(j.AdminComment, "launches are paused: burst stop-all") && j.State == "PENDING"
	})
	s.does("resume")
	s.wait(60*time.Second, "the job runs again", func() bool { return strings.Count(s.output(id), "began") == 4 })
	s.redButtonWithoutBurstd(id)
	s.redButton()
	s.once()
}

// leavesANode: a job ends that asked for its nodes to go with it; one of the two is
// also another's, and stays. burstd is killed in between, and SuspendTime is far off.
func (s *site) leavesANode(shared string) {
	s.t.Helper()
	id := s.submit("#!/bin/sh\n#BURST after=power_down\nsrun true\nsleep 1\n", "-N2", "--ntasks-per-node=1", "-w", shared)
	s.completes(id)
	if err := s.KillBurstd(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.StartBurstd(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	if n := s.live(); n != 2 {
		s.t.Fatalf("%d instances live", n)
	}
	s.wait(60*time.Second, "one node goes with its job", func() bool { return s.live() == 1 })
	s.t.Logf("%s after the job's end", time.Since(s.job(id).End).Round(time.Second))
	own := slices.DeleteFunc(expand(s.t, s.job(id).Nodes), func(n string) bool { return n == shared })
	var events []api.Event
	for line := range strings.Lines(s.does("events", "--kind", "power-down", "--json")) {
		var e api.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			s.t.Fatal(err)
		}
		events = append(events, e)
	}
	if len(own) != 1 || len(events) != 1 || events[0].Job != id || events[0].Node != own[0] {
		s.t.Errorf("of the job's own nodes %v the history has %+v", own, events)
	}
	if st := s.node(shared).State; st.Base == "IDLE" || strings.Contains(st.String(), "POWER") {
		s.t.Errorf("%s, on which a job runs, is %s", shared, st)
	}
}

// redButtonWithoutBurstd: a burstd that starts later launches nothing for the
// job that has lost its node, until somebody resumes. The job's script is ended
// before its machine, as by one that shuts down.
func (s *site) redButtonWithoutBurstd(id uint32) {
	s.t.Helper()
	if err := s.KillBurstd(); err != nil {
		s.t.Fatal(err)
	}
	before := len(s.machines())
	s.terminateScript()
	s.wait(20*time.Second, "the job has failed", func() bool { return s.job(id).State == "FAILED" })
	if s.does("stop-all", "--yes"); s.live() != 0 {
		s.t.Errorf("%d instances live", s.live())
	}
	if err := s.StartBurstd(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.wait(120*time.Second, "the job waits for the end of the pause", func() bool {
		j := s.job(id)
		return strings.Contains(j.AdminComment, "launches are paused: burst stop-all") && j.State == "PENDING"
	})
	if st, err := s.API.Status(s.t.Context()); err != nil || st.Paused == nil || len(s.machines()) != before {
		s.t.Errorf("%+v, %v, %d instances after %d", st.Paused, err, len(s.machines()), before)
	}
	s.does("resume")
	s.wait(60*time.Second, "the job runs after burst resume", func() bool { return strings.Count(s.output(id), "began") == 5 })
}

// terminateScript sends SIGTERM to the script that has written its pid.
func (s *site) terminateScript() {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Work, "pid"))
	if err != nil {
		s.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGTERM)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// redButton is pressed when nothing but the instances, their tags and the
// configuration is left.
func (s *site) redButton() {
	s.t.Helper()
	s.t.Logf("%d instances live", s.live())
	if s.live() == 0 {
		s.t.Fatal("nothing to end")
	}
	if err := s.KillBurstd(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.Cluster.KillController(); err != nil {
		s.t.Fatal(err)
	}
	state := filepath.Join(s.Dir, "state")
	file, err := os.ReadFile(filepath.Join(state, "cluster-id"))
	if err != nil {
		s.t.Fatal(err)
	}
	id := strings.TrimSpace(string(file))
	if err := os.RemoveAll(state); err != nil {
		s.t.Fatal(err)
	}
	if _, errs, code := s.burst("stop-all", "--yes"); code != 2 || !strings.Contains(errs, id) || s.live() == 0 {
		s.t.Errorf("without the cluster's id: exit code %d, %d live", code, s.live())
	}
	if out := s.does("stop-all", "--yes", "--cluster-id", id); !strings.Contains(out, "instances are gone") || s.live() != 0 {
		s.t.Errorf("%d instances live after %q", s.live(), out)
	}
	if _, err := os.Stat(state); err == nil {
		s.t.Error("stop-all has made the state folder")
	}
	if err := s.Cluster.StartController(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}
