package ssh_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/bootstrap/ssh"
	"github.com/burst-hpc/burst/cloud/bootstrap/ssh/sshtest"
)

// poll waits for a condition.
func poll(t *testing.T, d time.Duration, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !cond(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", d, what)
		}
	}
}

// late is when the host that is late answers.
const late = time.Minute

// TestTwentyHosts sets twenty up at once. One shows a wrong key, one never
// answers, one takes connections and is silent, one fails in a line, one is
// late: the others wait for none of them.
func TestTwentyHosts(t *testing.T) {
	w := newWorld(t)
	const hosts = 20
	machines := make([]*sshtest.Host, hosts)
	for i := range machines {
		o := w.opt
		o.Asleep = i == 3 || i == 5
		machines[i] = w.net.Host(o)
	}
	w.cfg.Hosts, w.cfg.Poll = 2, time.Second // there are more of them that do not answer
	other, _ := sshtest.Key(t)
	if err := w.cfg.Keys.Pin("i-c2", other); err != nil {
		t.Fatal(err)
	}
	silent, err := net.Listen("tcp", netip.AddrPortFrom(w.net.Addr(), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()

	runner := ssh.New(w.cfg)
	errs, took := make([]error, hosts), make([]time.Duration, hosts)
	var wg sync.WaitGroup
	begun := time.Now()
	const patience = 45 * time.Second // with those that never answer
	never, long := w.within(patience), w.within(late+3*time.Minute)
	for i, m := range machines {
		h := w.host(m, fmt.Sprintf("c%d", i))
		script, ctx := string(lasting(1)), long
		switch i {
		case 3:
			ctx = never
		case 4:
			script = "echo setup line 3\nfalse || { echo burst-bootstrap: FAILED: 'setup line 3: \"dnf -y install foo\": exit 1'; exit 1; }"
		case 6:
			h.Addr, h.Port = w.net.Addr(), silent.Addr().(*net.TCPAddr).Port
			ctx = never
		}
		wg.Go(func() {
			errs[i] = runner.Run(ctx, h, ssh.Work{Script: []byte(script), Limit: time.Minute})
			took[i] = time.Since(begun)
		})
	}
	woken := time.AfterFunc(late, machines[5].Wake)
	defer woken.Stop()
	wg.Wait()

	best, worst := time.Hour, time.Duration(0)
	for i, err := range errs {
		switch i {
		case 2:
			if !errors.Is(err, ssh.ErrHostKey) || !errors.Is(err, ssh.ErrGivenUp) || !strings.Contains(err.Error(), "remove "+string(w.cfg.Keys)+"/i-c2;") || !strings.Contains(err.Error(), "change the cluster's MUNGE key") {
				t.Errorf("a wrong key: %v", err)
			}
			if machines[i].Read("/var/log/runs") != "" {
				t.Error("the host with the wrong key was set up")
			}
		case 3:
			if !errors.Is(err, ssh.ErrGivenUp) || !strings.Contains(err.Error(), "connection refused") {
				t.Errorf("no sshd: %v", err)
			}
		case 4:
			var f *ssh.Failure
			if !errors.As(err, &f) || !strings.Contains(err.Error(), `node c4 (i-c4, `) || !strings.Contains(err.Error(), `setup line 3: "dnf -y install foo": exit 1`) {
				t.Errorf("a failing line: %v", err)
			}
		case 6:
			if !errors.Is(err, ssh.ErrGivenUp) || !strings.Contains(err.Error(), "no answer within 5s") {
				t.Errorf("a silent host: %v", err)
			}
		case 5:
			if err != nil || took[i] < late {
				t.Errorf("the late host: %v after %s", err, took[i])
			}
		default:
			if err != nil || machines[i].Read("/var/log/runs") != ranOnce {
				t.Errorf("host %d: %v, ran %q", i, err, machines[i].Read("/var/log/runs"))
			}
			best, worst = min(best, took[i]), max(worst, took[i])
		}
	}
	if worst >= patience {
		t.Errorf("the good hosts were set up after %s to %s, those that never answer given up after %s: they wait for them", best, worst, patience)
	}
	if took[5] > late+30*time.Second {
		t.Errorf("the late host answered after %s, and was set up after %s", late, took[5])
	}
	t.Logf("the slowest of %d good hosts was set up after %s, the late one after %s", hosts-5, worst.Round(time.Millisecond), took[5].Round(time.Millisecond))
}

// TestConnectionLost: the run goes on, and is neither lost nor run again, whether sshd's
// sessions die, the network is cut, or sshd is away for a while.
func TestConnectionLost(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		name       string
		cut, after func(m *sshtest.Host)
	}{
		{"sessions killed", (*sshtest.Host).Hang, func(*sshtest.Host) {}},
		{"network cut", (*sshtest.Host).Cut, (*sshtest.Host).Mend},
		{"sshd away", func(m *sshtest.Host) { m.Sleep(); m.Hang() }, (*sshtest.Host).Wake},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := &world{T: t, net: w.net, cfg: w.cfg, opt: w.opt}
			m := w.net.Host(w.opt)
			node := strings.ReplaceAll(tt.name, " ", "-")
			done := make(chan error, 1)
			go func() {
				done <- ssh.New(w.cfg).Run(w.within(time.Minute), w.host(m, node), ssh.Work{Script: lasting(5), Limit: time.Minute})
			}()
			poll(t, 20*time.Second, "it runs", func() bool { return strings.Contains(w.log(node), "at 3\n") })
			before := strings.Count(w.log(node), "will try again")
			tt.cut(m)
			poll(t, 20*time.Second, "the connection is lost", func() bool { return strings.Count(w.log(node), "will try again") > before })
			tt.after(m)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if got := m.Read("/var/log/runs"); got != ranOnce {
				t.Errorf("it ran %q", got)
			}
			if log := w.log(node); strings.Count(log, "\nat 30\n") != 1 || strings.Count(log, "\nat 50\n") != 1 {
				t.Errorf("the output is not whole, or there twice:\n%s", log)
			}
		})
	}
}

