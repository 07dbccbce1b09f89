package hostcheck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/slurm/conf"
)

// world is a controller in a folder, on which all is well.
type world struct {
	*Host
	Site
	disks map[string]unix.Statfs_t // by path of the host; others have room, on ext4
	said  map[string]string        // by command line
	fails map[string]error
}

const unitText = "LoadState=loaded\nUnitFileState=enabled\nUser=slurm\nProtectSystem=strict\nReadWritePaths=-/var/spool/burst\nNeedDaemonReload=no\n"

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "host") // whose folders all may pass, and short enough for a socket
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	me := User{"slurm", os.Geteuid(), []int{os.Getegid()}}
	if me.UID == 0 { // root may all: rights are those of somebody to whom nothing belongs
		me = User{"slurm", 4242, []int{4242}}
	}
	w := &world{disks: map[string]unix.Statfs_t{}, said: map[string]string{
		"scontrol --version": "slurm-wlm 22.05.8\n",
		"systemctl show burstd.service --property=LoadState,UnitFileState,User,ProtectSystem,ReadWritePaths,NeedDaemonReload": unitText,
	}, fails: map[string]error{}}
	w.Site = Site{Path: endpoint.DefaultPath, Endpoint: endpoint.Default(), SlurmUser: me, Burstd: me,
		Running:  map[string]string{"SLURM_VERSION": "22.05.8", "PluginDir": "/usr/lib/slurm"},
		Settings: conf.Site{Settings: map[string]string{"slurmctldhost": "head(192.0.2.1)", "statesavelocation": "/var/lib/slurm"}}}
	w.Host = &Host{Root: dir, Version: "v1.0.0",
		Run: func(_ context.Context, name string, args ...string) (string, error) {
			line := strings.TrimPrefix(strings.Join(append([]string{name}, args...), " "), dir)
			return w.said[line], w.fails[line]
		},
		Statfs: func(path string) (unix.Statfs_t, error) {
			if s, ok := w.disks["/"+relative(dir, path)]; ok {
				return s, nil
			}
			return disk(0xef53, 100<<30), nil
		},
		Clock:   func() (bool, error) { return true, nil },
		Munge:   func(context.Context, string) error { return nil },
		Status:  func(context.Context, string) (string, error) { return "v1.0.0", nil },
		Resolve: func(context.Context, string) ([]net.IP, error) { return []net.IP{net.ParseIP("192.0.2.1")}, nil },
		Own: func() ([]net.IP, error) {
			return []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP("192.0.2.1")}, nil
		},
		Name: func() (string, error) { return "head.example.org", nil },
	}
	w.write(t, "/usr/lib/slurm/serializer_json.so", "", 0o644)
	w.write(t, endpoint.DefaultPath, "cluster = \"c\"\n", 0o644)
	w.folder(t, "/var/lib/burst", 0o770)
	w.folder(t, "/var/spool/burst", 0o770)
	w.folder(t, "/run/burst", 0o755)
	w.write(t, "/proc/net/tcp", table(), 0o644)
	return w
}

// table is what the kernel shows of sockets: of uid 7 one that listens on port 9811 and one that is connected.
func table() string {
	return "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
		"   0: 0100007F:2653 00000000:0000 0A 00000000:00000000 00:00000000 00000000     7        0 1 1 0000000000000000 100 0 0 10 0\n" +
		"   1: 0100007F:2654 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     8        0 1 1 0000000000000000 100 0 0 10 0\n"
}

func disk(kind int64, free uint64) unix.Statfs_t {
	return unix.Statfs_t{Type: kind, Bsize: 4096, Bavail: free / 4096, Files: 1000, Ffree: 1000}
}

