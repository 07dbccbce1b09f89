package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSample: deb's scripts put the sample there once, never over what the site has written, and in place of a sample
// of before that nobody has changed; a purge takes it away.
func TestSample(t *testing.T) {
	const old, sample, own = "sample of before\n", "sample\n", "the site's\n"
	for _, tt := range []struct {
		name, before string // before: the version before, empty if there was none
		is, want     string // burst.toml; empty: there is none
		conffile     bool   // the version before had it as a conffile, and no sample
	}{
		{name: "new", want: sample},
		{name: "new, and the site has one", is: own, want: own},
		{name: "an upgrade, changed", before: "1.0-1", is: own, want: own},
		{name: "an upgrade, unchanged", before: "1.0-1", is: old, want: sample},
		{name: "an upgrade, and the site has none", before: "1.0-1"},
		{name: "an upgrade from a conffile, changed", before: "1.0-1", is: own, want: own, conffile: true},
		{name: "an upgrade from a conffile, unchanged", before: "1.0-1", is: old, want: old, conffile: true},
	} {
		dir := t.TempDir()
		toml := filepath.Join(dir, "etc/burst/burst.toml")
		write(t, "", 0o644, dir, "usr/lib/tmpfiles.d/burst.conf")
		if tt.is != "" {
			write(t, tt.is, 0o640, toml)
		}
		do := func(script string, args ...string) {
			t.Helper()
			if said, err := scripted(t, dir, "burst/"+script, nil, args...); err != nil || said != "" {
				t.Fatalf("%s: %s %v: %v\n%s", tt.name, script, args, err, said)
			}
		}
		if tt.before != "" {
			if !tt.conffile {
				write(t, old, 0o644, dir, "usr/share/burst/burst.toml")
			}
			do("preremove.sh", "upgrade", "2.0-1")
		}
		write(t, sample, 0o644, dir, "usr/share/burst/burst.toml")
		do("postinstall.sh", "configure", tt.before)
		do("postinstall.sh", "configure", "2.0-1")
		text, err := os.ReadFile(toml)
		if string(text) != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: it is %q, want %q: %v", tt.name, text, tt.want, err)
		}
		if info, err := os.Stat(toml); err == nil && text != nil && string(text) == own && info.Mode().Perm() != 0o640 {
			t.Errorf("%s: its mode is %v", tt.name, info.Mode())
		}
		do("postremove.sh", "remove")
		if tt.want != "" && !exists(toml) {
			t.Errorf("%s: a removal deletes it", tt.name)
		}
		do("postremove.sh", "purge")
		if exists(dir, "etc/burst") {
			t.Errorf("%s: a purge leaves it", tt.name)
		}
	}
}

// TestPurgeOfAConffile: dpkg deletes what was a conffile of a version before, although a purge is refused: the site has it again.
func TestPurgeOfAConffile(t *testing.T) {
	const own = "the site's\n"
	for _, tt := range []struct {
		name     string
		conffile bool
		deleted  bool   // by dpkg, in a purge
		refused  bool   // the purge
		then     string // what comes after the removal
		want     string
	}{
		{name: "a purge that is refused", conffile: true, deleted: true, refused: true, then: "postremove.sh purge", want: own},
		{name: "a purge", conffile: true, deleted: true, then: "postremove.sh purge"},
		{name: "a purge that is killed, and an installation", conffile: true, deleted: true, then: "postinstall.sh configure 1.0-1", want: own},
		{name: "an installation", conffile: true, then: "postinstall.sh configure 1.0-1", want: own},
		{name: "it was none", refused: true, then: "postremove.sh purge", want: own},
	} {
		dir := t.TempDir()
		toml := filepath.Join(dir, "etc/burst/burst.toml")
		write(t, own, 0o640, toml)
		write(t, "", 0o644, dir, "usr/lib/tmpfiles.d/burst.conf")
		said := " " + dir + "/etc/needrestart/conf.d/burst.conf 0123\n"
		if tt.conffile {
			said += " " + toml + " 4567 obsolete\n"
		}
		write(t, "#!/bin/sh\nprintf '\\n"+said+"'\n", 0o755, dir, "bin/dpkg-query")
		for range 2 {
			if said, err := scripted(t, dir, "burst/postremove.sh", nil, "remove"); err != nil || said != "" || !exists(toml) || exists(toml+".dpkg-keep") != tt.conffile {
				t.Errorf("%s: a removal: %v\n%s", tt.name, err, said)
			}
		}
		if tt.deleted {
			os.Remove(toml)
		}
		if tt.refused {
			write(t, "#!/bin/sh\n", 0o755, dir, "bin/burstd")
		}
		then := strings.Fields(tt.then)
		for range 2 {
			if said, err := scripted(t, dir, "burst/"+then[0], nil, then[1:]...); err != nil || strings.Contains(said, "NOT DELETED") != tt.refused {
				t.Errorf("%s: %v\n%s", tt.name, err, said)
			}
		}
		text, _ := os.ReadFile(toml)
		if info, err := os.Stat(toml); string(text) != tt.want || err == nil && info.Mode().Perm() != 0o640 || exists(toml+".dpkg-keep") {
			t.Errorf("%s: it is %q, want %q", tt.name, text, tt.want)
		}
	}
}

