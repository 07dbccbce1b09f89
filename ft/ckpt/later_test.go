package ckpt

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// byLater makes a generation one of a later Burst.
func byLater(t *testing.T, g Generation, change func(text []byte) (manifest, sum []byte)) {
	t.Helper()
	name := filepath.Join(g.Dir, manifestName)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text, sum := change(bytes.Replace(text, []byte(`"format": 1`), []byte(`"format": 2`), 1))
	err = errors.Join(os.WriteFile(name, text, 0o600), os.Remove(filepath.Join(g.Dir, sumName)))
	if sum != nil {
		err = errors.Join(err, os.WriteFile(filepath.Join(g.Dir, sumName), sum, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// What a later Burst wrote is no damage: it stays, and is neither taken nor passed over.
func TestALaterFormat(t *testing.T) {
	for name, change := range map[string]func([]byte) ([]byte, []byte){
		"with a sum as ours": func(text []byte) ([]byte, []byte) { return text, []byte(sumText(text)) },
		"without a sum":      func(text []byte) ([]byte, []byte) { return text, nil },
		"with another sum":   func(text []byte) ([]byte, []byte) { return text, []byte("blake3 42\n") },
		"with other files": func(text []byte) ([]byte, []byte) {
			text = bytes.Replace(text, []byte(`"files": [`), []byte(`"files": [7, `), 1)
			return text, []byte(sumText(text))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			first := openIn(t, dir, 0)
			mustWrite(t, first, 1)
			byLater(t, mustWrite(t, first, 1), change)
			f := openIn(t, dir, 1)
			wantStates(t, f, "0/2 unreadable, 0/1 good")
			if _, err := f.Verify(t.Context(), ID{0, 2}); !errors.Is(err, ErrLater) || StateOf(err) != Unreadable {
				t.Errorf("Verify says %v", err)
			}
			if c, err := f.Newest(t.Context()); !errors.Is(err, ErrLater) || c.From != nil || !strings.Contains(err.Error(), "format is 2") {
				t.Errorf("a restart takes %v, %v", c.From, err)
			}
			mustWrite(t, f, 3)
			mustPrune(t, f)
			wantStates(t, f, "1/5 good, 1/4 good, 0/2 unreadable")
			wantNewest(t, f, ID{1, 5})
			if err := f.Clear(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantStates(t, f, "0/2 unreadable")
			if err := RemoveJob(t.Context(), dir, "17"); !errors.Is(err, ErrLater) {
				t.Errorf("RemoveJob says %v", err)
			}
			wantStates(t, f, "0/2 unreadable")
		})
	}
}

// A later format that is late is not taken, and not deleted either.
func TestALaterFormatThatIsLate(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, openIn(t, dir, 0), 1)
	f := openIn(t, dir, 1)
	late(t, f, ID{0, 1}, ID{0, 2})
	byLater(t, Generation{Dir: filepath.Join(f.Path(), dirOf(ID{0, 2}))}, func(text []byte) ([]byte, []byte) { return text, nil })
	wantStates(t, f, "0/2 late, 0/1 good")
	wantNewest(t, f, ID{0, 1})
	mustPrune(t, f)
	wantStates(t, f, "0/2 late, 0/1 good")
}

// A number that a bit has made another is damage.
func TestAFormatThatIsDamaged(t *testing.T) {
	f := openIn(t, t.TempDir(), 0)
	mustWrite(t, f, 1)
	g := mustWrite(t, f, 1)
	old, err := os.ReadFile(filepath.Join(g.Dir, sumName))
	if err != nil {
		t.Fatal(err)
	}
	byLater(t, g, func(text []byte) ([]byte, []byte) { return text, old })
	wantStates(t, f, "0/2 damaged, 0/1 good")
	wantNewest(t, f, ID{0, 1})
}
