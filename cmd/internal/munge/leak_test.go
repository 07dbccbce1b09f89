package munge_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/munge"
)

// TestNothingLeaks: whatever munged does, and however a caller goes, no
// connection and no goroutine is left, and nobody waits longer than was said.
func TestNothingLeaks(t *testing.T) {
	whole := []byte{0, 0x60, 0x6d, 0x4b, 4, 3, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 5, 'M', ':', 'x', ':', 0}
	open := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	for _, tt := range []struct {
		name  string
		serve func(c net.Conn, gone <-chan struct{})
		want  error // nil: a credential
	}{
		{"byte by byte", func(c net.Conn, _ <-chan struct{}) {
			_, _ = c.Read(make([]byte, 1<<10))
			for i := range whole {
				_, _ = c.Write(whole[i : i+1]) // whoever asked may have gone
			}
		}, nil},
		{"cut off in the header", func(c net.Conn, _ <-chan struct{}) { _, _ = c.Write(whole[:5]) }, munge.ErrAway},
		{"cut off in the body", func(c net.Conn, _ <-chan struct{}) { _, _ = c.Write(whole[:15]) }, munge.ErrAway},
		{"hung in the body", func(c net.Conn, gone <-chan struct{}) { _, _ = c.Write(whole[:15]); <-gone }, munge.ErrAway},
		{"a length of no end", func(c net.Conn, gone <-chan struct{}) {
			_, _ = c.Write([]byte{0, 0x60, 0x6d, 0x4b, 4, 3, 0, 255, 255, 255, 255})
			<-gone
		}, munge.ErrAway},
		{"it reads nothing and says nothing", func(_ net.Conn, gone <-chan struct{}) { <-gone }, munge.ErrAway},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "m") // t.TempDir is too long for a socket's path
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			routines, fds := runtime.NumGoroutine(), open()
			ln, err := net.Listen("unix", filepath.Join(dir, "s"))
			if err != nil {
				t.Fatal(err)
			}
			gone := make(chan struct{})
			var serving sync.WaitGroup
			serving.Go(func() {
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					serving.Go(func() { defer c.Close(); tt.serve(c, gone) })
				}
			})
			patience := 5 * time.Second
			if tt.want != nil {
				patience = 100 * time.Millisecond
			}
			m := munge.New(munge.Options{Socket: filepath.Join(dir, "s"), Timeout: patience, Max: 4})
			var asking sync.WaitGroup
			begun := time.Now()
			for i := range 12 {
				asking.Go(func() {
					ctx := t.Context()
					if i%3 == 0 && tt.want != nil { // it goes before munged is given up
						short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
						defer cancel()
						ctx = short
					}
					c, err := m.Encode(ctx, []byte("x"))
					if i%3 == 0 && errors.Is(err, context.DeadlineExceeded) {
						return
					}
					if !errors.Is(err, tt.want) || tt.want == nil && c != "M:x:" {
						t.Errorf("%q, %v", c, err)
					}
				})
			}
			asking.Wait()
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
			close(gone)
			ln.Close()
			serving.Wait()
			for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > routines || open() > fds; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d goroutines and %d files, before %d and %d", runtime.NumGoroutine(), open(), routines, fds)
				}
			}
		})
	}
}
