package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const aDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestParse(t *testing.T) {
	for _, tt := range []struct{ text, want, err string }{
		{text: "sim.sif", want: "/data/sim.sif"},
		{text: "/images/../sim.sif", want: "/sim.sif"},
		{text: "sim/v2:a.sif", want: "/data/sim/v2:a.sif"},
		{text: "docker://debian", want: "docker://docker.io/library/debian:latest"},
		{text: "docker://user/sim:2", want: "docker://docker.io/user/sim:2"},
		{text: "docker://localhost/sim", want: "docker://localhost/sim:latest"},
		{text: "docker://host:5000/a/b:1", want: "docker://host:5000/a/b:1"},
		{text: "docker://[::1]:5000/a:1", want: "docker://[::1]:5000/a:1"},
		{text: "docker://h.org/a:1@" + aDigest, want: "docker://h.org/a@" + aDigest},
		{text: "oras://h.org/a:1", want: "oras://h.org/a:1"},
		{text: "oras://a:1", err: "names no registry"},
		{text: "docker://h.org/A", err: "lower case"},
		{text: "docker://h.org/../x", err: "lower case"},
		{text: "docker://h.org/a:b c", err: "is no tag"},
		{text: "docker://h.org/a@sha256:12", err: "is no digest"},
		{text: "docker://h;x.org/a", err: "is no registry"},
		{text: "library://x/y", err: "apptainer pull image.sif library://x/y"},
		{text: "docker-archive:x.tar", err: "apptainer build image.sif docker-archive:x.tar"},
		{text: "https://h.org/a.sif", err: "fetch the file"},
		{text: "ftp://h", err: "is none of a SIF file"},
		{text: "docker:x", err: "is none of a SIF file"},
		{text: "  ", err: "is no image's name"},
		{text: "a\nb", err: "is no image's name"},
	} {
		r, err := Parse(tt.text, "/data")
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q: %v, %v, want %q", tt.text, r, err, tt.err)
			}
			continue
		}
		if err != nil || r.String() != tt.want {
			t.Errorf("%q: %v, %v, want %s", tt.text, r, err, tt.want)
			continue
		}
		if again, err := Parse(r.String(), "/"); err != nil || again != r {
			t.Errorf("%q: read again it is %v, %v", tt.text, again, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("docker://h.org/a:1@" + aDigest)
	f.Add("oras://[::1]:1/a:b")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text, "/data")
		if err != nil {
			return
		}
		again, err := Parse(r.String(), "/")
		if err != nil && r.Remote() || r.Remote() && again != r {
			t.Errorf("%q is %v, and again %v, %v", text, r, again, err)
		}
		if strings.ContainsAny(r.String(), "\n\x00") || r.Remote() && strings.ContainsAny(r.String(), " '\"$`") {
			t.Errorf("%q is %q", text, r.String())
		}
	})
}

func TestLook(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "box/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte("no image at all"), 0o644); err != nil {
		t.Fatal(err)
	}
	look := func(name string) (Image, error) {
		r, err := Parse(name, dir)
		if err == nil {
			r, err = r.Look()
		}
		if err != nil {
			return Image{}, err
		}
		return Identify(r)
	}
	if i, err := look("box"); err != nil || i.Kind != Folder || i.Key != "" {
		t.Errorf("a sandbox: %+v, %v", i, err)
	}
	for name, want := range map[string]string{"empty": "empty folder", "text": "no SIF file", "gone": "no such file"} {
		if i, err := look(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", name, i, err)
		}
	}
	one, err := look(filepath.Base(fakeSIF(t, dir, "a.sif", "one")))
	if err != nil || !strings.HasPrefix(one.Key, "sif-") || one.Size != int64(headerSize+len("one")) {
		t.Fatalf("a SIF file: %+v, %v", one, err)
	}
	other, err := look(filepath.Base(fakeSIF(t, dir, "a.sif", "two!")))
	if err != nil || other.Key == one.Key {
		t.Errorf("written anew it has the same key: %+v, %v", other, err)
	}
}

// fakeSIF writes a file that begins as a SIF file does.
func fakeSIF(t *testing.T, dir, name, rest string) string {
	t.Helper()
	head := make([]byte, headerSize)
	copy(head[magicAt:], sifMagic)
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, append(head, rest...), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
