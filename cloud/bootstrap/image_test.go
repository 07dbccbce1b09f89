package bootstrap

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// used has the machine have what an instance has after its first boot.
func used(w *world) (secrets []string) {
	w.stub("systemd-run", "")
	w.stub("cloud-init", "")
	w.stub("sync", "")
	for _, tool := range []string{"find", "stat"} {
		if err := os.Symlink(w.find(tool), filepath.Join(w.bin, tool)); err != nil {
			w.Fatal(err)
		}
	}
	for _, file := range []string{"/etc/ssh/ssh_host_ed25519_key", "/etc/ssh/ssh_host_ed25519_key.pub", "/root/.ssh/authorized_keys", "/home/admin/.ssh/authorized_keys",
		"/home/admin/.bash_history", "/var/lib/dbus/machine-id", "/var/lib/cloud/instances/i-0a1b/user-data.txt", "/var/lib/cloud/data/result.json", "/var/lib/systemd/random-seed",
		"/var/log/cloud-init.log", "/var/log/journal/0123/system.journal", "/var/lib/burst/i-9/machine", "/var/lib/burst/node.env", "/etc/burst/agent.env",
		"/tmp/left", "/var/lib/NetworkManager/secret_key", "/etc/systemd/system/burst-bootstrap.service", "/usr/local/sbin/burst-slurmd"} {
		w.make(file, "a secret, or an identity\n")
		secrets = append(secrets, file)
	}
	w.make("/etc/machine-id", "0123456789abcdef\n")
	w.make("/etc/hostname", "i-0a1b\n")
	w.make("/home/admin/work", "stays\n")
	return secrets
}

func (w *world) make(file, text string) {
	w.Helper()
	if err := os.MkdirAll(filepath.Dir(w.root+file), 0o755); err != nil {
		w.Fatal(err)
	}
	w.write(w.root+file, text)
}

// finish does what systemd is asked to do once cloud-init has ended.
func (w *world) finish(r result) result {
	w.Helper()
	self := w.root + "/usr/local/sbin/burst-bootstrap"
	want := "systemd-run --collect --no-block --unit=burst-finish -p After=cloud-final.service -p StandardOutput=journal+console -E BURST_STEPS=finish /bin/bash " + self
	if r.index(want) < 0 {
		w.Fatalf("nothing is to be done after cloud-init:\n%s", strings.Join(r.calls, "\n"))
	}
	text := w.read(self)
	w.script = func(Config) (string, error) { return text, nil }
	return w.succeed("BURST_STEPS=finish")
}

// cleaned checks that nothing is left that two instances must not share.
func (w *world) cleaned(secrets []string, console string) {
	w.Helper()
	for _, file := range append(secrets, "/etc/munge/munge.key", "/usr/local/sbin/burst-bootstrap", "/var/log/burst-bootstrap.log") {
		if _, err := os.Lstat(w.root + file); err == nil {
			w.Errorf("%s is left", file)
		}
	}
	for file, want := range map[string]string{"/etc/machine-id": "", "/etc/hostname": "localhost\n", "/home/admin/work": "stays\n"} {
		if got := w.read(w.root + file); got != want {
			w.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	if w.read(w.root+"/etc/burst/image") == "" || !strings.Contains(w.read(w.root+"/etc/systemd/system/burst-hostkeys.service"), "ssh-keygen -A") {
		w.Error("the image does not say that it is one, or makes no host keys")
	}
	err := filepath.WalkDir(w.root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, bad := range []string{"a secret, or an identity", w.instance, "the munge key", "hidden/secret"} {
			if strings.Contains(string(text), bad) {
				w.Errorf("%s has %q", path, bad)
			}
		}
		return err
	})
	if err != nil {
		w.Error(err)
	}
	if ended, why, _ := ImageEnd(console); !ended || why != "" {
		w.Errorf("the console says that it ended: %v, %q:\n%s", ended, why, console)
	}
}

func TestImageByUserData(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	full(w)
	w.config.Packages = true
	w.remove("munged", "mount.lustre")
	w.stub("apt-get", `case "$*" in *"install"*munge*) echo a secret, or an identity >$ROOT/etc/munge/munge.key;; esac`)
	w.stub("munge", "exit 1")
	w.config.Setup = append(w.config.Setup, "[ $BURST_IMAGE = 1 ] && [ -z \"${BURST_NODE:-}\" ] && echo fourth >>$DESK/log")
	w.script = func(c Config) (string, error) { return UserData(c.ForImage()) }
	secrets := used(w)
	r := w.succeed()
	end := w.finish(r)
	r.calls = append(r.calls, end.calls...)
	at := -1
	for _, call := range []string{"apt-get -q -y", "nft -f -", "slurmd -V", "apt-get -q -y", "first", "second", "third", "fourth",
		"systemd-run --collect", "systemctl stop munge", "systemctl disable slurmd", "systemctl enable burst-hostkeys", "cloud-init clean", "sync"} {
		i := slices.IndexFunc(r.calls[at+1:], func(c string) bool { return strings.HasPrefix(c, call) })
		if i < 0 {
			t.Fatalf("no %q where it should be:\n%s", call, strings.Join(r.calls, "\n"))
		}
		at += 1 + i
	}
	for _, never := range []string{"@key", "@whoami", "@report", "join", "mount -t", "cvmfs_config", "getent passwd", "hostname ", "systemctl restart munge", "systemctl restart slurmd",
		"systemctl enable burst-bootstrap", "burst-agent"} {
		if r.index(never) >= 0 {
			t.Errorf("it does %q, which is a node's", never)
		}
	}
	w.cleaned(secrets, end.console)
}

func TestImageOverSSH(t *testing.T) {
	for name, off := range map[string]bool{"left on": false, "shut down": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			imageOverSSH(t, off)
		})
	}
}

