package conf

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The real slurmctld takes the fragment, below a site's own settings, and then
// says of itself what Check wants to hear. The site has a PrologSlurmctld, beside which the gate comes
// as this release of Slurm wants it.
func TestSlurmctldAcceptsFragment(t *testing.T) {
	if testing.Short() {
		t.Skip("a real slurmctld: slow end-to-end, run by make test")
	}
	dir := t.TempDir()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	own := fmt.Sprintf(`ClusterName=conftest
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=%d
SlurmUser=%s
SlurmdUser=%s
AuthType=auth/none
CredType=cred/none
StateSaveLocation=%s
SlurmctldPidFile=%s/pid
SlurmctldParameters=enable_configless
PrivateData=usage
JobFileAppend=1
SuspendTime=300
PrologSlurmctld=%s/own
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
NodeName=n1 NodeAddr=127.0.0.1 CPUs=1
PartitionName=batch Nodes=n1 Default=YES
`, freePort(t), me.Username, me.Username, dir, dir, dir)
	in := input()
	in.Pools = append(in.Pools, server())
	in.Pools[0].EFA = true
	in.User = me.Username
	in.Programs = ProgramsIn(dir)
	in.Programs.Chain = filepath.Join(dir, "chain")
	for _, program := range []string{filepath.Join(dir, "own"), in.Programs.Chain, in.Programs.Gate, in.Programs.Resume, in.Programs.Suspend, in.Programs.ResumeFail} {
		write(t, program, "#!/bin/sh\n", 0o755)
	}
	path := filepath.Join(dir, "slurm.conf")
	write(t, path, own, 0o644)
	before, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	before.Release = ParseRelease(scontrol(t, path, "-V"))
	write(t, path, own+"Include burst.conf\n", 0o644)
	write(t, filepath.Join(dir, "burst.conf"), Fragment(before, in), 0o644)

	log := start(t, path)
	running := Running(showConfig(t, path, log))
	running.Lines = true
	read, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	running.Nodes, running.Partitions = read.Nodes, read.Partitions
	if running.Release != before.Release || running.Release == (Release{}) {
		t.Errorf("slurmctld is of release %v, scontrol of %v", running.Release, before.Release)
	}
	for _, f := range Check(running, in) {
		if f.Level != OK {
			t.Errorf("running slurmctld: %+v", f)
		}
	}
	for _, p := range in.Pools {
		out := scontrol(t, path, "-o", "show", "node", p.Nodes[0])
		for _, want := range []string{"+CLOUD", fmt.Sprintf("CPUTot=%d ", p.CPUs), fmt.Sprintf("RealMemory=%d ", p.RealMemory)} {
			if !strings.Contains(out, want) {
				t.Errorf("node %s lacks %q: %s", p.Nodes[0], want, out)
			}
		}
	}
	if out := scontrol(t, path, "-o", "show", "partition", "cloud"); !strings.Contains(out, "Nodes=b1,s[1-4] ") && !strings.Contains(out, "Nodes=s[1-4],b1 ") {
		t.Errorf("partition cloud: %s", out)
	}
	complaints(t, log)
}

// complaints reports what slurmctld logs of its configuration, but that settings of
// the fragment come a second time.
func complaints(t *testing.T, log string) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	bad := regexp.MustCompile(`(?i)(error|fatal): .*(pars|unrecogni|invalid|ignor|not set|resolve|program)`)
	for line := range strings.Lines(string(text)) {
		if bad.MatchString(line) {
			t.Errorf("slurmctld logged: %s", line)
		}
	}
}

// start runs slurmctld until the test ends and returns the path of its log.
func start(t *testing.T, conf string) string {
	t.Helper()
	log := filepath.Join(filepath.Dir(conf), "log")
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command("/usr/sbin/slurmctld", "-D", "-c", "-f", conf)
	cmd.Env = []string{"PATH=/usr/bin:/usr/sbin"}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
	})
	return log
}

