package ssh

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// Auth is who we are to the hosts: a key file, or the keys of an ssh-agent.
// Private keys never leave either, and the agent is never forwarded.
type Auth struct {
	KeyFile string // a private key that nobody else can read; one with a passphrase must be in the agent
	Agent   string // socket of an ssh-agent; with a KeyFile that has a passphrase, it is asked for that key only
}

// Check says what is wrong with it, before a host is asked.
func (a Auth) Check() error { return a.CheckAs(os.Geteuid()) }

// CheckAs says what is wrong with it for the user as whom burstd runs, where that
// is not us. We must be able to read it.
func (a Auth) CheckAs(uid int) error {
	signers, done, err := a.as(uid)
	if err != nil {
		return err
	}
	defer done()
	if len(signers) == 0 {
		return fmt.Errorf("the ssh-agent at %s has no key: add one with ssh-add", a.Agent)
	}
	return nil
}

// signers are our keys, until done is called.
func (a Auth) signers() (keys []ssh.Signer, done func(), err error) { return a.as(os.Geteuid()) }

func (a Auth) as(uid int) (keys []ssh.Signer, done func(), err error) {
	if a.KeyFile == "" {
		return a.fromAgent(nil)
	}
	text, err := readPrivate(a.KeyFile, uid)
	if err != nil {
		return nil, nil, err
	}
	key, err := ssh.ParsePrivateKey(text)
	var locked *ssh.PassphraseMissingError
	switch {
	case err == nil:
		return []ssh.Signer{key}, func() {}, nil
	case !errors.As(err, &locked):
		return nil, nil, fmt.Errorf("%s is no private key that can be read (%w): make one with ssh-keygen -t ed25519", a.KeyFile, err)
	case a.Agent == "":
		return nil, nil, fmt.Errorf("%s has a passphrase, which nobody can type here: name an ssh-agent that has the key, or a key without", a.KeyFile)
	}
	public := locked.PublicKey
	if public == nil { // an old format does not tell it
		text, err := os.ReadFile(a.KeyFile + ".pub")
		if err != nil {
			return nil, nil, fmt.Errorf("%s has a passphrase, and which key of the ssh-agent it is cannot be seen: %w", a.KeyFile, err)
		}
		if public, _, _, _, err = ssh.ParseAuthorizedKey(text); err != nil {
			return nil, nil, fmt.Errorf("reading %s.pub: %w", a.KeyFile, err)
		}
	}
	return a.fromAgent(public)
}

// fromAgent are the agent's keys: that one, or all.
func (a Auth) fromAgent(only ssh.PublicKey) (keys []ssh.Signer, done func(), err error) {
	if a.Agent == "" {
		return nil, nil, errors.New("neither a key file nor an ssh-agent is named: hosts cannot be logged in to")
	}
	conn, err := net.Dial("unix", a.Agent)
	if err != nil {
		return nil, nil, fmt.Errorf("asking the ssh-agent: %w", err)
	}
	done = func() { _ = conn.Close() }
	all, err := agent.NewClient(conn).Signers()
	if err != nil {
		done()
		return nil, nil, fmt.Errorf("asking the ssh-agent at %s: %w", a.Agent, err)
	}
	if only == nil {
		return all, done, nil
	}
	for _, k := range all {
		if same(k.PublicKey(), only) {
			return []ssh.Signer{k}, done, nil
		}
	}
	done()
	return nil, nil, fmt.Errorf("%s has a passphrase and the ssh-agent at %s lacks the key: ssh-add %[1]s", a.KeyFile, a.Agent)
}

// readPrivate reads a file that only its owner can read: the user as whom burstd
// runs, or root, if we are who burstd is.
func readPrivate(path string, uid int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the SSH key: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading the SSH key: %w", err)
	}
	if mode := info.Mode().Perm(); !info.Mode().IsRegular() || mode&0o077 != 0 {
		return nil, fmt.Errorf("the SSH key %s has mode %04o, others may read or change it: chmod 0600 %[1]s", path, mode)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != uid && (s.Uid != 0 || uid != os.Geteuid()) {
		return nil, fmt.Errorf("the SSH key %s is uid %d's: chown it to uid %d, as which burstd runs", path, s.Uid, uid)
	}
	text := make([]byte, 64<<10)
	n, err := f.Read(text)
	if err != nil {
		return nil, fmt.Errorf("reading the SSH key: %w", err)
	}
	return text[:n], nil
}
