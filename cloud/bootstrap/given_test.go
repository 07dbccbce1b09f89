package bootstrap

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// given has the world's machine set up over SSH, with the MUNGE key in its folder.
func given(t *testing.T) (w *world, key string) {
	w = newWorld(t)
	w.config.MungeKey = "ssh:/etc/munge/munge.key"
	w.script = func(c Config) (string, error) { return ForHost(c, w.instance, netip.MustParseAddr("10.1.2.3")) }
	w.refuse["token"], w.refuse["/latest/meta-data/instance-id"] = "no metadata here", "no metadata here"
	key = filepath.Join(w.root, "var/lib/burst/setup", w.instance, KeyFile)
	if err := os.MkdirAll(filepath.Dir(key), 0o755); err != nil {
		t.Fatal(err)
	}
	w.write(key, strings.Repeat("k", 32))
	for _, dir := range []string{"/sys/class/dmi/id"} {
		if err := os.MkdirAll(w.root+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.write(w.root+"/sys/class/dmi/id/product_uuid", "one\n")
	return w, key
}

// TestGiven: no metadata service is asked who the instance is, and the key is what was sent.
func TestGiven(t *testing.T) {
	t.Parallel()
	w, key := given(t)
	r := w.succeed()
	if r.count("@token") != 0 || r.count("@report ready") != 1 || r.count("slurmd -D") != 1 {
		t.Errorf("%q", r.calls)
	}
	if got := w.read(w.root + "/etc/munge/munge.key"); got != strings.Repeat("k", 32) {
		t.Errorf("the key is %q", got)
	}
	if _, err := os.Stat(key); !os.IsNotExist(err) {
		t.Errorf("the key that was sent is left: %v", err)
	}
	if hosts := w.read(w.root + "/etc/hosts"); !strings.Contains(hosts, "10.1.2.3 c1\n") {
		t.Errorf("hosts: %q", hosts)
	}
	if testing.Short() {
		return // what comes later in its life takes two boots more
	}
	// A reboot needs neither the key nor who sent it.
	if err := os.RemoveAll(w.root + "/run/burst"); err != nil {
		t.Fatal(err)
	}
	if r = w.succeed("BURST_REBOOT=1"); r.count("@report ready") != 1 {
		t.Errorf("after a reboot: %q", r.calls)
	}
	// Another machine, made of an image of this one, waits until it is set up itself.
	w.write(w.root+"/sys/class/dmi/id/product_uuid", "two\n")
	if r = w.succeed("BURST_REBOOT=1"); r.count("@") != 0 || !strings.Contains(r.console, "made of another instance") {
		t.Errorf("on another machine: %q: %s", r.calls, r.console)
	}
}

// TestGivenWaitsForAnother: after a restart in the middle of a setup the unit may be at it; our end must not be
// taken for the node's.
func TestGivenWaitsForAnother(t *testing.T) {
	oneOfSeveral(t)
	t.Parallel()
	w, _ := given(t)
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
	if r := w.run("BURST_REBOOT=1"); r.code != 0 || !strings.Contains(r.console, "this one leaves") {
		t.Errorf("the unit: %+v", r)
	}
	done := make(chan result, 1)
	go func() { done <- w.run() }()
	log := w.root + "/var/log/burst-bootstrap.log"
	for end := time.Now().Add(time.Minute); !strings.Contains(w.read(log), "this one waits"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) || len(done) > 0 {
			t.Fatalf("it does not wait: %s", w.read(log))
		}
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.code != 0 || r.count("@report ready") != 1 || r.count("slurmd -D") != 1 {
		t.Errorf("%+v", r)
	}
}

// TestUserDataHoldsNoKey: what is sent over SSH cannot go into user data.
func TestUserDataHoldsNoKey(t *testing.T) {
	c := good()
	c.MungeKey = "ssh:/etc/munge/munge.key"
	if _, err := UserData(c); err == nil || !strings.Contains(err.Error(), "over SSH only") {
		t.Error(err)
	}
}
