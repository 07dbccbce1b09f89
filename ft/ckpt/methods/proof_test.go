package methods

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// at is a file's state: inode, size, and seconds of its last write and change.
func at(name string, ino uint64, size, mtime, ctime int64) seen {
	return seen{name: name, ino: ino, size: size, mtime: time.Unix(mtime, 0), ctime: time.Unix(ctime, 0)}
}

func TestProof(t *testing.T) {
	old := at("a", 1, 9, 10, 10)
	for name, c := range map[string]struct {
		before, now look
		missing     string
		renamed     bool
	}{
		"nothing there":            {look{"a": nil}, look{"a": nil}, "no file matches a", false},
		"the old file":             {look{"a": {old}}, look{"a": {old}}, "not written since the signal", false},
		"the first file":           {look{"a": nil}, look{"a": {old}}, "", false},
		"written over":             {look{"a": {old}}, look{"a": {at("a", 1, 9, 11, 11)}}, "", false},
		"replaced by rename":       {look{"a": {old}}, look{"a": {at("a", 2, 9, 11, 12)}}, "", true},
		"deleted and written anew": {look{"a": {old}}, look{"a": {at("a", 2, 9, 11, 11)}}, "", false},
		"cut to nothing":           {look{"a": {old}}, look{"a": {at("a", 1, 0, 11, 11)}}, "a is empty", false},
		"deleted":                  {look{"a": {old}}, look{"a": nil}, "no file matches a", false},
		"a copy of the old kept":   {look{"a*": {old}}, look{"a*": {old, at("a.old", 2, 9, 9, 11)}}, "not written since the signal", false},
		"the old one moved aside":  {look{"a*": {old}}, look{"a*": {at("a.old", 1, 9, 10, 11)}}, "not written since the signal", false},
		"moved aside, and a new": {look{"a*": {old}}, look{"a*": {at("a", 2, 9, 11, 11), at("a.old", 1, 9, 10, 11)}}, "",
			false},
		"one of two": {look{"a": {old}, "b": {at("b", 5, 9, 10, 10)}}, look{"a": {at("a", 2, 9, 11, 12)}, "b": {at("b", 5, 9, 10, 10)}},
			"b was not written", true},
		"same second, other size": {look{"a": {old}}, look{"a": {at("a", 1, 8, 10, 10)}}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := missing(c.before, c.now); c.missing == "" && got != "" || !strings.Contains(got, c.missing) {
				t.Errorf("missing: %q, want %q", got, c.missing)
			}
			if got := renamed(c.before, c.now); got != c.renamed {
				t.Errorf("renamed: %v", got)
			}
		})
	}
}

// writeFiles makes files with what they hold; a name with a slash at its end is a folder.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil && !strings.HasSuffix(name, "/") {
			err = os.WriteFile(path, []byte(text), 0o640)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestLookAt(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	writeFiles(t, dir, map[string]string{"out/1.ckpt": "1", "out/2.ckpt": "2", "out/2.log": "", "deep/a/b": "b", "deep/c": "c", "empty/": "",
		probeName + "1": "x", restorePrefix + "out-1": "x"})
	writeFiles(t, other, map[string]string{"x/y": "y"})
	if err := os.Symlink(".", filepath.Join(dir, "deep/round")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("out/1.ckpt", filepath.Join(dir, "latest")); err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string][]string{
		"out/*.ckpt": {"out/1.ckpt", "out/2.ckpt"},
		"out":        {"out/1.ckpt", "out/2.ckpt", "out/2.log"},
		"deep":       {"deep/a/b", "deep/c"},
		"latest":     {"latest"},
		"empty":      nil,
		"missing/*":  nil,
		".*":         nil,
		other + "/*": {other + "/x/y"},
	} {
		l, err := lookAt(dir, []string{pattern})
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
		var got []string
		for _, f := range l.files() {
			got = append(got, f.name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", pattern, got, want)
		}
	}
}

// keptFrom makes a generation of what the patterns match.
func keptFrom(t *testing.T, dir string, extra map[string]string, patterns ...string) *ckpt.Generation {
	t.Helper()
	l, err := lookAt(dir, patterns)
	if err != nil {
		t.Fatal(err)
	}
	g := &ckpt.Generation{Dir: t.TempDir(), Manifest: ckpt.Manifest{Extra: extra}}
	if err := keep(t.Context(), dir, g.Dir, l.files()); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestPutBack(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	writeFiles(t, dir, map[string]string{"out/1": "one", "out/2": "two"})
	writeFiles(t, other, map[string]string{"abs": "absolute"})
	g := keptFrom(t, dir, nil, "out/*", other+"/abs")
	mtime := timeOf(t, filepath.Join(dir, "out/1"))
	writeFiles(t, dir, map[string]string{"out/1": "ONE", "out/3": "three", "out/" + restorePrefix + "1-5": "cut off"})
	if err := errors.Join(os.Remove(filepath.Join(dir, "out/2")), os.Remove(filepath.Join(other, "abs"))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := new(signalMethod).putBack(t.Context(), dir, g); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]string{dir + "/out/1": "one", dir + "/out/2": "two", dir + "/out/3": "three", other + "/abs": "absolute"} {
			if text, err := os.ReadFile(path); err != nil || string(text) != want {
				t.Errorf("%s: %q, %v; want %q", path, text, err, want)
			}
		}
	}
	if st, err := os.Stat(filepath.Join(dir, "out/1")); err != nil || st.Mode().Perm() != 0o640 || !st.ModTime().Equal(mtime) {
		t.Errorf("mode %v, time %v: not as they were: %v", st.Mode(), st.ModTime(), err)
	}
	if left, err := filepath.Glob(dir + "/out/.*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func timeOf(t *testing.T, path string) time.Time {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.ModTime()
}

func TestPutBackWantsItsOwn(t *testing.T) {
	dir := t.TempDir()
	g := &ckpt.Generation{Dir: t.TempDir()}
	writeFiles(t, g.Dir, map[string]string{"ckpt_app.dmtcp": "x"})
	if err := new(signalMethod).putBack(t.Context(), dir, g); err == nil || !strings.Contains(err.Error(), "holds no files") {
		t.Errorf("another's files: %v", err)
	}
	writeFiles(t, g.Dir, map[string]string{noteName: "by exit code"})
	if err := new(signalMethod).putBack(t.Context(), dir, g); err != nil {
		t.Errorf("the application keeps its own: %v", err)
	}
}

// What is younger than the generation stays where it is surely whole.
func TestPutBackLeavesYounger(t *testing.T) {
	byRename := map[string]string{extraWrites: writesByRename}
	later := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		files map[string]string
		extra map[string]string
		exact bool
		now   string
		at    time.Time
		want  string
	}{
		"one by rename":            {map[string]string{"a": "old"}, byRename, false, "young", later, "young"},
		"in a rehearsal":           {map[string]string{"a": "old"}, byRename, true, "young", later, "old"},
		"written over":             {map[string]string{"a": "old"}, nil, false, "young", later, "old"},
		"one of two":               {map[string]string{"a": "old", "b": "old"}, byRename, false, "young", later, "old"},
		"empty":                    {map[string]string{"a": "old"}, byRename, false, "", later, "old"},
		"older, of an attempt cut": {map[string]string{"a": "old"}, byRename, false, "older", time.Unix(1e9, 0), "old"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeFiles(t, dir, c.files)
			g := keptFrom(t, dir, c.extra, "*")
			writeFiles(t, dir, map[string]string{"a": c.now})
			if err := os.Chtimes(filepath.Join(dir, "a"), c.at, c.at); err != nil {
				t.Fatal(err)
			}
			if err := (&signalMethod{exact: c.exact}).putBack(t.Context(), dir, g); err != nil {
				t.Fatal(err)
			}
			if text, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(text) != c.want {
				t.Errorf("%q, %v; want %q", text, err, c.want)
			}
		})
	}
}

