// Package sshtest makes hosts for tests of what goes over SSH: each has OpenSSH's
// own sshd in a network namespace, with processes, files (an overlay on this
// host's) and a disk of its own. It needs root.
package sshtest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// Net is a bridge with hosts on it, which this host reaches.
type Net struct {
	t      testing.TB
	bridge string
	v4, v6 netip.Prefix
	last   atomic.Uint32
}

var nets atomic.Uint32

// New makes a bridge with a subnet for the time of the test. It skips the test where
// the tools are missing, or root's rights.
func New(t testing.TB) *Net {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: hosts with an sshd of their own need root")
	}
	for _, tool := range []string{"/usr/sbin/sshd", "ip", "unshare", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NOT TESTED: %s is missing: make deps", tool)
		}
	}
	id := uint32(os.Getpid())<<3 + nets.Add(1)
	n := &Net{t: t, bridge: fmt.Sprintf("bsh%x", id&0xffffff),
		v4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 64 + byte(id>>8)&63, byte(id), 1}), 24),
		v6: netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0xb5, byte(id >> 16), byte(id >> 8), byte(id), 15: 1}), 64)}
	n.run("ip", "link", "add", n.bridge, "type", "bridge")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", n.bridge).Run() })
	n.run("ip", "addr", "add", n.v4.String(), "dev", n.bridge)
	n.run("ip", "addr", "add", n.v6.String(), "dev", n.bridge, "nodad")
	n.run("ip", "link", "set", n.bridge, "up")
	return n
}

// Addr is this host's address on the bridge.
func (n *Net) Addr() netip.Addr { return n.v4.Addr() }

func (n *Net) run(name string, args ...string) string {
	n.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Options are a host's.
type Options struct {
	Login  ssh.PublicKey // who may log in
	User   string        // who is not root, and has sudo; empty: root
	NoSudo bool          // it has none
	Disk   int           // MiB; 64
	Port   int           // 22
	Asleep bool          // no sshd runs, before Wake
}

// Host is a machine with an sshd.
type Host struct {
	*Net
	Options
	IP, IP6 netip.Addr
	Key     ssh.PublicKey // its host key

	dir, ns string
	init    int // its first process, as this host sees it
}

// Host makes one, which ends with the test.
func (n *Net) Host(o Options) *Host {
	n.t.Helper()
	if o.Disk == 0 {
		o.Disk = 64
	}
	if o.Port == 0 {
		o.Port = 22
	}
	if o.User == "" {
		o.User = "root"
	}
	number := byte(n.last.Add(1) + 1)
	a, b := n.v4.Addr().As4(), n.v6.Addr().As16()
	a[3], b[15] = number, number
	h := &Host{Net: n, Options: o, IP: netip.AddrFrom4(a), IP6: netip.AddrFrom16(b), ns: fmt.Sprintf("%s-%d", n.bridge, number)}
	var err error
	if h.dir, err = os.MkdirTemp("", "burst-sshtest-"); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { os.RemoveAll(h.dir) })
	n.run("ip", "netns", "add", h.ns)
	n.t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", h.ns).Run() })
	n.run("ip", "link", "add", h.veth(), "type", "veth", "peer", "name", "eth0", "netns", h.ns)
	n.run("ip", "link", "set", h.veth(), "master", n.bridge, "up")
	n.run("ip", "-n", h.ns, "link", "set", "lo", "up")
	n.run("ip", "-n", h.ns, "addr", "add", netip.PrefixFrom(h.IP, 24).String(), "dev", "eth0")
	n.run("ip", "-n", h.ns, "addr", "add", netip.PrefixFrom(h.IP6, 64).String(), "dev", "eth0", "nodad")
	n.run("ip", "-n", h.ns, "link", "set", "eth0", "up")
	n.run("ip", "-n", h.ns, "route", "add", "default", "via", n.Addr().String())
	h.boot()
	h.install()
	if !o.Asleep {
		h.Wake()
	}
	return h
}

func (h *Host) veth() string { return fmt.Sprintf("%sv%d", h.bridge, h.IP.As4()[3]) }

// boot is the host's first process, as a shell has it: it mounts, and then waits.
const boot = `set -e
mount -t tmpfs -o size=${2}m tmpfs "$1"
mkdir "$1/up" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/up,workdir=$1/work" overlay "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
mount -t tmpfs tmpfs "$1/root/run"
mkdir -p "$1/root/run/sshd"
exec chroot "$1/root" sh -c 'echo up; while :; do sleep 3600 & wait; done'
`