// TestTheHostRestarts: a run that is gone without an end is begun again, three times in all.
func TestTheHostRestarts(t *testing.T) {
	w := newWorld(t)
	m := w.net.Host(w.opt)
	killed := ssh.Work{Limit: time.Minute, Script: []byte("echo run >>/var/log/runs; read -r status _ </proc/$PPID/stat; read -r _ _ _ p _ </proc/$PPID/stat; kill -9 $p $PPID $$")}
	err := ssh.New(w.cfg).Run(w.within(time.Minute), w.host(m, "c1"), killed)
	var f *ssh.Failure
	if !errors.As(err, &f) || !strings.Contains(err.Error(), "was started 3 times and is gone without an end") {
		t.Error(err)
	}
	if got := m.Read("/var/log/runs"); got != "run\nrun\nrun\n" {
		t.Errorf("it ran %q", got)
	}
}

// timeUp is a context whose deadline comes when up is closed.
type timeUp struct {
	context.Context
	up chan struct{}
}

func (c timeUp) Done() <-chan struct{} { return c.up }

func (c timeUp) Err() error {
	select {
	case <-c.up:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestLimits(t *testing.T) {
	w := newWorld(t)
	// Neither the script nor its children end by themselves, or when they are asked.
	stubborn := []byte("trap '' TERM\necho begun\n(trap '' TERM; while :; do sleep 1; done) &\nwhile :; do sleep 1; done")
	alive := func(m *sshtest.Host) string { return m.Do("ps ax | grep -c '[s]leep 1$' || true") }
	t.Run("its own", func(t *testing.T) {
		t.Parallel()
		m := w.net.Host(w.opt)
		err := ssh.New(w.cfg).Run(w.within(time.Minute), w.host(m, "own"), ssh.Work{Script: stubborn, Limit: 2 * time.Second})
		var f *ssh.Failure
		if !errors.As(err, &f) || !strings.Contains(err.Error(), "its setup ran longer than 2s and was ended; its last words: begun") {
			t.Error(err)
		}
		poll(t, 5*time.Second, "its processes are gone", func() bool { return strings.TrimSpace(alive(m)) == "0" })
	})
	t.Run("no time left", func(t *testing.T) {
		t.Parallel()
		m := w.net.Host(w.opt)
		ctx := timeUp{w.within(time.Minute), make(chan struct{})}
		done := make(chan error, 1)
		go func() {
			done <- ssh.New(w.cfg).Run(ctx, w.host(m, "all"), ssh.Work{Script: stubborn, Limit: time.Hour})
		}()
		poll(t, 40*time.Second, "it runs", func() bool { return strings.Contains(w.log("all"), "\nbegun\n") })
		close(ctx.up)
		err := <-done
		if !errors.Is(err, ssh.ErrGivenUp) || !strings.Contains(err.Error(), "begun") {
			t.Error(err)
		}
		poll(t, 20*time.Second, "its processes are gone", func() bool { return strings.TrimSpace(alive(m)) == "0" })
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		m := w.net.Host(w.opt)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- ssh.New(w.cfg).Run(ctx, w.host(m, "left"), ssh.Work{Script: lasting(3), Limit: time.Minute})
		}()
		poll(t, 20*time.Second, "it runs", func() bool { return m.Read("/var/log/runs") == "run\n" })
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		poll(t, 20*time.Second, "it goes on without us", func() bool { return m.Read("/var/log/runs") == ranOnce })
	})
}

// TestFlood: a host's output fills neither its disk nor ours.
func TestFlood(t *testing.T) {
	w := newWorld(t)
	m := w.net.Host(w.opt)
	err := ssh.New(w.cfg).Run(w.within(2*time.Minute), w.host(m, "c1"), ssh.Work{Script: []byte("head -c 300000000 /dev/zero | tr '\\0' 'x'; printf '\\033[31m\\nthe end\\n'; exit 7"), Limit: time.Minute})
	var f *ssh.Failure
	if !errors.As(err, &f) || f.Code != 7 || !strings.HasSuffix(f.Why, "the end") || strings.Contains(f.Why, "\x1b") || len(f.Why) > 500 {
		t.Errorf("%.600v", err)
	}
	size := 0
	for _, name := range []string{"c1.log", "c1.log.1"} {
		if info, err := os.Stat(w.cfg.Logs + "/" + name); err == nil {
			size += int(info.Size())
		}
	}
	if size > 3<<20 || strings.Contains(w.log("c1"), "\x1b") {
		t.Errorf("our log has %d bytes", size)
	}
	if there := m.Do("du -sk /var/lib/burst | cut -f1"); len(strings.TrimSpace(there)) > 4 {
		t.Errorf("the host keeps %s KiB", there)
	}
}

func TestFullDisk(t *testing.T) {
	w := newWorld(t)
	o := w.opt
	o.Disk = 4
	t.Run("before the upload", func(t *testing.T) {
		t.Parallel()
		m := w.net.Host(o)
		agent := make([]byte, 8<<20)
		err := ssh.New(w.cfg).Run(w.within(time.Minute), w.host(m, "before"), ssh.Work{Script: []byte("true"), Limit: time.Minute,
			Files: func(string) ([]ssh.File, error) {
				return []ssh.File{{Name: "agent", Mode: 0o755, Data: agent, To: "/opt/agent"}}, nil
			}})
		if !errors.Is(err, ssh.ErrGivenUp) || !strings.Contains(err.Error(), "uploading agent fails") || !strings.Contains(err.Error(), "KiB free") {
			t.Error(err)
		}
	})
	t.Run("in the run", func(t *testing.T) {
		t.Parallel()
		m := w.net.Host(o)
		err := ssh.New(w.cfg).Run(w.within(time.Minute), w.host(m, "in"), ssh.Work{Script: []byte("echo begun; sleep 1; cat /dev/zero >/var/tmp/full; echo disk full; exit 5"), Limit: time.Minute})
		var f *ssh.Failure
		if !errors.As(err, &f) || f.Code != 5 || !strings.Contains(f.Why, "exit code 5") {
			t.Error(err)
		}
	})
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	other, _ := sshtest.Key(t)
	for _, tt := range []struct {
		name, want string
		spoil      func(o *sshtest.Options)
	}{
		{"key", "given up after 3s: it does not let user root in with our key", func(o *sshtest.Options) { o.Login = other }},
		{"sudo", "user deploy cannot run commands there as root", func(o *sshtest.Options) { o.User, o.NoSudo = "deploy", true }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := w.opt
			tt.spoil(&o)
			m := w.net.Host(o)
			err := ssh.New(w.cfg).Run(w.within(time.Minute), w.host(m, tt.name), ssh.Work{Script: []byte("true"), Limit: time.Minute})
			if !errors.Is(err, ssh.ErrGivenUp) || !strings.Contains(err.Error(), tt.want) {
				t.Error(err)
			}
		})
	}
	t.Run("the key comes late", func(t *testing.T) {
		t.Parallel()
		o := w.opt
		o.Login = other
		m := w.net.Host(o)
		c := w.cfg
		c.Refused = 30 * time.Second
		done := make(chan error, 1)
		go func() {
			done <- ssh.New(c).Run(w.within(time.Minute), w.host(m, "late"), ssh.Work{Script: lasting(1), Limit: time.Minute})
		}()
		poll(t, 20*time.Second, "it is refused", func() bool { return strings.Contains(w.log("late"), "does not let") })
		m.Put("/etc/ssh/test_logins", publicLine(w.opt.Login))
		if err := <-done; err != nil || m.Read("/var/log/runs") != ranOnce {
			t.Errorf("%v, ran %q", err, m.Read("/var/log/runs"))
		}
	})
}
