package bootstrap

import (
	"net/netip"
	"os"
	"strings"
	"testing"
)

// TestExport: a server of files exports its folder to its own network, or to those that it is told,
// before its slurmd starts, by which burstd knows that it is up.
func TestExport(t *testing.T) {
	for _, tt := range []struct {
		name    string
		to      []string
		prepare func(w *world)
		want    string   // /etc/exports.d/burst.exports
		calls   []string // in this order
	}{
		{"to its own network", nil, func(*world) {}, "/shared 10.1.0.0/20(rw,sync,no_subtree_check,root_squash)\n",
			[]string{"ip -o -4 route show scope link src 10.1.2.3", "systemctl enable nfs-server", "systemctl restart nfs-server", "exportfs -ra", "systemctl restart slurmd"}},
		{"to others", []string{"10.1.0.0/16", "10.9.0.0/24"}, func(*world) {},
			"/shared 10.1.0.0/16(rw,sync,no_subtree_check,root_squash) 10.9.0.0/24(rw,sync,no_subtree_check,root_squash)\n", nil},
		{"behind ufw", nil, func(w *world) { w.stub("ufw", "echo Status: active") }, "", []string{"ufw allow proto tcp from 10.1.0.0/20 to any port 2049"}},
		{"behind ufw that is off", nil, func(w *world) { w.stub("ufw", "echo Status: inactive; [ $1 = status ]") }, "", nil},
		{"behind firewalld", nil, func(w *world) { w.stub("firewall-cmd", "") }, "",
			[]string{"firewall-cmd -q --permanent --add-rich-rule=rule family=ipv4 source address=10.1.0.0/20 service name=nfs accept", "firewall-cmd -q --reload"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.name != "to its own network" {
				oneOfSeveral(t)
			}
			w := newWorld(t)
			tt.prepare(w)
			w.config.Export = Export{"/shared", tt.to}
			r := w.succeed()
			at := -1
			for _, call := range tt.calls {
				i := r.index(call)
				if i <= at {
					t.Fatalf("%q is not after what should come before it, or not there:\n%s", call, strings.Join(r.calls, "\n"))
				}
				at = i
			}
			if got := w.read(w.root + "/etc/exports.d/burst.exports"); tt.want != "" && got != tt.want {
				t.Errorf("exported is %q", got)
			}
			info, err := os.Stat(w.root + "/shared")
			if err != nil || info.Mode().Perm() != 0o777 || info.Mode()&os.ModeSticky == 0 {
				t.Errorf("the folder: %v, %v", info, err)
			}
			// Again, or after a reboot: nodes that mount from it do not wait for a restart.
			again := w.succeed("BURST_REBOOT=1")
			if again.count("systemctl restart nfs-server") != 0 || again.count("systemctl start nfs-server") != 1 {
				t.Errorf("again: %q", again.calls)
			}
		})
	}
}

// TestNoExport: a node that serves nothing has no NFS server.
func TestNoExport(t *testing.T) {
	t.Parallel()
	oneOfSeveral(t)
	w := newWorld(t)
	if r := w.succeed(); r.count("exportfs")+r.count("systemctl enable nfs-server") != 0 {
		t.Errorf("%q", r.calls)
	}
}

// TestExportFails with a line that says why.
func TestExportFails(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(w *world)
		want  string
	}{
		{"no NFS server", func(w *world) { w.remove("exportfs") }, "step export: the NFS server is missing on this image"},
		{"no network", func(w *world) { w.stub("ip", "") }, "step export: no network of this node's address, 10.1.2.3, is in its routes: say with exports_to"},
		{"its address is public", func(w *world) {
			w.config.MungeKey = "image"
			w.write(w.root+"/etc/munge/munge.key", strings.Repeat("k", 32))
			w.script = func(c Config) (string, error) { return ForHost(c, w.instance, netip.MustParseAddr("172.32.0.5")) }
		}, "step export: this node's address, 172.32.0.5, is public: put the pool into a private network"},
		{"it cannot be exported", func(w *world) { w.stub("exportfs", "") }, "step export: exportfs does not show /shared"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.name != "no network" {
				oneOfSeveral(t)
			}
			w := newWorld(t)
			w.config.Export.Folder = "/shared"
			tt.spoil(w)
			r := w.run()
			if r.code == 0 || !strings.Contains(r.console, tt.want) || r.count("@report failed "+tt.want) != 1 || r.index("systemctl restart slurmd") >= 0 {
				t.Errorf("%d: %s\n%q", r.code, r.console, r.calls)
			}
		})
	}
}