func (h *Host) boot() {
	h.t.Helper()
	cmd := exec.Command("ip", "netns", "exec", h.ns, "unshare", "--mount", "--uts", "--propagation", "private", "--pid", "--fork", "--kill-child",
		"sh", "-c", boot, "sh", h.dir, strconv.Itoa(h.Disk))
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if up := make([]byte, 3); func() bool { n, _ := out.Read(up); return n == 0 }() {
		h.t.Fatalf("a host does not boot: %s", errOut.String())
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
	if err != nil {
		h.t.Fatal(err)
	}
	if h.init, err = strconv.Atoi(strings.TrimSpace(string(children))); err != nil {
		h.t.Fatalf("the host's first process: %q", children)
	}
}

// install puts sshd's files there.
func (h *Host) install() {
	h.t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		h.t.Fatal(err)
	}
	if h.Key, err = ssh.NewPublicKey(public); err != nil {
		h.t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		h.t.Fatal(err)
	}
	h.Put("/etc/ssh/test_key", pem.EncodeToMemory(block))
	h.Put("/etc/ssh/test_logins", nil)
	if h.Login != nil {
		h.Put("/etc/ssh/test_logins", ssh.MarshalAuthorizedKey(h.Login))
	}
	h.Put("/etc/ssh/test_config", fmt.Appendf(nil, `Port %d
HostKey /etc/ssh/test_key
AuthorizedKeysFile /etc/ssh/test_logins
StrictModes no
PasswordAuthentication no
UsePAM no
PermitRootLogin yes
PidFile /run/sshd.pid
MaxStartups 100
Subsystem sftp internal-sftp
`, h.Port))
	h.Do("chmod 0600 /etc/ssh/test_key; chmod 0644 /etc/ssh/test_logins; rm -rf /var/lib/burst")
	if h.User != "root" {
		h.Do("useradd -m -p '*' -s /bin/bash " + h.User)
		if !h.NoSudo {
			h.Put("/etc/sudoers.d/test", []byte(h.User+" ALL=(ALL) NOPASSWD: ALL\n"))
			h.Do("chmod 0440 /etc/sudoers.d/test")
		}
	}
}

// Path is where this host sees a file of the host's.
func (h *Host) Path(name string) string {
	return filepath.Join("/proc", strconv.Itoa(h.init), "root", name)
}

// Put writes a file there.
func (h *Host) Put(name string, text []byte) {
	h.t.Helper()
	if err := os.WriteFile(h.Path(name), text, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// Read reads a file there; "" if there is none.
func (h *Host) Read(name string) string {
	text, err := os.ReadFile(h.Path(name))
	if err != nil {
		return ""
	}
	return string(text)
}

// Do runs a line of shell there as root.
func (h *Host) Do(line string) string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.t.Context()), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nsenter", "-t", strconv.Itoa(h.init), "-m", "-u", "-n", "-p", "-r", "-w", "sh", "-c", line).CombinedOutput()
	if err != nil {
		h.t.Fatalf("on a host: %s: %v: %s", line, err, out)
	}
	return string(out)
}

// Wake starts sshd, and returns when it listens. One that was killed a moment ago may
// still have the port: then the next one gives up.
func (h *Host) Wake() {
	h.t.Helper()
	h.Do(wake)
}

const wake = `rm -f /run/sshd.pid
for try in 1 2 3 4 5; do
	/usr/sbin/sshd -f /etc/ssh/test_config -E /run/sshd.log
	for n in $(seq 50); do
		[ ! -s /run/sshd.pid ] || exit 0
		! grep -q 'Cannot bind' /run/sshd.log || break
		sleep 0.1
	done
	cat /run/sshd.log
	: >/run/sshd.log
	sleep 0.2
done
exit 1
`

// Hang kills the connections that there are, and nothing that they have started in a session of its own.
func (h *Host) Hang() { h.t.Helper(); h.Do(hang + "true") }

// Sleep ends sshd and its connections.
func (h *Host) Sleep() {
	h.t.Helper()
	h.Do("kill -STOP $(cat /run/sshd.pid);" + hang + "kill -9 $listener")
}

const hang = `listener=$(cat /run/sshd.pid)
for p in /proc/[0-9]*; do
	read -r _ _ _ parent _ <$p/stat || continue
	[ "$parent" != "$listener" ] || kill -9 "${p#/proc/}"
done 2>/dev/null
`

// Cut cuts the host's network; Mend mends it.
func (h *Host) Cut()  { h.t.Helper(); h.run("ip", "link", "set", h.veth(), "down") }
func (h *Host) Mend() { h.t.Helper(); h.run("ip", "link", "set", h.veth(), "up") }

// Key makes a key pair: the public half, and the private one in a file that only we can read.
func Key(t testing.TB) (public ssh.PublicKey, file string) {
	t.Helper()
	pub, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "id_ed25519")
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	if public, err = ssh.NewPublicKey(pub); err != nil {
		t.Fatal(err)
	}
	return public, file
}
