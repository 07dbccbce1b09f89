package bootstrap

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// full has every step do something.
func full(w *world) {
	w.config.Mounts = []Mount{
		{Kind: "nfs", Source: "nas:/home", Target: "/home", Options: "nfsvers=4.2"},
		{Kind: "efs", Source: "fs-0123", Target: "/efs"},
		{Kind: "fsx", Source: "fs-9.fsx.eu-north-1.amazonaws.com@tcp:/abc", Target: "/scratch"},
		{Kind: "cvmfs", Source: "software.eessi.io", Options: "http://squid:3128;DIRECT"},
	}
	w.config.Users = Users{SSSD: true, Commands: []string{"echo join >>$DESK/log"}, Check: "alice"}
	w.config.Setup = []string{"echo first $BURST_NODE >>$DESK/log", "echo second >>$DESK/log\necho 'third' >>$DESK/log"}
	w.config.SlurmUser = SlurmUser{"slurm", 64030}
	w.config.SlurmdOptions = []string{"--conf", "Feature=a b"}
}

func TestTheWholeWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	full(w)
	r := w.succeed()
	at := -1
	for _, call := range []string{
		"systemctl restart chronyd", "chronyc waitsync", "@token", "systemctl enable burst-bootstrap.service", "@key", "systemctl restart munge",
		"nft -f -", "runuser -u nobody -- curl", "useradd -r -u 64030", "slurmd -V", "@report reachable", "@whoami", "hostname c1",
		"@report setup users", "join", "systemctl restart sssd", "getent passwd alice", "@report setup mounts",
		"mount -t nfs -o nfsvers=4.2,_netdev nas:/home " + w.root + "/home", "mount -t efs -o tls,noresvport,_netdev fs-0123 ",
		"mount -t lustre -o noatime,flock,_netdev fs-9.fsx", "cvmfs_config setup", "cvmfs_config probe software.eessi.io",
		"@report setup setup", "first c1", "second", "third", "systemctl --no-block restart burst-agent", "@report setup start", "systemctl disable slurmd",
		"systemctl restart slurmd", "slurmd -D --conf-server ctl:6817,ctl2 -N c1 --conf Feature=a b -b", "@report ready",
	} {
		i := r.index(call)
		if i <= at {
			t.Fatalf("%q is not after what should come before it, or not there:\n%s", call, strings.Join(r.calls, "\n"))
		}
		at = i
	}
	for file, want := range map[string]string{
		"/etc/hosts": "10.1.2.3 c1\n", "/etc/hostname": "c1\n", "/etc/cvmfs/default.d/90-burst.conf": "CVMFS_HTTP_PROXY='http://squid:3128;DIRECT'\n",
		"/var/lib/burst/node.env": "BURST_NODE=c1\nBURST_CLUSTER=f00d\nBURST_INSTANCE=i-0a1b\nBURST_URL=" + w.url + "\n",
		"/etc/chrony.conf":        "pool 2.amazon.pool.ntp.org iburst\nserver 169.254.169.123 iburst prefer minpoll 4 maxpoll 4\n",
	} {
		if got := w.read(w.root + file); got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
	if !strings.Contains(r.console, "this is node c1 of cluster f00d") || !strings.Contains(w.read(w.root+"/var/log/burst-bootstrap.log"), "step setup") {
		t.Errorf("console: %s", r.console)
	}

	// Again, in the same boot: nothing is done twice.
	again := w.succeed()
	for _, call := range []string{"systemctl restart chronyd", "@key", "systemctl restart munge", "systemctl restart slurmd", "join", "mount -t", "first", "second"} {
		if again.count(call) > 0 {
			t.Errorf("%q is done again", call)
		}
	}
	if again.count("@report ready") != 1 || strings.Count(w.read(w.root+"/etc/hosts"), "c1") != 1 {
		t.Errorf("the second run: %q", again.calls)
	}

	if testing.Short() {
		return // what comes later in its life takes two boots more
	}
	// A reboot: run and the mounts are lost, the files stay.
	for _, f := range []string{w.root + "/run/burst", w.state + "/mounts", w.state + "/active"} {
		w.removeAll(f)
	}
	reboot := w.succeed("BURST_REBOOT=1")
	if reboot.count("@key")+reboot.count("join")+reboot.count("first") > 0 || reboot.count("mount -t") != 3 || reboot.count("nft") != 1 ||
		reboot.index("slurmd -D --conf-server ctl:6817,ctl2 -N c1 --conf Feature=a b -b") < reboot.index("nft") {
		t.Errorf("after a reboot: %q", reboot.calls)
	}

	// slurmd alone is started again: it must not speak of a fresh boot.
	w.write(w.state+"/log", "")
	w.command(w.root + "/usr/local/sbin/burst-slurmd")
	if got := strings.TrimSpace(w.read(w.state + "/log")); got != "slurmd -D --conf-server ctl:6817,ctl2 -N c1 --conf Feature=a b" {
		t.Errorf("a restart: %q", got)
	}

	// An image made of this instance has its files, and another id.
	w.instance = "i-2"
	other := w.run("BURST_REBOOT=1")
	if other.code != 0 || other.count("@whoami") > 0 || !strings.Contains(other.console, "made of another instance") {
		t.Errorf("%+v", other)
	}
}

