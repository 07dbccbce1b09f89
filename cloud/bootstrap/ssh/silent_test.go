package ssh

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// accept serves each connection that comes to ln, until the test ends.
func accept(t *testing.T, ln net.Listener, serve func(net.Conn)) {
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			go serve(conn)
		}
	}()
}

// letsIn is a host that lets everybody in, and never answers what is asked then but for keepalives.
func letsIn(t *testing.T) (h Host, logins *atomic.Int32) {
	t.Helper()
	c := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }}
	c.AddHostKey(newSigner(t))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	logins = new(atomic.Int32)
	accept(t, ln, func(conn net.Conn) {
		server, _, requests, err := ssh.NewServerConn(conn, c)
		if err != nil {
			return
		}
		defer server.Close()
		logins.Add(1)
		ssh.DiscardRequests(requests)
	})
	return Host{Instance: "i-1", Node: "c1", Addr: netip.MustParseAddr("127.0.0.1"), Port: ln.Addr().(*net.TCPAddr).Port, User: "root"}, logins
}

// agentOf is an ssh-agent whose connections are served so.
func agentOf(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ln, err := net.Listen("unix", dir+"/s")
	if err != nil {
		t.Fatal(err)
	}
	accept(t, ln, serve)
	return dir + "/s"
}

// unwilling lists its keys, and does not sign: it fails or, with a channel, waits.
type unwilling struct {
	agent.Agent
	wait <-chan struct{}
}

func (u unwilling) Sign(ssh.PublicKey, []byte) (*ssh.Signature, error) {
	if u.wait != nil {
		<-u.wait
	}
	return nil, errors.New("no")
}

// TestAgentsAtFault: an agent that is empty, silent, or does not sign holds nobody up for long, and no host
// is given up for it.
func TestAgentsAtFault(t *testing.T) {
	t.Parallel()
	while := 3 * time.Second
	if testing.Short() {
		while = 1500 * time.Millisecond // still three times what an agent may take
	}
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: newPrivate(t)}); err != nil {
		t.Fatal(err)
	}
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	for _, tt := range []struct {
		name, socket, want string
	}{
		{"empty", serveAgent(t), "has no key: add one with ssh-add"},
		{"silent", agentOf(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }), "no answer within 500ms"},
		{"refuses to sign", agentOf(t, func(c net.Conn) { _ = agent.ServeAgent(unwilling{Agent: ring}, c) }), "does not sign"},
		{"never signs", agentOf(t, func(c net.Conn) { _ = agent.ServeAgent(unwilling{ring, never}, c) }), "does not sign: no answer within 500ms"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h, _ := letsIn(t)
			r := New(Config{Auth: Auth{Agent: tt.socket}, Keys: Folder(t.TempDir()), DialTime: 500 * time.Millisecond,
				Refused: time.Millisecond, Pause: 10 * time.Millisecond})
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), while)
			defer cancel()
			err := r.Run(ctx, h, Work{})
			if !errors.Is(err, ErrNoLogin) || !strings.Contains(err.Error(), "no time is left") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v", err)
			}
			if took := time.Since(begun); took < while {
				t.Errorf("the host was given up after %s", took)
			}
		})
	}
}

// TestAgentTime: without a deadline of who asks, an answer has one too.
func TestAgentTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		begun := time.Now()
		_, err := agent.NewClient(timed{ours}).Signers()
		if took := time.Since(begun); err == nil || took != agentTime {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// TestNoChannel: a host that lets us in, and answers no more, does not hold us for ever.
func TestNoChannel(t *testing.T) {
	t.Parallel()
	h, logins := letsIn(t)
	r := New(Config{Auth: Auth{KeyFile: keyFile(t, newPrivate(t), "")}, Keys: Folder(t.TempDir())})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, h, Work{}) }()
	select {
	case err := <-done:
		if !errors.Is(err, ErrGivenUp) || logins.Load() != 1 {
			t.Errorf("%v after %d logins", err, logins.Load())
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Run does not end")
	}
}

// TestRefusedFor: an image that lets us in late, as when cloud-init makes the user, has minutes for it; one that
// never does costs no more than those.
func TestRefusedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &setup{runner: New(Config{})}
		begun := time.Now()
		err := s.run(t.Context(), func(context.Context) error { return refused{errors.New("no")} })
		if took := time.Since(begun); !errors.Is(err, ErrGivenUp) || took < 5*time.Minute || took > 10*time.Minute {
			t.Errorf("%v after %s", err, took)
		}
		s = &setup{runner: New(Config{})}
		begun = time.Now()
		err = s.run(t.Context(), func(context.Context) error {
			if time.Since(begun) < 5*time.Minute {
				return refused{errors.New("no")}
			}
			return nil
		})
		if err != nil {
			t.Errorf("a late user: %v", err)
		}
		s = &setup{runner: New(Config{})}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		n := 0
		err = s.run(ctx, func(context.Context) error {
			if n++; n == 2 {
				time.Sleep(20 * time.Minute)
				return ErrNoLogin
			}
			if n < 4 {
				return refused{errors.New("no")}
			}
			return nil
		})
		if err != nil {
			t.Errorf("refused before and after our agent was away: %v", err)
		}
	})
}
