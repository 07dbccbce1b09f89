package bootstrap

import (
	"net/netip"
	"os"
	"strings"
	"testing"
)

// TestFirewall: where the image has one that is on, it lets in the nodes' network and slurmctld's hosts before slurmd
// starts, and no one else.
func TestFirewall(t *testing.T) {
	const hosts = `case "$2" in ctl) printf '10.9.0.4 STREAM ctl\n10.9.0.4 DGRAM\n';; ctl2) echo 'fd00::7 STREAM';; esac`
	ufw := "case $1 in status) echo Status: active;; esac"
	for _, tt := range []struct {
		name    string
		prepare func(w *world)
		want    []string // calls, all of them
		says    string
	}{
		{"ufw", func(w *world) { w.stub("ufw", ufw) }, []string{"ufw allow from 10.1.0.0/20", "ufw allow from 10.9.0.4", "ufw allow from fd00::7"},
			"the firewall here lets in 10.1.0.0/20 10.9.0.4 fd00::7"},
		{"ufw without IPv6", func(w *world) {
			w.stub("ufw", `case "$*" in status) echo Status: active;; *fd00*) echo 'ERROR: Bad source address' >&2; exit 1;; esac`)
		}, []string{"ufw allow from 10.1.0.0/20", "ufw allow from 10.9.0.4", "ufw allow from fd00::7"}, "note: the firewall here takes no IPv6 address, and fd00::7 is not let in"},
		{"ufw that is off", func(w *world) { w.stub("ufw", "echo Status: inactive; [ $1 = status ]") }, nil, ""},
		{"none", func(*world) {}, nil, ""},
		{"firewalld", func(w *world) { w.stub("firewall-cmd", "") }, []string{
			"firewall-cmd -q --add-rich-rule=rule family=ipv4 source address=10.1.0.0/20 accept", "firewall-cmd -q --permanent --add-rich-rule=rule family=ipv4 source address=10.1.0.0/20 accept",
			"firewall-cmd -q --add-rich-rule=rule family=ipv4 source address=10.9.0.4 accept", "firewall-cmd -q --permanent --add-rich-rule=rule family=ipv4 source address=10.9.0.4 accept",
			"firewall-cmd -q --add-rich-rule=rule family=ipv6 source address=fd00::7 accept", "firewall-cmd -q --permanent --add-rich-rule=rule family=ipv6 source address=fd00::7 accept"}, ""},
		{"firewalld that is off", func(w *world) { w.stub("firewall-cmd", "false") }, nil, ""},
		{"a public address", func(w *world) {
			w.stub("ufw", ufw)
			w.config.MungeKey = "image"
			w.write(w.root+"/etc/munge/munge.key", strings.Repeat("k", 32))
			w.script = func(c Config) (string, error) { return ForHost(c, w.instance, netip.MustParseAddr("172.32.0.5")) }
		}, []string{"ufw allow from 10.9.0.4", "ufw allow from fd00::7"}, "the network of the other nodes is not known, which it keeps out: this node's address, 172.32.0.5, is public"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.name != "ufw" {
				oneOfSeveral(t)
			}
			w := newWorld(t)
			w.stub("getent", hosts)
			tt.prepare(w)
			r := w.succeed()
			var got []string
			for _, call := range r.calls {
				if strings.HasPrefix(call, "ufw allow") || strings.Contains(call, "rich-rule") {
					got = append(got, call)
				}
			}
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("opened:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			if len(tt.want) > 0 && r.index(tt.want[len(tt.want)-1]) > r.index("systemctl restart slurmd") {
				t.Error("slurmd is started before")
			}
			if !strings.Contains(r.console, tt.says) {
				t.Errorf("it does not say %q:\n%s", tt.says, r.console)
			}
		})
	}
}