func TestFailuresAreReported(t *testing.T) {
	if testing.Short() {
		t.Skip("many boots: slow end-to-end, run by make test")
	}
	for _, tt := range []struct {
		name   string
		spoil  func(w *world)
		want   []string // in the report, or on the console if nothing can be reported
		silent bool
	}{
		{"the clock is wrong", func(w *world) { w.times("clock", 1000) }, []string{"step clock: the clock is not within 1 s of 169.254.169.123 after 120 s"}, true},
		{"no metadata", func(w *world) { w.trouble["token"] = 1000 }, []string{"step metadata: no IMDSv2 token", "is the instance's metadata service on?"}, true},
		{"no role", func(w *world) { w.refuse["/latest/meta-data/iam/security-credentials/"] = "no" },
			[]string{"step munge: the MUNGE key could not be read from ssm:/burst/munge-key", "set the instance profile"}, false},
		{"the key is denied", func(w *world) { w.refuse["key"] = `{"__type":"AccessDeniedException"}` },
			[]string{"step munge: the MUNGE key could not be read", "answers 403", `{"__type":"AccessDeniedException"}`}, false},
		{"a key that is none", func(w *world) { w.mungeKeys = []string{"!"} }, []string{"the value is not base64"}, false},
		{"a short key", func(w *world) { w.mungeKeys = []string{"aGVsbG8="} }, []string{"it has 5 bytes; MUNGE wants 32 to 1024"}, false},
		{"no key on the image", func(w *world) { w.config.MungeKey = "image" }, []string{"/etc/munge/munge.key is missing on this image"}, false},
		{"metadata stay open", func(w *world) { w.stub("runuser", "") }, []string{"step imds: the metadata service still answers user nobody"}, false},
		{"no firewall", func(w *world) { w.remove("nft") }, []string{"step imds: nftables is missing on this image"}, false},
		{"no slurmd", func(w *world) { w.remove("slurmd") }, []string{"step slurmd: slurmd is missing on this image: install it there, or set packages = true"}, false},
		{"a newer slurmd", func(w *world) { w.config.SlurmVersion = "21.08.1" }, []string{"step slurmd: slurmd 22.05.8 is newer than slurmctld 21.08.1"}, false},
		{"the slurm user's uid", func(w *world) {
			w.config.SlurmUser = SlurmUser{"slurm", 64030}
			w.write(w.state+"/user", "990")
			w.stub("usermod", "echo uid 64030 in use >&2; exit 4")
		}, []string{"step slurmd: user slurm has uid 990, the controller's has 64030", "in use"}, false},
		{"burstd knows nothing", func(w *world) { w.trouble["whoami"] = 1000 }, []string{"step whoami: burstd did not say which node i-0a1b is", "answers 503", "not known yet"}, false},
		{"no way to burstd", func(w *world) { w.config.URLs = []string{"http://127.0.0.1:1"} },
			[]string{"burstd: http://127.0.0.1:1: curl: (7)", "FAILED: step whoami: burstd did not say which node i-0a1b is: http://127.0.0.1:1: curl: (7)"}, true},
		{"no user", func(w *world) { w.config.Users.Check = "bob"; w.stub("getent", "exit 2") }, []string{"step users: user bob is not known after 60 s"}, false},
		{"no mount", func(w *world) {
			w.config.Mounts = []Mount{{Kind: "nfs", Source: "nas:/x", Target: "/x"}}
			w.times("mount", 1000)
		}, []string{"step mounts: nas:/x could not be mounted on /x within 180 s", "mount.nfs: Connection timed out"}, false},
		{"a command fails", func(w *world) { w.config.Setup = []string{"true", `echo "no such \"file\""; exit 3`} },
			[]string{`step setup: setup line 2: "echo "no such \"file\""; exit 3": exit 3`}, false},
		{"a command hangs", func(w *world) {
			w.config.Setup = []string{"while :; do /bin/sleep 1; done"}
			w.config.SetupTimeout = time.Second
		},
			[]string{`step setup: setup line 1: "while :; do /bin/sleep 1; done": ran longer than 1 s`}, false},
		{"slurmd ends", func(w *world) { w.times("slurmd", 1000) }, []string{"step start: slurmd does not stay up", "ctl:6817,ctl2", "fatal: no configuration"}, false},
		{"an unexpected error", func(w *world) { w.stub("nft", "echo Operation not supported >&2; exit 1") }, []string{"step imds: line ", "nft -f - <<-'END': exit code 1", "Operation not supported"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tt.spoil(w)
			r := w.run()
			said := r.console
			if i := r.index("@report failed"); i >= 0 {
				said = r.calls[i]
			} else if !tt.silent && tt.name != "no role" && !strings.Contains(tt.name, "key") {
				t.Errorf("nothing is reported: %q", r.calls)
			}
			for _, want := range tt.want {
				if !strings.Contains(said, want) {
					t.Errorf("%q is not in: %s\nconsole: %s", want, said, r.console)
				}
			}
			if r.code == 0 || r.count("@report ready") > 0 || (r.count("slurmd -D") > 0 && tt.name != "slurmd ends") {
				t.Errorf("code %d, calls %q", r.code, r.calls)
			}
		})
	}
}

