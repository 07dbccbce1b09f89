package bootstrap

import (
	"bytes"
	"compress/gzip"
	"os"
	"strings"
	"testing"
)

// program is a burst-agent that writes down what it was told.
const program = "#!/bin/sh\necho agent $BURST_URLS $BURST_DAEMON_UID >>$DESK/log\n"

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestTheAgentIsFetched from burstd where the image has none, after slurmd has started, and once.
func TestTheAgentIsFetched(t *testing.T) {
	oneOfSeveral(t)
	t.Parallel()
	w := newWorld(t)
	w.remove("burst-agent")
	w.agent = zipped(t, program)
	w.config.URLs, w.config.DaemonUID = []string{w.url, "http://127.0.0.1:1/"}, os.Getuid()
	w.forge = func(a *answer) { a.uid = os.Getuid() }
	w.trouble["agent"] = 2 // others fetch it just now
	w.config.NoCheckpoints = true
	r := w.succeed()
	if r.count("@agent") != 3 || r.index("@agent") < r.index("@report ready") || r.count("systemctl --no-block restart burst-agent") != 1 {
		t.Errorf("%q", r.calls)
	}
	if got := w.read(w.root + "/usr/local/sbin/burst-agent"); got != program {
		t.Errorf("installed: %q", got)
	}
	for file, want := range map[string]string{
		"/etc/burst/agent.env":                    "BURST_URLS=" + w.url + ",http://127.0.0.1:1\nBURST_DAEMON_UID=" + w.getuid() + "\nBURST_CHECKPOINTS=none\n",
		"/etc/systemd/system/burst-agent.service": "\nEnvironmentFile=/etc/burst/agent.env\nStateDirectory=burst-agent\nEnvironment=STATE_DIRECTORY=/var/lib/burst-agent\nExecStart=" + w.root + "/usr/local/sbin/burst-agent\n",
	} {
		if got := w.read(w.root + file); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
	// A reboot: it is there, and started before slurmd.
	w.removeAll(w.root + "/run/burst")
	r = w.succeed("BURST_REBOOT=1")
	if r.count("@agent") != 0 || r.index("systemctl --no-block restart burst-agent") > r.index("systemctl restart slurmd") {
		t.Errorf("after a reboot: %q", r.calls)
	}
}

func TestWithoutSystemd(t *testing.T) {
	oneOfSeveral(t)
	t.Parallel()
	w := newWorld(t)
	w.removeAll(w.root + "/run/systemd")
	w.stub("munged", "touch $DESK/munged")
	w.stub("setsid", `exec "$@"`)
	w.stub("slurmd", `[ "$1" != -V ] && exec /bin/sleep 20; echo slurm-wlm 22.05.8`)
	w.stub("burst-agent", "echo agent $BURST_URLS $BURST_DAEMON_UID >>$DESK/log")
	w.remove("ss")
	r := w.succeed()
	if want := "agent " + w.url + " 0"; r.index(want) < 0 || r.index("slurmd -D") < 0 {
		t.Errorf("no %q in %q", want, r.calls)
	}
}

// TestNoAgentKeepsNoSlurmd: whatever becomes of the agent, the node comes up.
func TestNoAgentKeepsNoSlurmd(t *testing.T) {
	if testing.Short() {
		t.Skip("many boots: slow end-to-end, run by make test")
	}
	for _, tt := range []struct {
		name  string
		spoil func(w *world)
		says  string
		there bool // the program
	}{
		{"burstd has none", func(w *world) { w.missing["agent"] = `{"error":"burstd has no burst-agent"}` }, "no burst-agent on this node: URL answers 404", false},
		{"burstd is busy for long", func(w *world) { w.trouble["agent"] = 1000 }, "no burst-agent on this node: URL answers 503", false},
		{"it is another's program", func(w *world) {
			w.forge = func(a *answer) {
				if a.body == w.agent {
					a.body = zipped(t, "#!/bin/sh\nevil\n")
				}
			}
		}, "the answer is not what its credential says", false},
		{"it is unsigned", func(w *world) { w.forge = func(a *answer) { a.unsigned = a.body == w.agent } }, "no burst-agent on this node: URL: the answer", false},
		{"it is no gzip", func(w *world) { w.agent = "plain" }, "no burst-agent on this node: it did not start", false},
		{"it is cut off", func(w *world) { w.agent = w.agent[:len(w.agent)-9] }, "no burst-agent on this node: it did not start", false},
		{"systemd does not start it", func(w *world) {
			w.stub("systemctl", `case "$*" in *burst-agent*) exit 1;; esac`+"\n"+stubs["systemctl"])
		}, "no burst-agent on this node: it did not start", true},
		{"the image's does not start", func(w *world) {
			w.stub("burst-agent", "exit 1")
			w.stub("systemctl", `case "$*" in *burst-agent*) exit 1;; esac`+"\n"+stubs["systemctl"])
		}, "burst-agent did not start: notices may come late", false},
		{"its settings cannot be written", func(w *world) {
			w.stub("burst-agent", "")
			w.write(w.root+"/etc/burst", "")
		}, "burst-agent did not start: notices may come late", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.remove("burst-agent")
			w.agent = zipped(t, program)
			tt.spoil(w)
			r := w.succeed()
			if r.count("@report ready") != 1 || r.count("@report failed") != 0 || r.count("slurmd -D") != 1 {
				t.Errorf("%q", r.calls)
			}
			if !strings.Contains(r.console, strings.ReplaceAll(tt.says, "URL", w.url)) {
				t.Errorf("%q is not in: %s", tt.says, r.console)
			}
			if _, err := os.Stat(w.root + "/usr/local/sbin/burst-agent"); (err == nil) != tt.there {
				t.Errorf("the program: %v", err)
			}
		})
	}
}
