package stopall

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAWishIsLeft whole, over an older one or a link, and only in a folder
// that is there. One that cannot be read is a wish all the same.
func TestAWishIsLeft(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "pause"), filepath.Join(dir, "other")
	if w, ok := Left(path); ok {
		t.Errorf("without one: %+v", w)
	}
	if err := Leave(filepath.Join(dir, "gone", "pause"), Wish{"uid 0", "w"}); err == nil {
		t.Error("left in a folder that is not there")
	}
	if err := os.Symlink(other, path); err != nil {
		t.Fatal(err)
	}
	want := Wish{"uid 0", "burst stop-all"}
	if err := Leave(path, want); err != nil {
		t.Fatal(err)
	}
	if w, ok := Left(path); !ok || w != want {
		t.Errorf("%+v, %v", w, ok)
	}
	if _, err := os.Lstat(other); err == nil {
		t.Error("the link was followed")
	}
	for _, text := range []string{"", "{", "null", `{"by":""}`, strings.Repeat("[", 1<<20)} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if w, ok := Left(path); !ok || w.By == "" || !strings.Contains(w.Why, path) {
			t.Errorf("%.10q: %+v, %v", text, w, ok)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}
