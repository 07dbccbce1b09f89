package hostlist

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// scontrol runs `show what list` for each list in one scontrol, which reads
// its commands from stdin and repeats each before its answer.
func scontrol(t *testing.T, what string, lists []string) [][]string {
	t.Helper()
	conf := anyConf(t)
	var in, out bytes.Buffer
	for _, l := range lists {
		fmt.Fprintf(&in, "show %s %s\n", what, l)
	}
	cmd := exec.Command("scontrol")
	cmd.Env = append(os.Environ(), "SLURM_CONF="+conf)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &out
	// scontrol exits with 1 after any list that it refused.
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		t.Fatalf("scontrol (part of the Slurm client, which `make deps` installs): %v\n%.1000s", err, out.String())
	}
	var answers [][]string
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "scontrol: show ") {
			answers = append(answers, nil)
		} else if n := len(answers); n > 0 && line != "scontrol: " {
			answers[n-1] = append(answers[n-1], line)
		}
	}
	if len(answers) != len(lists) {
		t.Fatalf("scontrol gave %d answers to %d lists:\n%.1000s", len(answers), len(lists), out.String())
	}
	return answers
}

// anyConf is a slurm.conf, without which no command of Slurm does anything.
func anyConf(t *testing.T) string {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "slurm.conf")
	const text = "ClusterName=test\nSlurmctldHost=localhost\nNodeName=n1\nPartitionName=p Nodes=ALL\n"
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return conf
}

func refused(answer []string) bool {
	return slices.ContainsFunc(answer, func(line string) bool {
		return strings.HasPrefix(line, "scontrol: error:") || strings.HasPrefix(line, "Invalid hostlist")
	})
}

// TestLikeScontrol compares with the installed scontrol on generated lists:
// written well, with one byte changed, and names alone.
func TestLikeScontrol(t *testing.T) {
	n := 2000
	if testing.Short() {
		n = 300
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	kinds := []struct {
		name string
		draw func(*rand.Rand) string
	}{
		{"written", drawList},
		{"changed", drawChanged},
		{"names", func(r *rand.Rand) string { return strings.Join(drawNames(r), ",") }},
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			lists := make([]string, n)
			for i := range lists {
				lists[i] = k.draw(r)
			}
			compareLists(t, lists)
		})
	}
}

func compareLists(t *testing.T, lists []string) {
	names := scontrol(t, "hostnames", lists)
	folded := scontrol(t, "hostlist", lists)
	sorted := scontrol(t, "hostlistsorted", lists)
	accepted, suffixes := 0, readsSuffixes(t)
	for i, s := range lists {
		l, err := Parse(s)
		if err == nil && !suffixes && hasSuffix.MatchString(s) {
			if !refused(names[i]) {
				t.Errorf("%s: this scontrol reads text after the last bracket: %q", s, names[i])
			}
			continue
		}
		if err != nil {
			if !refused(names[i]) && !isSenseless(s) {
				t.Errorf("%s: %v; scontrol: %q", s, err, names[i])
			}
			continue
		}
		accepted++
		if refused(names[i]) {
			t.Errorf("%s: no error; scontrol: %q", s, names[i])
			continue
		}
		if !slices.Equal(l.Names(), names[i]) {
			t.Errorf("%s: names %.300q; scontrol: %.300q", s, l.Names(), names[i])
		}
		if got := []string{l.String()}; !slices.Equal(got, folded[i]) {
			t.Errorf("%s: folded %.300q; scontrol: %.300q", s, got, folded[i])
		}
		if got := []string{l.Sorted().String()}; !slices.Equal(got, sorted[i]) && sameNames(l, sorted[i]) {
			t.Errorf("%s: sorted %.300q; scontrol: %.300q", s, got, sorted[i])
		}
	}
	if accepted < len(lists)/10 {
		t.Errorf("only %d of %d lists were read", accepted, len(lists))
	}
}

// hasSuffix is text after the last bracket of a name.
var hasSuffix = regexp.MustCompile(`\][^,\[\] \t\r\n]+(,|$)`)

