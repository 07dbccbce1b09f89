package ckpt

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

func TestALaterAttemptSupersedes(t *testing.T) {
	dir := t.TempDir()
	old := openIn(t, dir, 0)
	mustWrite(t, old, 2)
	half, err := old.Begin(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	next := openIn(t, dir, 1, ID{0, 2})
	for name, err := range map[string]error{
		"Commit": second(half.Commit(t.Context(), About{Method: "signal"})),
		"Begin":  second(old.Begin(t.Context(), 0)),
		"Newest": second(old.Newest(t.Context())),
		"Prune":  second(old.Prune(t.Context())),
		"Open":   second(Open(t.Context(), optionsIn(dir))),
	} {
		if !errors.Is(err, ErrSuperseded) {
			t.Errorf("%s of the cut-off attempt says %v", name, err)
		}
	}
	if err := half.Abandon(); err != nil {
		t.Fatal(err)
	}
	wantStates(t, next, "0/2 good, 0/1 good")
	wantNewest(t, next, ID{0, 2})
}

func second[T any](_ T, err error) error { return err }

// late copies generation from of the attempt to n, as a cut-off node does that
// does not know of the later attempt.
func late(t *testing.T, f *Folder, from, to ID) {
	t.Helper()
	src, dst := filepath.Join(f.Path(), dirOf(from)), filepath.Join(f.Path(), dirOf(to))
	m, err := readManifest(f.root, dirOf(from))
	if err != nil {
		t.Fatal(err)
	}
	m.N = to.N
	text, sum, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.CopyFS(dst, os.DirFS(src)), os.WriteFile(filepath.Join(dst, manifestName), text, 0o600), os.WriteFile(filepath.Join(dst, sumName), sum, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// The picture in begin.go, in each way of knowing what is blessed.
func TestWhatACutOffAttemptWritesIsNeverTaken(t *testing.T) {
	for _, test := range []struct {
		name    string
		blessed []ID
	}{{"blessed", []ID{{0, 4}}}, {"burstd is away", nil}} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			o := optionsIn(dir)
			first := openWith(t, o)
			mustWrite(t, first, 4)
			one := openIn(t, dir, 1, test.blessed...)
			late(t, one, ID{0, 4}, ID{0, 5})
			late(t, one, ID{0, 4}, ID{0, 6})
			wantNewest(t, one, ID{0, 4})
			wantStates(t, one, "0/6 late, 0/5 late, 0/4 good, 0/3 good, 0/2 good, 0/1 good")
			// A damaged one is late first: nothing makes it count again.
			if err := os.Truncate(filepath.Join(one.Path(), "attempt-0/gen-6/image.0"), 0); err != nil {
				t.Fatal(err)
			}
			wantNewest(t, one, ID{0, 4})
			wantStates(t, one, "0/6 late, 0/5 late, 0/4 good, 0/3 good, 0/2 good, 0/1 good")
			mustWrite(t, one, 1) // 7
			// Its own come first, and its successor takes them.
			two := openIn(t, dir, 2)
			wantNewest(t, two, ID{1, 7})
			late(t, two, ID{1, 7}, ID{1, 8})
			wantStates(t, two, "1/8 late, 1/7 good, 0/6 late, 0/5 late, 0/4 good, 0/3 good, 0/2 good, 0/1 good")
			// Nor is a late one taken when all later ones are gone.
			if err := os.RemoveAll(filepath.Join(two.Path(), "attempt-1/gen-7")); err != nil {
				t.Fatal(err)
			}
			wantNewest(t, two, ID{0, 4})
			wantNewest(t, openIn(t, dir, 3), ID{0, 4})
		})
	}
}

func TestBlessed(t *testing.T) {
	for _, test := range []struct {
		name    string
		blessed ID
		want    ID
	}{
		{"the newest", ID{0, 3}, ID{0, 3}},
		{"an older one: burstd was away since", ID{0, 2}, ID{0, 3}},
		{"none: burstd was away all the time", ID{}, ID{0, 3}},
		{"one that is gone", ID{0, 9}, ID{0, 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			mustWrite(t, openIn(t, dir, 0), 3)
			f := openIn(t, dir, 1, test.blessed)
			wantNewest(t, f, test.want)
			// A second opening that hears nothing of burstd goes by the record.
			wantNewest(t, openIn(t, dir, 1), test.want)
		})
	}
}

// What burstd has on record may be seen a while later; what it hears of a cut-off
// attempt after that does not count.
func TestTheRecordStands(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, openIn(t, dir, 0), 2)
	one := openIn(t, dir, 1, ID{0, 3})
	wantNewest(t, one, ID{0, 2})
	late(t, one, ID{0, 2}, ID{0, 3})
	late(t, one, ID{0, 2}, ID{0, 4})
	wantNewest(t, one, ID{0, 3})
	wantNewest(t, openIn(t, dir, 1, ID{0, 4}), ID{0, 3})
	wantNewest(t, openIn(t, dir, 2, ID{0, 4}), ID{0, 3})
}

