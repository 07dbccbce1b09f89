package step

import (
	"errors"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// own are options of a program that stands in for srun.
var own = []Option{{Name: "ckpt", Arg: Required, Own: true}, {Name: "once", Arg: Required, Own: true}, {Name: "explain", Own: true}}

func nothing(string) string { return "" }

func vars(set map[string]string) func(string) string {
	return func(name string) string { return set[name] }
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, args string
		program    string // of each component
		options    string // of each component
		own        string
	}{
		{"nothing", "", "", "", ""},
		{"program alone", "hostname -f", "hostname -f", "", ""},
		{"short with and without blank", "-n 4 -N2 ./a -n 8", "./a -n 8", "ntasks=4 nodes=2", ""},
		{"joined letters", "-lun4 ./a", "./a", "label unbuffered ntasks=4", ""},
		{"joined, argument next", "-ln 4 ./a", "./a", "label ntasks=4", ""},
		{"optional short is attached only", "-K -I5 -k ./a", "./a", "kill-on-bad-exit immediate=5 no-kill", ""},
		{"optional short takes no word", "-I 5", "5", "immediate", ""},
		{"long", "--ntasks 4 --mpi=pmix --label ./a", "./a", "ntasks=4 mpi=pmix label", ""},
		{"optional long", "--overlap --nice=5 --pty bash", "bash", "overlap nice=5 pty", ""},
		{"empty value", "--output= ./a", "./a", "output=", ""},
		{"a value that looks like an option", "--comment --mpi -o -n ./a", "./a", "comment=--mpi output=-n", ""},
		{"abbreviated", "--ntas=4 --unb --open-m append --output x ./a", "", "", "unknown"},
		{"abbreviated and alone", "--unb --open=append --multi ./conf", "./conf", "unbuffered open-mode=append multi-prog", ""},
		{"two dashes", "-n4 -- -weird --ntasks 3", "-weird --ntasks 3", "ntasks=4", ""},
		{"one dash is a program", "-n4 - x", "- x", "ntasks=4", ""},
		{"components", "-n1 ./a x : -n2 --mpi=none ./b", "./a x | ./b", "ntasks=1 | ntasks=2 mpi=none", ""},
		{"a colon after two dashes is one too", "-- ./a : ./b", "./a | ./b", " | ", ""},
		{"component without a program", "-n1 : -n2 ./b", " | ./b", "ntasks=1 | ntasks=2", ""},
		{"own before, among", "--ckpt dmtcp -n4 --once=prep --explain ./a --ckpt x", "./a --ckpt x", "ntasks=4", "ckpt=dmtcp once=prep explain"},
		{"own is not abbreviated", "--ck dmtcp ./a", "", "", "unknown"},
		{"own in a later component", "./a : --once=x ./b", "", "", "unknown"},
		{"a plugin's", "--container-image=x ./a", "", "", "unknown"},
		{"unknown letter", "-n4 -y ./a", "", "", "unknown"},
		{"argument missing", "-n", "", "", "needs"},
		{"long argument missing", "--ntasks", "", "", "needs"},
		{"argument where none is", "--label=3 ./a", "", "", "takes no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(strings.Fields(c.args), append(Options(""), own...))
			var unknown *UnknownError
			switch c.own {
			case "unknown":
				if !errors.As(err, &unknown) {
					t.Fatalf("%+v, %v: want an UnknownError", got, err)
				}
				return
			case "needs", "takes no":
				if err == nil || !strings.Contains(err.Error(), c.own) {
					t.Fatalf("%+v, %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var programs, options []string
			for _, p := range got.Parts {
				programs = append(programs, strings.Join(got.Args[p.Program:p.End], " "))
				options = append(options, text(p.Options))
			}
			if g := strings.Join(programs, " | "); g != c.program {
				t.Errorf("programs %q, want %q", g, c.program)
			}
			if g := strings.Join(options, " | "); g != c.options {
				t.Errorf("options %q, want %q", g, c.options)
			}
			if g := text(got.Own); g != c.own {
				t.Errorf("own %q, want %q", g, c.own)
			}
		})
	}
}

func text(given []Given) string {
	var all []string
	for _, g := range given {
		s := g.Name
		if g.Has {
			s += "=" + g.Value
		}
		all = append(all, s)
	}
	return strings.Join(all, " ")
}

func TestOptionsOfVersions(t *testing.T) {
	has := func(version, name string) bool {
		return slices.ContainsFunc(Options(version), func(o Option) bool { return o.Name == name })
	}
	for _, c := range []struct {
		version, name string
		want          bool
	}{
		{"slurm-wlm 22.05.8", "extra", false}, {"slurm 23.02.0", "extra", true}, {"slurm 24.11.5", "gid", false},
		{"22.05", "gid", true}, {"", "gid", true}, {"slurm 26.05.3", "async", true}, {"what is this", "async", true},
	} {
		if got := has(c.version, c.name); got != c.want {
			t.Errorf("%s has --%s: %v", c.version, c.name, got)
		}
	}
	// An abbreviation of 22.05 that newer versions made ambiguous.
	if c, err := Parse([]string{"--ext=2", "./a"}, Options("22.05.8")); err != nil || text(c.Parts[0].Options) != "extra-node-info=2" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestLearn(t *testing.T) {
	help := "  -n, --ntasks=ntasks         number of tasks\n" +
		"  -y, --yonder=place          of a later version\n" +
		"      --nice[=value]          as before\n" +
		"\nOptions provided by plugins:\n" +
		"      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]\n" +
		"                              the image: --no-option here\n" +
		"      --container-writable    is writable\n" +
		"      --trace=[FILE]          with a file or without\n"
	options := Learn(Options(""), help)
	if n := len(options) - len(Options("")); n != 4 {
		t.Errorf("%d options learnt: %+v", n, options[len(Options("")):])
	}
	c, err := Parse(strings.Fields("--container-image x --container-writable --trace -y there ./a"), options)
	if err != nil || text(c.Parts[0].Options) != "container-image=x container-writable trace yonder=there" {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestGetopt holds Parse to glibc's getopt_long, by way of getopt(1).
func TestGetopt(t *testing.T) {
	if _, err := exec.LookPath("getopt"); err != nil {
		t.Skip("getopt(1) is not here")
	}
	options := Options("")
	short, long := "+", []string{}
	for _, o := range options {
		colons := []string{"", ":", "::"}[o.Arg]
		long = append(long, o.Name+colons)
		if o.Short != 0 {
			short += string(o.Short) + colons
		}
	}
	words := []string{"-n", "-n4", "-l", "-lu", "-lN", "-K", "-I7", "--ntasks", "--ntasks=3", "--mpi=x", "--mp", "--pty", "--nice=1", "--nic", "--unb", "--", "./a", "x", "-", "--label", "--out=f", "--jobi", "5"}
	rng := rand.New(rand.NewPCG(1, 2))
	compared := 0
	for range 150 {
		args := make([]string, 1+rng.IntN(6))
		for i := range args {
			args[i] = words[rng.IntN(len(words))]
		}
		c, err := Parse(args, options)
		out, getoptErr := exec.Command("getopt", append([]string{"-u", "-o", short, "-l", strings.Join(long, ","), "--"}, args...)...).Output()
		var unknown *UnknownError
		if errors.As(err, &unknown) {
			continue // getopt(1) takes some that srun finds ambiguous
		}
		if (err != nil) != (getoptErr != nil) {
			t.Fatalf("%q: %v, getopt: %v", args, err, getoptErr)
		}
		if err != nil {
			continue
		}
		compared++
		if want := " -- " + strings.Join(c.Program(), " "); !strings.HasSuffix(strings.TrimSpace(string(out))+" ", strings.TrimSpace(want)+" ") {
			t.Fatalf("%q: program %q, getopt has %q", args, c.Program(), out)
		}
	}
	if compared < 50 {
		t.Errorf("only %d compared", compared)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("-n 4 --mpi=x -- ./a : -lK ./b", "--ckpt x")
	f.Fuzz(func(t *testing.T, a, b string) {
		args := append(strings.Split(a, " "), strings.Split(b, "\x00")...)
		c, err := Parse(args, append(Options(""), own...))
		if err != nil {
			return
		}
		// Nothing is lost, and nothing made up: without own options srun has just what was given.
		if len(c.Own) == 0 && !slices.Equal(c.Args, args) {
			t.Errorf("%q became %q", args, c.Args)
		}
		for _, p := range c.Parts {
			if p.Program > p.End || p.End > len(c.Args) {
				t.Errorf("%q: part %+v", args, p)
			}
		}
		c.Nature(nothing)
		c.Truncates(nothing)
	})
}

func FuzzLearn(f *testing.F) {
	f.Add("  -y, --yonder=place  x\n      --z[=a]\n")
	f.Fuzz(func(t *testing.T, help string) {
		for _, o := range Learn(nil, help) {
			if o.Name == "" {
				t.Errorf("an option without a name in %q", help)
			}
		}
	})
}