func imageOverSSH(t *testing.T, off bool) {
	w := newWorld(t)
	w.instance = "cb676a46-66fd-4dfb-b839-443f2e6c0b60"
	w.config.MungeKey = "ssh:/etc/burst/munge.key"
	w.config.Setup = []string{"echo first >>$DESK/log"}
	w.script = func(c Config) (string, error) {
		c = c.ForImage()
		if off {
			c = c.ThenOff()
		}
		return ForHost(c, w.instance, netip.MustParseAddr("10.1.2.3"))
	}
	secrets := used(w)
	run := "/var/lib/burst/setup/" + w.instance
	for _, name := range []string{"/script", "/host.sh", "/out.0"} {
		w.make(run+name, w.instance)
		secrets = append(secrets, run+name)
	}
	for _, name := range []string{"/status", "/lock", "/turn"} {
		w.make(run+name, "")
	}
	r := w.succeed()
	if wait, clean := r.index("cloud-init status --wait"), r.index("cloud-init clean"); wait < 0 || clean < wait {
		t.Errorf("it does not wait for cloud-init, and clean then:\n%s", strings.Join(r.calls, "\n"))
	}
	const down = "systemd-run --collect --no-block --unit=burst-off /bin/sh -c sleep 30; exec systemctl poweroff --force"
	if n := r.index(down); (n >= 0) != off || n >= 0 && n < r.index("sync") || r.count("systemd-run") > 0 != off {
		t.Errorf("it shuts itself down as call %d, want %v, when all is on the disk:\n%s", n, off, strings.Join(r.calls, "\n"))
	}
	w.cleaned(secrets, r.console)
	for _, name := range []string{"/status", "/lock", "/turn"} {
		if _, err := os.Stat(w.root + run + name); err != nil {
			t.Error(err)
		}
	}
}

// TestImageKeepsTheSitesKey: it is where the pool's nodes have theirs from.
func TestImageKeepsTheSitesKey(t *testing.T) {
	if testing.Short() {
		t.Skip("two boots: TestImageByUserData is of the same steps")
	}
	t.Parallel()
	w := newWorld(t)
	used(w)
	w.config.MungeKey = "image"
	w.script = func(c Config) (string, error) { return UserData(c.ForImage()) }
	if r := w.run(); r.code == 0 || !strings.Contains(r.console, "munge.key is missing on the image that this one is made of") {
		t.Errorf("without a key: %d, %s", r.code, r.console)
	}
	w.make("/etc/munge/munge.key", "the site's")
	w.finish(w.succeed())
	if got := w.read(w.root + "/etc/munge/munge.key"); got != "the site's" {
		t.Errorf("the key is %q", got)
	}
}

func TestImageFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	used(w)
	w.config.Setup = []string{"true", "echo a last word; exit 3", "echo never >>$DESK/log"}
	w.script = func(c Config) (string, error) { return UserData(c.ForImage()) }
	r := w.run()
	ended, why, tail := ImageEnd(r.console)
	if r.code == 0 || !ended || why != `setup line 2: "echo a last word; exit 3": exit 3` || !strings.Contains(tail, "a last word") {
		t.Errorf("%d: %v, %q, %q", r.code, ended, why, tail)
	}
	if r.index("systemd-run") >= 0 || r.index("@report") >= 0 || r.index("never") >= 0 {
		t.Errorf("it goes on, or tells burstd:\n%s", strings.Join(r.calls, "\n"))
	}
}

func TestImageEnd(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		console   string
		ended     bool
		why, tail string
	}{
		"nothing":         {"[    0.000000] Linux version\n", false, "", ""},
		"under way":       {"burst-bootstrap: step setup\n", false, "", ""},
		"ready":           {"[ 12.1] cloud-init[9]: burst-bootstrap: image ready\r\nlogin: ", true, "", ""},
		"failed":          {"x burst-bootstrap: FAILED: step setup: setup line 3: \"a\": exit 1\r\nE: no\r\nmore\r\n", true, "setup line 3: \"a\": exit 1", "E: no\nmore"},
		"failed, no tail": {"burst-bootstrap: FAILED: ended by a signal", true, "ended by a signal", ""},
		"an echo of ours": {"echo burst-bootstrap: image ready later\n", false, "", ""},
	} {
		ended, why, tail := ImageEnd(tt.console)
		if ended != tt.ended || why != tt.why || tail != tt.tail {
			t.Errorf("%s: %v, %q, %q", name, ended, why, tail)
		}
	}
}