func (w *world) write(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	w.folder(t, filepath.Dir(path), 0o755)
	if err := os.WriteFile(w.at(path), []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	w.mode(t, path, mode)
}

// folder makes a folder that the world's user owns where we are root, or that is ours.
func (w *world) folder(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if _, err := os.Stat(w.at(path)); err == nil {
		return
	}
	if err := os.MkdirAll(w.at(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if mode != 0o755 && os.Geteuid() == 0 {
		if err := os.Chown(w.at(path), w.Site.Burstd.UID, -1); err != nil {
			t.Fatal(err)
		}
	}
	w.mode(t, path, mode)
}

func (w *world) mode(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(w.at(path), mode); err != nil {
		t.Fatal(err)
	}
}

func (w *world) listens(t *testing.T) {
	t.Helper()
	ln, err := net.Listen("unix", w.at(w.Endpoint.Socket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	if os.Geteuid() == 0 {
		if err := os.Chown(w.at(w.Endpoint.Socket), w.Burstd.UID, -1); err != nil {
			t.Fatal(err)
		}
	}
	w.mode(t, w.Endpoint.Socket, 0o666)
}

// nodeURL has nodes know this host by url, and burstd listen.
func (w *world) nodeURL(t *testing.T, url string) {
	t.Helper()
	w.Endpoint.Listen, w.Endpoint.NodeURL, w.Clouds = ":9811", url, true
	w.write(t, "/proc/net/tcp", strings.Replace(table(), "00000000     7 ", fmt.Sprintf("00000000 %5d ", w.Burstd.UID), 1), 0o644)
}

// owner gives a folder to another user, which root alone can.
func (w *world) owner(t *testing.T, path string, uid int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root")
	}
	if err := os.Chown(w.at(path), uid, -1); err != nil {
		t.Fatal(err)
	}
}

// TestAllIsWell: of a host on which nothing is wrong nothing is said but ok.
func TestAllIsWell(t *testing.T) {
	w := newWorld(t)
	w.listens(t)
	found := w.Check(t.Context(), w.Site)
	if len(found) < 12 {
		t.Errorf("only %d findings", len(found))
	}
	for _, f := range found {
		if f.Level != conf.OK || f.Why == "" {
			t.Errorf("%+v", f)
		}
	}
}

// TestEach breaks one thing in each row, and wants that said with what to do, and nothing else.
func TestEach(t *testing.T) {
	away := errors.New("connection refused")
	for _, tt := range []struct {
		name  string
		wreck func(t *testing.T, w *world)
		key   string
		level conf.Level
		why   string
	}{
		{"slurmctld is away", func(t *testing.T, w *world) { w.Running, w.Away = nil, away }, "slurmctld", conf.Unknown, "connection refused: what it runs with is not compared. Start it"},
		{"Slurm is too old", func(t *testing.T, w *world) {
			w.Running["SLURM_VERSION"], w.said["scontrol --version"] = "21.08.8-2", "slurm 21.08.8-2"
		}, "slurmctld", conf.Wrong, "Burst needs Slurm 22.05 or later"},
		{"Slurm says no version", func(t *testing.T, w *world) { delete(w.Running, "SLURM_VERSION") }, "slurmctld", conf.Unknown, "does not say its version"},
		{"a newer scontrol", func(t *testing.T, w *world) { w.said["scontrol --version"] = "slurm 24.11.3" }, "scontrol", conf.Wrong, "newer than slurmctld, 22.05.8"},
		{"an older scontrol", func(t *testing.T, w *world) { w.Running["SLURM_VERSION"] = "23.02.1" }, "scontrol", conf.Advice, "slurmctld is 23.02.1: it takes commands of two releases before"},
		{"no scontrol", func(t *testing.T, w *world) { w.fails["scontrol --version"] = exec.ErrNotFound }, "scontrol", conf.Wrong, "name their folder as bin under [slurm]"},
		{"a scontrol that fails", func(t *testing.T, w *world) { w.fails["scontrol --version"] = away }, "scontrol", conf.Unknown, "fails: connection refused"},
		{"no json-c", func(t *testing.T, w *world) { os.Remove(w.at("/usr/lib/slurm/serializer_json.so")) }, "json-c", conf.Advice, "built without json-c"},
		{"plugins elsewhere", func(t *testing.T, w *world) { w.Running["PluginDir"] = "/opt/none:/opt/neither" }, "json-c", conf.Unknown, "cannot be looked at"},
		{"auth/slurm", func(t *testing.T, w *world) { w.Settings.Settings["authtype"] = "auth/slurm" }, "AuthType", conf.Advice, "run munged here and on the nodes too"},
		{"auth/slurm, and a pool without its key", func(t *testing.T, w *world) {
			w.Settings.Settings["authtype"], w.Keyless = "auth/slurm", []string{"c6i"}
		}, "AuthType", conf.Wrong, "that the nodes of pool c6i have Slurm's own key"},
		{"another host", func(t *testing.T, w *world) { w.Name = func() (string, error) { return "login1", nil } }, "SlurmctldHost", conf.Advice, "This host is login1"},
		{"a backup", func(t *testing.T, w *world) { w.Settings.Settings["slurmctldhost"] = "head(192.0.2.1),spare" }, "SlurmctldHost", conf.Advice, "burstd runs on one host"},
		{"no munged", func(t *testing.T, w *world) { w.Munge = func(context.Context, string) error { return away } }, "MUNGE", conf.Wrong, "systemctl status munge"},
		{"a munged at another socket", func(t *testing.T, w *world) {
			w.Settings.Settings["authinfo"] = "cred_expire=60,socket=/run/m"
			w.Munge = func(_ context.Context, socket string) error { return errors.New("not at " + socket) }
		}, "MUNGE", conf.Wrong, "not at /run/m"},
		{"a clock that nothing keeps", func(t *testing.T, w *world) { w.Clock = func() (bool, error) { return false, nil } }, "clock", conf.Advice, "chrony"},
		{"a clock that may not be asked", func(t *testing.T, w *world) { w.Clock = func() (bool, error) { return false, unix.EPERM } }, "clock", conf.Unknown, "does not say whether"},
		{"burst.toml for all to write", func(t *testing.T, w *world) { w.mode(t, endpoint.DefaultPath, 0o666) }, "burst.toml", conf.Wrong, "chmod go-w"},
		{"burst.toml is root's alone", func(t *testing.T, w *world) { w.shut(t, endpoint.DefaultPath, 0o600) }, "burst.toml", conf.Wrong, "chgrp slurm /etc/burst/burst.toml; chmod 0640 /etc/burst/burst.toml"},
		{"its folder is", func(t *testing.T, w *world) { w.shut(t, "/etc/burst", 0o700) }, "burst.toml", conf.Wrong, "slurm may not open /etc/burst: "},
		{"a password for all to read", func(t *testing.T, w *world) {
			w.write(t, endpoint.DefaultPath, "# proxy = \"http://u:p@x\"\nproxy = \"http://me:secret@proxy:3128\"\n", 0o644)
		}, "burst.toml", conf.Wrong, "holds a password or a key, and everybody may read it"},
		{"a key of AWS's", func(t *testing.T, w *world) {
			w.write(t, endpoint.DefaultPath, "setup = [\"export A=AKIA0123456789ABCDEF\"]\n", 0o644)
		}, "burst.toml", conf.Wrong, "holds a password or a key"},
		{"burst.toml elsewhere", func(t *testing.T, w *world) {
			w.write(t, "/opt/burst.toml", "cluster = \"c\"\n", 0o644)
			w.Path, w.Endpoint.Spool = "/opt/burst.toml", "/var/lib/burst/spool"
			w.folder(t, "/var/lib/burst/spool", 0o770)
		}, "burst.toml", conf.Advice, "they read /etc/burst/burst.toml, and not this file"},
		{"a state folder that is not there", func(t *testing.T, w *world) { w.Endpoint.State = "/var/lib/burst/other" }, "state", conf.Missing, "install -d -m 0750 -o slurm /var/lib/burst/other"},
		{"a state folder for all to write", func(t *testing.T, w *world) { w.mode(t, "/var/lib/burst", 0o777) }, "state", conf.Wrong, "take burstd's journal away"},
		{"a state folder of root's", func(t *testing.T, w *world) { w.shut(t, "/var/lib/burst", 0o700) }, "state", conf.Wrong, "run chown -R slurm"},
		{"a journal of root's", func(t *testing.T, w *world) {
			w.write(t, "/var/lib/burst/burst.db", "", 0o600)
			w.shut(t, "/var/lib/burst/burst.db", 0o400)
		}, "state", conf.Wrong, "another user's burstd has made it. With burstd stopped"},
		{"a file for a state folder", func(t *testing.T, w *world) {
			w.write(t, "/var/lib/burst/file", "", 0o644)
			w.Endpoint.State = "/var/lib/burst/file"
		}, "state", conf.Wrong, "It is no folder"},
		{"no spool", func(t *testing.T, w *world) { os.Remove(w.at("/var/spool/burst")); w.shut(t, "/var/spool", 0o555) }, "spool", conf.Missing, "systemd-tmpfiles --create burst.conf"},
		{"a spool for all to write", func(t *testing.T, w *world) { w.mode(t, "/var/spool/burst", 0o777) }, "spool", conf.Wrong, "everybody may give burstd orders"},
		{"a spool of root's", func(t *testing.T, w *world) { w.shut(t, "/var/spool/burst", 0o500) }, "spool", conf.Wrong, "chown slurm: /var/spool/burst; chmod 0750 /var/spool/burst\"."},
		{"a spool of another user's, SlurmUser is root", func(t *testing.T, w *world) {
			w.SlurmUser, w.Burstd = User{"root", 0, nil}, User{"root", 0, nil}
			w.unitSays("User=slurm", "User=root")
			w.owner(t, "/var/spool/burst", 4243)
			w.owner(t, w.Endpoint.Socket, 0)
		}, "spool", conf.Wrong, "uid 4243's, who may give burstd orders by it, and SlurmUser is root: run \"chown root: /var/spool/burst; chmod 0750 /var/spool/burst\", and write its owner into the line of /etc/tmpfiles.d/burst.conf"},
		{"a spool that the next boot gives to another", func(t *testing.T, w *world) {
			w.SlurmUser.Name, w.Burstd.Name = "hpc", "hpc"
			w.unitSays("User=slurm", "User=hpc")
			w.write(t, "/usr/lib/tmpfiles.d/burst.conf", "# The spool\nd /var/spool/burst 0750 slurm slurm -\n", 0o644)
		}, "spool", conf.Wrong, "At each boot /usr/lib/tmpfiles.d/burst.conf gives it to slurm, and SlurmUser is hpc: copy that line to /etc/tmpfiles.d/burst.conf, and write hpc there"},
		{"a spool that the site's own file gives to another", func(t *testing.T, w *world) {
			w.write(t, "/etc/tmpfiles.d/burst.conf", "d /var/spool/burst 0750 hpc hpc -\n", 0o644)
		}, "spool", conf.Wrong, "At each boot /etc/tmpfiles.d/burst.conf gives it to hpc, and SlurmUser is slurm: write slurm into that line."},
		{"a spool that the next boot gives to root", func(t *testing.T, w *world) {
			w.write(t, "/etc/tmpfiles.d/burst.conf", "d /var/spool/burst 0750 - - -\n", 0o644)
		}, "spool", conf.Wrong, "At each boot /etc/tmpfiles.d/burst.conf gives it to root, and SlurmUser is slurm: write slurm into that line."},
		{"a journal on NFS", func(t *testing.T, w *world) { w.disks["/var/lib/burst"] = disk(0x6969, 100<<30) }, "state disk", conf.Wrong, "network file system (NFS), where a journal of SQLite's is not safe"},
		{"a journal in memory", func(t *testing.T, w *world) { w.disks["/var/lib/burst"] = disk(0x01021994, 100<<30) }, "state disk", conf.Wrong, "after a reboot"},
		{"no room for the journal", func(t *testing.T, w *world) { w.disks["/var/lib/burst"] = disk(0xef53, 50<<20) }, "state disk", conf.Wrong, "50 MiB left: burstd takes no order"},
		{"little room for it", func(t *testing.T, w *world) { w.disks["/var/lib/burst"] = disk(0xef53, 500<<20) }, "state disk", conf.Advice, "500 MiB left: make room"},
		{"read-only", func(t *testing.T, w *world) {
			d := disk(0xef53, 100<<30)
			d.Flags = unix.ST_RDONLY
			w.disks["/var/lib/burst"] = d
		}, "state disk", conf.Wrong, "mounted read-only"},
		{"no files left", func(t *testing.T, w *world) {
			d := disk(0xef53, 100<<30)
			d.Ffree = 3
			w.disks["/var/lib/burst"] = d
		}, "state disk", conf.Wrong, "3 files more"},
		{"a spool on Lustre", func(t *testing.T, w *world) { w.disks["/var/spool/burst"] = disk(0x0bd00bd0, 100<<30) }, "spool disk", conf.Advice, "Lustre): when that hangs"},
		{"no room for the log", func(t *testing.T, w *world) { w.disks["/var"] = disk(0xef53, 1<<20) }, "log disk", conf.Advice, "1 MiB left"},
		{"slurmctld's state is full", func(t *testing.T, w *world) {
			w.folder(t, "/var/lib/slurm", 0o755)
			w.disks["/var/lib/slurm"] = disk(0xef53, 1<<20)
		}, "StateSaveLocation disk", conf.Wrong, "slurmctld loses its jobs"},
		{"a provider's folder on NFS", func(t *testing.T, w *world) {
			w.Journals = []string{"/var/lib/burst/vultr"}
			w.disks["/var/lib/burst/vultr"] = disk(0x6969, 100<<30)
			w.folder(t, "/var/lib/burst/vultr", 0o755)
		}, "dir disk", conf.Wrong, "network file system (NFS)"},
		{"no burstd", func(t *testing.T, w *world) { os.Remove(w.at("/run/burst/burstd.sock")) }, "socket", conf.Advice, "systemctl enable --now burstd"},
		{"no burstd, of two hosts", func(t *testing.T, w *world) {
			os.Remove(w.at("/run/burst/burstd.sock"))
			w.Settings.Settings["slurmctldhost"] = "head,spare"
		}, "socket", conf.Advice, "Of the hosts head, spare only one may run it, that which has its journal in /var/lib/burst (head, unless"},
		{"a socket that is none", func(t *testing.T, w *world) {
			os.Remove(w.at("/run/burst/burstd.sock"))
			w.write(t, "/run/burst/burstd.sock", "", 0o666)
		}, "socket", conf.Wrong, "Something else is there"},
		{"somebody else's socket", func(t *testing.T, w *world) { w.Burstd.UID++; w.Burstd.Groups = nil }, "socket", conf.Wrong, "whoever listens there gets Slurm's orders"},
		{"a folder that SlurmUser may not pass", func(t *testing.T, w *world) { w.shut(t, "/run/burst", 0o700) }, "socket", conf.Wrong, "slurmctld's programs do not reach burstd. Run chmod 0755"},
		{"a closed socket", func(t *testing.T, w *world) { w.mode(t, "/run/burst/burstd.sock", 0o400) }, "socket", conf.Wrong, "Restart burstd, which opens its socket"},
		{"a long path", func(t *testing.T, w *world) { w.Endpoint.Socket = "/run/burst/" + strings.Repeat("x", 100) }, "socket", conf.Wrong, "111 bytes, and the kernel takes 107"},
		{"another burstd", func(t *testing.T, w *world) { w.status("v0.9.0", nil) }, "socket", conf.Wrong, "burstd runs in version v0.9.0, and this is burst v1.0.0"},
		{"a burstd that was killed", func(t *testing.T, w *world) { w.status("", fmt.Errorf("%w: %w", api.ErrAway, unix.ECONNREFUSED)) }, "socket", conf.Advice, "has not ended well"},
		{"a burstd that was killed, of two hosts", func(t *testing.T, w *world) {
			w.status("", fmt.Errorf("%w: %w", api.ErrAway, unix.ECONNREFUSED))
			w.Settings.Settings["slurmctldhost"] = "spare,head"
		}, "socket", conf.Advice, "(spare, unless you have moved it): a second burstd"},
		{"a burstd that hangs", func(t *testing.T, w *world) { w.status("", context.DeadlineExceeded) }, "socket", conf.Wrong, "does not answer as burstd does"},
		{"a burstd that refuses", func(t *testing.T, w *world) { w.status("", &api.Error{Status: 500, Message: "no journal"}) }, "socket", conf.Wrong, "answers with an error: "},
		{"a port that is in use", func(t *testing.T, w *world) { w.Endpoint.Listen = "head:9811" }, "listen", conf.Wrong, "Port 9811 is in use by a process of uid 7, and burstd is slurm's"},
		{"a port that burstd does not have", func(t *testing.T, w *world) { w.Endpoint.Listen = "head:9812" }, "listen", conf.Advice, "burstd runs and does not listen there"},
		{"a port of root's", func(t *testing.T, w *world) { w.Endpoint.Metrics = "127.0.0.1:80" }, "metrics", conf.Wrong, "Ports below 1024 are root's"},
		{"a name without an address", func(t *testing.T, w *world) {
			w.Endpoint.Listen = "head:9812"
			w.Resolve = func(context.Context, string) ([]net.IP, error) { return nil, errors.New("no such host") }
		}, "listen", conf.Wrong, "head has no address here: no such host"},
		{"Debian's 127.0.1.1", func(t *testing.T, w *world) {
			w.Endpoint.Listen, w.Clouds = "head:9812", true
			w.Resolve = func(context.Context, string) ([]net.IP, error) { return []net.IP{net.ParseIP("127.0.1.1")}, nil }
		}, "listen", conf.Wrong, "head is 127.0.1.1 on this host: burstd would hear nobody but this host itself"},
		{"an address of the router", func(t *testing.T, w *world) { w.Endpoint.Listen, w.Clouds = "198.51.100.7:9812", true }, "listen", conf.Wrong, "no address of this host: burstd cannot listen there"},
		{"node_url of the host before", func(t *testing.T, w *world) { w.nodeURL(t, "http://198.51.100.7:9811") }, "node_url", conf.Advice, "no address of this host: right where what has it passes it on to here"},
		{"node_url by a name of this host alone", func(t *testing.T, w *world) { w.nodeURL(t, "http://127.0.1.1:9811") }, "node_url", conf.Wrong, "no node of a cloud reaches this host by it"},
		{"node_url with another port", func(t *testing.T, w *world) { w.nodeURL(t, "http://192.0.2.1:9812") }, "node_url", conf.Advice, "burstd listens on port 9811: right where this host passes the other port on to it"},
		{"node_url by a name that is Debian's 127.0.1.1", func(t *testing.T, w *world) {
			w.nodeURL(t, "http://head.example.org:9811")
			w.Resolve = func(context.Context, string) ([]net.IP, error) { return []net.IP{net.ParseIP("127.0.1.1")}, nil }
		}, "node_url", conf.Advice, "head.example.org is 127.0.1.1 here, as /etc/hosts may say. Nodes ask their own name service"},
		{"node_url by a name that has no address", func(t *testing.T, w *world) {
			w.nodeURL(t, "http://outside.example.org:9811")
			w.Resolve = func(context.Context, string) ([]net.IP, error) { return nil, errors.New("no such host") }
		}, "node_url", conf.Advice, "outside.example.org has no address here: no such host"},
		{"no systemd", func(t *testing.T, w *world) { w.unitFails(away) }, "burstd.service", conf.Unknown, "see that burstd runs as slurm"},
		{"no unit", func(t *testing.T, w *world) {
			w.unitSays("LoadState=loaded", "LoadState=not-found")
			w.status("", fmt.Errorf("%w: %w", api.ErrAway, unix.ECONNREFUSED))
		}, "burstd.service", conf.Missing, "install the package burst"},
		{"no unit, and burstd runs", func(t *testing.T, w *world) { w.unitSays("LoadState=loaded", "LoadState=not-found") }, "burstd.service", conf.Advice, "see that something starts it again"},
		{"a masked unit", func(t *testing.T, w *world) { w.unitSays("LoadState=loaded", "LoadState=masked") }, "burstd.service", conf.Wrong, "unmask"},
		{"a unit that was changed", func(t *testing.T, w *world) { w.unitSays("Reload=no", "Reload=yes") }, "burstd.service", conf.Wrong, "daemon-reload"},
		{"local, and not root", func(t *testing.T, w *world) { w.Local = true }, "burstd.service", conf.Wrong, "burstd must be root: copy /usr/share/doc/burst/burstd-local.conf"},
		{"a unit of another user", func(t *testing.T, w *world) { w.unitSays("User=slurm", "User=burst") }, "burstd.service", conf.Wrong, "SlurmUser is slurm"},
		{"a unit that forbids a folder", func(t *testing.T, w *world) { w.unitSays("ReadWritePaths=-/var/spool/burst", "ReadWritePaths=") }, "burstd.service", conf.Wrong, "ReadWritePaths=/var/spool/burst into a drop-in"},
		{"a unit that is not enabled, of two hosts", func(t *testing.T, w *world) {
			w.unitSays("enabled", "disabled")
			w.Settings.Settings["slurmctldhost"] = "head,spare"
		}, "burstd.service", conf.Advice, "Of the hosts head, spare only one may run it"},
		{"a unit that is not enabled", func(t *testing.T, w *world) { w.unitSays("enabled", "disabled") }, "burstd.service", conf.Advice, "systemctl enable burstd"},
		{"no agent for nodes of arm64", func(t *testing.T, w *world) {
			w.Archs = []string{"arm64"}
			w.agent(t, "amd64", agentOf(t, elfAMD64, "v1.0.0"))
		}, "burst-agent", conf.Advice, "There is none for nodes of arm64 to fetch"},
		{"an agent of another version", func(t *testing.T, w *world) { w.agent(t, "amd64", agentOf(t, elfAMD64, "v0.9.0")) }, "burst-agent", conf.Wrong, "is not of version v1.0.0"},
		{"an agent of another architecture", func(t *testing.T, w *world) { w.agent(t, "amd64", agentOf(t, elfARM64, "v1.0.0")) }, "burst-agent", conf.Wrong, "is no program for amd64"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.listens(t)
			tt.wreck(t, w)
			var bad []conf.Finding
			for _, f := range w.Check(t.Context(), w.Site) {
				if f.Level != conf.OK {
					bad = append(bad, f)
				}
				if strings.Contains(tt.name, "of two hosts") && strings.Contains(f.Why, "systemctl enable") {
					t.Errorf("a second burstd is advised: %+v", f)
				}
			}
			i := slices.IndexFunc(bad, func(f conf.Finding) bool {
				return f.Key == tt.key && f.Level == tt.level && strings.Contains(f.Why, tt.why)
			})
			if i < 0 {
				t.Fatalf("want %s %s with %q, got %+v", tt.level, tt.key, tt.why, bad)
			}
			if len(bad) > 1 && !slices.Contains(several, tt.name) {
				t.Errorf("more is said than was wrong: %+v", bad)
			}
		})
	}
}

// TestNoFalseAlarm: what looks odd and is right has nothing said of it but ok.
func TestNoFalseAlarm(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, w *world){
		"a spool that the next boot gives to another only where it makes it": func(t *testing.T, w *world) {
			w.write(t, siteTmpfiles, "d /var/spool/burst 0750 :hpc :hpc -\n", 0o644)
		},
		"a spool that the next boot gives to root, SlurmUser is root": func(t *testing.T, w *world) {
			w.SlurmUser, w.Burstd = User{"root", 0, nil}, User{"root", 0, nil}
			w.unitSays("User=slurm", "User=root")
			for _, path := range []string{"/var/spool/burst", w.Endpoint.Socket} {
				w.owner(t, path, 0)
			}
			w.write(t, siteTmpfiles, "d /var/spool/burst 0750 - - -\n", 0o644)
		},
		"node_url by a name with a loopback address beside its own": func(t *testing.T, w *world) {
			w.nodeURL(t, "http://head.example.org:9811")
			w.Resolve = func(context.Context, string) ([]net.IP, error) {
				return []net.IP{net.ParseIP("127.0.1.1"), net.ParseIP("192.0.2.1")}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.listens(t)
			change(t, w)
			for _, f := range w.Check(t.Context(), w.Site) {
				if f.Level != conf.OK {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// several are the wrecks of which more than one check speaks.
var several = []string{"somebody else's socket", "a journal on NFS", "a journal in memory", "no room for the log", "local, and not root", "a long path", "no unit",
	"no burstd, of two hosts", "a burstd that was killed, of two hosts", "a unit that is not enabled, of two hosts", "a state folder that is not there", "a file for a state folder", "burst.toml elsewhere"}

// shut makes a path somebody else's: root's where we are root, or else with the mode alone, less our own bits.
func (w *world) shut(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	if err := os.Chown(w.at(path), 0, 0); err != nil {
		t.Fatal(err)
	}
	w.mode(t, path, mode)
}

func (w *world) status(version string, err error) {
	w.Status = func(context.Context, string) (string, error) { return version, err }
}

const showUnit = "systemctl show burstd.service --property=LoadState,UnitFileState,User,ProtectSystem,ReadWritePaths,NeedDaemonReload"

func (w *world) unitFails(err error) { w.fails[showUnit] = err }

func (w *world) unitSays(old, now string) {
	w.said[showUnit] = strings.Replace(unitText, old, now, 1)
}

const (
	elfAMD64 = 62
	elfARM64 = 183
)

// agentOf is a program of which the header says no more than its machine.
func agentOf(t *testing.T, machine byte, version string) string {
	t.Helper()
	head := make([]byte, 64)
	copy(head, "\x7fELF\x02\x01\x01")
	head[16], head[18], head[20], head[52], head[54], head[58] = 2, machine, 1, 64, 56, 64
	return string(head) + version
}

func (w *world) agent(t *testing.T, arch, text string) {
	t.Helper()
	w.Clouds, w.Endpoint.Listen, w.Endpoint.NodeURL = true, "head:9811", "http://head:9811"
	w.write(t, "/proc/net/tcp", strings.Replace(table(), "     7 ", fmt.Sprintf("     %d ", w.Burstd.UID), 1), 0o644)
	path := "/usr/lib/burst/burst-agent-" + arch
	w.write(t, path, text, 0o755)
	w.Agent = func(a string) (string, error) {
		if a == arch {
			return w.at(path), nil
		}
		return "", fs.ErrNotExist
	}
}

// TestAHangIsGivenUp: a check that never returns is unknown, and the others are as ever.
func TestAHangIsGivenUp(t *testing.T) {
	w := newWorld(t)
	w.listens(t)
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	w.Statfs = func(string) (unix.Statfs_t, error) { <-hang; return unix.Statfs_t{}, nil }
	w.Munge = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
	w.Host.Patience = 50 * time.Millisecond
	levels := map[string]conf.Level{}
	for _, f := range w.Check(t.Context(), w.Site) {
		levels[f.Key] = f.Level
	}
	if levels["disk"] != conf.Unknown || levels["MUNGE"] != conf.Wrong || levels["socket"] != conf.OK || levels["burst.toml"] != conf.OK {
		t.Errorf("%v", levels)
	}
}

func TestProgram(t *testing.T) {
	const path = "/usr/sbin/burst-resume"
	for name, tt := range map[string]struct {
		wreck func(t *testing.T, w *world)
		level conf.Level
		why   string
	}{
		"well":                       {func(*testing.T, *world) {}, conf.OK, "slurmctld may start it"},
		"a version with more behind": {func(_ *testing.T, w *world) { w.said[path+" --version"] = "burst-resume v1.0.0 (0123abc)\n" }, conf.OK, ""},
		"another version":            {func(_ *testing.T, w *world) { w.said[path+" --version"] = "burst-resume v0.9.0\n" }, conf.Wrong, "of version v0.9.0, and burst of v1.0.0"},
		"another program":            {func(_ *testing.T, w *world) { w.said[path+" --version"] = "hello\n" }, conf.Wrong, "It is not Burst's: to --version it says \"hello\""},
		"one that fails":             {func(_ *testing.T, w *world) { w.fails[path+" --version"] = unix.ENOEXEC }, conf.Wrong, "It does not run: exec format error"},
		"a folder for all to write":  {func(t *testing.T, w *world) { w.mode(t, "/usr/sbin", 0o777) }, conf.Wrong, "Others may write to /usr/sbin"},
		"somebody's": {func(t *testing.T, w *world) {
			w.shut(t, path, 0o755)
			if err := os.Chown(w.at(path), 4242, -1); err != nil {
				t.Fatal(err)
			}
			w.fails[path+" --version"] = errors.New("it was run")
		}, conf.Advice, "It is uid 4242's, who may change what slurmctld starts"},
		"root's alone": {func(t *testing.T, w *world) { w.shut(t, path, 0o700) }, conf.Wrong, "slurm may not open " + path},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write(t, path, "", 0o755)
			w.said[path+" --version"] = "burst-resume v1.0.0\n"
			tt.wreck(t, w)
			if f := w.Program(t.Context(), path, w.SlurmUser); f.Level != tt.level || !strings.Contains(f.Why, tt.why) || f.Key != "burst-resume" {
				t.Errorf("%+v, want %s with %q", f, tt.level, tt.why)
			}
		})
	}
}

func TestChain(t *testing.T) {
	const path, gate = "/etc/burst/prolog-slurmctld", "/usr/sbin/burst-gate"
	for name, tt := range map[string]struct {
		text  string
		level conf.Level
		why   string
	}{
		"as genconf writes it":     {"#!/bin/sh\nexec /usr/sbin/burst-gate --then /site/prolog\n", conf.OK, ""},
		"in its own way":           {"#!/bin/sh\n/usr/sbin/burst-gate\nexec /site/other\n", conf.OK, ""},
		"the site's alone":         {"#!/bin/sh\nexec /site/prolog\n", conf.Wrong, "It does not call /usr/sbin/burst-gate"},
		"the site's has gone":      {"exec /usr/sbin/burst-gate --then /site/none\n", conf.Wrong, "/site/none: no such file or directory: it is called after the gate"},
		"the site's is not to run": {"exec /usr/sbin/burst-gate --then '/site/text'\n", conf.Wrong, "may not open /site/text"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write(t, path, tt.text, 0o755)
			w.write(t, "/site/prolog", "", 0o755)
			w.write(t, "/site/text", "", 0o644)
			if f := w.Chain(path, gate, w.SlurmUser); f.Level != tt.level || !strings.Contains(f.Why, tt.why) {
				t.Errorf("%+v, want %s with %q", f, tt.level, tt.why)
			}
		})
	}
}

// TestThisHost: what is asked of a real host answers, whatever it says.
func TestThisHost(t *testing.T) {
	h := New(endpoint.Default())
	for _, path := range []string{"/", "/nonexistent/folder"} {
		if s, err := h.statfs(path); err != nil || s.Bsize == 0 {
			t.Errorf("%s: %+v, %v", path, s, err)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	uids, err := h.listeners(ln.Addr().(*net.TCPAddr).Port)
	if err != nil || !slices.Equal(uids, []int{os.Geteuid()}) {
		t.Errorf("who listens: %v, %v", uids, err)
	}
	if own, err := h.Own(); err != nil || !slices.ContainsFunc(own, net.IP.IsLoopback) {
		t.Errorf("own addresses: %v, %v", own, err)
	}
	if _, err := h.Clock(); err != nil && !errors.Is(err, unix.EPERM) {
		t.Error(err)
	}
}
