// Package munge makes and opens MUNGE credentials. It speaks munged's own
// protocol over its socket: no process is started for a credential, and no C
// library is linked.
package munge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// Why a credential is refused. Each is wrapped by an error with munged's words.
var (
	ErrReplayed = errors.New("the credential was used before")
	ErrExpired  = errors.New("the credential is too old: compare the clocks of both hosts")
	ErrRewound  = errors.New("the credential is from the future: compare the clocks of both hosts")
	ErrInvalid  = errors.New("no credential under this host's MUNGE key")
)

// ErrAway is wrapped when munged cannot be asked: it says nothing of the credential.
var ErrAway = errors.New("munged cannot be asked: does it run, and is this its socket?")

// What a credential may hold.
const (
	MaxPayload    = 4 << 10  // bytes
	MaxCredential = 16 << 10 // bytes: a payload of that size in base64, with what MUNGE adds
)

// Options say how munged is asked; the zero value asks the system's.
type Options struct {
	Socket  string        // munged's unix socket; empty: the system's
	Timeout time.Duration // of one question; 5 s if zero
	Max     int           // questions at once, others wait; 8 if zero
}

// Munge asks one munged. It may be used by many at once.
type Munge struct {
	socket  string
	timeout time.Duration
	slots   chan struct{}
}

// New makes a Munge; it asks nothing before it is asked.
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

// Encode makes a credential of the payload, with this process's uid. It lives
// as long as munged lets one live by default, which is five minutes.
func (m *Munge) Encode(ctx context.Context, payload []byte) (string, error) {
	return m.EncodeFor(ctx, payload, 0)
}

// EncodeFor makes a credential that lives so long, in whole seconds; munged
// has a limit of its own, an hour. 0 is its default.
func (m *Munge) EncodeFor(ctx context.Context, payload []byte, life time.Duration) (string, error) {
	if len(payload) > MaxPayload {
		return "", fmt.Errorf("making a credential: %d bytes of payload, at most %d are taken", len(payload), MaxPayload)
	}
	var credential string
	body, err := m.ask(ctx, packEncode(payload, life), encodeResponse)
	if err == nil {
		credential, err = unpackEncode(body)
	}
	if err != nil {
		return "", fmt.Errorf("making a credential: %w", err)
	}
	return credential, nil
}

// Decode opens a credential, which munged does once only: the second time is
// ErrReplayed. What a refused credential says is not returned.
func (m *Munge) Decode(ctx context.Context, credential string) (Credential, error) {
	if len(credential) > MaxCredential {
		return Credential{}, fmt.Errorf("opening a credential: %w: %d bytes, at most %d are taken", ErrInvalid, len(credential), MaxCredential)
	}
	if credential = strings.TrimSpace(credential); credential == "" || strings.ContainsRune(credential, 0) {
		return Credential{}, fmt.Errorf("opening a credential: %w: it is empty, or no text", ErrInvalid)
	}
	var c Credential
	body, err := m.ask(ctx, packDecode(credential), decodeResponse)
	if err == nil {
		c, err = unpackDecode(body)
	}
	if err != nil {
		return Credential{}, fmt.Errorf("opening a credential: %w", err)
	}
	return c, nil
}

// ask sends one request, when its turn has come, and returns the body of the
// answer. A request that was sent is not sent again: munged would let a
// credential pass that it has seen, and whoever asks us does so again with a
// new one.
func (m *Munge) ask(ctx context.Context, request []byte, kind byte) ([]byte, error) {
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.timeout, fmt.Errorf("%w: no answer within %s", ErrAway, m.timeout))
	defer cancel()
	body, err := m.exchange(ctx, request, kind)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAway, err)
	}
	return body, nil
}

func (m *Munge) exchange(ctx context.Context, request []byte, kind byte) ([]byte, error) {
	conn, err := dial(ctx, m.path())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })() // ends what waits
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	return receive(conn, kind)
}

// dial connects, and tries again while as many wait for munged as may.
func dial(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		conn, err := d.DialContext(ctx, "unix", path)
		if !errors.Is(err, syscall.EAGAIN) {
			return conn, err
		}
		timer := time.NewTimer(pause + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

// systems are where munged's socket is by default: of the distributions'
// packages, and of MUNGE's own and OpenHPC's builds.
var systems = []string{"/run/munge/munge.socket.2", "/var/run/munge/munge.socket.2", "/usr/local/var/run/munge/munge.socket.2", "/opt/munge/var/run/munge/munge.socket.2"}

func (m *Munge) path() string {
	if m.socket != "" {
		return m.socket
	}
	for _, path := range systems {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return systems[0] // which the error names
}

// failure is the error that munged's number means, of which libmunge's munge.h
// has the list, with munged's words.
func failure(code int, words []byte) error {
	kind := ErrAway
	switch code {
	case 8, 9, 10, 11, 12, 13, 14, 18: // not decodable, other key, or meant for somebody else
		kind = ErrInvalid
	case 15:
		kind = ErrExpired
	case 16:
		kind = ErrRewound
	case 17:
		kind = ErrReplayed
	}
	if w := text(words); w != "" {
		return fmt.Errorf("%w: %s (code %d)", kind, w, code)
	}
	return fmt.Errorf("%w (code %d)", kind, code)
}

// text is a string of C without its end, fit for a line of a log.
func text(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.TrimSpace(string(b)))
}
