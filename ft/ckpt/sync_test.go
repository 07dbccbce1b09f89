package ckpt

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// spy notes what is brought to disk, below the step's folder, and fails at one.
func spy(t *testing.T, f *Folder, fail string) func() []string {
	t.Helper()
	was := fsync
	t.Cleanup(func() { fsync = was })
	var mu sync.Mutex
	var names []string
	fsync = func(file *os.File) error {
		name := strings.TrimPrefix(file.Name(), f.Path()+"/")
		mu.Lock()
		defer mu.Unlock()
		names = append(names, name)
		if name == fail {
			return &os.PathError{Op: "fsync", Path: name, Err: syscall.EIO}
		}
		return was(file)
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(names)
	}
}

const part = "attempt-0/gen-1.part/"

// A power cut after Commit costs nothing: every file and folder is brought to disk,
// before what makes it count, and then that.
func TestWhatIsBroughtToDisk(t *testing.T) {
	f := openIn(t, t.TempDir(), 0)
	synced := spy(t, f, "")
	mustWrite(t, f, 1)
	got := synced()
	if len(got) > 2 {
		slices.Sort(got[:2]) // files go at once
	}
	want := []string{part + "image.0", part + "sub/image.1", part + "sub", strings.TrimSuffix(part, "/"),
		part + sumName + ".tmp", part + manifestName + ".tmp", strings.TrimSuffix(part, "/"), "attempt-0"}
	if !slices.Equal(got, want) {
		t.Errorf("brought to disk:\n%q, want\n%q", got, want)
	}
}

// What could not be brought to disk is no generation.
func TestADiskThatFails(t *testing.T) {
	for _, name := range []string{"image.0", "sub/image.1", "sub", sumName + ".tmp", manifestName + ".tmp"} {
		t.Run(name, func(t *testing.T) {
			f := openIn(t, t.TempDir(), 0)
			spy(t, f, part+name)
			if _, err := write(t.Context(), f, "image.0", "a", "sub/image.1", "b"); !errors.Is(err, syscall.EIO) {
				t.Errorf("Commit says %v", err)
			}
			wantStates(t, f, "")
		})
	}
}

// A Commit that is tried again, of a step that has ended for it, leaves nothing of its
// first try in the generation.
func TestCommitAgainAfterADiskThatFailed(t *testing.T) {
	for _, name := range []string{part + "image.0", part + sumName + ".tmp", part + manifestName + ".tmp", strings.TrimSuffix(part, "/"), "attempt-0"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := openIn(t, dir, 0)
			p, err := f.Begin(t.Context(), 0)
			if err == nil {
				err = os.WriteFile(p.Dir+"/image.0", []byte("x"), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			was := fsync
			spy(t, f, name)
			if _, err := p.Commit(t.Context(), About{Method: "signal"}); !errors.Is(err, syscall.EIO) {
				t.Fatalf("Commit says %v", err)
			}
			fsync = was
			g, err := p.Commit(t.Context(), About{Method: "signal"})
			if err != nil || len(g.Files) != 1 {
				t.Fatalf("the second Commit: %+v, %v", g.Files, err)
			}
			if err := p.Abandon(); err != nil {
				t.Fatal(err)
			}
			wantNewest(t, openIn(t, dir, 1), ID{0, 1})
		})
	}
}
