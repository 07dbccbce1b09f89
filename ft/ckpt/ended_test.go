package ckpt

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestFinishLeavesOne(t *testing.T) {
	dir := t.TempDir()
	f := openIn(t, dir, 0)
	mustWrite(t, f, 4)
	f.Bless(ID{0, 2})
	if err := f.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantStates(t, f, "0/4 good, 0/2 good")
	f.Bless(ID{0, 4})
	if err := f.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantStates(t, f, "0/4 good")
	wantNewest(t, openIn(t, dir, 1), ID{0, 4})
}

func TestClear(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, openIn(t, dir, 0), 2)
	f := openIn(t, dir, 1)
	wantNewest(t, f, ID{0, 2}) // and holds it
	mustWrite(t, f, 2)
	if f.Cleared() {
		t.Error("it is said to be cleared")
	}
	if err := f.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantStates(t, f, "")
	next := openIn(t, dir, 2, ID{1, 4})
	if !next.Cleared() {
		t.Error("the next attempt does not know")
	}
	wantNewest(t, next, ID{})
	if err := f.Clear(t.Context()); !errors.Is(err, ErrSuperseded) {
		t.Errorf("a cut-off attempt clears: %v", err)
	}
}

// What is not needed any more loses its name, which takes no time, and is deleted by
// what may go on beside, or by another process.
func TestDeletionsMayComeLater(t *testing.T) {
	for name, rest := range map[string]func(f *Folder, dir string) error{
		"beside":             func(f *Folder, _ string) error { return f.Rest()() },
		"by another process": func(_ *Folder, dir string) error { return RemoveTrash(t.Context(), dir, "17") },
		"by the next attempt": func(_ *Folder, dir string) error {
			o := optionsIn(dir)
			o.Attempt = 1
			f, err := Open(t.Context(), o)
			if err != nil {
				return err
			}
			return f.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := openIn(t, dir, 0)
			mustWrite(t, f, 3)
			images := func() (n int) {
				for _, name := range filesBelow(t, dir) {
					if filepath.Base(name) == "image.0" {
						n++
					}
				}
				return n
			}
			if err := f.Finish(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantStates(t, f, "0/3 good")
			if n := images(); n != 3 {
				t.Errorf("%d of 3 are there: the others are deleted before the step returns", n)
			}
			if err := rest(f, dir); err != nil {
				t.Fatal(err)
			}
			if n := images(); n != 1 {
				t.Errorf("%d are left", n)
			}
		})
	}
	if err := RemoveTrash(t.Context(), t.TempDir(), "17"); err != nil {
		t.Errorf("of no job: %v", err)
	}
}

// In a full folder the mark has room once the rest is gone.
func TestClearAFullFolder(t *testing.T) {
	f := openIn(t, t.TempDir(), 0)
	mustWrite(t, f, 2)
	full := true
	was := fsync
	defer func() { fsync = was }()
	fsync = func(file *os.File) error {
		if full && filepath.Base(file.Name()) == clearedName {
			full = false
			return syscall.ENOSPC
		}
		return was(file)
	}
	if err := f.Clear(t.Context()); err != nil || full || !f.Cleared() {
		t.Errorf("%v, cleared %v", err, f.Cleared())
	}
	wantStates(t, f, "")
}

func TestRemoveJob(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, openIn(t, dir, 0), 2)
	o := optionsIn(dir)
	o.Job = "18"
	other := openWith(t, o)
	mustWrite(t, other, 1)
	for _, name := range []string{"job-17/steps-0.json", "job-17/old-1-step-0/attempt-0/gen-1/image"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700), os.WriteFile(filepath.Join(dir, name), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveJob(t.Context(), dir, "17"); err != nil {
		t.Fatal(err)
	}
	if err := RemoveJob(t.Context(), dir, "17"); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if err := RemoveJob(t.Context(), dir, "../x"); err == nil {
		t.Error("what is no job's id is taken")
	}
	wantStates(t, other, "0/1 good")
	// What a kill leaves is deleted by the next.
	rest := filepath.Join(dir, goneTrash+"9-1")
	if err := os.MkdirAll(filepath.Join(rest, "step-0"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := RemoveRest(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range filesBelow(t, dir) {
		if !strings.HasPrefix(name, "job-18") {
			t.Errorf("left behind: %s", name)
		}
	}
}

func TestRemoveJobTakesNoLink(t *testing.T) {
	dir, away := t.TempDir(), t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(away, "x"), nil, 0o600), os.Symlink(away, filepath.Join(dir, "job-17"))); err != nil {
		t.Fatal(err)
	}
	if err := RemoveJob(t.Context(), dir, "17"); err == nil {
		t.Error("a link is taken for a job's folder")
	}
	if _, err := os.Stat(filepath.Join(away, "x")); err != nil {
		t.Error(err)
	}
}

// While burstd is away generations do not grow without end, and those stay from which
// another attempt may begin that is not to be seen yet.
func TestPruneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openIn(t, t.TempDir(), 0)
		alone := func() {
			t.Helper()
			if _, err := f.PruneAlone(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		mustWrite(t, f, 5)
		f.Bless(ID{0, 1})
		alone()
		wantStates(t, f, "0/5 good, 0/4 good, 0/3 good, 0/2 good, 0/1 good")
		time.Sleep(seenEverywhere + time.Second)
		mustWrite(t, f, 2)
		alone()
		wantStates(t, f, "0/7 good, 0/6 good, 0/5 good, 0/4 good, 0/1 good")
		time.Sleep(seenEverywhere + time.Second)
		alone()
		wantStates(t, f, "0/7 good, 0/6 good, 0/1 good")
	})
}

// An attempt that begins in a full folder knows what is late before it deletes anything.
func TestAFullFolderWithLateOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		mustWrite(t, openIn(t, dir, 0), 3)
		one := openIn(t, dir, 1)
		late(t, one, ID{0, 3}, ID{0, 4})
		late(t, one, ID{0, 3}, ID{0, 5})
		time.Sleep(seenEverywhere + time.Second)
		o := optionsIn(dir)
		o.Attempt = 2
		f, err := open(o, true)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		full := true
		f.fault = func(at string) error {
			if at == "attempt made" && full {
				full = false
				return syscall.ENOSPC
			}
			return nil
		}
		if err := f.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantNewest(t, f, ID{0, 3})
		wantStates(t, f, "0/3 good, 0/2 good")
	})
}
