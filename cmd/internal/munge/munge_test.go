package munge_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/munge"
	"github.com/burst-hpc/burst/cmd/internal/munge/mungetest"
)

func start(t *testing.T) *munge.Munge {
	t.Helper()
	if testing.Short() {
		t.Skip("runs munged: slow end-to-end, run by make test")
	}
	return munge.New(munge.Options{Socket: mungetest.Start(t)})
}

func encode(t *testing.T, m *munge.Munge, payload string) string {
	t.Helper()
	c, err := m.Encode(t.Context(), []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestACredentialIsOpenedOnce(t *testing.T) {
	m := start(t)
	for _, tt := range []struct{ name, payload string }{
		{"a request", "POST /v1/node/whoami 0123"},
		{"nothing", ""},
		{"any bytes", "STATUS: 1\n\n\x00\xff\n\nUID: 7\n"},
		{"the most", strings.Repeat("x", munge.MaxPayload)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := encode(t, m, tt.payload)
			before := time.Now().Add(-2 * time.Second)
			c, err := m.Decode(t.Context(), text)
			if err != nil {
				t.Fatal(err)
			}
			if string(c.Payload) != tt.payload || c.UID != os.Getuid() || c.GID != os.Getgid() || c.Encoded.Before(before) {
				t.Errorf("opened: %+v", c)
			}
			if _, err := m.Decode(t.Context(), text); !errors.Is(err, munge.ErrReplayed) {
				t.Errorf("the second time: %v", err)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	m := start(t)
	other := munge.New(munge.Options{Socket: mungetest.Start(t)})
	good := encode(t, m, "x")
	for _, tt := range []struct {
		name, credential string
		want             error
	}{
		{"empty", "", munge.ErrInvalid},
		{"no credential", "hello", munge.ErrInvalid},
		{"an option", "--help", munge.ErrInvalid},
		{"broken", good[:len(good)-9] + "AAAAAAAA:", munge.ErrInvalid},
		{"under another key", encode(t, other, "x"), munge.ErrInvalid},
		{"too long", strings.Repeat("x", munge.MaxCredential+1), munge.ErrInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if c, err := m.Decode(t.Context(), tt.credential); !errors.Is(err, tt.want) || len(c.Payload) > 0 {
				t.Errorf("opened: %+v, %v", c, err)
			}
		})
	}
	if _, err := m.Encode(t.Context(), make([]byte, munge.MaxPayload+1)); err == nil {
		t.Error("a payload that is too long was taken")
	}
}

func TestManyAtOnce(t *testing.T) {
	m := start(t)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			c, err := m.Encode(t.Context(), []byte("x"))
			if err == nil {
				_, err = m.Decode(t.Context(), c)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestNoMunged(t *testing.T) {
	m := munge.New(munge.Options{Socket: filepath.Join(t.TempDir(), "none")})
	if _, err := m.Encode(t.Context(), nil); !errors.Is(err, munge.ErrAway) {
		t.Errorf("encode: %v", err)
	}
	if _, err := m.Decode(t.Context(), "MUNGE:x:"); !errors.Is(err, munge.ErrAway) || errors.Is(err, munge.ErrInvalid) {
		t.Errorf("decode: %v", err)
	}
}

// fake listens in munged's place and answers each request by answer; nil bytes hang up.
func fake(t *testing.T, answer func() []byte) *munge.Munge {
	t.Helper()
	dir, err := os.MkdirTemp("", "m") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ln, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				if _, err := c.Read(make([]byte, 1<<10)); err != nil {
					return
				}
				_, _ = c.Write(answer()) // whoever asked may have gone
			})
		}
	})
	return munge.New(munge.Options{Socket: filepath.Join(dir, "s"), Timeout: 50 * time.Millisecond, Max: 1})
}

func TestAHungMungedIsGivenUp(t *testing.T) {
	hang := make(chan struct{})
	m := fake(t, func() []byte { <-hang; return nil })
	defer close(hang)
	if _, err := m.Decode(t.Context(), "x"); !errors.Is(err, munge.ErrAway) || !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("decode: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Decode(gone, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has gone: %v", err)
	}
}

func TestTheirWordsBecomeOurs(t *testing.T) {
	refusal := func(code byte) []byte { return []byte{0, 0x60, 0x6d, 0x4b, 4, 5, 0, 0, 0, 0, 4, code, 2, 'n', 0} }
	for _, tt := range []struct {
		name   string
		answer []byte
		want   error
	}{
		{"expired", refusal(15), munge.ErrExpired},
		{"from the future", refusal(16), munge.ErrRewound},
		{"for another user", refusal(18), munge.ErrInvalid},
		{"its own trouble", refusal(5), munge.ErrAway},
		{"killed", nil, munge.ErrAway},
		{"an answer that is none", []byte("hello, who is there?"), munge.ErrAway},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := fake(t, func() []byte { return tt.answer }).Decode(t.Context(), "x"); !errors.Is(err, tt.want) {
				t.Errorf("decode: %v", err)
			}
		})
	}
}
