package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/resumetest"
	"github.com/burst-hpc/burst/cmd/internal/rig"
	"github.com/burst-hpc/burst/slurm"
)

// TestResumeTest: burst resume-test brings a node up and takes it down by way of Slurm, says why
// one does not come, leaves nothing behind when it is interrupted, and refuses what is not its to take.
func TestResumeTest(t *testing.T) {
	t.Parallel()
	s := start(t, rig.Options{Nodes: 4, OnPrem: 1, Gate: true, SuspendTime: 2 * time.Minute, SuspendTimeout: 2 * time.Second,
		ResumeTimeout: 15 * time.Second, DemoPrices: true, SlurmExtra: quick})
	t.Run("a good node", func(t *testing.T) { goodNode(&site{s.Site, t, s.bin}) })
	t.Run("interrupted", func(t *testing.T) { interruptedTest(&site{s.Site, t, s.bin}) })
	t.Run("interrupted at once", func(t *testing.T) { interruptedAtOnce(&site{s.Site, t, s.bin}) })
	t.Run("genconf --diff", func(t *testing.T) { diffOfSite(&site{s.Site, t, s.bin}) })
	t.Run("killed", func(t *testing.T) { killedTest(&site{s.Site, t, s.bin}) })
	t.Run("refused", func(t *testing.T) { refusedTests(&site{s.Site, t, s.bin}) })
	t.Run("a slurmd that never comes", func(t *testing.T) { neverComes(&site{s.Site, t, s.bin}) })
	t.Run("no budget", func(t *testing.T) { noMoney(&site{s.Site, t, s.bin}) })
	t.Run("no capacity", func(t *testing.T) { noRoom(&site{s.Site, t, s.bin}) })
	s.wait(60*time.Second, "no instance lives and all nodes are off", func() bool { return s.live() == 0 && s.off() == 4 })
}

// resumeTest starts burst resume-test.
func (s *site) resumeTest(args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	s.t.Helper()
	cmd := exec.Command(filepath.Join(s.bin, "burst"), append([]string{"resume-test", "--config", s.Config}, args...)...)
	cmd.Env = append(os.Environ(), s.Env()...)
	out, errOut := &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, errOut
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { cmd.Process.Kill() }) // if the test ends before it
	return cmd, out, errOut
}

// tests runs it to its end, which has to be with the exit code.
func (s *site) tests(code int, args ...string) (resumetest.Result, string) {
	s.t.Helper()
	cmd, out, errOut := s.resumeTest(append(args, "--json")...)
	cmd.Wait() // its exit code is looked at
	if cmd.ProcessState.ExitCode() != code {
		s.t.Fatalf("exit code %d, want %d\n%s%s", cmd.ProcessState.ExitCode(), code, out, errOut)
	}
	var r resumetest.Result
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			s.t.Fatalf("%v\n%s", err, out)
		}
	}
	s.t.Logf("%s%s", out, errOut)
	return r, errOut.String()
}

// states are the steps' names and states.
func states(r resumetest.Result) string {
	var all []string
	for _, s := range r.Steps {
		all = append(all, s.Name+" "+s.State)
	}
	return strings.Join(all, ", ")
}

func goodNode(s *site) {
	if err := s.Control.SetBoot(2 * time.Second); err != nil {
		s.t.Fatal(err)
	}
	defer s.Control.SetBoot(0)
	r, _ := s.tests(0, "c1")
	if want := "registered ok, job ok, power down ok, ended ok, off ok, cost ok"; !r.OK || !strings.HasPrefix(states(r), "check ok, order ok, launch ok, ") || !strings.HasSuffix(states(r), want) {
		s.t.Errorf("the steps are %s", states(r))
	}
	last := 0.0
	for _, step := range r.Steps {
		if step.At < last || step.Seconds < 0 {
			s.t.Errorf("%+v comes after %.1f s", step, last)
		}
		last = step.At
	}
	up := slices.IndexFunc(r.Steps, func(s resumetest.Step) bool { return s.Name == "registered" })
	if up < 0 || r.Steps[up].At < 2 {
		s.t.Errorf("it registered too soon: %+v", r.Steps)
	}
	if m := s.machines(); len(m) != 1 || m[0].ID != r.Instance || m[0].State.Live() {
		s.t.Errorf("the machines are %+v, the test's instance %s", m, r.Instance)
	}
	if r.USDPerHour <= 0 || r.USD == nil || *r.USD <= 0 || r.Offering == "" || r.Job == 0 {
		s.t.Errorf("%+v", r)
	}
	if s.off() != 4 {
		s.t.Error("not all nodes are off")
	}
}