// TestMountFromAServer of Burst's, whose address burstd says: with user data, and over SSH.
func TestMountFromAServer(t *testing.T) {
	for name, make := range map[string]func(*testing.T) *world{"user data": newWorld, "SSH": func(t *testing.T) *world { w, _ := given(t); return w }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != "user data" {
				oneOfSeveral(t)
			}
			w := make(t)
			w.config.Mounts = []Mount{{Kind: "nfs", Source: "nas.example.org:/home", Target: "/home"}, {Kind: "nfs", Source: "server:lon-nfs:/shared", Target: "/work"}}
			w.servers = "other=10.1.0.8 lon-nfs=10.1.0.9"
			r := w.succeed()
			for _, call := range []string{"mount -t nfs -o rw,hard,noatime,_netdev nas.example.org:/home " + w.root + "/home",
				"mount -t nfs -o nfsvers=4.2,rw,hard,noatime,_netdev 10.1.0.9:/shared " + w.root + "/work"} {
				if r.count(call) != 1 {
					t.Errorf("%q is not among %q", call, r.calls)
				}
			}
			if testing.Short() {
				return // what fails takes two boots more
			}
			w.removeAll(w.root + "/run/burst")
			w.removeAll(w.state + "/mounts")
			w.times("mount", 1000)
			w.config.Mounts = w.config.Mounts[1:]
			if r = w.run(); r.code == 0 || !strings.Contains(r.console, "step mounts: 10.1.0.9:/shared (server lon-nfs) could not be mounted on /work within 180 s") {
				t.Errorf("it does not answer: %d: %s", r.code, r.console)
			}
			w.servers = "other=10.1.0.8"
			if r = w.run(); r.code == 0 || r.count("@report failed step mounts: server lon-nfs is not up any more: burstd knows no address of it, and /work cannot be mounted") != 1 {
				t.Errorf("it is gone: %d: %s", r.code, r.console)
			}
		})
	}
}

func TestCheckNetwork(t *testing.T) {
	for text, want := range map[string]string{
		"10.1.96.0/20": "", "10.0.0.0/8": "", "172.16.0.0/12": "", "192.168.0.0/16": "", "100.64.0.0/10": "", "192.168.3.4/32": "",
		"10.1.96.3/20": "names a host", "0.0.0.0/0": "not a private", "8.0.0.0/8": "not a private", "172.0.0.0/8": "not a private", "172.0.0.0/11": "not a private",
		"192.0.0.0/8": "not a private", "192.168.0.0/15": "not a private", "100.0.0.0/8": "not a private", "100.0.0.0/9": "not a private", "fd00::/64": "no network", "vpc": "no network", "": "no network",
	} {
		err := CheckNetwork(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestExportIsChecked(t *testing.T) {
	for folder, ok := range map[string]bool{"/shared": true, "/srv/burst-1/a_b": true, "/": false, "shared": false, "/a b": false, "/a/../b": false, "/a/": false, "/a(rw)": false,
		"/etc": false, "/etc/x": false, "/etcetera": true, "/var/lib/burst": false, "/root": false, "/-x": false} {
		c := good()
		c.Export.Folder = folder
		if err := c.Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", folder, err)
		}
	}
	c := good()
	c.Export.To = []string{"10.0.0.0/8"}
	if c.Validate() == nil {
		t.Error("networks without a folder are taken")
	}
	c = good()
	c.Mounts = []Mount{{Kind: "nfs", Source: "server:a b:/x", Target: "/x"}}
	if c.Validate() == nil {
		t.Error("a server with a blank in its name is taken")
	}
}
