package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// Auth is who we are to the hosts: a key file, or the keys of an ssh-agent.
// Private keys never leave either, and the agent is never forwarded.
type Auth struct {
	KeyFile string // a private key that nobody else can read; one with a passphrase must be in the agent
	Agent   string // socket of an ssh-agent; with a KeyFile that has a passphrase, it is asked for that key only
}

// ErrNoLogin is wrapped when we have no key to log in with: no host is at fault.
var ErrNoLogin = errors.New("burstd cannot log in to any host")

// agentTime is how long an ssh-agent may take for one answer.
const agentTime = 10 * time.Second

// Check says what is wrong with it, before a host is asked.
func (a Auth) Check() error { return a.CheckAs(os.Geteuid()) }

// CheckAs says what is wrong with it for the user as whom burstd runs, where that
// is not us. We must be able to read it.
func (a Auth) CheckAs(uid int) error {
	_, done, err := a.as(context.Background(), uid)
	if err == nil {
		done()
	}
	return err
}

// signers are our keys, at least one, until done is called or ctx ends.
func (a Auth) signers(ctx context.Context) (keys []ssh.Signer, done func(), err error) {
	keys, done, err = a.as(ctx, os.Geteuid())
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrNoLogin, err)
	}
	return keys, done, err
}

func (a Auth) as(ctx context.Context, uid int) (keys []ssh.Signer, done func(), err error) {
	if a.KeyFile == "" {
		return a.fromAgent(ctx, nil)
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
	return a.fromAgent(ctx, public)
}

// fromAgent are the agent's keys: that one, or all.
func (a Auth) fromAgent(ctx context.Context, only ssh.PublicKey) (keys []ssh.Signer, done func(), err error) {
	if a.Agent == "" {
		return nil, nil, errors.New("neither a key file nor an ssh-agent is named: hosts cannot be logged in to")
	}
	conn, err := (&net.Dialer{Timeout: agentTime}).DialContext(ctx, "unix", a.Agent)
	if err != nil {
		return nil, nil, fmt.Errorf("asking the ssh-agent: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // its protocol has no context
	done = func() { stop(); _ = conn.Close() }
	all, err := agent.NewClient(timed{conn}).Signers()
	if err != nil {
		err = cause(ctx, err)
		done()
		return nil, nil, fmt.Errorf("asking the ssh-agent at %s: %w", a.Agent, err)
	}
	for _, k := range all {
		if only != nil && !same(k.PublicKey(), only) {
			continue
		}
		if s, ok := k.(ssh.AlgorithmSigner); ok {
			k = &agentKey{AlgorithmSigner: s, ctx: ctx, socket: a.Agent}
		}
		keys = append(keys, k)
	}
	if len(keys) > 0 {
		return keys, done, nil
	}
	done()
	if only == nil {
		return nil, nil, fmt.Errorf("the ssh-agent at %s has no key: add one with ssh-add", a.Agent)
	}
	return nil, nil, fmt.Errorf("%s has a passphrase and the ssh-agent at %s lacks the key: ssh-add %[1]s", a.KeyFile, a.Agent)
}

// timed is an agent's connection on which no answer takes longer than agentTime.
type timed struct{ net.Conn }

func (t timed) Write(b []byte) (int, error) {
	if err := t.SetDeadline(time.Now().Add(agentTime)); err != nil {
		return 0, err
	}
	return t.Conn.Write(b)
}

// agentKey is a key of an agent, and remembers that the agent did not sign: to a
// host that looks as if we had no right to log in.
type agentKey struct {
	ssh.AlgorithmSigner
	ctx    context.Context // with which the agent's connection ends
	socket string
	failed error
}

func (k *agentKey) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	return k.SignWithAlgorithm(rand, data, "")
}

func (k *agentKey) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	s, err := k.AlgorithmSigner.SignWithAlgorithm(rand, data, algorithm)
	if err != nil {
		k.failed = fmt.Errorf("%w: the ssh-agent at %s does not sign: %w", ErrNoLogin, k.socket, cause(k.ctx, err))
	}
	return s, err
}

// unsigned is why a key's agent did not sign, if one did not.
func unsigned(keys []ssh.Signer) error {
	for _, k := range keys {
		if k, ok := k.(*agentKey); ok && k.failed != nil {
			return k.failed
		}
	}
	return nil
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
