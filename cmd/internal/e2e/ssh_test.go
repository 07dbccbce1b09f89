package e2e

import (
	"context"
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
// job for which it was launched runs on the third.
func TestNodesOverSSH(t *testing.T) {
	if testing.Short() {
		t.Skip("e2e: a real Slurm is slow; make test runs it")
	}
	net := sshtest.New(t)
	public, key := sshtest.Key(t)
	var hosts []*sshtest.Host
	for i := range 4 { // the fourth is for who launches too much
		h := net.Host(sshtest.Options{Login: public})
		// What these hosts' kernels or images lack.
		for _, tool := range []string{"chronyc", "nft", "timedatectl"} {
			h.Put("/usr/local/sbin/"+tool, []byte("#!/bin/sh\ncat >/dev/null 2>&1 </dev/null\nexit 0\n"))
		}
		line := "echo set up >>/var/log/lines; sleep 5"
		if i == 1 {
			line = "echo no such package; exit 4"
		}
		h.Put("/usr/local/sbin/third-line", []byte("#!/bin/sh\n"+line+"\n"))
		h.Do("chmod 0755 /usr/local/sbin/*; rm -f /etc/slurm/slurm.conf /etc/munge/munge.key")
		hosts = append(hosts, h)
	}
	cloud := vultrtest.New(vultrtest.Options{Addr: func(n int) string { return hosts[min(n, len(hosts))-1].IP.String() }})
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
		for run := 0; ctx.Err() == nil && run < len(hosts); {
			for _, m := range cloud.Machines() {
				if i := slices.IndexFunc(hosts, func(h *sshtest.Host) bool { return h.IP.String() == m.Addr }); i == run {
					hosts[i].Put("/root/user-data", []byte(m.UserData))
					hosts[i].Do("sh /root/user-data")
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
	s := start(t, rig.Options{
		Nodes: 2, Gate: true, NetNS: true, SuspendTime: 5 * time.Second, ResumeTimeout: 5 * time.Minute, Types: []string{vultrtest.Plan}, Zones: []string{""},
		Market: "on-demand", SlurmExtra: quick + "SlurmctldParameters=idle_on_node_suspend,power_save_interval=1,enable_configless\n",
		BurstdEnv:    []string{"VULTR_API_KEY=" + vultrtest.Key},
		DaemonToml:   fmt.Sprintf("listen = %q", netip.AddrPortFrom(net.Addr(), 9811)),
		ProviderToml: fmt.Sprintf("kind = \"vultr\"\nregion = %q\nendpoint = %q\ndir = %q\n", vultrtest.Region, cloud.URL(), t.TempDir()),
		PoolToml: fmt.Sprintf("image = \"os:%s\"\nmunge_key = \"ssh:%s\"\nssh = { key = %q, host_key = \"user-data\" }\nsetup = [\"true\", \"echo second\", \"third-line\"]\n",
			vultrtest.OSName, mungeKey, key),
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
	for _, h := range hosts {
		h.Do(fmt.Sprintf("mkdir -p '%[1]s' '%[1]s/spool/c1' '%[1]s/spool/c2' '%[1]s/tmp/c1' '%[2]s/log' && ln -sfn /run/munge/munge.socket.2 '%[3]s'",
			filepath.Dir(socket), filepath.Dir(s.Cluster.Conf), socket))
	}
	id := s.submit("#!/bin/sh\nsrun sh -c 'echo on $SLURMD_NODENAME'\n", "-w", "c1")
	s.wait(2*time.Minute, "the first host's third line runs", func() bool { return hosts[0].Read("/var/log/lines") != "" })
	if err := s.KillBurstd(); err != nil {
		t.Fatal(err)
	}
	if err := s.StartBurstd(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wait(3*time.Minute, "the job is done", func() bool { return s.job(id).State == "COMPLETED" })
	// The job's output is on the node: the folder is not shared.
	if out := hosts[0].Read(filepath.Join(s.Work, fmt.Sprintf("slurm-%d.out", id))); out != "on c1\n" {
		t.Errorf("the job's output: %q", out)
	}
	if got := hosts[0].Read("/var/log/lines"); got != "set up\n" {
		t.Errorf("the first host was set up %q", got)
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
	s.wait(2*time.Minute, "another is launched", func() bool { return cloud.Count("POST instances") == 3 })
	if slices.ContainsFunc(cloud.Machines(), func(m vultrtest.Machine) bool { return m.Addr == hosts[1].IP.String() }) {
		t.Error("another is launched while the failed one lives")
	}
	s.wait(2*time.Minute, "the job is done", func() bool { return s.job(id).State == "COMPLETED" })
	if out := hosts[2].Read(filepath.Join(s.Work, fmt.Sprintf("slurm-%d.out", id))); out != "on c2\n" {
		t.Errorf("the job's output: %q", out)
	}
	if n := cloud.Count("POST instances"); n != 3 {
		t.Errorf("%d instances were asked for, want 3", n)
	}
}

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
