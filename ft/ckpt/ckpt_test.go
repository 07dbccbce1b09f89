package ckpt

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var here = Machine{Arch: "amd64", Features: []string{"avx2"}, Glibc: "2.36", Kernel: "6.1.0"}

// optionsIn is job 17's step 0 in dir.
func optionsIn(dir string) Options {
	return Options{Dir: dir, Cluster: "c1", Job: "17", Step: "0", Reserve: 1}
}

// openIn opens an attempt of it.
func openIn(t *testing.T, dir string, attempt int, blessed ...ID) *Folder {
	t.Helper()
	o := optionsIn(dir)
	o.Attempt = attempt
	if len(blessed) > 0 {
		o.Blessed = &blessed[0]
	}
	return openWith(t, o)
}

func openWith(t *testing.T, o Options) *Folder {
	t.Helper()
	f, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// write makes one generation with these files, name and text by turns.
func write(ctx context.Context, f *Folder, files ...string) (Generation, error) {
	p, err := f.Begin(ctx, 0)
	if err != nil {
		return Generation{}, err
	}
	for i := 0; i+1 < len(files); i += 2 {
		name := filepath.Join(p.Dir, files[i])
		err = errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(files[i+1]), 0o640))
	}
	var g Generation
	if err == nil {
		g, err = p.Commit(ctx, About{Made: Made{Tool: "test 1", Ranks: 2, Iteration: 10}, Method: "signal", Nodes: 1, Machine: here})
	}
	return g, errors.Join(err, p.Abandon())
}

// mustWrite makes n generations, and returns the last.
func mustWrite(t *testing.T, f *Folder, n int) Generation {
	t.Helper()
	var g Generation
	for range n {
		var err error
		if g, err = write(t.Context(), f, "image.0", "zero "+t.Name(), "sub/image.1", "one"); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// states of all that is there, newest first: "0/2 good".
func states(t *testing.T, f *Folder) string {
	t.Helper()
	all, err := f.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, e := range all {
		if (e.Why == nil) != (e.State == Good) {
			t.Errorf("%s is %s: %v", e.ID, e.State, e.Why)
		}
		words = append(words, short(e.ID)+" "+string(e.State))
	}
	return strings.Join(words, ", ")
}

func short(id ID) string {
	return strings.NewReplacer("attempt-", "", "gen-", "").Replace(dirOf(id))
}

func wantStates(t *testing.T, f *Folder, want string) {
	t.Helper()
	if got := states(t, f); got != want {
		t.Errorf("there is %q, want %q", got, want)
	}
}

// wantNewest checks what a restart takes; the zero ID: nothing.
func wantNewest(t *testing.T, f *Folder, want ID) Choice {
	t.Helper()
	c, err := f.Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := ID{}
	if c.From != nil {
		got = c.From.ID()
	}
	if got != want {
		t.Errorf("a restart takes %s, want %s; passed over: %v", short(got), short(want), c.Passed)
	}
	return c
}

// filesBelow lists all files and folders of a directory, sorted.
func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && name != dir {
			names = append(names, strings.TrimPrefix(name, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
