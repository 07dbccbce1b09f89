package ckpt

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// old makes all of a folder look as if nothing had been written for so long.
func old(t *testing.T, dir string, age time.Duration) {
	t.Helper()
	at := time.Now().Add(-age)
	for _, name := range append(filesBelow(t, dir), ".") {
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
}

// Whose unfinished generation is deleted, and when: see lock.go.
func TestAbandoned(t *testing.T) {
	for _, test := range []struct {
		name    string
		attempt int    // that looks
		host    string // that held the lock last; empty: this one
		held    bool
		age     time.Duration
		dead    bool
	}{
		{"of this host, free", 0, "", false, 0, true},
		{"of this host, held", 0, "", true, 48 * time.Hour, false},
		{"of another host, free, written just now", 0, "other pid 7\n", false, 0, false},
		{"of another host, free, quiet", 0, "other pid 7\n", false, 16 * time.Minute, true},
		{"of another host, held", 0, "other pid 7\n", true, 48 * time.Hour, false},
		{"an earlier attempt, free", 1, "other pid 7\n", false, 0, true},
		{"an earlier attempt, held", 1, "other pid 7\n", true, time.Hour, false},
		{"an earlier attempt, held by one whose lease does not end", 1, "other pid 7\n", true, 25 * time.Hour, true},
		{"an unknown holder", 0, "\n", false, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			f := openIn(t, dir, 0)
			p, err := f.Begin(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if test.host != "" {
				if err := errors.Join(p.lock.Truncate(0), second(p.lock.WriteAt([]byte(test.host), 0))); err != nil {
					t.Fatal(err)
				}
			}
			if !test.held {
				p.lock.Close()
			}
			old(t, p.Dir, test.age)
			g := openIn(t, dir, test.attempt)
			want := "0/1 unfinished"
			if test.dead {
				want = ""
			}
			wantStates(t, g, want)
		})
	}
}

func TestScratch(t *testing.T) {
	dir := t.TempDir()
	f := openIn(t, dir, 0)
	at, err := f.Scratch()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, "image"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	there := func() bool {
		_, err := os.Stat(filepath.Join(at, "image"))
		return err == nil
	}
	g := openIn(t, dir, 0)
	mustPrune(t, g)
	if !there() {
		t.Fatal("another process has deleted a live one's scratch folder")
	}
	other, err := g.Scratch()
	if err != nil || other == at {
		t.Fatalf("two processes have one scratch folder: %s, %v", other, err)
	}
	lock := filepath.Join(at, lockName)
	text, err := os.ReadFile(lock)
	if err != nil || !strings.HasPrefix(string(text), hostname()+" pid ") {
		t.Fatalf("its holder is %q, %v", text, err)
	}
	f.Close()
	if err := os.WriteFile(lock, []byte("other pid 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	old(t, at, 48*time.Hour)
	openIn(t, dir, 0)
	if !there() {
		t.Error("one of another host, where locks may not reach, was deleted")
	}
	openIn(t, dir, 1)
	if there() {
		t.Error("an earlier attempt's is still there")
	}
}

// One that clears up holds the lock for a moment: no checkpoint fails for that.
func TestBeginWaitsForWhoClearsUp(t *testing.T) {
	dir := t.TempDir()
	f := openIn(t, dir, 0)
	lock, err := f.lockAttempt(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(60*time.Millisecond, func() { lock.Close() })
	mustWrite(t, f, 1)
}

func TestHalfARecordIsDeletedLater(t *testing.T) {
	f := openIn(t, t.TempDir(), 0)
	name := filepath.Join(f.Path(), attemptName(0), "."+begunName+"-1-2")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mustPrune(t, f)
	if _, err := os.Stat(name); err != nil {
		t.Errorf("another process was writing it: %v", err)
	}
	old(t, filepath.Dir(name), time.Hour)
	mustPrune(t, f)
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}