// TestPurgeOfAMount: where a folder is a mount of the site's a purge empties it, and comes to its end.
func TestPurgeOfAMount(t *testing.T) {
	for pkg, file := range map[string]string{"burst": "var/lib/burst/burst.db", "burst-node": "var/lib/burst-agent/a/b"} {
		dir := t.TempDir()
		busy := "echo busy >&2; exit 1\n" // what is said of a mount
		write(t, "#!/bin/sh\n"+busy, 0o755, dir, "bin/rmdir")
		write(t, "#!/bin/sh\n/bin/rm \"$@\"\n[ $1 != -rf ] || { "+strings.TrimSpace(busy)+"; }\n", 0o755, dir, "bin/rm")
		write(t, "#!/bin/sh\n", 0o755, dir, "bin/burstd")
		write(t, "x", 0o644, dir, file)
		if said, err := scripted(t, dir, pkg+"/preremove.sh", nil, "remove"); err != nil {
			t.Fatal(err, said)
		}
		os.Remove(filepath.Join(dir, "bin/burstd"))
		said, err := scripted(t, dir, pkg+"/postremove.sh", nil, "purge")
		left, _ := filepath.Glob(filepath.Join(dir, filepath.Dir(file), "*"))
		if err != nil || said != "" || len(left) > 0 || !exists(dir, "var/lib") {
			t.Errorf("%s: %v, %s is left:\n%s", pkg, err, left, said)
		}
	}
}

// TestRemovalNamesSlurmConf: a removal warns of what slurmctld would still call, and of nothing that it would not.
func TestRemovalNamesSlurmConf(t *testing.T) {
	const ours = "ResumeProgram=/usr/sbin/burst-resume\n"
	for _, tt := range []struct {
		name, slurm, burst string
		says               string
	}{
		{name: "no slurm.conf"},
		{name: "in slurm.conf", slurm: "ClusterName=x\n" + ours, says: "slurm.conf:2:" + strings.TrimSpace(ours)},
		{name: "in what it includes", slurm: "include /etc/slurm/burst.conf\n", burst: ours, says: "burst.conf:1:"},
		{name: "taken out", slurm: "#Include burst.conf\n#" + ours, burst: ours},
	} {
		for _, step := range []string{"remove", "0"} {
			dir := t.TempDir()
			write(t, "#!/bin/sh\n", 0o755, dir, "bin/burstd")
			for name, text := range map[string]string{"slurm.conf": tt.slurm, "burst.conf": tt.burst} {
				if text != "" {
					write(t, text, 0o644, dir, "etc/slurm", name)
				}
			}
			said, err := scripted(t, dir, "burst/preremove.sh", nil, step)
			if err != nil || !strings.Contains(said, tt.says) || (tt.says == "") != (said == "") {
				t.Errorf("%s: %s: %v, want %q:\n%s", tt.name, step, err, tt.says, said)
			}
		}
	}
}

// TestReleaseHasATag: a release is of a tagged commit of a whole clone, or says which it is.
func TestReleaseHasATag(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs git and make many times")
	}
	dir := t.TempDir()
	text, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	write(t, string(text), 0o644, dir, "whole/Makefile")
	write(t, "#!/bin/sh\necho builds $BURST_VERSION\n", 0o755, dir, "whole/packaging/packages.sh")
	run := func(sub, name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir = filepath.Join(dir, sub)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "BURST_VERSION=", "MAKEFLAGS=")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	git := func(args ...string) {
		t.Helper()
		if said, err := run("whole", "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, said)
		}
	}
	release := func(sub string, builds bool, args ...string) {
		t.Helper()
		said, err := run(sub, "make", append([]string{"release"}, args...)...)
		if (err == nil) != builds || strings.Contains(said, "builds") != builds || !builds && !strings.Contains(said, "make: hint: git tag it") {
			t.Errorf("%s, %v: %v\n%s", sub, args, err, said)
		}
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "1")
	release("whole", false)
	release("whole", true, "BURST_VERSION=1.2.3")
	git("tag", "v1.2.3")
	release("whole", true)
	git("commit", "-q", "--allow-empty", "-m", "2")
	release("whole", false)
	git("tag", "v1.2.4")
	git("clone", "-q", "--depth", "1", "file://"+filepath.Join(dir, "whole"), filepath.Join(dir, "shallow"))
	release("shallow", false)
}
