package ckpt

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const xeon = `processor	: 0
model name	: Intel(R) Xeon(R)
flags		: fpu cx8 sse2 avx2 avx512f pti rep_good hypervisor xsavec aes
bugs		: spectre_v1

processor	: 1
flags		: fpu cx8 sse2 avx2 avx512f rep_good xsavec aes sgx
`

func TestCPUFeatures(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"what programs choose by, without the kernel's words", xeon, "aes avx2 avx512f cx8 sse2 xsavec"},
		{"what all processors have", "flags : avx2 avx512f\nflags : avx2\n", "avx2"},
		{"arm", "processor : 0\nFeatures : fp asimd sve2 crc32\n", "asimd crc32 fp sve2"},
		{"nothing", "", ""},
		{"no such line", "cpu model : R4000\n", ""},
		{"garbage", "flags : avx\x00\x1b[2J avx2 avx" + strings.Repeat("x", 100) + "\n", "avx2"},
		{"twice in a line", "flags : avx avx\nflags : sse2\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := strings.Join(cpuFeatures(test.text), " "); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestFits(t *testing.T) {
	need := Machine{Arch: "amd64", Features: []string{"avx2", "avx512f", "sse2"}, Glibc: "2.36", Kernel: "6.1.0"}
	with := func(change func(*Machine)) Machine {
		m := need
		change(&m)
		return m
	}
	for _, test := range []struct {
		name       string
		need, here Machine
		err        string
	}{
		{"the same", need, need, ""},
		{"more here", need, with(func(m *Machine) { m.Features = []string{"amx_tile", "avx2", "avx512f", "sse2"}; m.Glibc = "2.41" }), ""},
		{"another kernel", need, with(func(m *Machine) { m.Kernel = "5.14" }), ""},
		{"another architecture", need, with(func(m *Machine) { m.Arch = "arm64" }), "the images are of a amd64 processor, and this host has arm64"},
		{"an older processor", need, with(func(m *Machine) { m.Features = []string{"sse2"} }), "the images may use avx2, avx512f, which this host's processor does not have"},
		{"a much older one", with(func(m *Machine) { m.Features = strings.Fields("a b c d e f g") }), with(func(m *Machine) { m.Features = []string{"x"} }), "the images may use a, b, c, d, e and 2 more, which this host's processor does not have"},
		{"an older glibc", need, with(func(m *Machine) { m.Glibc = "2.9" }), "the images need glibc 2.36, and this host has 2.9"},
		{"glibc 3", need, with(func(m *Machine) { m.Glibc = "3.0" }), ""},
		{"nothing known of the images", Machine{}, need, ""},
		{"nothing known of the host", need, Machine{}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := errText(test.need.Fits(test.here)); got != test.err {
				t.Errorf("%q, want %q", got, test.err)
			}
		})
	}
}

// This host restarts what it wrote itself, and its manifest can be read again.
func TestHere(t *testing.T) {
	m := Here(t.Context())
	if m.Arch != runtime.GOARCH || m.Kernel == "" || !slices.IsSorted(m.Features) {
		t.Errorf("this host is %+v", m)
	}
	if err := m.Fits(m); err != nil {
		t.Error(err)
	}
	f := openIn(t, t.TempDir(), 0)
	p, err := f.Begin(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Commit(t.Context(), About{Method: "dmtcp", Machine: m}); err != nil {
		t.Fatal(err)
	}
	got := wantNewest(t, f, ID{0, 1}).From.Machine
	if a, b := asJSON(t, got), asJSON(t, m); a != b {
		t.Errorf("kept as %s, was %s", a, b)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
