package ckpt

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestGenerationIsKept(t *testing.T) {
	dir := t.TempDir()
	f := openIn(t, dir, 0)
	wantNewest(t, f, ID{})
	g, err := write(t.Context(), f, "a", "alpha", "deep/er/b", "beta", "empty", "")
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "job-17/step-0/attempt-0/gen-1"); g.Dir != want {
		t.Errorf("it is in %s, want %s", g.Dir, want)
	}
	wantStates(t, f, "0/1 good")
	got := wantNewest(t, f, ID{0, 1}).From
	if got.Bytes() != 9 || len(got.Files) != 3 || got.Files[1].Name != "deep/er/b" || got.Files[1].Mode != 0o640 {
		t.Errorf("its files are %+v", got.Files)
	}
	if got.Method != "signal" || got.Tool != "test 1" || got.Iteration != 10 || got.Job != "17" || got.Cluster != "c1" || got.Machine.Glibc != "2.36" {
		t.Errorf("its manifest is %+v", got.Manifest)
	}
	if names := filesBelow(t, g.Dir); !slices.Equal(names, []string{"a", "deep", "deep/er", "deep/er/b", "empty", "manifest.json", "manifest.sha256"}) {
		t.Errorf("in the folder there are %q", names)
	}
}

func TestAGenerationWithoutFiles(t *testing.T) {
	f := openIn(t, t.TempDir(), 0)
	if _, err := write(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	wantNewest(t, f, ID{0, 1})
}

func TestModesAreKept(t *testing.T) {
	f := openIn(t, t.TempDir(), 0)
	p, err := f.Begin(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(p.Dir, "run")
	if err := errors.Join(os.WriteFile(name, []byte("#!"), 0o600), os.Chmod(name, 0o751)); err != nil {
		t.Fatal(err)
	}
	g, err := p.Commit(t.Context(), About{Method: "command"})
	if err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(g.Dir, "run")
	if err := os.Chmod(name, 0o600); err != nil {
		t.Fatal(err)
	}
	wantNewest(t, f, g.ID())
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("after a restart's check its mode is %v, %v", info.Mode(), err)
	}
}

func TestOneWriterAtATime(t *testing.T) {
	dir := t.TempDir()
	f, g := openIn(t, dir, 0), openIn(t, dir, 0)
	p, err := f.Begin(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Begin(t.Context(), 0); !errors.Is(err, ErrBusy) {
		t.Errorf("a second writer hears %v", err)
	}
	openIn(t, dir, 0) // tidies, and must not take the live one
	wantStates(t, f, "0/1 unfinished")
	if err := p.Abandon(); err != nil {
		t.Fatal(err)
	}
	wantStates(t, f, "")
	if _, err := p.Commit(t.Context(), About{Method: "signal"}); err == nil {
		t.Error("an abandoned one is committed")
	}
	mustWrite(t, g, 1)
}

func TestCommitRefuses(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(dir string) error
		err  string
	}{
		{"link", func(d string) error { return os.Symlink("/etc/passwd", filepath.Join(d, "l")) }, `"l" is no regular file but a symbolic link`},
		{"pipe", func(d string) error { return syscall.Mkfifo(filepath.Join(d, "p"), 0o600) }, `"p" is no regular file but a pipe`},
		{"our name", func(d string) error { return os.WriteFile(filepath.Join(d, manifestName), nil, 0o600) }, "kept for Burst's own"},
		{"not UTF-8", func(d string) error { return os.WriteFile(filepath.Join(d, "a\xff"), nil, 0o600) }, "not UTF-8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := openIn(t, t.TempDir(), 0)
			mustWrite(t, f, 1)
			p, err := f.Begin(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := test.do(p.Dir); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Commit(t.Context(), About{Method: "signal"}); err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("Commit says %v, want %s", err, test.err)
			}
			if err := p.Abandon(); err != nil {
				t.Fatal(err)
			}
			wantStates(t, f, "0/1 good")
		})
	}
}

