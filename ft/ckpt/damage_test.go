package ckpt

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// One changed byte of any file, its loss, its growth: each is found, the
// generation is set aside with its reason, and the one before is taken.
func TestDamageIsFound(t *testing.T) {
	flip := func(name string) error {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text[len(text)/2] ^= 1
		return os.WriteFile(name, text, 0o600)
	}
	grow := func(name string) error {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString("x")
		return errors.Join(err, f.Close())
	}
	swap := func(make func(name string) error) func(string) error {
		return func(name string) error { return errors.Join(os.Remove(name), make(name)) }
	}
	for _, file := range []string{"image.0", "sub/image.1", manifestName, sumName} {
		for _, test := range []struct {
			name   string
			damage func(name string) error
		}{
			{"one byte", flip},
			{"cut short", func(name string) error { return os.Truncate(name, 1) }},
			{"empty", func(name string) error { return os.Truncate(name, 0) }},
			{"longer", grow},
			{"gone", os.Remove},
			{"a pipe", swap(func(name string) error { return syscall.Mkfifo(name, 0o600) })},
			{"a link", swap(func(name string) error { return os.Symlink("/etc/hostname", name) })},
			{"a folder", swap(func(name string) error { return os.Mkdir(name, 0o700) })},
		} {
			t.Run(file+" "+test.name, func(t *testing.T) {
				f := openIn(t, t.TempDir(), 0)
				g := mustWrite(t, f, 2)
				if err := test.damage(filepath.Join(g.Dir, file)); err != nil {
					t.Fatal(err)
				}
				var damage *DamageError
				if _, err := f.Verify(t.Context(), g.ID()); !errors.As(err, &damage) || damage.Dir != g.Dir {
					t.Errorf("Verify says %v", err)
				}
				c := wantNewest(t, f, ID{0, 1})
				if len(c.Passed) != 1 || c.Passed[0].State != Damaged || c.Passed[0].Why == nil {
					t.Errorf("passed over: %+v", c.Passed)
				}
				wantStates(t, f, "0/2 aside, 0/1 good")
				why, err := os.ReadFile(filepath.Join(g.Dir+badSuffix, whyName))
				if err != nil || !strings.Contains(string(why), "is damaged") {
					t.Errorf("the reason beside it: %q, %v", why, err)
				}
				if h := mustWrite(t, f, 1); h.N != 3 {
					t.Errorf("the next has number %d", h.N)
				}
			})
		}
	}
}

func TestAllDamaged(t *testing.T) {
	f := openIn(t, t.TempDir(), 0)
	for range 2 {
		if err := os.Truncate(filepath.Join(mustWrite(t, f, 1).Dir, "image.0"), 1); err != nil {
			t.Fatal(err)
		}
	}
	if c := wantNewest(t, f, ID{}); len(c.Passed) != 2 {
		t.Errorf("passed over: %+v", c.Passed)
	}
	wantStates(t, f, "0/2 aside, 0/1 aside")
}

// What cannot be read now is no damage: it stays, and is not taken for nothing.
func TestWhatCannotBeReadNow(t *testing.T) {
	f := openIn(t, t.TempDir(), 0)
	g := mustWrite(t, f, 2)
	f.free = func(*os.Root) (space, error) { return space{-1, -1}, nil }
	unreadable := errors.New("input/output error")
	for _, test := range []struct {
		name  string
		fails map[ID]bool
		want  ID
	}{
		{"the newest", map[ID]bool{{0, 2}: true}, ID{0, 1}},
		{"all", map[ID]bool{{0, 1}: true, {0, 2}: true}, ID{}},
		{"none", nil, ID{0, 2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f.read = func(id ID) error {
				if test.fails[id] {
					return unreadable
				}
				return nil
			}
			c, err := f.Newest(t.Context())
			if test.want == (ID{}) {
				if !errors.Is(err, unreadable) {
					t.Errorf("Newest says %v, and must not let the step begin anew", err)
				}
			} else if err != nil || c.From == nil || c.From.ID() != test.want {
				t.Errorf("it takes %v, %v", c.From, err)
			}
		})
	}
	f.read = func(ID) error { return nil }
	wantStates(t, f, "0/2 good, 0/1 good")
	wantNewest(t, f, g.ID())
}