// A file that changes between the look and the copy is not kept.
func TestKeepNoticesChange(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"a": "first"})
	l, err := lookAt(dir, []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, dir, map[string]string{"a": "second, longer"})
	if err := keep(t.Context(), dir, t.TempDir(), l.files()); !errors.Is(err, errChanged) {
		t.Errorf("changed: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if err := keep(t.Context(), dir, t.TempDir(), l.files()); !errors.Is(err, errChanged) {
		t.Errorf("gone: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	writeFiles(t, dir, map[string]string{"a": "x"})
	if err := keep(ctx, dir, t.TempDir(), l.files()); !errors.Is(err, context.Canceled) {
		t.Errorf("too late: %v", err)
	}
}

func TestFateOf(t *testing.T) {
	const usr1 = "0000000000000200"
	none := "0000000000000000"
	status := func(blocked, ignored, caught string) string {
		return "Name:\tapp\nSigQ:\t0/1\nSigBlk:\t" + blocked + "\nSigIgn:\t" + ignored + "\nSigCgt:\t" + caught + "\n"
	}
	for name, c := range map[string]struct {
		status string
		want   fate
	}{
		"a handler":       {status(none, none, usr1), served},
		"a thread waits":  {status(usr1, none, none), blocked},
		"a shell forks":   {"State:\tD (disk sleep)\n" + status(usr1, none, none), byDefault},
		"nothing":         {status(none, none, none), byDefault},
		"ignored":         {status(none, usr1, none), ignored},
		"another signal":  {status("0000000000000100", "0000000000000400", "ffffffff00000000"), byDefault},
		"no such process": {"", served},
		"not a mask":      {"SigCgt:\tx\n", byDefault},
	} {
		if got := fateOf(c.status, syscall.SIGUSR1); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// FuzzIteration: whatever an application writes, its iteration is one or is not known.
func FuzzIteration(f *testing.F) {
	f.Add("heat: checkpoint at iteration 400 (SIGUSR1), 0.1 s\n")
	f.Add("checkpoint, iteration 99999999999999999999\n")
	f.Add("Checkpoint of step\n7")
	log := filepath.Join(f.TempDir(), "log")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if n := lastNumber(log); n < -1 {
			t.Errorf("%d of %q", n, text)
		}
	})
}

func TestIteration(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		"heat.out": "heat: checkpoint at iteration 20 (SIGUSR1)\nheat: iteration 30\nheat: checkpoint at iteration 40 (every), 0.1 s\nheat: iteration 50\n",
		"md.log":   "checkpoint at step 7\n" + strings.Repeat("x", 2*iterationTail) + "\nno more",
		"none":     "nothing",
		"files":    "writing checkpoint 3 of 4\nsteps: 5\n",
		"steps":    "wrote Checkpoint run.8, step=8\n",
	})
	for file, want := range map[string]int64{"heat.out": 40, "md.log": -1, "none": -1, "missing": -1, "": -1, "files": -1, "steps": 8} {
		if got := lastNumber(filepath.Join(dir, file)); got != want {
			t.Errorf("%s: %d, want %d", file, got, want)
		}
	}
}