// A file that changes between the two walks was still being written.
func TestCommitSeesAWriterThatGoesOn(t *testing.T) {
	file := func(name string, size int64, at int) seen {
		return seen{File{Name: name, Size: size}, time.Unix(int64(at), 0)}
	}
	a := file("a", 1, 1)
	for _, test := range []struct {
		name  string
		after []seen
		err   string
	}{
		{"nothing", []seen{a}, ""},
		{"grew", []seen{file("a", 2, 1)}, `"a": it is still being written`},
		{"changed", []seen{file("a", 1, 2)}, `"a": it is still being written`},
		{"a new one", []seen{a, file("b", 1, 1)}, `"b": it is still being written`},
		{"gone", nil, `"a": it went while the checkpoint was being sealed`},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := sameFiles([]seen{a}, test.after)
			if got := errText(err); got != test.err {
				t.Errorf("%q, want %q", got, test.err)
			}
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestOptionsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	for name, change := range map[string]func(*Options){
		"no directory":   func(o *Options) { o.Dir = "" },
		"job leads out":  func(o *Options) { o.Job = "../1" },
		"dots":           func(o *Options) { o.Step = ".." },
		"slash":          func(o *Options) { o.Step = "a/b" },
		"no job":         func(o *Options) { o.Job = "" },
		"long":           func(o *Options) { o.Step = strings.Repeat("a", 101) },
		"attempt":        func(o *Options) { o.Attempt = -1 },
		"keep":           func(o *Options) { o.Keep = -1 },
		"reserve":        func(o *Options) { o.Reserve = -1 },
		"blessed":        func(o *Options) { o.Blessed = &ID{-1, 0} },
		"newline in job": func(o *Options) { o.Job = "1\n2" },
	} {
		t.Run(name, func(t *testing.T) {
			o := optionsIn(dir)
			change(&o)
			if f, err := Open(t.Context(), o); err == nil {
				f.Close()
				t.Error("it is opened")
			}
		})
	}
	if names := filesBelow(t, dir); len(names) != 0 {
		t.Errorf("left behind: %q", names)
	}
}

func TestHostileFolders(t *testing.T) {
	step := func(d string) string { return filepath.Join(d, "job-17", "step-0") }
	for _, test := range []struct {
		name string
		make func(dir, other string) error
		err  string
	}{
		{"the job's folder is a link", func(d, o string) error { return os.Symlink(o, filepath.Join(d, "job-17")) }, "is not a folder"},
		{"the step's folder is a link", func(d, o string) error {
			return errors.Join(os.Mkdir(filepath.Join(d, "job-17"), 0o700), os.Symlink(o, step(d)))
		}, "is not a folder"},
		{"a pipe", func(d, _ string) error { return syscall.Mkfifo(filepath.Join(d, "job-17"), 0o600) }, "is not a folder"},
		{"others may write", func(d, _ string) error {
			return errors.Join(os.MkdirAll(step(d), 0o700), os.Chmod(filepath.Join(d, "job-17"), 0o777))
		}, "others may write"},
		{"another's", func(d, _ string) error {
			return errors.Join(os.MkdirAll(step(d), 0o700), os.Chown(step(d), 12345, 12345))
		}, "belongs to user 12345"},
		{"a record that is none", func(d, _ string) error {
			a := filepath.Join(step(d), "attempt-0")
			return errors.Join(os.MkdirAll(a, 0o700), os.WriteFile(filepath.Join(a, begunName), []byte("{"), 0o600))
		}, "delete it to use all that is there"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.name == "another's" && os.Geteuid() != 0 {
				t.Skip("NOT TESTED: another user's folder needs root")
			}
			dir, other := t.TempDir(), t.TempDir()
			if err := test.make(dir, other); err != nil {
				t.Fatal(err)
			}
			f, err := Open(t.Context(), optionsIn(dir))
			if err == nil {
				f.Close()
			}
			if !strings.Contains(errText(err), test.err) {
				t.Errorf("Open says %v, want %q", err, test.err)
			}
			if names := filesBelow(t, other); len(names) != 0 {
				t.Errorf("written elsewhere: %q", names)
			}
		})
	}
}

// Nothing in a step's folder makes a list hang, or lead out of it.
func TestListBearsAnything(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	f := openIn(t, dir, 3)
	mustWrite(t, f, 1)
	at := func(name string) string { return filepath.Join(f.Path(), name) }
	err := errors.Join(
		syscall.Mkfifo(at("attempt-1"), 0o600),
		os.Symlink(other, at("attempt-2")),
		os.Symlink("attempt-3", at("attempt-0")),
		os.Mkdir(at("attempt-99999999999999999999"), 0o700),
		os.Mkdir(at("attempt-3/gen-01"), 0o700),
		os.Mkdir(at("attempt-3/gen-0"), 0o700),
		os.Mkdir(at("attempt-3/gen-5.part.bad"), 0o700),
		os.Mkdir(at("attempt-3/gen-6"), 0o700),
		syscall.Mkfifo(at("attempt-3/gen-7"), 0o600),
		os.Mkdir(at("attempt-3/gen-8"), 0o700),
		syscall.Mkfifo(at("attempt-3/gen-8/"+manifestName), 0o600),
		os.WriteFile(at("attempt-3/gen-9"), nil, 0o600),
		os.CopyFS(at("attempt-3/gen-10"), os.DirFS(at("attempt-3/gen-1"))), // says that it is gen 1
		os.Mkdir(at("attempt-3/gen-11"), 0o700),
	)
	if err != nil {
		t.Fatal(err)
	}
	huge, err := os.Create(at("attempt-3/gen-11/" + manifestName))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(huge.Truncate(1<<40), huge.Close(), os.WriteFile(at("attempt-3/gen-11/"+sumName), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	wantStates(t, f, "3/11 damaged, 3/10 damaged, 3/9 damaged, 3/8 damaged, 3/7 damaged, 3/6 damaged, 3/1 good")
	wantNewest(t, f, ID{3, 1})
	wantStates(t, f, "3/11 aside, 3/10 aside, 3/9 aside, 3/8 aside, 3/7 aside, 3/6 aside, 3/1 good")
}
