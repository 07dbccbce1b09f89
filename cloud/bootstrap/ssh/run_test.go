package ssh_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/burst-hpc/burst/cloud/bootstrap/ssh"
	"github.com/burst-hpc/burst/cloud/bootstrap/ssh/sshtest"
)

// world is a bridge, our key, and a place for what a Runner keeps.
type world struct {
	*testing.T
	net *sshtest.Net
	cfg ssh.Config
	opt sshtest.Options // of hosts that take our key
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("starts sshds: slow end-to-end, run by make test")
	}
	t.Parallel() // one waits a minute for a host, the others meanwhile
	w := &world{T: t, net: sshtest.New(t)}
	public, file := sshtest.Key(t)
	dir := t.TempDir()
	w.opt = sshtest.Options{Login: public}
	w.cfg = ssh.Config{Auth: ssh.Auth{KeyFile: file}, Keys: ssh.Folder(dir + "/keys"), Logs: dir + "/logs",
		Poll: 200 * time.Millisecond, Pause: time.Second, Silence: 6 * time.Second, DialTime: 5 * time.Second, Refused: 3 * time.Second}
	if os.Getenv("BURST_TEST_LOG") != "" {
		w.cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return w
}

func (w *world) host(h *sshtest.Host, node string) ssh.Host {
	return ssh.Host{Instance: "i-" + node, Node: node, Addr: h.IP, Port: h.Port, User: h.User}
}

// within is a context with that much time.
func (w *world) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(w.Context(), d)
	w.Cleanup(cancel)
	return ctx
}

func (w *world) log(node string) string {
	text, err := os.ReadFile(filepath.Join(w.cfg.Logs, node+".log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.Error(err)
	}
	return string(text)
}

// once is a script that shows in /var/log/runs how often it was run, and whether two ran at once.
const once = `#!/bin/bash
mkdir /run/alone || { echo twice >>/var/log/runs; exit 9; }
echo run >>/var/log/runs
for i in $(seq "${SECONDS_TO_RUN:-1}"0); do echo "at $i"; sleep 0.1; done
rmdir /run/alone
echo done >>/var/log/runs
`

func lasting(seconds int) []byte {
	return []byte(strings.Replace(once, "${SECONDS_TO_RUN:-1}", fmt.Sprint(seconds), 1))
}

const ranOnce = "run\ndone\n"

func TestOneHost(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		name  string
		spoil func(o *sshtest.Options, h *ssh.Host)
	}{
		{"root", func(*sshtest.Options, *ssh.Host) {}},
		{"sudo", func(o *sshtest.Options, h *ssh.Host) { o.User = "deploy" }},
		{"port", func(o *sshtest.Options, h *ssh.Host) { o.Port = 2222 }},
		{"ipv6", func(*sshtest.Options, *ssh.Host) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := w.opt
			tt.spoil(&o, nil)
			machine := w.net.Host(o)
			h := w.host(machine, tt.name)
			if tt.name == "ipv6" {
				h.Addr = machine.IP6
			}
			big := []byte(strings.Repeat("burst", 1<<20))
			work := ssh.Work{Script: []byte("#!/bin/bash\necho hello from $(id -un) in $PWD; cat note; ls -l /opt/agent"), Limit: time.Minute,
				Files: func(arch string) ([]ssh.File, error) {
					return []ssh.File{{Name: "note", Mode: 0o600, Data: []byte("a note\n")}, {Name: "agent", Mode: 0o755, Data: big, To: "/opt/agent"}}, nil
				}}
			if err := ssh.New(w.cfg).Run(w.within(time.Minute), h, work); err != nil {
				t.Fatal(err)
			}
			if got := machine.Read("/opt/agent"); got != string(big) {
				t.Errorf("the agent has %d bytes", len(got))
			}
			log := w.log(tt.name)
			for _, want := range []string{"hello from root in /var/lib/burst/setup/i-" + tt.name, "\na note\n", "-rwxr-xr-x 1 root root 5242880", "ended well"} {
				if !strings.Contains(log, want) {
					t.Errorf("no %q in the log:\n%s", want, log)
				}
			}
			// Another process looks, and finds it done.
			if err := ssh.New(w.cfg).Run(w.within(time.Minute), h, ssh.Work{Script: []byte("touch /again"), Limit: time.Minute}); err != nil || machine.Do("ls /") == "" || strings.Contains(machine.Do("ls /"), "again") {
				t.Errorf("it ran again: %v", err)
			}
		})
	}
}

func TestAFailingLine(t *testing.T) {
	w := newWorld(t)
	m := w.net.Host(w.opt)
	err := ssh.New(w.cfg).Run(w.within(time.Minute), w.host(m, "c1"), ssh.Work{Script: []byte("echo one\necho burst-bootstrap: FAILED: step setup: 'setup line 3: \"dnf -y install foo\": exit 1'\necho no package foo\nexit 1"), Limit: time.Minute})
	var f *ssh.Failure
	if !errors.As(err, &f) || f.Code != 1 || f.Why != `setup line 3: "dnf -y install foo": exit 1: no package foo` || !strings.Contains(err.Error(), "node c1 (i-c1, ") {
		t.Errorf("%v", err)
	}
}

// TestMain has more tests at once than there are processors: they wait more than they work.
func TestMain(m *testing.M) {
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue { // nobody has said otherwise
		many := "4"
		if testing.Short() { // none starts an sshd
			many = "8"
		}
		if err := flag.Set("test.parallel", many); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func publicLine(k xssh.PublicKey) []byte { return xssh.MarshalAuthorizedKey(k) }
