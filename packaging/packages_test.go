package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPackageVersions: what git says of a tree becomes a version that dpkg and rpm sort as meant.
func TestPackageVersions(t *testing.T) {
	script, err := filepath.Abs("packages.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "BURST_VERSION=", "BURST_COMMIT=", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir),
			"GIT_AUTHOR_DATE=2026-11-23T01:02:03Z", "GIT_COMMITTER_DATE=2026-11-23T01:02:03Z")
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
	git("commit", "-q", "-m", "1")
	want("0.0.0~git20261123010203." + git("rev-parse", "--short=12", "HEAD"))
	git("tag", "v1.2.0-rc1")
	want("1.2.0~rc1")
	git("commit", "-q", "--allow-empty", "-m", "2")
	after := "+1.g" + git("rev-parse", "--short", "HEAD")
	want("1.2.0~rc1" + after)
	git("tag", "v1.2.0")
	want("1.2.0")
	commit(git("rev-parse", "HEAD"))
	write("2")
	commit(git("rev-parse", "HEAD") + "-dirty")
	want("1.2.0+dirty")

	if _, err := exec.LookPath("dpkg"); err != nil {
		return
	}
	for i := range versions[1:] {
		run("dpkg", "--compare-versions", versions[i], "lt", versions[i+1])
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