// showConfig waits for slurmctld to answer and returns its settings.
func showConfig(t *testing.T, conf, log string) map[string]string {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		cmd := exec.Command("/usr/bin/scontrol", "show", "config")
		cmd.Env = []string{"SLURM_CONF=" + conf}
		out, err := cmd.CombinedOutput()
		if err == nil && strings.Contains(string(out), "SlurmctldParameters") {
			settings := map[string]string{}
			for line := range strings.Lines(string(out)) {
				if key, value, ok := strings.Cut(line, "="); ok {
					settings[strings.TrimSpace(key)] = strings.TrimSpace(value)
				}
			}
			return settings
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log)
			t.Fatalf("slurmctld does not answer: %v: %s\nits log:\n%s", err, out, text)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func scontrol(t *testing.T, conf string, args ...string) string {
	t.Helper()
	cmd := exec.Command("/usr/bin/scontrol", args...)
	cmd.Env = []string{"SLURM_CONF=" + conf}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("scontrol %v: %v: %s", args, err, out)
	}
	return string(out)
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	for n := range 8000 {
		port := 12000 + (os.Getpid()+n)%8000 // not one that the kernel gives a client meanwhile
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// TestSlurmctldAcceptsChange: the real slurmctld starts with what Change makes of a site that had
// some of the nodes already, in a file of their own, and a SuspendProgram.
func TestSlurmctldAcceptsChange(t *testing.T) {
	if testing.Short() {
		t.Skip("a real slurmctld: slow end-to-end, run by make test")
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	f := files(t, map[string]string{"nodes.conf": "NodeName=n1 NodeAddr=127.0.0.1 CPUs=1\nNodeName=x1,s[1-2] NodeAddr=127.0.0.1 CPUs=1 State=CLOUD\nNodeName=s3 CPUs=2 State=CLOUD\n", "slurm.conf": ""})
	dir := filepath.Dir(f.Path)
	in := input()
	in.User, in.Programs = me.Username, ProgramsIn(dir)
	for _, program := range []string{in.Programs.Gate, in.Programs.Resume, in.Programs.Suspend, in.Programs.ResumeFail} {
		write(t, program, "#!/bin/sh\n", 0o755)
	}
	write(t, f.Path, fmt.Sprintf("ClusterName=conftest\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=%d\nSlurmUser=%s\nSlurmdUser=%s\n"+
		"AuthType=auth/none\nCredType=cred/none\nStateSaveLocation=%s\nSlurmctldPidFile=%s/pid\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"+
		"MpiDefault=none\nMailProg=/bin/true\nSuspendProgram=/bin/true\nSuspendTime=300\nInclude nodes.conf\n"+
		"PartitionName=batch Nodes=n1 Default=YES\nPartitionName=cloud Nodes=s[1-3]", freePort(t), me.Username, me.Username, dir, dir), 0o644)
	if f, err = ReadFiles(f.Path); err != nil {
		t.Fatal(err)
	}
	f = apply(t, f, in)
	log := start(t, f.Path)
	running := Running(showConfig(t, f.Path, log))
	for _, found := range Check(running, in) {
		if found.MustChange() {
			t.Errorf("running slurmctld: %+v", found)
		}
	}
	if out := scontrol(t, f.Path, "-o", "show", "partition", "cloud"); !strings.Contains(out, "Nodes=s[1-4],b1 ") && !strings.Contains(out, "Nodes=b1,s[1-4] ") {
		t.Errorf("the partition is %s", out)
	}
}

// The real slurmctld gives a partition the nodes of the DEFAULT line and of a NodeSet, as this package reads them.
func TestSlurmctldAndMixed(t *testing.T) {
	if testing.Short() {
		t.Skip("a real slurmctld: slow end-to-end, run by make test")
	}
	dir := t.TempDir()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	in := input()
	in.User, in.Programs = me.Username, ProgramsIn(dir)
	for _, program := range []string{in.Programs.Gate, in.Programs.Resume, in.Programs.Suspend, in.Programs.ResumeFail} {
		write(t, program, "#!/bin/sh\n", 0o755)
	}
	write(t, filepath.Join(dir, "burst.conf"), Fragment(Site{}, in), 0o644)
	site := fmt.Sprintf(`ClusterName=mixed
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=%d
SlurmUser=%s
SlurmdUser=%s
AuthType=auth/none
CredType=cred/none
StateSaveLocation=%s
SlurmctldPidFile=%s/pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
NodeName=n[1-2] NodeAddr=127.0.0.1 CPUs=1
NodeSet=spots Feature=spot
PartitionName=DEFAULT Nodes=ALL
PartitionName=main Default=YES
PartitionName=set Nodes=n1,spots
PartitionName=DEFAULT Nodes=n1
Include burst.conf
`, freePort(t), me.Username, me.Username, dir, dir)
	path := filepath.Join(dir, "slurm.conf")
	write(t, path, site, 0o644)
	before, err := ReadFiles(path)
	if err != nil {
		t.Fatal(err)
	}
	log := start(t, path)
	showConfig(t, path, log) // it answers
	for partition, want := range map[string]string{"main": "TotalNodes=10 ", "set": "TotalNodes=5 "} {
		if out := scontrol(t, path, "-o", "show", "partition", partition); !strings.Contains(out, want) {
			t.Errorf("partition %s lacks %q: %s", partition, want, out)
		}
	}
	said := told(t, before, in)
	if !strings.Contains(said, "+PartitionName=main Default=YES Nodes=n[1-2]") || !strings.Contains(said, "# by hand: PartitionName=set: Its Nodes=n1,spots hold s[1-4] of the cloud") {
		t.Errorf("%s", said)
	}
}

// The real slurmctld, with topology/tree, gives nodes of the cloud to jobs by the lines that Change adds to topology.conf, and
// to a job of two pools, too; without them it refuses each.
func TestSlurmctldAcceptsTopology(t *testing.T) {
	if testing.Short() {
		t.Skip("a real slurmctld: slow end-to-end, run by make test")
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in := input()
	in.User, in.Programs = me.Username, ProgramsIn(dir)
	for _, program := range []string{in.Programs.Gate, in.Programs.Resume, in.Programs.Suspend, in.Programs.ResumeFail} {
		write(t, program, "#!/bin/sh\n", 0o755)
	}
	path := filepath.Join(dir, "slurm.conf")
	write(t, path, fmt.Sprintf("ClusterName=conftest\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=%d\nSlurmUser=%s\nSlurmdUser=%s\n"+
		"AuthType=auth/none\nCredType=cred/none\nStateSaveLocation=%s\nSlurmctldPidFile=%s/pid\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"+
		"SelectType=select/cons_tres\nTopologyPlugin=topology/tree\nMpiDefault=none\nMailProg=/bin/true\nNodeName=n1 NodeAddr=127.0.0.1 CPUs=1\n"+
		"PartitionName=batch Nodes=n1 Default=YES\nInclude burst.conf\n", freePort(t), me.Username, me.Username, dir, dir), 0o644)
	write(t, filepath.Join(dir, "burst.conf"), Fragment(Site{}, in), 0o644)
	write(t, filepath.Join(dir, topologyName), "SwitchName=leaf Nodes=n1\n", 0o644)
	submit := func(args ...string) (string, error) {
		cmd := exec.Command("/usr/bin/sbatch", append(args, "-o", "/dev/null", "--wrap", "true")...)
		cmd.Env, cmd.Dir = []string{"SLURM_CONF=" + path, "PATH=/usr/bin:/bin"}, dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	log := start(t, path)
	showConfig(t, path, log)
	if out, err := submit("-p", "cloud"); err == nil || !strings.Contains(out, "Requested node configuration is not available") {
		t.Errorf("without a switch: %v %s", err, out)
	}
	f, err := ReadFiles(path)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, f, in)
	scontrol(t, path, "reconfigure")
	for _, args := range [][]string{{"-p", "cloud"}, {"-p", "night", "-N3"}, {"-p", "cloud", "-N5"}} {
		if out, err := submit(args...); err != nil {
			t.Errorf("%v: %v %s", args, err, out)
		}
	}
}