// TestTheServersImageHasItsPackage: an image of a pool with exports, whose nodes then need no packages; no server
// runs on it.
func TestTheServersImageHasItsPackage(t *testing.T) {
	for folder, want := range map[string]int{"/shared": 1, "": 0} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			if folder == "" {
				oneOfSeveral(t)
			}
			w := newWorld(t)
			used(w)
			w.remove("exportfs")
			w.config.Export.Folder, w.config.Packages = folder, true
			w.stub("apt-get", "")
			w.script = func(c Config) (string, error) { return UserData(c.ForImage()) }
			r := w.succeed()
			if got := r.count("apt-get -q -y -o DPkg::Lock::Timeout=120 install --no-install-recommends nfs-kernel-server"); got != want {
				t.Errorf("installed %d times: %q", got, r.calls)
			}
			if r.count("systemctl disable --now nfs-server") != want || r.count("exportfs")+r.count("systemctl restart nfs-server") != 0 {
				t.Errorf("what the image runs: %q", r.calls)
			}
		})
	}
}

// TestNFSv4NeedsNoRpcbind: it is masked on a server, unless that mounts from the site, perhaps by NFSv3.
func TestNFSv4NeedsNoRpcbind(t *testing.T) {
	oneOfSeveral(t)
	for _, mounts := range [][]Mount{nil, {{Kind: "nfs", Source: "nas:/home", Target: "/home"}}} {
		w := newWorld(t)
		w.config.Export.Folder, w.config.Mounts = "/shared", mounts
		w.stub("nfsconf", "echo n")
		r := w.succeed()
		if got := r.index("systemctl mask rpcbind.socket rpcbind.service rpc-statd.service"); (got >= 0) != (mounts == nil) || got > r.index("systemctl restart nfs-server") {
			t.Errorf("with %v: %q", mounts, r.calls)
		}
	}
}

// TestRpcbindStaysForNFSv3: without it an nfsd that serves NFSv3 does not start, so that it is masked only when it is
// known that this one does not: by nfsconf before the start, else by the kernel after it.
func TestRpcbindStaysForNFSv3(t *testing.T) {
	for _, tt := range []struct {
		name, nfsconf, versions string
		masked                  int // 0: never, 1: before the server starts, 2: after
		sets, notes             bool
	}{
		{"nfs.conf.d is read", "echo n", "-3 +4 +4.2", 1, false, false},
		{"nfs.conf is read", `case $1 in --set) touch "$0.set";; *) cat "$0.set" 2>/dev/null && echo n || exit 1;; esac`, "-3 +4 +4.2", 1, true, false},
		{"nfs.conf cannot be written", "exit 1", "-2 +3 +4", 0, true, true},
		{"no nfsconf", "", "-2 +3 +4 +4.1 +4.2", 0, false, true},
		{"no nfsconf, and the kernel has no NFSv3", "", "-2 -3 +4 +4.1 +4.2", 2, false, false},
		{"nothing is known", "", "", 0, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.masked != 2 {
				oneOfSeveral(t)
			}
			w := newWorld(t)
			w.config.Export.Folder = "/shared"
			if tt.nfsconf != "" {
				w.stub("nfsconf", tt.nfsconf)
			}
			if tt.versions != "" {
				if err := os.MkdirAll(w.root+"/proc/fs/nfsd", 0o755); err != nil {
					t.Fatal(err)
				}
				w.write(w.root+"/proc/fs/nfsd/versions", tt.versions+"\n")
			}
			r := w.succeed()
			mask, start, masked := r.index("systemctl mask rpcbind.socket rpcbind.service rpc-statd.service"), r.index("systemctl restart nfs-server"), 0
			switch {
			case mask > start:
				masked = 2
			case mask >= 0:
				masked = 1
			}
			if n := r.count("systemctl mask rpcbind.socket rpcbind.service rpc-statd.service"); n > 1 {
				t.Errorf("masked %d times", n)
			}
			if masked != tt.masked || (r.count("nfsconf --set nfsd vers3 n") > 0) != tt.sets || strings.Contains(r.console, "note: NFSv3 is served too") != tt.notes {
				t.Errorf("%q\n%s", r.calls, r.console)
			}
		})
	}
}
