package ckpt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// withFree makes the file system say that so much is free.
func withFree(f *Folder, free func() int64) {
	f.free = func(*os.Root) (space, error) { return space{free(), -1}, nil }
}

func TestNoRoomIsSeenBefore(t *testing.T) {
	dir := t.TempDir()
	o := optionsIn(dir)
	o.Reserve = 1000
	f := openWith(t, o)
	if _, err := write(t.Context(), f, "a", strings.Repeat("x", 800)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name         string
		free, expect int64
		fits         bool
	}{
		{"the last one's size, an eighth and the reserve", 1900, 0, true},
		{"a byte less", 1899, 0, false},
		{"the method expects more", 1900, 901, false},
		{"the method expects less", 1900, 1, true},
		{"the file system does not say", -1, 0, true},
		{"nothing", 0, 0, false},
		{"an expectation that overflows", 1 << 62, 1<<63 - 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			withFree(f, func() int64 { return test.free })
			before := filesBelow(t, dir)
			p, err := f.Begin(t.Context(), test.expect)
			if test.fits {
				if err != nil {
					t.Fatal(err)
				}
				if err := p.Abandon(); err != nil {
					t.Fatal(err)
				}
				return
			}
			var full *SpaceError
			if !errors.As(err, &full) || full.Free != test.free || full.Need < 1900 {
				t.Errorf("Begin says %v", err)
			}
			if after := filesBelow(t, dir); len(after) != len(before) {
				t.Errorf("it has written: %q", after)
			}
		})
	}
}

func TestNoMoreFiles(t *testing.T) {
	f := openIn(t, t.TempDir(), 0)
	f.free = func(*os.Root) (space, error) { return space{1 << 40, 3}, nil }
	if _, err := f.Begin(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "room for 3 more files") {
		t.Errorf("Begin says %v", err)
	}
}

// Only what is not kept anyway goes to make room, and burstd has no need of.
func TestRoomIsMade(t *testing.T) {
	f := openIn(t, t.TempDir(), 0)
	mustWrite(t, f, 4)
	withFree(f, func() int64 { return 0 })
	if _, err := f.Begin(t.Context(), 0); err == nil {
		t.Error("there is no room")
	}
	wantStates(t, f, "0/4 good, 0/3 good, 0/2 good, 0/1 good")
	f.Bless(ID{0, 3})
	withFree(f, func() int64 {
		if all, err := f.contents(0); err != nil || len(all.whole) > 2 {
			return 0
		}
		return 1 << 20
	})
	mustWrite(t, f, 1)
	wantStates(t, f, "0/5 good, 0/4 good, 0/3 good")
	withFree(f, func() int64 { return 0 })
	var full *SpaceError
	if _, err := f.Begin(t.Context(), 0); !errors.As(err, &full) {
		t.Errorf("Begin says %v", err)
	}
	wantStates(t, f, "0/5 good, 0/4 good, 0/3 good")
}

// The file system fills up at each point of the way.
func TestFullOnTheWay(t *testing.T) {
	for _, errno := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		for _, point := range []string{"part made", "sealed", "sum written", "manifest written"} {
			t.Run(fmt.Sprint(point, " ", errno), func(t *testing.T) {
				dir := t.TempDir()
				f := openIn(t, dir, 0)
				last := mustWrite(t, f, 2)
				before := filesBelow(t, dir)
				f.fault = func(at string) error {
					if at == point {
						return &os.PathError{Op: "write", Path: "x", Err: errno}
					}
					return nil
				}
				_, err := write(t.Context(), f, "a", "b")
				var full *SpaceError
				if !errors.As(err, &full) || !errors.Is(err, errno) || full.Free < 0 {
					t.Errorf("it says %v", err)
				}
				f.fault = func(string) error { return nil }
				f = openIn(t, dir, 0)
				wantNewest(t, f, last.ID())
				if after := filesBelow(t, dir); len(after) != len(before) {
					t.Errorf("left behind: %q", after)
				}
				mustWrite(t, f, 1)
			})
		}
	}
}

