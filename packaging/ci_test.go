package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCI: however late it is, .ci/run tests the packages, all tests and the demo; chaos has what is left of the hour,
// and what was not tried is said.
func TestCI(t *testing.T) {
	text, err := os.ReadFile("../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	const all = "deps,lint,deps-containers,deps-ulfm,packages,lint-packages.sh,test-packages.sh,test,demo"
	for _, tt := range []struct {
		name, seconds   string // since its begin, at its begin
		lint, test      string // exit codes
		shallow         bool
		does, says, not string
		fails           bool
		last            string
	}{
		{name: "early", seconds: "0", does: all + ",test-chaos 2m", not: "chaos", last: "packages: tested"},
		{name: "late", seconds: "3300", does: all + ",test-chaos ", says: "NOT TESTED: chaos for longer than", last: "packages: tested"},
		{name: "very late", seconds: "3400", does: all, says: "NOT TESTED: chaos, for which no time was left", last: "packages: tested"},
		{name: "no lintian", seconds: "0", lint: "3", does: all + ",test-chaos 2m", says: "NOT TESTED: what lintian", last: "packages: tested"},
		{name: "no roots", seconds: "0", test: "3", does: all + ",test-chaos 2m", says: "NOT TESTED: the packages at all", last: "packages: NOT TESTED"},
		{name: "a shallow clone", seconds: "0", shallow: true, does: all + ",test-chaos 2m", says: "NOT TESTED: an upgrade of the packages from an earlier schema: this clone has no commit 5eed;",
			not: "the packages at all", last: "packages: tested, but for an upgrade from an earlier schema"},
		{name: "lintian has errors", seconds: "0", lint: "1", does: strings.TrimSuffix(all, ",test-packages.sh,test,demo"), fails: true},
		{name: "the packages are broken", seconds: "0", test: "1", does: strings.TrimSuffix(all, ",test,demo"), fails: true},
	} {
		dir := t.TempDir()
		write(t, string(text), 0o755, dir, ".ci/run")
		log := dir + "/log"
		write(t, "#!/bin/sh\n[ $1 = -n ] && exit\n[ $1 != test-chaos ] || set -- \"$1 $CHAOS_TIME\"\nprintf '%s,' \"$1\" >>"+log+"\n", 0o755, dir, "bin/make")
		write(t, "#!/bin/sh\nshift\nexec \"$@\"\n", 0o755, dir, "bin/sudo")
		for script, code := range map[string]string{"lint-packages.sh": tt.lint, "test-packages.sh": tt.test} {
			text := "#!/bin/sh\ncommit=${OLDER:-5eed} # as there\nprintf '%s,' " + script + " >>" + log + "\n"
			if !tt.shallow {
				text += "mkdir -p build/roots/$commit-amd64; touch build/roots/$commit-amd64/done\n"
			}
			write(t, text+"exit "+code+"\n", 0o755, dir, "packaging", script)
		}
		cmd := exec.Command(filepath.Join(dir, ".ci/run"))
		cmd.Env = append(os.Environ(), "PATH="+dir+"/bin:"+os.Getenv("PATH"), "SECONDS="+tt.seconds, "OLDER=")
		out, err := cmd.CombinedOutput()
		did, _ := os.ReadFile(log)
		said, done := strings.TrimSpace(string(out)), strings.TrimSuffix(string(did), ",")
		if (err != nil) != tt.fails || !strings.HasPrefix(done, tt.does) || strings.Count(done, ",") != strings.Count(tt.does, ",") {
			t.Errorf("%s: it has done %s, want %s: %v\n%s", tt.name, done, tt.does, err, said)
		}
		if !strings.Contains(said, tt.says) || tt.not != "" && strings.Contains(said, "NOT TESTED: "+tt.not) {
			t.Errorf("%s: want %q in what it says:\n%s", tt.name, tt.says, said)
		}
		if lines := strings.Split(said, "\n"); !tt.fails && lines[len(lines)-1] != tt.last {
			t.Errorf("%s: its last line is %q, want %q", tt.name, lines[len(lines)-1], tt.last)
		}
	}
}
