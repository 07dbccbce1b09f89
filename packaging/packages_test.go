package packaging

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestPackageVersions: what git says of a tree becomes a version that dpkg and rpm sort as meant.
func TestPackageVersions(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs git 200 times")
	}
	script, err := filepath.Abs("packages.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir, when := t.TempDir(), "2026-11-23T01:02:03Z"
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "BURST_VERSION=", "BURST_COMMIT=", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir),
			"GIT_AUTHOR_DATE="+when, "GIT_COMMITTER_DATE="+when)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git := func(args ...string) string {
		return run("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
	}
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var versions []string
	want := func(want string) {
		t.Helper()
		have := run(script, "--version")
		if have != want {
			t.Errorf("the version is %q, want %q", have, want)
		}
		versions = append(versions, have)
	}

	commit := func(want string) {
		t.Helper()
		if have := run(script, "--commit"); have != want {
			t.Errorf("the commit is %q, want %q", have, want)
		}
	}

	want("0.0.0~dev")
	commit("")
	git("init", "-q")
	write("1")
	git("add", "file")
	hash := func(length string) string { return "g" + git("rev-parse", "--short="+length, "HEAD") }
	for i := range 11 { // all of one second, and the tenth above the ninth
		git("commit", "-q", "--allow-empty", "-m", strconv.Itoa(i))
		want(fmt.Sprintf("0.0.0~git20261123010203.%d.%s", i+1, hash("12")))
	}
	write("dirty")
	want("0.0.0~git20261123010203.11." + hash("12") + ".dirty")
	git("checkout", "-q", "file")
	when = "2026-11-23T01:02:04Z"
	git("commit", "-q", "--allow-empty", "-m", "later")
	want("0.0.0~git20261123010204.12." + hash("12"))
	git("tag", "v0.9.0")
	want("0.9.0")
	git("commit", "-q", "--allow-empty", "-m", "after 0.9.0")
	want("0.9.0+1." + hash("7"))
	git("tag", "v1.2.0-rc1")
	want("1.2.0~rc1")
	for i := range 10 {
		git("commit", "-q", "--allow-empty", "-m", strconv.Itoa(i))
		want(fmt.Sprintf("1.2.0~rc1+%d.%s", i+1, hash("7")))
	}
	git("tag", "v1.2.0-rc2")
	want("1.2.0~rc2")
	git("commit", "-q", "--allow-empty", "-m", "after rc2")
	git("tag", "v1.2.0")
	want("1.2.0")
	commit(git("rev-parse", "HEAD"))
	write("2")
	commit(git("rev-parse", "HEAD") + "-dirty")
	want("1.2.0+0.dirty")
	git("checkout", "-q", "file")
	git("commit", "-q", "--allow-empty", "-m", "after 1.2.0")
	want("1.2.0+1." + hash("7"))
	write("2")
	want("1.2.0+1." + hash("7") + ".dirty")
	git("checkout", "-q", "file")
	git("commit", "-q", "--allow-empty", "-m", "still after 1.2.0")
	want("1.2.0+2." + hash("7"))
	git("tag", "v1.2.1")
	want("1.2.1")

	dpkg, noDpkg := exec.LookPath("dpkg")
	rpm, noRPM := exec.LookPath("rpm")
	for i, v := range versions {
		if !regexp.MustCompile(`^[0-9][A-Za-z0-9.+~]*$`).MatchString(v) {
			t.Errorf("%q is no version for both", v)
		}
		if noDpkg == nil {
			run(dpkg, "--validate-version", v+"-1")
		}
		if i == 0 {
			continue
		}
		if noDpkg == nil {
			run(dpkg, "--compare-versions", versions[i-1]+"-1", "lt", v+"-1")
		}
		if noRPM == nil {
			if said := run(rpm, "--eval", fmt.Sprintf("%%{lua:print(rpm.vercmp(%q, %q))}", versions[i-1]+"-1", v+"-1")); said != "-1" {
				t.Errorf("for rpm %s comes after %s: %s", versions[i-1], v, said)
			}
		}
	}
	if noDpkg != nil && noRPM != nil {
		t.Skip("neither dpkg nor rpm says how they sort")
	}
}

// TestShallowVersion: a clone that does not have all commits says that its versions are its own, and they sort below.
func TestShallowVersion(t *testing.T) {
	script, err := filepath.Abs("packages.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "BURST_VERSION=")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{
		{"init", "-q", "whole"},
		{"-C", "whole", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "--allow-empty", "-m", "1"},
		{"-C", "whole", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "--allow-empty", "-m", "2"},
		{"clone", "-q", "--depth", "1", "file://" + filepath.Join(dir, "whole"), "shallow"},
	} {
		if said, err := run("git", args...); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, said)
		}
	}
	dir = filepath.Join(dir, "shallow")
	if said, err := run(script, "--version"); err != nil || !strings.Contains(said, "git fetch --unshallow") || !strings.Contains(said, ".0.g") {
		t.Errorf("%v\n%s", err, said)
	}
}

// TestMaintainer: packages say who answers for them, in the form that both kinds have, or are not made.
func TestMaintainer(t *testing.T) {
	for _, wrong := range []string{"somebody", "a@b.example", "<a@b.example>", "A <a>", "A <a@b.example> x", `A "B" <a@b.example>`, "A|B <a@b.example>", "A\nB <a@b.example>", "A <a@b.example>\n"} {
		cmd := exec.Command("./packages.sh", t.TempDir())
		cmd.Env = append(os.Environ(), "BURST_MAINTAINER="+wrong, "PATH=/usr/bin:/bin")
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "no maintainer") {
			t.Errorf("%s: %v\n%s", wrong, err, out)
		}
	}
}

// TestMaintainerScripts: they parse in a plain shell, and do nothing for steps that are not theirs.
func TestMaintainerScripts(t *testing.T) {
	scripts, err := filepath.Glob("nfpm/*/*.sh")
	if err != nil || len(scripts) != 6 {
		t.Fatalf("%d scripts: %v", len(scripts), err)
	}
	for _, s := range scripts {
		steps := []string{"abort-upgrade", "failed-upgrade"}
		if strings.HasSuffix(s, "postremove.sh") {
			steps = nil // it acts on this host's systemd whatever the step
		}
		if out, err := exec.Command("sh", "-n", s).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", s, err, out)
		}
		for _, step := range steps {
			if out, err := exec.Command("sh", "-x", s, step, "1.0-1").CombinedOutput(); err != nil || strings.Contains(string(out), "systemctl") || strings.Contains(string(out), "mkdir") {
				t.Errorf("%s %s: %v\n%s", s, step, err, out)
			}
		}
	}
}
