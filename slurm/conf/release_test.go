package conf

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseRelease(t *testing.T) {
	for text, want := range map[string]Release{
		"22.05.8": {22, 5}, "slurm-wlm 24.11.5\n": {24, 11}, "slurm 25.05.0-0rc1": {25, 5}, "": {}, "slurm": {}, "x.y": {}, "24": {},
	} {
		if got := ParseRelease(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	for _, test := range []struct {
		r, s Release
		want bool
	}{
		{Release{24, 5}, Release{24, 5}, true}, {Release{24, 11}, Release{24, 5}, true}, {Release{25, 2}, Release{24, 5}, true},
		{Release{23, 11}, Release{24, 5}, false}, {Release{24, 4}, Release{24, 5}, false}, {Release{}, Release{23, 2}, false},
	} {
		if got := test.r.Since(test.s); got != test.want {
			t.Errorf("%v since %v: %v", test.r, test.s, got)
		}
	}
}

// said is what a real slurmctld of a release has said of itself.
func said(t *testing.T, release string) Site {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../testdata", release, "config.txt"))
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, "="); ok {
			settings[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return Running(settings)
}

// Both were configured with PrivateData=cloud. The newer does not say so, and needs it no more.
func TestPrivateDataOfReleases(t *testing.T) {
	of := func(site Site) []Finding {
		return slices.DeleteFunc(Check(site, input()), func(f Finding) bool { return f.Key != privateKey })
	}
	if got := of(said(t, "22.05")); len(got) != 1 || got[0].Level != OK {
		t.Errorf("22.05: %+v", got)
	}
	newer := said(t, "24.11")
	if newer.Release != (Release{24, 11}) || newer.Get(privateKey) != "" {
		t.Fatalf("not what this test is about: %+v", newer)
	}
	if got := of(newer); len(got) != 0 {
		t.Errorf("24.11: %+v", got)
	}
	if text := Fragment(newer, input()); strings.Contains(text, privateKey) {
		t.Errorf("24.11: the fragment sets it:\n%s", text)
	}
	newer.Release = Release{22, 5}
	if got := of(newer); len(got) != 1 || got[0].Level != Missing {
		t.Errorf("22.05 without it: %+v", got)
	}
}

// From 24.05 on each PrologSlurmctld line counts, where the last one did.
func TestPrologsOfReleases(t *testing.T) {
	in := input()
	gate, chain := in.Programs.Gate, in.Programs.Chain
	for _, test := range []struct {
		name    string
		have    []string
		old     Level // below 24.05
		oldWant string
		new     Level
		newWant string
	}{
		{"none", nil, Missing, gate, Missing, gate},
		{"the gate", []string{gate}, OK, gate, OK, gate},
		{"the site's own", []string{"/x"}, Wrong, chain, Wrong, gate},
		{"two of the site's own", []string{"/x", "/y"}, Wrong, chain, Wrong, gate},
		{"the site's own and the gate", []string{"/x", gate}, OK, gate, OK, gate},
		{"the gate and the site's own", []string{gate, "/x"}, Wrong, chain, OK, gate},
		{"the script", []string{chain}, OK, chain, OK, chain},
		{"the script and what it calls, which then runs twice", []string{"/x", chain}, OK, chain, Wrong, gate},
	} {
		var text strings.Builder
		for _, have := range test.have {
			text.WriteString("PrologSlurmctld=" + have + "\n")
		}
		path := filepath.Join(t.TempDir(), "slurm.conf")
		write(t, path, text.String(), 0o600)
		site, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []Release{{}, {23, 11}, {24, 5}} {
			site.Release = r
			level, want := test.old, test.oldWant
			if r.Since(manyPrologs) {
				level, want = test.new, test.newWant
			}
			all := Check(site, in)
			i := slices.IndexFunc(all, func(f Finding) bool { return f.Key == prologKey })
			if i < 0 || all[i].Level != level || all[i].Want != want {
				t.Errorf("%s, Slurm %v: %+v, want %s and %s", test.name, r, all, level, want)
			}
			script := want == chain && level != OK
			if got := ChainScript(site, in); (got != "") != script {
				t.Errorf("%s, Slurm %v: the script %q", test.name, r, got)
			}
			if got := Chained(site, in.Programs); got != (want == chain || r.Since(manyPrologs) && slices.Contains(test.have, chain)) {
				t.Errorf("%s, Slurm %v: chained: %v", test.name, r, got)
			}
		}
	}
	running := Running(map[string]string{"SLURM_VERSION": "24.11.5", "PrologSlurmctld[1]": gate, "PrologSlurmctld[0]": "/x", "Epilog[0]": "/b", "Epilog[1]": "/a"})
	if got := running.prologs(); !slices.Equal(got, []string{"/x", gate}) || running.Get("Epilog") != "/b,/a" {
		t.Errorf("a running slurmctld's: %v, %v", got, running.Settings)
	}
}

// From 23.11 on a job that takes in nodes cannot use them.
func TestExpandOfReleases(t *testing.T) {
	for r, want := range map[Release]bool{{}: false, {22, 5}: false, {23, 2}: false, {23, 11}: true, {24, 11}: true} {
		for _, expand := range []bool{true, false} {
			got := slices.ContainsFunc(conflicts(Site{Release: r}, Input{Expand: expand}), func(f Finding) bool {
				return f.Level == Advice && strings.Contains(f.Why, "expand in burst.toml")
			})
			if got != (want && expand) {
				t.Errorf("Slurm %v, expand %v: %v", r, expand, got)
			}
		}
	}
}

// From 25.05 on prologs may have a time limit of their own, which then counts. Where there is no limit none is
// written: it would cut off the site's own prologs and epilogs.
func TestPrologTimeout(t *testing.T) {
	for _, test := range []struct {
		release   string
		settings  map[string]string
		key, want string // key "": nothing is said or written
		level     Level
	}{
		{"22.05.8", nil, "", "", ""},
		{"25.05.0", nil, "", "", ""},
		{"24.11.5", map[string]string{"PrologEpilogTimeout": "65534"}, "", "", ""},
		{"25.05.0", map[string]string{"EpilogTimeout": "60", "PrologTimeout": "65534"}, "", "", ""},
		{"24.11.5", map[string]string{"PrologEpilogTimeout": "INFINITE"}, "", "", ""},
		{"24.11.5", map[string]string{"PrologEpilogTimeout": "unlimited"}, "", "", ""},
		{"24.11.5", map[string]string{"PrologEpilogTimeout": "0"}, "", "", ""},
		{"25.05.0", map[string]string{"PrologEpilogTimeout": "60", "PrologTimeout": "Infinite"}, "", "", ""},
		{"25.05.0", map[string]string{"EpilogTimeout": "60"}, "", "", ""},
		{"24.11.5", map[string]string{"PrologEpilogTimeout": "3600"}, timeoutKey, "3600", OK},
		{"25.05.0", map[string]string{"PrologEpilogTimeout": "3600"}, timeoutKey, "3600", OK},
		{"24.11.5", map[string]string{"PrologEpilogTimeout": "60"}, timeoutKey, "2100", Wrong},
		{"25.05.0", map[string]string{"PrologEpilogTimeout": "60"}, ownTimeoutKey, "2100", Missing},
		{"25.05.0", map[string]string{"EpilogTimeout": "3600", "PrologTimeout": "60"}, ownTimeoutKey, "2100", Wrong},
		{"25.05.0", map[string]string{"EpilogTimeout": "60", "PrologTimeout": "3600"}, ownTimeoutKey, "3600", OK},
	} {
		site := Running(test.settings)
		site.Release = ParseRelease(test.release)
		is := func(f Finding) bool { return f.Key == timeoutKey || f.Key == ownTimeoutKey }
		all := Check(site, input())
		i := slices.IndexFunc(all, is)
		switch {
		case test.key == "" && (i >= 0 || strings.Contains(Fragment(site, input()), "ilogTimeout=")):
			t.Errorf("%s %v: a limit where the site has none: %+v", test.release, test.settings, all)
		case test.key == "":
		case i < 0 || all[i].Key != test.key || all[i].Want != test.want || all[i].Level != test.level || slices.ContainsFunc(all[i+1:], is):
			t.Errorf("%s %v: %+v, want %s=%s, %s", test.release, test.settings, all, test.key, test.want, test.level)
		case !strings.Contains(Fragment(site, input()), "\n"+test.key+"="+test.want+"\n"):
			t.Errorf("%s %v: it is not written", test.release, test.settings)
		case (test.level == Missing) != strings.Contains(all[i].Why, "A slurmd before 25.05 does not know this key, and does not start: while a host has one, write PrologEpilogTimeout=2100 into slurm.conf"):
			t.Errorf("%s %v: %s", test.release, test.settings, all[i].Why)
		}
	}
}

// TestFits is that of the bootstrap.
func TestFits(t *testing.T) {
	for _, tt := range []struct {
		slurmd, slurmctld string
		want              bool
	}{
		{"22.05.8", "22.05.2", true}, {"22.05.8", "23.02.0", true}, {"22.05.8", "23.11.1", true}, {"22.05.8", "24.05.0", false},
		{"23.02.1", "24.05.0", true}, {"23.02.1", "24.11.0", true}, {"22.05.8", "24.11.0", false}, {"24.05.1", "25.11", true},
		{"23.11.1", "25.11.0", false}, {"23.02.0", "22.05.8", false}, {"25.05.3", "25.05.0", true}, {"20.11.9", "21.08.8", true},
		{"25.11.0", "26.05.0", true}, {"19.05.1", "21.08.0", false}, {"24.11.5", "26.05.0", true}, {"24.05.1", "26.05.0", false},
	} {
		if got := ParseRelease(tt.slurmd).Fits(ParseRelease(tt.slurmctld)); got != tt.want {
			t.Errorf("%s under %s: %v", tt.slurmd, tt.slurmctld, got)
		}
	}
}
