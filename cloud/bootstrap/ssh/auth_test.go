package ssh

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

func newPrivate(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return private
}

func newSigner(t *testing.T) ssh.Signer {
	t.Helper()
	s, err := ssh.NewSignerFromKey(newPrivate(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// keyFile writes the key, with a passphrase unless that is empty.
func keyFile(t *testing.T, key ed25519.PrivateKey, passphrase string) string {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(key, "")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "id")
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// serveAgent is an ssh-agent with the keys.
func serveAgent(t *testing.T, keys ...ed25519.PrivateKey) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ring := agent.NewKeyring()
	for _, k := range keys {
		if err := ring.Add(agent.AddedKey{PrivateKey: k}); err != nil {
			t.Fatal(err)
		}
	}
	ln, err := net.Listen("unix", dir+"/s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(ring, conn) }()
		}
	}()
	return dir + "/s"
}

func TestAuth(t *testing.T) {
	key, other := newPrivate(t), newPrivate(t)
	plain, locked := keyFile(t, key, ""), keyFile(t, key, "secret")
	open := keyFile(t, key, "")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(t.TempDir(), "id")
	if err := os.WriteFile(garbage, []byte("none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	with, without, empty := serveAgent(t, other, key), serveAgent(t, other), serveAgent(t)
	for _, tt := range []struct {
		name string
		auth Auth
		want string // of the error
		keys int
	}{
		{"file", Auth{KeyFile: plain}, "", 1},
		{"agent", Auth{Agent: with}, "", 2},
		{"a passphrase", Auth{KeyFile: locked}, "has a passphrase, which nobody can type here", 0},
		{"a passphrase, and the agent has it", Auth{KeyFile: locked, Agent: with}, "", 1},
		{"a passphrase, and the agent lacks it", Auth{KeyFile: locked, Agent: without}, "lacks the key: ssh-add " + locked, 0},
		{"others may read it", Auth{KeyFile: open}, "has mode 0644, others may read or change it: chmod 0600 " + open, 0},
		{"no key", Auth{KeyFile: garbage}, "is no private key that can be read", 0},
		{"no file", Auth{KeyFile: "/nonexistent/id"}, "reading the SSH key: open /nonexistent/id", 0},
		{"a folder", Auth{KeyFile: "/"}, "the SSH key / has mode", 0},
		{"no agent", Auth{Agent: "/nonexistent/agent"}, "asking the ssh-agent: dial unix /nonexistent/agent", 0},
		{"an empty agent", Auth{Agent: empty}, "has no key: add one with ssh-add", 0},
		{"nothing", Auth{}, "neither a key file nor an ssh-agent is named", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.auth.Check()
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			keys, done, err := tt.auth.signers(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			if len(keys) != tt.keys || tt.auth.KeyFile != "" && string(keys[0].PublicKey().Marshal()) != string(mustSigner(t, key).PublicKey().Marshal()) {
				t.Errorf("%d keys", len(keys))
			}
		})
	}
}

func mustSigner(t *testing.T, k ed25519.PrivateKey) ssh.Signer {
	t.Helper()
	s, err := ssh.NewSignerFromKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What we may read is of no use to burstd if it runs as somebody else.
func TestCheckAs(t *testing.T) {
	own, other := os.Geteuid(), 4242
	path := keyFile(t, newPrivate(t), "")
	if err := (Auth{KeyFile: path}).CheckAs(own); err != nil {
		t.Errorf("our own key: %v", err)
	}
	if err := (Auth{KeyFile: path}).CheckAs(other); err == nil || !strings.Contains(err.Error(), "chown it to uid 4242") {
		t.Errorf("our key, and burstd is another user's: %v", err)
	}
	if own != 0 {
		t.Skip("NOT TESTED: only root can give a key away")
	}
	if err := os.Chown(path, other, -1); err != nil {
		t.Fatal(err)
	}
	if err := (Auth{KeyFile: path}).CheckAs(other); err != nil {
		t.Errorf("burstd's key: %v", err)
	}
	if err := (Auth{KeyFile: path}).Check(); err == nil || !strings.Contains(err.Error(), "chown it to uid 0") {
		t.Errorf("another's key: %v", err)
	}
}