func TestForgedAnswersAreNotBelieved(t *testing.T) {
	if testing.Short() {
		t.Skip("many boots: slow end-to-end, run by make test")
	}
	for _, tt := range []struct {
		name  string
		forge func(*answer)
		want  string
	}{
		{"unsigned", func(a *answer) { a.unsigned = true }, "the answer"},
		{"a user's", func(a *answer) { a.uid = 1000 }, "signed by uid 1000, not by burstd's (64030) or root"},
		{"another body", func(a *answer) { a.body = strings.Replace(a.body, "c1", "c2", 1) }, "the answer is not what its credential says"},
		{"no name", func(a *answer) {
			a.body = `{"instance":"i-0a1b","node":"$(reboot)"}`
			a.signed = sum([]byte(a.body))
		}, "no node name"},
		{"another node's", func(a *answer) {
			a.body = strings.Replace(a.body, "i-0a1b", "i-2", 1)
			a.signed = sum([]byte(a.body))
		}, "the answer is for instance i-2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.config.DaemonUID, w.config.ResumeTimeout = 64030, time.Minute
			w.forge = func(a *answer) {
				if a.body != "{}" {
					tt.forge(a)
				}
			}
			r := w.run()
			i := r.index("@report failed")
			if r.code == 0 || i < 0 || !strings.Contains(r.calls[i], tt.want) || r.count("hostname") > 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestTroubleIsTriedAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("many boots: slow end-to-end, run by make test")
	}
	t.Parallel()
	w := newWorld(t)
	full(w)
	w.config.DaemonUID = 64030
	w.config.URLs = []string{"http://127.0.0.1:1", w.url} // nobody is at the first
	w.forge = func(a *answer) { a.uid = 64030 }
	w.times("clock", 2)
	w.times("mount", 2)
	w.times("slurmd", 12)                           // slurmctld's backup takes over: two minutes
	w.trouble["token"], w.trouble["whoami"] = 2, 40 // burstd is away for ten minutes
	r := w.succeed()
	if r.count("chronyc waitsync") != 3 || r.count("@token") != 3 || r.count("@whoami") != 41 || r.count("mount -t") != 5 {
		t.Errorf("calls %q", r.calls)
	}
}

// TestKilled kills the script at commands of its own, as a lost node or an
// impatient admin does, and runs it again.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("many boots: slow end-to-end, run by make test")
	}
	t.Parallel()
	w := newWorld(t)
	full(w)
	for _, at := range []string{"systemctl restart munge", "nft -f -", "systemctl restart sssd", "systemctl restart slurmd"} {
		name, _, _ := strings.Cut(at, " ")
		w.stub(name, `case "${0##*/} $*" in "`+at+`") [ -e "$DESK/`+at+`" ] || { touch "$DESK/`+at+`"; kill -9 $PPID; exit; };; esac`+"\n"+stubs[name])
		if r := w.run(); r.code == 0 || !slices.Contains(r.calls, at) {
			t.Fatalf("not killed at %s: %+v", at, r)
		}
	}
	r := w.succeed()
	if r.count("join")+r.count("first")+r.count("@key") != 0 || r.count("@report ready") != 1 || r.count("slurmd -D") != 1 {
		t.Errorf("calls %q", r.calls)
	}
}

