package mpi

import (
	"bytes"
	"os"
	"strconv"
	"testing"
)

// TestHolds finds words wherever they lie, also across what is read at once.
func TestHolds(t *testing.T) {
	w := newWorkshop(t)
	for _, at := range []int{0, scanned - 20, scanned - 3, scanned, 2*scanned - 5, 3 * scanned} {
		text := "const char far[] = {[" + strconv.Itoa(at) + "] = 'M','P','I','C','H',' ','V','e','r','s','i','o','n',':', [4 * " + strconv.Itoa(scanned) + "] = 'x'};\n"
		o, err := tree{}.load(w.lib("lib.so", text), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := o.holds(".rodata", "MPICH Version:", "MPICH version:")
		o.close()
		if !got[0] || got[1] {
			t.Errorf("at %d: %v", at, got)
		}
	}
}

// FuzzObject reads what is no program, or a broken one.
func FuzzObject(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	if text, err := os.ReadFile("/bin/true"); err == nil {
		f.Add(text)
		f.Add(text[:len(text)/2])
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := readObject(bytes.NewReader(text), "/bin/app")
		if err != nil {
			return
		}
		version := o.version(o.kindOf())
		if version != "" && !number.MatchString(version) {
			t.Errorf("version %q", version)
		}
		o.five(version)
		o.defines("PMPI_Init")
	})
}