// What cannot be read when an attempt begins is not late for that: it is taken when
// it can be read, and nothing is begun anew before.
func TestWhatCannotBeReadAtTheBeginning(t *testing.T) {
	dir := t.TempDir()
	g := mustWrite(t, openIn(t, dir, 0), 1)
	name := filepath.Join(g.Dir, manifestName)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	byLater(t, g, func(text []byte) ([]byte, []byte) { return text, []byte(sumText(text)) })
	f := openIn(t, dir, 1)
	wantStates(t, f, "0/1 unreadable")
	if c, err := f.Newest(t.Context()); err == nil {
		t.Errorf("the step is begun from %v", c.From)
	}
	if err := errors.Join(os.WriteFile(name, text, 0o600), os.WriteFile(filepath.Join(g.Dir, sumName), []byte(sumText(text)), 0o600)); err != nil {
		t.Fatal(err)
	}
	wantNewest(t, openIn(t, dir, 1), ID{0, 1})
	// Nor is an attempt passed over that cannot be looked at.
	if os.Geteuid() == 0 {
		return // root may look at anything
	}
	if err := os.Chmod(f.Path(), 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(f.Path(), 0o700)
	if _, err := f.attempts(); err == nil {
		t.Error("its attempts are said to be none")
	}
}

func TestNumbersAreNotGivenTwice(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, openIn(t, dir, 0), 2)
	f := openIn(t, dir, 1, ID{0, 7}) // 3 to 7 are gone
	if g := mustWrite(t, f, 1); g.ID() != (ID{1, 8}) {
		t.Errorf("the next is %s", g.ID())
	}
	f = openIn(t, dir, 1, ID{1, 20}) // 9 to 20 are gone
	if g := mustWrite(t, f, 1); g.ID() != (ID{1, 21}) {
		t.Errorf("the next is %s", g.ID())
	}
}

// A generation that lies where it does not belong is not taken for another.
func TestMisplacedGenerations(t *testing.T) {
	for name, change := range map[string]func(*Manifest){
		"another attempt": func(m *Manifest) { m.Attempt = 1 },
		"another number":  func(m *Manifest) { m.N = 9 },
		"another job":     func(m *Manifest) { m.Job = "18" },
		"another step":    func(m *Manifest) { m.Step = "1" },
	} {
		t.Run(name, func(t *testing.T) {
			f := openIn(t, t.TempDir(), 0)
			g := mustWrite(t, f, 1)
			m := g.Manifest
			change(&m)
			text, sum, err := m.encode()
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.WriteFile(filepath.Join(g.Dir, manifestName), text, 0o600), os.WriteFile(filepath.Join(g.Dir, sumName), sum, 0o600)); err != nil {
				t.Fatal(err)
			}
			wantStates(t, f, "0/1 damaged")
			wantNewest(t, f, ID{})
		})
	}
}

func TestAnotherClusterOfTheSameID(t *testing.T) {
	dir := t.TempDir()
	o := optionsIn(dir)
	o.Cluster = "c2"
	mustWrite(t, openWith(t, o), 1)
	f := openIn(t, dir, 1)
	wantStates(t, f, "0/1 foreign")
	wantNewest(t, f, ID{})
	mustWrite(t, f, 3)
	if _, err := f.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantStates(t, f, "1/4 good, 1/3 good, 0/1 foreign")
}

// Whatever attempts do, in any order, nobody takes what came after its own
// beginning from another, nor what a later attempt did not know of.
func TestAttemptsProperty(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds of disk: run by make test")
	}
	was := fsync
	fsync = func(*os.File) error { return nil }
	defer func() { fsync = was }()
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		open := func(attempt int) (*Folder, error) {
			o := optionsIn(dir)
			o.Attempt = attempt
			return Open(t.Context(), o)
		}
		newest := ID{} // of the attempts that count
		f, err := open(0)
		if err != nil {
			r.Fatal(err)
		}
		for attempt := 0; attempt < 4; attempt++ {
			for range rapid.IntRange(0, 2).Draw(r, "generations") {
				g, err := write(t.Context(), f, "a", "b")
				if err != nil {
					r.Fatal(err)
				}
				newest = g.ID()
			}
			next, err := open(attempt + 1)
			if err != nil {
				r.Fatal(err)
			}
			if newest.Attempt == attempt && newest.N > 0 {
				for i := range rapid.IntRange(0, 2).Draw(r, "late ones") {
					late(t, next, newest, ID{attempt, newest.N + 1 + i})
				}
			}
			c, err := next.Newest(t.Context())
			if err != nil {
				r.Fatal(err)
			}
			got := ID{}
			if c.From != nil {
				got = c.From.ID()
			}
			if got != newest {
				r.Fatalf("attempt %d takes %s, want %s", attempt+1, got, newest)
			}
			f.Close()
			f = next
		}
		f.Close()
	})
}