// TestASecondBootstrapLeaves: cloud-init and the unit, or an admin, at once.
func TestASecondBootstrapLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := os.MkdirAll(w.root+"/run/burst", 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(w.root + "/run/burst/lock")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if r := w.run(); r.code != 0 || len(r.calls) != 1 || r.calls[0] != "" || !strings.Contains(r.console, "another bootstrap runs") {
		t.Errorf("%+v", r)
	}
}

func TestASetupCommandThatFailedIsRepeated(t *testing.T) {
	if testing.Short() {
		t.Skip("many boots: slow end-to-end, run by make test")
	}
	t.Parallel()
	w := newWorld(t)
	w.config.Setup = []string{"echo first >>$DESK/log", "[ -e $DESK/ok ]", "echo third >>$DESK/log"}
	if r := w.run(); r.code == 0 || r.count("first") != 1 {
		t.Fatalf("%+v", r)
	}
	w.write(w.state+"/ok", "")
	if r := w.succeed(); r.count("first") != 0 || r.count("third") != 1 {
		t.Errorf("%q", r.calls)
	}
}

func TestOtherImages(t *testing.T) {
	if testing.Short() {
		t.Skip("many boots: slow end-to-end, run by make test")
	}
	for _, tt := range []struct {
		name  string
		image func(w *world)
		want  []string
	}{
		{"Debian without Slurm", func(w *world) {
			w.remove("slurmd", "mount.nfs4", "nft", "chronyc")
			w.stub("apt-get", `for last; do :; done; case $last in slurmd) cat >$BURST_PATH/slurmd <<-'END'
	#!/bin/sh
	echo "slurmd $*" >>$DESK/log
	[ "$1" != -V ] || echo slurm-wlm 22.05.8
END
chmod +x $BURST_PATH/slurmd;; chrony) printf '#!/bin/sh\n' >$BURST_PATH/chronyc; chmod +x $BURST_PATH/chronyc;; nftables) cp=1; printf '#!/bin/sh\ncat >/dev/null' >$BURST_PATH/nft; chmod +x $BURST_PATH/nft;; esac`)
			w.config.Packages = true
			w.config.Mounts = []Mount{{Kind: "nfs", Source: "nas:/x", Target: "/x"}}
		}, []string{"apt-get -q -y -o DPkg::Lock::Timeout=120 install --no-install-recommends slurmd", "apt-get -q -y -o DPkg::Lock::Timeout=120 install --no-install-recommends nfs-common"}},
		{"iptables", func(w *world) {
			w.remove("nft")
			w.stub("iptables", `[ "$2" != -C ]`)
			w.stub("ip6tables", `[ "$2" != -C ]`)
		}, []string{"iptables -w -I OUTPUT 1 -d 169.254.169.254 -m owner ! --uid-owner 0 -j REJECT"}},
		{"EFS without its helper", func(w *world) {
			w.remove("mount.efs")
			w.config.Mounts = []Mount{{Kind: "efs", Source: "fs-0123:/data", Target: "/efs"}}
		}, []string{"mount -t nfs4 -o nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport,_netdev fs-0123.efs.eu-north-1.amazonaws.com:/data"}},
		{"its own key and time", func(w *world) {
			w.write(w.root+"/etc/munge/munge.key", strings.Repeat("k", 32))
			w.config.MungeKey, w.config.NTP, w.config.KeepHostname = "image", "image", true
			w.remove("burst-agent", "hostname")
		}, []string{"systemctl start munge", "@report ready"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tt.image(w)
			r := w.succeed()
			for _, want := range tt.want {
				if r.index(want) < 0 {
					t.Errorf("no %q in %q", want, r.calls)
				}
			}
		})
	}
}
