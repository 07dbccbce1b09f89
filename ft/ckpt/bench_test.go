package ckpt

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
)

// What a generation costs beside the method's own work, for 256 MB in four files.
func BenchmarkCommitAndVerify(b *testing.B) {
	const size = 64 << 20
	o := optionsIn(b.TempDir())
	o.Keep = 1
	f, err := Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	text := make([]byte, size)
	_, _ = rand.Read(text) // it never fails
	b.SetBytes(4 * size)
	for b.Loop() {
		b.StopTimer()
		p, err := f.Begin(b.Context(), 0)
		if err != nil {
			b.Fatal(err)
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			if err := os.WriteFile(filepath.Join(p.Dir, name), text, 0o600); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		g, err := p.Commit(b.Context(), About{Method: "signal"})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := f.Verify(b.Context(), g.ID()); err != nil {
			b.Fatal(err)
		}
		if _, err := f.Prune(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
