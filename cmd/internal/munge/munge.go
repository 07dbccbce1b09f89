// Package munge makes and opens MUNGE credentials with the commands munge and
// unmunge. They come with every MUNGE, so that no C library is linked.
package munge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Why a credential is refused. Each is wrapped by an error with munged's words.
var (
	ErrReplayed = errors.New("the credential was used before")
	ErrExpired  = errors.New("the credential is too old: compare the clocks of both hosts")
	ErrRewound  = errors.New("the credential is from the future: compare the clocks of both hosts")
	ErrInvalid  = errors.New("no credential under this host's MUNGE key")
)

// ErrAway is wrapped when munged or its commands cannot be asked: it says
// nothing of the credential.
var ErrAway = errors.New("munge cannot be asked: is munged running, and are its commands installed?")

// What a credential may hold.
const (
	MaxPayload    = 4 << 10  // bytes
	MaxCredential = 16 << 10 // bytes: a payload of that size in base64, with what MUNGE adds
)

// Options say how munged is asked; the zero value asks the system's.
type Options struct {
	Socket  string        // munged's unix socket; empty: the system's
	Timeout time.Duration // of one command; 5 s if zero
	Max     int           // commands at once, others wait; 8 if zero
}

// Munge asks one munged. It may be used by many at once.
type Munge struct {
	socket  string
	timeout time.Duration
	slots   chan struct{}
}

// New makes a Munge; it starts nothing before it is asked.
func New(o Options) *Munge {
	m := &Munge{socket: o.Socket, timeout: o.Timeout, slots: make(chan struct{}, 8)}
	if m.timeout == 0 {
		m.timeout = 5 * time.Second
	}
	if o.Max > 0 {
		m.slots = make(chan struct{}, o.Max)
	}
	return m
}

// Encode makes a credential of the payload, with this process's uid.
func (m *Munge) Encode(ctx context.Context, payload []byte) (string, error) {
	if len(payload) > MaxPayload {
		return "", fmt.Errorf("making a credential: %d bytes of payload, at most %d are taken", len(payload), MaxPayload)
	}
	r, err := m.run(ctx, "munge", payload)
	if err == nil && r.code != 0 {
		err = r.failure()
	}
	if err != nil {
		return "", fmt.Errorf("making a credential: %w", err)
	}
	return strings.TrimSpace(string(r.out)), nil
}

// Decode opens a credential, which munged does once only: the second time is
// ErrReplayed. What a refused credential says is not returned.
func (m *Munge) Decode(ctx context.Context, credential string) (Credential, error) {
	if len(credential) > MaxCredential {
		return Credential{}, fmt.Errorf("opening a credential: %w: %d bytes, at most %d are taken", ErrInvalid, len(credential), MaxCredential)
	}
	if strings.TrimSpace(credential) == "" {
		return Credential{}, fmt.Errorf("opening a credential: %w: it is empty", ErrInvalid)
	}
	r, err := m.run(ctx, "unmunge", []byte(credential), "--numeric", "--keys=STATUS,UID,GID,ENCODE_TIME,LENGTH")
	if err == nil && r.code != 0 {
		err = r.failure()
	}
	if err != nil {
		return Credential{}, fmt.Errorf("opening a credential: %w", err)
	}
	c, err := parse(r.out)
	if err != nil {
		return Credential{}, fmt.Errorf("opening a credential: %w: unmunge's answer: %w", ErrAway, err)
	}
	return c, nil
}

// result is how a command ended.
type result struct {
	code   int
	out    []byte
	errOut string
}

// run runs one of munge's commands, when its turn has come.
func (m *Munge) run(ctx context.Context, name string, input []byte, args ...string) (result, error) {
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-ctx.Done():
		return result{}, context.Cause(ctx)
	}
	path, err := find(name)
	if err != nil {
		return result{}, fmt.Errorf("%w: %w", ErrAway, err)
	}
	if m.socket != "" {
		args = append(args, "--socket="+m.socket)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.timeout, fmt.Errorf("%w: no answer within %s", ErrAway, m.timeout))
	defer cancel()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"LC_ALL=C"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &errOut
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for us, who wait for it
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err != nil && ctx.Err() != nil:
		return result{}, context.Cause(ctx)
	case err != nil && (!errors.As(err, &exit) || !exit.Exited()):
		return result{}, fmt.Errorf("%w: %s: %w", ErrAway, name, err)
	}
	return result{code: cmd.ProcessState.ExitCode(), out: out.Bytes(), errOut: firstLine(errOut.String())}, nil
}

// failure is the error of a command that did not exit with 0: its exit code is
// munged's word, of which libmunge's munge.h has the list.
func (r result) failure() error {
	kind := ErrAway
	switch r.code {
	case 8, 9, 10, 11, 12, 13, 14, 18: // not decodable, other key, or meant for somebody else
		kind = ErrInvalid
	case 15:
		kind = ErrExpired
	case 16:
		kind = ErrRewound
	case 17:
		kind = ErrReplayed
	}
	if r.errOut == "" {
		return fmt.Errorf("%w (code %d)", kind, r.code)
	}
	return fmt.Errorf("%w: %s (code %d)", kind, r.errOut, r.code)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// folders are looked through after the PATH, which a daemon may not have.
const folders = "/usr/bin:/bin:/usr/local/bin:/opt/munge/bin"

func find(name string) (string, error) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH") + ":" + folders) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); filepath.IsAbs(path) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}
