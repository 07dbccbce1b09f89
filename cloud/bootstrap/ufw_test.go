package bootstrap

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// behindUfw is a host behind a real ufw, in namespaces of its own, with a network beside it that has addresses of
// three kinds: of its own network, slurmctld's, and a stranger's. It says which of them reach which port.
const behindUfw = `set -Eeuo pipefail
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
cp -a /etc/ufw "$1/ufw"
mount --bind "$1/ufw" /etc/ufw
sed 's/^IPV6=.*/IPV6=no/' /etc/default/ufw >"$1/default"
mount --bind "$1/default" /etc/default/ufw
mount -t tmpfs tmpfs /run
ip link set lo up
ip netns add beside
ip link add v0 type veth peer name v1 netns beside
ip address add 10.77.0.2/24 dev v0
ip link set v0 up
ip -n beside link set v1 up
for a in 10.77.0.3/24 10.78.0.9/32 10.79.0.9/32; do ip -n beside address add $a dev v1; done
ip route add 10.78.0.9 dev v0; ip route add 10.79.0.9 dev v0
for port in 6818 2049 45000; do python3 -c 'import socket,sys
s = socket.create_server(("10.77.0.2", int(sys.argv[1]))); print("listens", flush=True)
while True: s.accept()' $port >"$1/$port" & done
trap 'kill $(jobs -p)' EXIT
ufw --force enable >/dev/null
for port in 6818 2049 45000; do for i in {1..100}; do [ -s "$1/$port" ] && break || sleep 0.1; done; done
reach() {
	local from port
	for from in 10.77.0.3 10.78.0.9 10.79.0.9; do
		for port in 6818 2049 45000; do
			if ip netns exec beside python3 -c 'import socket,sys
socket.create_connection(("10.77.0.2", int(sys.argv[2])), 1, (sys.argv[1], 0))' $from $port 2>/dev/null; then echo "$1 $from $port"; fi
		done
	done
}
have() { command -v "$1" >/dev/null 2>&1; }
say() { echo "$*" >&2; }
reach before
ADDRESS=10.77.0.2 CONF_SERVERS=10.78.0.9:6817,[fd00::7]:6817 NETWORK=''
step_firewall >/dev/null
step_firewall >/dev/null # as after a reboot; ufw takes no IPv6 address here
reach nodes
open_nfs 10.79.0.0/24 >/dev/null
reach nfs
`

// TestBehindARealUfw: before, nobody is let in; then the node's own network and slurmctld, to all ports; and who
// mounts from a server, to NFS alone.
func TestBehindARealUfw(t *testing.T) {
	if testing.Short() {
		t.Skip("a real ufw takes 16 s; TestFirewall has a stand-in")
	}
	if _, err := exec.LookPath("/usr/sbin/ufw"); err != nil || os.Getuid() != 0 {
		t.Skip("NOT TESTED: a real ufw needs root and the package ufw, which make deps installs")
	}
	script := filepath.Join(t.TempDir(), "script")
	text := strings.Replace(behindUfw, "reach before\n", firewall+"\n"+export+"\nreach before\n", 1)
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "bash", script, t.TempDir())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, stderr.String())
	}
	var want []string
	for _, when := range []string{"nodes", "nfs"} {
		for _, from := range []string{"10.77.0.3", "10.78.0.9"} {
			for _, port := range []string{"6818", "2049", "45000"} {
				want = append(want, when+" "+from+" "+port)
			}
		}
	}
	want = append(want, "nfs 10.79.0.9 2049", "")
	if got := string(out); got != strings.Join(want, "\n") {
		t.Errorf("reached:\n%s\nwant:\n%s\n%s", got, strings.Join(want, "\n"), stderr.String())
	}
}
