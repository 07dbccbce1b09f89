package ckpt

import (
	"strings"
	"testing"
	"time"
)

func goodManifest() Manifest {
	return Manifest{Format: 1, N: 1, Job: "17", Step: "0", Method: "dmtcp", Tool: "dmtcp 4.2.0", Iteration: -1, Took: time.Second, Machine: here,
		Extra: map[string]string{"pid": "7"},
		Files: []File{{"a/b", 3, strings.Repeat("0", 64), 0o600}, {"c", 0, strings.Repeat("f", 64), 0o777}}}
}

// Each of these would be written by nobody but an enemy, or a disk.
func TestManifestsThatAreRefused(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Manifest)
		err    string
	}{
		{"nothing", func(*Manifest) {}, ""},
		{"a later format", func(m *Manifest) { m.Format = 2 }, "its format is 2"},
		{"number 0", func(m *Manifest) { m.N = 0 }, "generation 0"},
		{"a huge number", func(m *Manifest) { m.N = 2_000_000_000 }, "generation 2000000000"},
		{"attempt -1", func(m *Manifest) { m.Attempt = -1 }, "attempt -1"},
		{"ranks below zero", func(m *Manifest) { m.Ranks = -1 }, "below zero"},
		{"no method", func(m *Manifest) { m.Method = "" }, "names no method"},
		{"a word that steers a terminal", func(m *Manifest) { m.Tool = "\x1b[2J" }, "cannot be printed"},
		{"a word without end", func(m *Manifest) { m.Machine.Kernel = strings.Repeat("6", 2000) }, "too long"},
		{"extras without end", func(m *Manifest) { m.Extra["x"] = strings.Repeat("6", 100_000) }, "too long"},
		{"a file above", func(m *Manifest) { m.Files[0].Name = "../b" }, "leads out of the folder"},
		{"a file above, later", func(m *Manifest) { m.Files[0].Name = "a/../../b" }, "leads out of the folder"},
		{"an absolute file", func(m *Manifest) { m.Files[0].Name = "/etc/passwd" }, "leads out of the folder"},
		{"a file without a name", func(m *Manifest) { m.Files[0].Name = "" }, "leads out of the folder"},
		{"the folder itself", func(m *Manifest) { m.Files[0].Name = "." }, "leads out of the folder"},
		{"a NUL", func(m *Manifest) { m.Files[0].Name = "a\x00b" }, "leads out of the folder"},
		{"a name without end", func(m *Manifest) { m.Files[0].Name = strings.Repeat("a", 5000) }, "leads out of the folder"},
		{"itself", func(m *Manifest) { m.Files[1].Name = manifestName }, "kept for Burst's own"},
		{"a file twice", func(m *Manifest) { m.Files[1].Name = "a/b" }, "not in order, or twice"},
		{"a size below zero", func(m *Manifest) { m.Files[0].Size = -1 }, "no file has a size"},
		{"sizes that overflow", func(m *Manifest) { m.Files[0].Size, m.Files[1].Size = 1<<63-1, 1 }, "no file has a size"},
		{"a sum that is none", func(m *Manifest) { m.Files[0].SHA256 = strings.Repeat("g", 64) }, "SHA-256 is none"},
		{"half a sum", func(m *Manifest) { m.Files[0].SHA256 = "00" }, "SHA-256 is none"},
		{"a mode with more than permissions", func(m *Manifest) { m.Files[0].Mode = 0o104755 }, "its mode is none"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := goodManifest()
			test.change(&m)
			_, _, err := m.encode()
			if got := errText(err); (test.err == "") != (got == "") || !strings.Contains(got, test.err) {
				t.Errorf("%q, want %q", got, test.err)
			}
		})
	}
	for name, text := range map[string]string{"empty": "", "not JSON": "hello", "another type": `[]`, "two": `{}{}`, "deep": strings.Repeat(`{"extra":`, 20_000)} {
		if m, err := parseManifest([]byte(text)); err == nil || m.N != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A manifest of a later Burst with keys that this one does not know is read.
func TestManifestWithMoreKeys(t *testing.T) {
	m := goodManifest()
	text, _, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	more := strings.Replace(string(text), `"format": 1`, `"colour": {"of": ["it"]}, "format": 1`, 1)
	if got, err := parseManifest([]byte(more)); err != nil || got.Tool != m.Tool || len(got.Files) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}
