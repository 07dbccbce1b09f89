package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/bootstrap/ssh/sshtest"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
	"github.com/burst-hpc/burst/cmd/internal/rig"
)

// TestNodesOverSSH: burstd launches at the fake of Vultr, whose machines are
// hosts with a real sshd in network namespaces, and sets them up with the real bootstrap:
// munged under the key that is sent to who knows the word of its user data, and a slurmd that fetches its configuration.
// burstd is killed in the first host's setup; the second's fails at line 3, and the
// job for which it was launched runs on the third. All of them mount from a server of
// files that burstd has launched before them, and that stays when they have gone; its
// exports, and their mounts, are commands of the test's, since no kernel here serves NFS.
func TestNodesOverSSH(t *testing.T) {
	if testing.Short() {
		t.Skip("e2e: a real Slurm is slow; make test runs it")
	}
	net := sshtest.New(t)
	public, key := sshtest.Key(t)
	var all []*sshtest.Host
	for i := range 5 { // the first is the server, the last is for who launches too much
		h := net.Host(sshtest.Options{Login: public})
		// What these hosts' kernels or images lack.
		for _, tool := range []string{"chronyc", "nft", "timedatectl"} {
			h.Put("/usr/local/sbin/"+tool, []byte("#!/bin/sh\ncat >/dev/null 2>&1 </dev/null\nexit 0\n"))
		}
		line := "echo set up >>/var/log/lines; sleep 5"
		if i == 2 {
			line = "echo no such package; exit 4"
		}
		h.Put("/usr/local/sbin/third-line", []byte("#!/bin/sh\n"+line+"\n"))
		h.Put("/usr/sbin/exportfs", []byte(exportfs))
		h.Put("/usr/sbin/mount.nfs", []byte("#!/bin/sh\necho \"$*\" >>/var/log/nfs\nexec mount -t tmpfs tmpfs \"$2\"\n"))
		h.Do("ln -sf mount.nfs /usr/sbin/mount.nfs4; chmod 0755 /usr/local/sbin/* /usr/sbin/exportfs /usr/sbin/mount.nfs; rm -f /etc/slurm/slurm.conf /etc/munge/munge.key")
		all = append(all, h)
	}
	server, hosts := all[0], all[1:]
	cloud := vultrtest.New(vultrtest.Options{Flat: true, Addr: func(n int) string { return all[min(n, len(all))-1].IP.String() }})
	if err := cloud.Start(); err != nil {
		t.Fatal(err)
	}
	defer cloud.Close()
	ended := make(chan struct{})
	defer func() { <-ended }()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	go func() { // what cloud-init does with the user data
		defer close(ended)
		for run := 0; ctx.Err() == nil && run < len(all); {
			for _, m := range cloud.Machines() {
				if i := slices.IndexFunc(all, func(h *sshtest.Host) bool { return h.IP.String() == m.Addr }); i == run {
					all[i].Put("/root/user-data", []byte(m.UserData))
					all[i].Do("sh /root/user-data")
					run++
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	mungeKey := filepath.Join(t.TempDir(), "munge.key")
	login := fmt.Sprintf("image = \"os:%s\"\nvpc = %q\nmunge_key = \"ssh:%s\"\nssh = { key = %q, host_key = \"user-data\" }\n", vultrtest.OSName, vultrtest.VPC, mungeKey, key)
	s := start(t, rig.Options{
		Nodes: 2, Gate: true, NetNS: true, SuspendTime: 5 * time.Second, ResumeTimeout: 5 * time.Minute, Types: []string{vultrtest.Plan}, Zones: []string{""},
		Market: "on-demand", SlurmExtra: quick + "SlurmctldParameters=idle_on_node_suspend,power_save_interval=1,enable_configless\n" +
			"NodeName=nfs1 CPUs=2 RealMemory=1000 State=CLOUD\nPartitionName=nfs Nodes=nfs1 State=INACTIVE SuspendTime=INFINITE ResumeTimeout=300 SuspendTimeout=3\n",
		BurstdEnv:    []string{"VULTR_API_KEY=" + vultrtest.Key},
		DaemonToml:   fmt.Sprintf("listen = %q", netip.AddrPortFrom(net.Addr(), 9811)),
		ProviderToml: fmt.Sprintf("kind = \"vultr\"\nregion = %q\nendpoint = %q\ndir = %q\n", vultrtest.Region, cloud.URL(), t.TempDir()),
		PoolToml:     login + "setup = [\"true\", \"echo second\", \"third-line\"]\nmounts = [{ kind = \"nfs\", source = \"pool:nfs\", target = \"/shared-work\" }]\n",
		ExtraToml: fmt.Sprintf("[pool.nfs]\nprovider = \"here\"\nnodes = \"nfs1\"\ninstance_types = [%q]\ncpus = 2\nreal_memory = 1000\nexports = \"/shared\"\nexports_to = [\"10.0.0.0/8\"]\n",
			vultrtest.Plan2) + login,
	})
	id := uint32(0)
	t.Cleanup(func() { // the job's output is on its node: the folder is not shared
		for i, h := range hosts {
			if t.Failed() {
				t.Logf("host %d: job %d wrote %q", i, id, h.Read(filepath.Join(s.Work, fmt.Sprintf("slurm-%d.out", id))))
			}
		}
	})
	s.controllerIsKnown()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(s.Cluster.Conf), "munge.key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mungeKey, text, 0o600); err != nil {
		t.Fatal(err)
	}
	// The sandbox's slurm.conf has a munged, and folders, of its own.
	socket := s.confValue(`socket=([^,\s]+)`)
	for _, h := range all {
		h.Do(fmt.Sprintf("mkdir -p '%[1]s' '%[1]s/spool/c1' '%[1]s/spool/c2' '%[1]s/spool/nfs1' '%[1]s/tmp/c1' '%[1]s/tmp/c2' '%[2]s/log' && ln -sfn /run/munge/munge.socket.2 '%[3]s'",
			filepath.Dir(socket), filepath.Dir(s.Cluster.Conf), socket))
	}
	id = s.submit("#!/bin/sh\nsrun sh -c 'echo on $SLURMD_NODENAME'\n", "-w", "c1")
	s.wait(4*time.Minute, "the first host's third line runs", func() bool { return hosts[0].Read("/var/log/lines") != "" })
	if err := s.KillBurstd(); err != nil {
		t.Fatal(err)
	}
	if err := s.StartBurstd(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wait(3*time.Minute, "the job is done", func() bool { return s.job(id).State == "COMPLETED" })
	if out := hosts[0].Read(filepath.Join(s.Work, fmt.Sprintf("slurm-%d.out", id))); out != "on c1\n" {
		t.Errorf("the job's output: %q", out)
	}
	if got := hosts[0].Read("/var/log/lines"); got != "set up\n" {
		t.Errorf("the first host was set up %q", got)
	}
	if got, want := server.Read("/etc/exports.d/burst.exports"), "/shared 10.0.0.0/8(rw,sync,no_subtree_check,root_squash)\n"; got != want {
		t.Errorf("exported is %q, want %q", got, want)
	}
	if got, want := hosts[0].Read("/var/log/nfs"), server.IP.String()+":/shared /shared-work -o "; !strings.HasPrefix(got, want) {
		t.Errorf("the first host mounts %q, want %q", got, want)
	}
	log := filepath.Join(s.Dir, "state", "setup", "c1.log")
	s.wait(time.Minute, "the output is kept", func() bool {
		text, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(text), "burst-bootstrap: ready")
	})

	id = s.submit("#!/bin/sh\nsrun sh -c 'echo on $SLURMD_NODENAME'\n", "-w", "c2")
	s.wait(2*time.Minute, "the failing line is told", func() bool {
		text, err := os.ReadFile(s.Log())
		return err == nil && strings.Contains(string(text), `its boot failed: step setup: setup line 3: \"third-line\": exit 4|no such package`)
	})
	// The next one must not wait until five minutes of lists have lacked the first.
	s.wait(2*time.Minute, "another is launched", func() bool { return cloud.Count("POST instances") == 4 })
	if slices.ContainsFunc(cloud.Machines(), func(m vultrtest.Machine) bool { return m.Addr == hosts[1].IP.String() }) {
		t.Error("another is launched while the failed one lives")
	}
	s.wait(2*time.Minute, "the job is done", func() bool { return s.job(id).State == "COMPLETED" })
	if out := hosts[2].Read(filepath.Join(s.Work, fmt.Sprintf("slurm-%d.out", id))); out != "on c2\n" {
		t.Errorf("the job's output: %q", out)
	}
	if n := cloud.Count("POST instances"); n != 4 {
		t.Errorf("%d instances were asked for, want 4", n)
	}
	s.wait(time.Minute, "the server alone is left", func() bool {
		left := cloud.Machines()
		return len(left) == 1 && left[0].Addr == server.IP.String()
	})
	s.forgetsServer("nfs1")
	if left := cloud.Machines(); len(left) != 1 {
		t.Fatalf("Slurm has lost its state, and %d instances are left", len(left))
	}
	if out, err := s.Cluster.Command(t.Context(), "scontrol", "update", "nodename=nfs1", "state=power_down").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.wait(time.Minute, "an admin ends the server", func() bool { return len(cloud.Machines()) == 0 })
}

// forgetsServer has slurmctld lose its state, and waits until burstd has said so of the server, which is longer than
// another node would be left alone.
func (s *site) forgetsServer(node string) {
	s.t.Helper()
	if err := s.Cluster.StopController(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	state := s.confValue(`StateSaveLocation=(\S+)`)
	if err := errors.Join(os.RemoveAll(state), os.Mkdir(state, 0o755)); err != nil {
		s.t.Fatal(err)
	}
	if err := s.Cluster.StartController(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.wait(3*time.Minute, "the loss is told", func() bool {
		text, err := os.ReadFile(s.Log())
		return err == nil && strings.Contains(string(text), "Slurm has it off while its instance")
	})
}

// exportfs is that of a host whose kernel serves nothing: something listens where NFS would.
const exportfs = `#!/bin/sh
case $1 in
-ra) setsid python3 -m http.server 2049 </dev/null >/dev/null 2>&1 3>&- 9>&- & ;;
-s) sed 's/ /  /' /etc/exports.d/burst.exports ;;
esac
`

// controllerIsKnown tells nodes where slurmctld is, which the sandbox decides at its start.
func (s *site) controllerIsKnown() {
	s.t.Helper()
	text, err := os.ReadFile(s.Config)
	if err != nil {
		s.t.Fatal(err)
	}
	at := s.confValue(`SlurmctldHost=[^(]+\(([^)]+)\)`) + ":" + s.confValue(`SlurmctldPort=(\d+)`)
	changed := strings.Replace(string(text), "[slurm]\n", fmt.Sprintf("[slurm]\ncontrollers = [%q]\n", at), 1)
	if err := os.WriteFile(s.Config, []byte(changed), 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := s.StopBurstd(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.StartBurstd(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// confValue is what the pattern's group matches in slurm.conf.
func (s *site) confValue(pattern string) string {
	s.t.Helper()
	text, err := os.ReadFile(s.Cluster.Conf)
	if err != nil {
		s.t.Fatal(err)
	}
	m := regexp.MustCompile(pattern).FindSubmatch(text)
	if m == nil {
		s.t.Fatalf("slurm.conf has no %s", pattern)
	}
	return string(m[1])
}
