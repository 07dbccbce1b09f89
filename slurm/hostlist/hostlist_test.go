package hostlist

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// senseless are lists that scontrol prints something for and that are errors here.
var senseless = map[string]bool{"n[1-2": true}

// later are lists that Slurm reads from 23.02.5 on.
var later = map[string]string{
	"n[1-2].example.com":  "n1.example.com,n2.example.com",
	"n[1-2].e[3-4].com":   "n1.e3.com,n1.e4.com,n2.e3.com,n2.e4.com",
	"n[1-2]0":             "n10,n20",
	"n[08-10]x":           "n08x,n09x,n10x",
	"a[1-2]b[1-2]c[1-2]d": "a1b1c1d,a1b1c2d,a2b1c1d,a2b1c2d,a1b2c1d,a1b2c2d,a2b2c1d,a2b2c2d",
}

func TestTextAfterTheLastBracket(t *testing.T) {
	for list, want := range later {
		l, err := Parse(list)
		if err != nil || strings.Join(l.Names(), ",") != want || l.String() != want {
			t.Errorf("%s: %q, %q, %v; want %q", list, l.Names(), l, err, want)
		}
	}
}

// TestCaptured compares with what scontrol of Slurm 22.05.8 printed.
func TestCaptured(t *testing.T) {
	f, err := os.Open("testdata/scontrol-22.05.8.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Scan() // the heading
	for lines.Scan() {
		col := strings.Split(lines.Text(), "\t")
		t.Run(col[0], func(t *testing.T) {
			if _, ok := later[col[0]]; ok {
				return
			}
			names, err := Expand(col[0])
			if wrong := col[2] == "yes" || senseless[col[0]]; wrong != (err != nil) {
				t.Fatalf("error %v, want one: %v", err, wrong)
			} else if wrong {
				return
			}
			if diff := cmp.Diff(strings.Fields(col[1]), names, equateEmpty); diff != "" {
				t.Errorf("names (-scontrol +ours):\n%s", diff)
			}
			if got := Fold(names); got != col[3] {
				t.Errorf("Fold: %q, scontrol: %q", got, col[3])
			}
			if got := FoldSorted(names); got != col[4] {
				t.Errorf("FoldSorted: %q, scontrol: %q", got, col[4])
			}
		})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

var equateEmpty = cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })

func TestBroken(t *testing.T) {
	long := strings.Repeat("n", maxName)
	tests := []struct{ name, list, want string }{
		{"bracket not closed", "a,n[1-2", "n[1-2: a bracket is not closed"},
		{"not closed before a separator", "n[1-2 m3", "a bracket is not closed"},
		{"bracket not opened", "n]", "n]: a closing bracket that was not opened"},
		{"bracket closed twice", "n[1]]", "that was not opened"},
		{"bracket in bracket", "n[[1-2]]", "a bracket within a bracket"},
		{"empty bracket", "n[]", "a number is missing"},
		{"no end", "n[1-]", `range "1-": a number is missing`},
		{"no start", "n[-2]", `range "-2": a number is missing`},
		{"empty item", "n[1,]", "a number is missing"},
		{"empty blank item", "n[1, ]", "a number is missing"},
		{"letters", "n[a-c]", `"a" is not a number`},
		{"letters after the start", "n[1a-3]", `"1a" is not a number`},
		{"blank after the start", "n[1 -3]", `"1 " is not a number`},
		{"sign", "n[+1-3]", `"+1" is not a number`},
		{"two ends", "n[1-2-3]", `"2-3" is not a number`},
		{"step", "n[1-10/2]", `"10/2" is not a number`},
		{"newline in a bracket", "n[1,\n2]", "is not a number"},
		{"backwards", "n[3-1]", "ends below its start"},
		{"name too long by what follows the bracket", "n[1-2]" + long, "a name of more than 255 bytes"},
		{"first bracket bad", "a[x]b[1-2]c[1-2]", `"x" is not a number`},
		{"range too large", "n[1-65537]", "65537 names; at most 65536 in a range"},
		{"prefix bracket too large", "n[1-40000,50001-90000]x[1-2]", "80000 numbers in a bracket that is not the last"},
		{"too many ranges", "n[" + strings.Repeat("1,", maxRange) + "1]", "65537 ranges in a bracket"},
		{"too many names", "r[1-1025]n[1-1024]", "more than 1048576 names"},
		{"too many names in all", "n[1-65536],r[1-1023]n[1-1024]", "more than 1048576 names"},
		{"far too many names", "a[1-65536]b[1-65536]c[1-65536]d[1-65536]", "more than 1048576 names"},
		{"number too large", "n99999999999999999999", "too large a number"},
		{"number just too large", "n18446744073709551615", "too large a number"},
		{"number in a range too large", "n[1-99999999999999999999]", "too large a number"},
		{"name too long", long + "n", "a name of more than 255 bytes"},
		{"name too long by its bracket", long + "[1-2]", "a name of more than 255 bytes"},
		{"name too long by its zeros", "n[" + strings.Repeat("0", maxName) + "1]", "a name of more than 255 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			names, err := Expand(tt.list)
			if err == nil {
				t.Fatalf("no error, %d names: %.100q", len(names), names)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want one with %q", err, tt.want)
			}
			if len(err.Error()) > 300 {
				t.Errorf("the error is %d bytes long", len(err.Error()))
			}
		})
	}
}