func TestSpaceErrorTells(t *testing.T) {
	err := error(&SpaceError{"/scratch/job-17", 3 << 30, 1 << 20, syscall.EDQUOT})
	for _, word := range []string{"/scratch/job-17", "3.0 GiB", "1.0 MiB", "quota", "dir="} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %s", err, word)
		}
	}
}

// A real file system that is full: root mounts a small one.
func TestFullFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("burst-test", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("NOT TESTED on a file system that is really full: mounting a tmpfs needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	o := optionsIn(dir)
	f := openWith(t, o)
	big := strings.Repeat("x", 1<<20)
	for range 2 {
		if _, err := write(t.Context(), f, "image", big); err != nil {
			t.Fatal(err)
		}
	}
	p, err := f.Begin(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var werr error
	for i := 0; werr == nil; i++ { // the method fills it
		werr = os.WriteFile(filepath.Join(p.Dir, fmt.Sprint(i)), []byte(big), 0o600)
	}
	if !errors.Is(werr, syscall.ENOSPC) {
		t.Fatal(werr)
	}
	var full *SpaceError
	if err := p.Explain(errors.New("dmtcp: exit status 99")); !errors.As(err, &full) || !strings.Contains(full.Error(), "full") {
		t.Errorf("a tool that fails without a word becomes %v", err)
	}
	if _, err := p.Commit(t.Context(), About{Method: "dmtcp"}); !errors.As(err, &full) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Commit says %v", err)
	}
	// Another process finds all as it was, on the full file system too.
	wantNewest(t, openIn(t, dir, 0), ID{0, 2})
	if err := p.Abandon(); err != nil {
		t.Fatal(err)
	}
	wantNewest(t, f, ID{0, 2})
	if _, err := write(t.Context(), f, "image", "small"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Begin(t.Context(), 3<<20); !errors.As(err, &full) {
		t.Errorf("Begin says %v", err)
	}
	wantNewest(t, f, ID{0, 3})
}

// A step restarts in a full folder too: what is not kept anyway makes room for the
// new attempt's record, and if there is none the restart fails in clear words.
func TestBeginningInAFullFolder(t *testing.T) {
	for _, test := range []struct {
		name  string
		times int
		want  string
	}{
		{"pruning helps", 1, "0/4 good, 0/3 good"},
		{"nothing helps", 99, "0/4 good, 0/3 good"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			mustWrite(t, openIn(t, dir, 0), 4)
			o := optionsIn(dir)
			o.Attempt, o.Blessed = 1, &ID{0, 4}
			f, err := open(o, true)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			f.fault = func(at string) error {
				if test.times--; at == "attempt made" && test.times >= 0 {
					return syscall.ENOSPC
				}
				return nil
			}
			err = f.begin(t.Context())
			var full *SpaceError
			if failed := test.times > 0; errors.As(err, &full) != failed || !failed && err != nil {
				t.Errorf("beginning says %v", err)
			}
			wantStates(t, f, test.want)
			f.fault = func(string) error { return nil }
			wantNewest(t, openIn(t, dir, 1), ID{0, 4})
		})
	}
}

// TestCommitAgain: what could not be kept, for want of room or anything else, is kept
// by another try.
func TestCommitAgain(t *testing.T) {
	for _, at := range []string{"sealed", "sum written", "manifest written"} {
		f := openIn(t, t.TempDir(), 0)
		p, err := f.Begin(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(p.Dir, "image"), []byte("all the work"), 0o600); err != nil {
			t.Fatal(err)
		}
		f.fault = func(now string) error {
			if now == at {
				return syscall.ENOSPC
			}
			return nil
		}
		if _, err := p.Commit(t.Context(), About{Method: "m"}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", at, err)
		}
		f.fault = func(string) error { return nil }
		g, err := p.Commit(t.Context(), About{Method: "m"})
		if err != nil || len(g.Files) != 1 {
			t.Errorf("%s: %v, %+v", at, err, g.Files)
		}
		wantNewest(t, f, g.ID())
	}
}