// interruptedTest: ^C while the node boots has Slurm power it down.
func interruptedTest(s *site) {
	if err := s.Control.SetBoot(4 * time.Second); err != nil {
		s.t.Fatal(err)
	}
	defer s.Control.SetBoot(0)
	cmd, out, errOut := s.resumeTest("c2")
	s.wait(30*time.Second, "an instance boots", func() bool { return s.live() == 1 })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		s.t.Fatal(err)
	}
	began := time.Now()
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 || time.Since(began) > 8*time.Second || !strings.Contains(errOut.String(), "interrupted") ||
		!strings.Contains(out.String(), "Slurm has been asked to power it down") {
		s.t.Errorf("exit code %d after %s\n%s%s", code, time.Since(began), out, errOut)
	}
	s.wait(60*time.Second, "the node has been taken down", func() bool { return s.live() == 0 && s.off() == 4 })
}

// interruptedAtOnce: ^C before slurmctld has begun to power the node up does not leave it to come up.
func interruptedAtOnce(s *site) {
	cmd, out, errOut := s.resumeTest("c2")
	s.wait(30*time.Second, "Slurm is asked for the node", func() bool {
		nodes, err := s.Slurm().Nodes(s.t.Context(), "c2")
		return err == nil && (nodes[0].State.Has(slurm.PowerUp) || nodes[0].State.Has(slurm.PoweringUp))
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		s.t.Fatal(err)
	}
	cmd.Wait()
	s.t.Logf("%s%s", out, errOut)
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(out.String(), "Slurm has been asked to power it down") {
		s.t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
	s.wait(60*time.Second, "the node has been taken down", func() bool { return s.live() == 0 && s.off() == 4 })
}

// diffOfSite: genconf --diff finds the file that the running slurmctld says, and of a copy of it makes
// one in which it finds nothing to change.
func diffOfSite(s *site) {
	diff := func(args ...string) (string, int) {
		cmd := exec.Command(filepath.Join(s.bin, "burst"), append([]string{"genconf", "--diff", "--config", s.Config, "--programs", s.bin}, args...)...)
		var errOut bytes.Buffer
		cmd.Stderr = &errOut
		out, err := cmd.Output()
		if cmd.ProcessState.ExitCode() > 1 {
			s.t.Fatalf("%v: %s", err, &errOut)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	out, code := diff()
	s.t.Log(out)
	if code != 1 || !strings.Contains(out, "\n--- "+s.Cluster.Conf+"\n") || !strings.Contains(out, "\n-PartitionName=cloud ") {
		s.t.Errorf("exit code %d\n%s", code, out)
	}
	text, err := os.ReadFile(s.Cluster.Conf)
	if err != nil {
		s.t.Fatal(err)
	}
	copied := filepath.Join(s.t.TempDir(), "slurm.conf")
	if err := os.WriteFile(copied, text, 0o600); err != nil {
		s.t.Fatal(err)
	}
	change, _ := diff("--slurm-conf", copied)
	patch := exec.Command("patch", "-s", "-p1", "-d", "/")
	patch.Stdin = strings.NewReader(change)
	if out, err := patch.CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s\n%s", err, out, change)
	}
	want := "nothing to change: "
	if !s.fromSlurm(24, 5) { // of several PrologSlurmctld lines one counts, and nobody has made the script that starts both
		want = "# first, before the change and a restart of slurmctld: burst genconf --chain -o /etc/burst/prolog-slurmctld\n" + want
	}
	if out, code := diff("--slurm-conf", copied); code != 0 || !strings.HasPrefix(out, want) {
		s.t.Errorf("after the change: exit code %d\n%s", code, out)
	}
}

// killedTest: after a kill -9 the node is Slurm's, which can be asked for it as for any.
func killedTest(s *site) {
	cmd, _, _ := s.resumeTest("c2", "--no-job")
	s.wait(30*time.Second, "an instance boots", func() bool { return s.live() == 1 })
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	cmd.Wait()
	s.wait(30*time.Second, "the node is up", func() bool {
		nodes, err := s.API.Nodes(s.t.Context())
		return err == nil && slices.ContainsFunc(nodes, func(n api.NodeStatus) bool { return n.Node == "c2" && n.Journal == "up" })
	})
	if _, why := s.tests(1, "c2"); !strings.Contains(why, "c2: it is not off") {
		s.t.Errorf("it was refused as %s", why)
	}
	if out, err := s.Cluster.Command(s.t.Context(), "scontrol", "update", "nodename=c2", "state=power_down").CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	s.wait(60*time.Second, "the node has been taken down", func() bool { return s.live() == 0 && s.off() == 4 })
}

func refusedTests(s *site) {
	scontrol := func(args ...string) {
		s.t.Helper()
		if out, err := s.Cluster.Command(s.t.Context(), "scontrol", args...).CombinedOutput(); err != nil {
			s.t.Fatalf("%v: %s", err, out)
		}
	}
	if _, why := s.tests(2, "o1"); !strings.Contains(why, "no pool of") {
		s.t.Errorf("the site's own node: %s", why)
	}
	scontrol("update", "nodename=c3", "state=drain", "reason=broken fan")
	if _, why := s.tests(1, "c3"); !strings.Contains(why, "broken fan") {
		s.t.Errorf("a drained node: %s", why)
	}
	scontrol("update", "nodename=c3", "state=undrain")
	scontrol("create", "reservation", "reservationname=theirs", "starttime=now", "duration=10", "user=root", "nodes=c4")
	if _, why := s.tests(1, "c4", "--timeout", "20s"); !strings.Contains(why, "kept for others") {
		s.t.Errorf("a reserved node: %s", why)
	}
	scontrol("delete", "reservationname=theirs")
	if s.live() != 0 || s.off() != 4 {
		s.t.Errorf("%d instances live, %d nodes are off", s.live(), s.off())
	}
}

func noRoom(s *site) {
	if err := s.Control.Refuse("*", 0); err != nil {
		s.t.Fatal(err)
	}
	defer s.Control.Refuse("*", -1)
	r, why := s.tests(1, "c1", "--timeout", "60s")
	if !strings.HasSuffix(states(r), "launch failed, clean up ok") || !strings.Contains(why, "capacity") || !strings.Contains(why, "hint: name more instance_types") || len(r.Events) == 0 {
		s.t.Errorf("%s: %s%v", states(r), why, r.Events)
	}
	s.wait(60*time.Second, "all nodes are off", func() bool { return s.live() == 0 && s.off() == 4 })
}

func neverComes(s *site) {
	if err := s.Control.SetBoot(time.Hour); err != nil {
		s.t.Fatal(err)
	}
	defer s.Control.SetBoot(0)
	r, why := s.tests(1, "c4", "--timeout", "2m")
	if !strings.Contains(states(r), "launch ok, ") || !strings.HasSuffix(states(r), "registered failed, clean up ok") || r.Instance == "" || r.Next == "" || len(r.Events) == 0 {
		s.t.Errorf("%s: %s%v", states(r), why, r.Events)
	}
	s.wait(60*time.Second, "no instance lives and all nodes are off", func() bool { return s.live() == 0 && s.off() == 4 })
}

func noMoney(s *site) {
	if err := s.StopBurstd(); err != nil {
		s.t.Fatal(err)
	}
	text, err := os.ReadFile(s.Config)
	if err != nil {
		s.t.Fatal(err)
	}
	restart := func(toml string) {
		s.t.Helper()
		if err := os.WriteFile(s.Config, []byte(string(text)+toml), 0o600); err != nil {
			s.t.Fatal(err)
		}
		if err := s.StartBurstd(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
	restart("[budget]\nday = 0.0000001\n")
	defer func() {
		if err := s.StopBurstd(); err != nil {
			s.t.Fatal(err)
		}
		restart("")
	}()
	r, why := s.tests(1, "c3", "--timeout", "60s")
	if !strings.HasSuffix(states(r), "launch failed, clean up ok") || !strings.Contains(why, "budget") || !strings.Contains(why, "hint: burst budget") {
		s.t.Errorf("%s: %s%v", states(r), why, r.Events)
	}
}
