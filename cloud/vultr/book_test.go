package vultr

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

func TestBook(t *testing.T) {
	now := time.Date(2026, 11, 22, 5, 0, 0, 0, time.UTC)
	bs := books{dir: filepath.Join(t.TempDir(), "lon")}
	b, err := bs.open("TOK")
	if err != nil || b.kept {
		t.Fatalf("%+v, %v", b, err)
	}
	for _, lines := range [][]line{
		{{I: 0, Begun: now}, {I: 1, Begun: now}, {I: 2, Begun: now}, {I: 3, Begun: now}},
		{{I: 0, ID: "a", At: now}, {I: 1, Refused: true}},
		{},
		{{I: 3, Begun: now.Add(time.Second)}},
	} {
		if err := b.write(lines...); err != nil {
			t.Fatal(err)
		}
	}
	want := map[int]item{0: {begun: now, id: "a"}, 2: {begun: now}, 3: {begun: now.Add(time.Second)}}
	again, err := bs.open("TOK")
	if err != nil || !again.kept || again.over.Over != "" || !maps.Equal(again.items, want) || !maps.Equal(b.items, want) {
		t.Errorf("read again: %+v, %v", again, err)
	}
	// A line that a crash has cut off is not there, and the next is read all the same.
	f, err := os.OpenFile(b.file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"i":4,"beg`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if again, err = bs.open("TOK"); err != nil || !maps.Equal(again.items, want) {
		t.Errorf("with half a line: %+v, %v", again, err)
	}
	if err := again.write(line{Over: "none left", Kind: cloud.Quota}); err != nil {
		t.Fatal(err)
	}
	if again, err = bs.open("TOK"); err != nil || again.over.Over != "none left" || again.over.Kind != cloud.Quota || !maps.Equal(again.items, want) {
		t.Errorf("after half a line: %+v, %v", again, err)
	}
	if info, err := os.Stat(b.file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
}

func TestBooksAreSwept(t *testing.T) {
	dir := t.TempDir()
	long := time.Now().Add(-2 * keptFor)
	for _, name := range []string{"OLD.launch", "LIVE.launch", "notes.txt", "NEW.launch"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if name != "NEW.launch" {
			if err := os.Chtimes(path, long, long); err != nil {
				t.Fatal(err)
			}
		}
	}
	bs := books{dir: dir}
	if _, err := bs.open("TOK"); err != nil { // before a list has shown what lives
		t.Fatal(err)
	}
	for want := 4; want > 2; want-- {
		left, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(left) != want {
			t.Errorf("left are %v, %v, want all but OLD.launch at last", left, err)
		}
		bs.sweep(map[string]bool{"LIVE": true})
	}
}

// A book that was cut off anywhere says what its whole lines say.
func FuzzReadBook(f *testing.F) {
	f.Add([]byte("{\"i\":0,\"begun\":\"2026-11-22T05:00:00Z\"}\n{\"i\":0,\"id\":\"a\"}\n{\"i\":0,\"over\":\"x\"}\n"), 50)
	f.Add([]byte("{\"i\":-1}\n{\"i\":1000}\nnull\n{"), 3)
	f.Fuzz(func(t *testing.T, text []byte, at int) {
		whole := readBook(text)
		for i := range whole.items {
			if i < 0 || i >= maxLaunch {
				t.Errorf("there is an instance %d", i)
			}
		}
		if at < 0 || at > len(text) {
			return
		}
		end := bytes.LastIndexByte(text[:at], '\n') + 1
		cut, lines := readBook(text[:at]), readBook(text[:end])
		if !maps.Equal(cut.items, lines.items) || !reflect.DeepEqual(cut.over, lines.over) {
			t.Errorf("cut off at %d it is %+v, its whole lines %+v", at, cut, lines)
		}
	})
}