// readsSuffixes says whether the installed scontrol reads that: from 23.02.5 on.
func readsSuffixes(t *testing.T) bool {
	t.Helper()
	cmd := exec.Command("scontrol", "-V")
	cmd.Env = append(os.Environ(), "SLURM_CONF="+anyConf(t))
	out, err := cmd.Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) != 2 {
		t.Fatalf("scontrol -V: %v: %s", err, out)
	}
	var major, minor, micro int
	if _, err := fmt.Sscanf(words[1], "%d.%d.%d", &major, &minor, &micro); err != nil {
		t.Fatalf("scontrol -V: %s", out)
	}
	return slices.Compare([]int{major, minor, micro}, []int{23, 2, 5}) >= 0
}

// sameNames says whether scontrol's sorting kept all names of the list. It
// loses some where ranges overlap and others of the prefix are padded
// otherwise: 9-12, 9-12, 08, 08.
func sameNames(l List, sorted []string) bool {
	after, err := Expand(strings.Join(sorted, ","))
	return err == nil && slices.Equal(slices.Sorted(slices.Values(after)), slices.Sorted(slices.Values(l.Names())))
}

var (
	balanced   = regexp.MustCompile(`^([^\[\]]|\[[^\[\]]*\])*$`)
	oddRange   = regexp.MustCompile(`-[\],]|[\[,]\d+[^\d,\]-]+\d*-`)
	fourDigits = regexp.MustCompile(`\d{4}`)
)

// isSenseless knows the package comment's list of what scontrol should refuse.
func isSenseless(s string) bool {
	return !balanced.MatchString(s) || oddRange.MatchString(s)
}

// drawList writes lists with up to three brackets a name, and ranges of
// different widths that follow and overlap each other.
func drawList(r *rand.Rand) string {
	var names []string
	for range 1 + r.IntN(4) {
		var name strings.Builder
		for i := range min(3, r.IntN(5)) {
			name.WriteString([]string{"n", "m", "", "n1", "x-", "R"}[r.IntN(6)])
			var items []string
			for range 1 + r.IntN(3) {
				lo, width := r.IntN(13), 1+r.IntN(2)
				if r.IntN(8) == 0 {
					lo, width = 95+r.IntN(10), 3
				}
				item := fmt.Sprintf("%0*d", width, lo)
				if r.IntN(2) == 0 {
					item += fmt.Sprintf("-%d", lo+r.IntN(6-i))
				}
				items = append(items, item)
			}
			name.WriteString("[" + strings.Join(items, ",") + "]")
		}
		if name.Len() == 0 {
			name.WriteString(drawNames(r)[0])
		}
		names = append(names, name.String())
	}
	return strings.Join(names, ",")
}

// drawChanged draws a list and replaces, inserts or removes one byte. Lists
// that became long are left out: scontrol takes minutes to sort some.
func drawChanged(r *rand.Rand) string {
	const bytes = "[]-,0123n.x_"
	for {
		s := drawList(r)
		i, c := r.IntN(len(s)), string(bytes[r.IntN(len(bytes))])
		switch r.IntN(3) {
		case 0:
			s = s[:i] + c + s[i+1:]
		case 1:
			s = s[:i] + c + s[i:]
		default:
			s = s[:i] + s[i+1:]
		}
		s = "n" + s // never empty
		if l, err := Parse(s); (err != nil || l.Len() < 1000) && !fourDigits.MatchString(s) {
			return s
		}
	}
}

// drawNames draws names of few prefixes and widths, in runs and with duplicates.
func drawNames(r *rand.Rand) []string {
	var names []string
	prefixes := []string{"n", "n", "N", "r1n", "r02n", "r10n", "", "a.b"}
	for range 1 + r.IntN(8) {
		prefix, lo, width := prefixes[r.IntN(len(prefixes))], r.IntN(110), 1+r.IntN(4)
		if r.IntN(10) == 0 {
			names = append(names, prefix+"q")
		}
		for i := range 1 + r.IntN(6) {
			names = append(names, fmt.Sprintf("%s%0*d", prefix, width, lo+i))
		}
	}
	return names
}