// A step that does not start from one, whole as it is, is given the one before.
func TestOlder(t *testing.T) {
	f := openIn(t, t.TempDir(), 0)
	g := mustWrite(t, f, 3)
	wantNewest(t, f, g.ID())
	if err := os.WriteFile(filepath.Join(filepath.Dir(g.Dir), "gen-2", "image.0"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := f.Older(t.Context(), g.ID())
	if err != nil || c.From == nil || c.From.ID() != (ID{0, 1}) || len(c.Passed) != 1 {
		t.Errorf("before the newest there is %+v, %v", c, err)
	}
	if c, err = f.Older(t.Context(), ID{0, 1}); err != nil || c.From != nil {
		t.Errorf("before the first there is %+v, %v", c, err)
	}
	wantStates(t, f, "0/3 good, 0/2 aside, 0/1 good")
}

func TestVerifyEndsWithItsContext(t *testing.T) {
	f := openIn(t, t.TempDir(), 0)
	g := mustWrite(t, f, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Verify(ctx, g.ID()); !errors.Is(err, context.Canceled) {
		t.Errorf("Verify says %v", err)
	}
	if _, err := f.Newest(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Newest says %v", err)
	}
	wantStates(t, f, "0/1 good")
}

func TestGoneIsNotDamaged(t *testing.T) {
	f := openIn(t, t.TempDir(), 0)
	_, err := f.Verify(t.Context(), ID{0, 9})
	var damage *DamageError
	if errors.As(err, &damage) || !errors.Is(err, errGone) {
		t.Errorf("Verify of what another process has deleted says %v", err)
	}
}

// Neither sealing nor verifying reads a file whole into memory.
func TestBigFilesInLittleMemory(t *testing.T) {
	size, limit := int64(64<<20), uint64(16<<20)
	f := openIn(t, t.TempDir(), 0)
	p, err := f.Begin(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		file, err := os.Create(filepath.Join(p.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(file.Truncate(size), file.Close()); err != nil { // sparse
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	g, err := p.Commit(t.Context(), About{Method: "signal"})
	if err == nil {
		_, err = f.Verify(t.Context(), g.ID())
	}
	runtime.ReadMemStats(&after)
	if err != nil || g.Bytes() != 2*size {
		t.Fatal(g.Bytes(), err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > limit {
		t.Errorf("%d MB were allocated for files of %d MB", used>>20, 2*size>>20)
	}
}

func FuzzManifest(f *testing.F) {
	m := goodManifest()
	text, _, err := m.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	for _, s := range []string{"", "{}", "null", `{"format":1,"n":1,"method":"m","files":[{"name":"../x"}]}`, string(text) + "{}",
		strings.Replace(string(text), "a/b", "/etc/passwd", 1), strings.Replace(string(text), "a/b", "a/../../b", 1),
		strings.Replace(string(text), `"size": 3`, `"size": 9223372036854775807`, 1), strings.Replace(string(text), `"n": 1`, `"n": 1e400`, 1)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseManifest(text)
		if err != nil {
			return
		}
		for _, file := range m.Files {
			if !fs.ValidPath(file.Name) || file.Name == "." || strings.HasPrefix(filepath.Clean(filepath.Join("/gen", file.Name)), "/gen/") == false {
				t.Errorf("file %q leads out", file.Name)
			}
		}
		if (Generation{Manifest: m}).Bytes() < 0 {
			t.Error("its size overflows")
		}
		again, _, err := m.encode()
		if err != nil {
			t.Fatalf("what was read is not written: %v", err)
		}
		if _, err := parseManifest(again); err != nil {
			t.Errorf("what was written is not read: %v", err)
		}
	})
}