func TestLimits(t *testing.T) {
	for list, want := range map[string]int{
		"n[1-65536]":                                   65536,
		"n[0-65535],n[0-65535]":                        131072,
		"n[1-64000,70000-134000]":                      128001,
		"r[1-1024]n[1-1024]":                           1 << 20,
		"n[18446744073709551613-18446744073709551614]": 2,
		strings.Repeat("n", maxName-1) + "[1-9]":       9,
		strings.Repeat("n,", 1<<20):                    1 << 20,
	} {
		if testing.Short() && want == 1<<20 {
			continue // a million names each
		}
		l, err := Parse(list)
		if err != nil {
			t.Errorf("%.40s: %v", list, err)
			continue
		}
		if l.Len() != want || len(l.Names()) != want {
			t.Errorf("%.40s: Len %d, %d names; want %d", list, l.Len(), len(l.Names()), want)
		}
	}
}

// TestFoldNames has what the other tests' inputs cannot hold.
func TestFoldNames(t *testing.T) {
	tests := []struct {
		name         string
		names        []string
		fold, sorted string
	}{
		{"nothing", nil, "", ""},
		{"empty names", []string{"", "n1", "", "n2"}, "n[1-2]", "n[1-2]"},
		{"numbers too large for Slurm stay", []string{"n99999999999999999999", "n1"},
			"n99999999999999999999,n1", "n1,n99999999999999999999"},
		{"numbers far apart are sorted", []string{"n5000000000", "n7000000000", "n2"},
			"n[5000000000,7000000000,2]", "n[2,5000000000,7000000000]"},
		{"sorted by natural prefix", []string{"r10n1", "r9n1", "r09n1", "r1n1", "N1"},
			"r10n1,r9n1,r09n1,r1n1,N1", "N1,r09n1,r1n1,r9n1,r10n1"},
		{"the plain name first", []string{"n1", "n", "n2", "n"}, "n1,n,n2,n", "n,n,n[1-2]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Fold(tt.names); got != tt.fold {
				t.Errorf("Fold: %q, want %q", got, tt.fold)
			}
			if got := FoldSorted(tt.names); got != tt.sorted {
				t.Errorf("FoldSorted: %q, want %q", got, tt.sorted)
			}
		})
	}
}

// TestListKeepsBrackets: a list folds as it was written where names alone
// would fold otherwise.
func TestListKeepsBrackets(t *testing.T) {
	l, err := Parse("n1[0-2]")
	if err != nil {
		t.Fatal(err)
	}
	if got := l.String(); got != "n1[0-2]" {
		t.Errorf("the list: %s", got)
	}
	if got := Fold(l.Names()); got != "n[10-12]" {
		t.Errorf("its names: %s", got)
	}
}

// genNames draws names that often follow, repeat and pad each other.
func genNames() *rapid.Generator[[]string] {
	name := rapid.Custom(func(t *rapid.T) string {
		prefix := rapid.SampledFrom([]string{"n", "m", "n1x", "n01x", "", "gpu-a", "host."}).Draw(t, "prefix")
		if prefix == "host." {
			return prefix + rapid.StringMatching(`[a-z]{1,3}`).Draw(t, "domain")
		}
		width := rapid.IntRange(1, 4).Draw(t, "width")
		return fmt.Sprintf("%s%0*d", prefix, width, rapid.Uint64Range(0, 120).Draw(t, "number"))
	})
	return rapid.SliceOfN(name, 0, 60)
}

func TestExpandUndoesFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := genNames().Draw(t, "names")
		got, err := Expand(Fold(names))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(names, got, equateEmpty); diff != "" {
			t.Fatalf("%s (-names +expanded):\n%s", Fold(names), diff)
		}
		sorted, err := Expand(FoldSorted(names))
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		slices.Sort(sorted)
		if diff := cmp.Diff(names, sorted, equateEmpty); diff != "" {
			t.Fatalf("sorting changed the names (-before +after):\n%s", diff)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"n[01-03]", "r[1-2]n[01-02],x5", "a[1-2]b[3]c[04-5]", "n[1-2", "n[ 1-2]", "n1,,n2 m\tn", "n]", "[0-0]", "n[1-65536]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := Parse(s)
		if err != nil || l.Len() > 10_000 {
			return
		}
		for _, folded := range []string{l.String(), Fold(l.Names())} {
			again, err := Expand(folded)
			if err != nil {
				t.Fatalf("%q folds to %q: %v", s, folded, err)
			}
			if diff := cmp.Diff(l.Names(), again, equateEmpty); diff != "" {
				t.Fatalf("%q folds to %q (-names +expanded):\n%s", s, folded, diff)
			}
		}
		if n := l.Sorted().Len(); n != l.Len() {
			t.Fatalf("%q: %d names, %d of them after sorting", s, l.Len(), n)
		}
	})
}

const list100k = "n[00001-50000],gpu[1-50000]"

func BenchmarkExpand100k(b *testing.B) {
	for b.Loop() {
		if names, err := Expand(list100k); err != nil || len(names) != 100_000 {
			b.Fatal(len(names), err)
		}
	}
}

func BenchmarkFold100k(b *testing.B) {
	names, err := Expand(list100k)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if got := Fold(names); got != list100k {
			b.Fatal(got)
		}
	}
}
