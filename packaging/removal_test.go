package packaging

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/packaging/progtest"
)

// TestRemoval: neither package goes while the journal has an instance, or cannot be read, unless
// the admin says that the instances are abandoned.
func TestRemoval(t *testing.T) {
	for _, tt := range []struct {
		name, burstd, env string
		refused           string
	}{
		{name: "nothing lives", burstd: "exit 0"},
		{name: "an instance lives", burstd: "echo instance i-1", refused: "instance i-1"},
		{name: "the journal cannot be read", burstd: "echo it is torn >&2; exit 1", refused: "it is torn"},
		{name: "it says nothing of why", burstd: "exit 1", refused: "cannot be told"},
		{name: "abandoned", burstd: "echo instance i-1", env: "BURST_ABANDON=1"},
	} {
		for _, pkg := range []string{"burst", "burst-node"} {
			for _, step := range []string{"remove", "0"} { // deb's word, and rpm's
				dir := t.TempDir()
				write(t, "#!/bin/sh\n[ \"$*\" = --unended ] || exit 9\n"+tt.burstd+"\n", 0o755, dir, "bin/burstd")
				write(t, "", 0o644, dir, "active")
				said, err := scripted(t, dir, pkg+"/preremove.sh", []string{tt.env}, step)
				switch {
				case tt.refused == "" && (err != nil || strings.Contains(said, "NOT REMOVED")):
					t.Errorf("%s: %s %s: %v\n%s", tt.name, pkg, step, err, said)
				case tt.refused != "" && (err == nil || !strings.Contains(said, pkg+": NOT REMOVED") || exists(dir, "asked")):
					t.Errorf("%s: %s %s is not refused: %v\n%s", tt.name, pkg, step, err, said)
				case tt.refused != "" && (!strings.Contains(said, "moved to another host") || !strings.Contains(said, "BURST_ABANDON=1")):
					t.Errorf("%s: %s %s does not ask whether another host has burstd:\n%s", tt.name, pkg, step, said)
				case strings.Contains(said, "stop-all") && strings.Index(said, "moved to another host") > strings.Index(said, "stop-all"):
					t.Errorf("%s: it advises stop-all before it asks whether another host has burstd:\n%s", tt.name, said)
				case pkg == "burst" && !strings.Contains(said, tt.refused):
					t.Errorf("%s: it does not say %q:\n%s", tt.name, tt.refused, said)
				}
			}
		}
	}
}

// scripted runs the package's script with its folders below dir, where systemctl notes what it is asked in the
// file "asked" and answers as if burstd runs as long as the file "active" is there, and starts while "activating" is;
// it is enabled unless "disabled" is there.
func scripted(t *testing.T, dir, script string, env []string, args ...string) (said string, err error) {
	t.Helper()
	text, err := os.ReadFile("nfpm/" + script)
	if err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"bin", "run/systemd/system", "etc/systemd/system/multi-user.target.wants", "etc/slurm", "usr/lib/tmpfiles.d", "var/spool"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	systemctl := `#!/bin/sh
case "$*" in
is-active*)
	for state in active activating deactivating; do
		[ ! -e ` + dir + `/$state ] || { echo $state; break; }
	done
	[ -e ` + dir + `/active ] || exit 3 ;;
stop*) echo "$*" >>` + dir + `/asked; rm -f ` + dir + `/active ` + dir + `/activating ` + dir + `/deactivating ;;
*try-restart*) echo "$*" >>` + dir + `/asked ;;
*start*) echo "$*" >>` + dir + `/asked; touch ` + dir + `/active ;;
is-failed*) exit 1 ;;
is-enabled*) [ ! -e ` + dir + `/disabled ] ;;
*disable*) echo "$*" >>` + dir + `/asked ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "bin/systemctl"), []byte(systemctl), 0o755); err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer(" /run/", " "+dir+"/run/", ">/run/", ">"+dir+"/run/", "/var/", dir+"/var/", "/etc/", dir+"/etc/", "=/usr/lib/tmpfiles.d", "="+dir+"/usr/lib/tmpfiles.d",
		"=/usr/share/burst", "="+dir+"/usr/share/burst", " /usr/share/burst", " "+dir+"/usr/share/burst")
	cmd := exec.Command("sh", append([]string{"-c", here.Replace(string(text)), "script"}, args...)...)
	cmd.Env = append(append(os.Environ(), "PATH="+dir+"/bin:/usr/bin:/bin"), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func exists(path ...string) bool {
	_, err := os.Lstat(filepath.Join(path...))
	return err == nil
}

func write(t *testing.T, text string, mode os.FileMode, path ...string) {
	t.Helper()
	to := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// TestRemovalLooksTwice: what burstd has launched while it was being stopped refuses the removal, too, and burstd is started again,
// if it ran.
func TestRemovalLooksTwice(t *testing.T) {
	for _, state := range []string{"active", "activating", "deactivating", "inactive"} {
		dir, ran := t.TempDir(), state != "inactive"
		write(t, `#!/bin/sh
n=$(cat `+dir+`/looks 2>/dev/null || echo 0); echo $((n + 1)) >`+dir+`/looks
[ $n = 0 ] || echo instance i-2
`, 0o755, dir, "bin/burstd")
		for _, step := range []string{"remove", "0"} {
			for _, file := range []string{"looks", "asked", "active"} {
				os.Remove(filepath.Join(dir, file))
			}
			write(t, "", 0o644, dir, state)
			said, err := scripted(t, dir, "burst/preremove.sh", nil, step)
			asked, _ := os.ReadFile(filepath.Join(dir, "asked"))
			want := "stop burstd.service\n--no-block start burstd.service\n"
			if !ran {
				want = "stop burstd.service\n"
			}
			if err == nil || !strings.Contains(said, "instance i-2") || string(asked) != want || exists(dir, "active") != ran || exists(dir, "run/burst-removal") {
				t.Errorf("%s, it is %s: %v, systemctl was asked %q:\n%s", step, state, err, asked, said)
			}
		}
	}
}

// TestRemovalStops: what starts, or waits for its next start, does not outlive its package; and if that removal is
// killed, one that is refused later starts it again.
func TestRemovalStops(t *testing.T) {
	for pkg, unit := range map[string]string{"burst": "burstd.service", "burst-node": "burst-agent.service"} {
		for _, state := range []string{"active", "activating"} {
			dir := t.TempDir()
			write(t, "", 0o644, dir, state)
			write(t, "#!/bin/sh\n", 0o755, dir, "bin/burstd")
			said, err := scripted(t, dir, pkg+"/preremove.sh", nil, "0")
			asked, _ := os.ReadFile(filepath.Join(dir, "asked"))
			if err != nil || string(asked) != "stop "+unit+"\n" {
				t.Errorf("%s is %s: %v, systemctl was asked %q:\n%s", unit, state, err, asked, said)
			}
			write(t, "#!/bin/sh\necho instance i-1\n", 0o755, dir, "bin/burstd")
			if said, err := scripted(t, dir, pkg+"/preremove.sh", nil, "0"); err == nil || !exists(dir, "active") {
				t.Errorf("%s was %s, and is not started again: %v:\n%s", unit, state, err, said)
			}
			if pkg == "burst-node" {
				continue
			}
			// The same, but the admin has disabled it meanwhile: it may run on another host.
			for _, file := range []string{"active", "asked"} {
				os.Remove(filepath.Join(dir, file))
			}
			write(t, "", 0o644, dir, "run/burst-removal")
			write(t, "", 0o644, dir, "disabled")
			if said, err := scripted(t, dir, "burst/preremove.sh", nil, "0"); err == nil || exists(dir, "active") || exists(dir, "run/burst-removal") {
				t.Errorf("a burstd that is disabled is started: %v:\n%s", err, said)
			}
		}
	}
}

// TestRemovalIsInterrupted: a burstd, or an agent, that a removal has stopped runs again when the package is configured,
// or the removal is given up; not after one that was carried out, not one that did not run,
// and no burstd that the admin has disabled since.
func TestRemovalIsInterrupted(t *testing.T) {
	for pkg, unit := range map[string]string{"burst": "burstd.service", "burst-node": "burst-agent.service"} {
		for _, tt := range []struct {
			name, then string
			ran, gone  bool
			disabled   bool // since
			again      bool
		}{
			{name: "configured", then: "configure", ran: true, again: true},
			{name: "rpm installs it again", then: "1", ran: true, again: true},
			{name: "given up", then: "abort-remove", ran: true, again: true},
			{name: "another package's affair", then: "abort-deconfigure", ran: true, again: true},
			{name: "an upgrade is given up", then: "abort-upgrade", ran: true, again: true},
			{name: "given up, never enabled", then: "abort-remove", ran: true, disabled: true, again: true},
			{name: "moved to another host, then an upgrade that is given up", then: "abort-upgrade", ran: true, disabled: true, again: pkg == "burst-node"},
			{name: "moved to another host, then an upgrade", then: "configure", ran: true, disabled: true, again: pkg == "burst-node"},
			{name: "it did not run", then: "configure"},
			{name: "removed, and installed again", then: "configure", ran: true, gone: true},
		} {
			dir := t.TempDir()
			write(t, "#!/bin/sh\n", 0o755, dir, "bin/burstd")
			write(t, "", 0o644, dir, "usr/lib/tmpfiles.d/burst.conf")
			link := filepath.Join(dir, "etc/systemd/system/multi-user.target.wants", unit)
			write(t, "", 0o644, link)
			if err := os.Remove(link); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(dir, "usr/lib", unit), link); err != nil {
				t.Fatal(err)
			}
			if tt.ran {
				write(t, "", 0o644, dir, "active")
			}
			steps := [][]string{{"preremove.sh", "remove"}}
			if tt.gone {
				steps = append(steps, []string{"postremove.sh", "remove"})
			}
			if tt.disabled {
				write(t, "", 0o644, dir, "disabled")
			}
			for _, step := range append(steps, []string{"postinstall.sh", tt.then, "1.0-1"}) {
				said, err := scripted(t, dir, pkg+"/"+step[0], nil, step[1:]...)
				if told := strings.Contains(said, "systemctl enable --now burstd"); err != nil || told != (step[0] == "postinstall.sh" && tt.disabled && !tt.again) {
					t.Fatalf("%s, %s: %v: %v\n%s", pkg, tt.name, step, err, said)
				}
			}
			asked, _ := os.ReadFile(filepath.Join(dir, "asked"))
			if exists(dir, "active") != tt.again || strings.Contains(string(asked), "disable") {
				t.Errorf("%s, %s: systemctl was asked %q", pkg, tt.name, asked)
			}
			if exists(link) == tt.gone {
				t.Errorf("%s, %s: enabled: %v", pkg, tt.name, !tt.gone)
			}
		}
	}
}

// TestPurge: a purge deletes the journal that its package has left, and no other.
func TestPurge(t *testing.T) {
	for _, tt := range []struct {
		name    string
		burstd  string // what it says of what lives at the removal
		env     []string
		between func(dir string)
		keeps   string // why; empty: all is deleted
	}{
		{name: "nothing has happened since"},
		{name: "make install since", between: func(dir string) { write(t, "#!/bin/sh\n", 0o755, dir, "bin/burstd") }, keeps: "another burstd"},
		{name: "make install since, abandoned", env: []string{"BURST_ABANDON=1"}, between: func(dir string) { write(t, "#!/bin/sh\n", 0o755, dir, "bin/burstd") }, keeps: "another burstd"},
		{name: "written since", between: func(dir string) {
			later := time.Now().Add(time.Minute)
			if err := os.Chtimes(filepath.Join(dir, "var/lib/burst/burst.db"), later, later); err != nil {
				t.Fatal(err)
			}
		}, keeps: "somebody has written it"},
		{name: "put back with its old mtime", between: func(dir string) {
			db := filepath.Join(dir, "var/lib/burst/burst.db")
			os.Remove(db)
			write(t, "another", 0o640, db)
			before := time.Now().Add(-time.Hour)
			if err := os.Chtimes(db, before, before); err != nil {
				t.Fatal(err)
			}
		}, keeps: "somebody has written it"},
		{name: "another's below it", between: func(dir string) { write(t, "another", 0o640, dir, "var/lib/burst/east/burst.db") }, keeps: "east/burst.db"},
		{name: "put there since, abandoned", env: []string{"BURST_ABANDON=1"}, between: func(dir string) {
			write(t, "another", 0o640, dir, "var/lib/burst/burst.db")
		}, keeps: "somebody has written it"},
		{name: "made since, abandoned", env: []string{"BURST_ABANDON=1"}, between: func(dir string) { os.Remove(filepath.Join(dir, "var/lib/burst/.removed")) }, keeps: "was not there"},
		{name: "it cannot be looked through", between: func(dir string) {
			write(t, "#!/bin/sh\necho find: it cannot be read >&2; exit 1\n", 0o755, dir, "bin/find")
		}, keeps: "find: it cannot be read"},
		{name: "made since", between: func(dir string) { os.Remove(filepath.Join(dir, "var/lib/burst/.removed")) }, keeps: "was not there"},
		{name: "instances were abandoned at the removal", burstd: "instance i-1", env: []string{"BURST_ABANDON=1"}},
		{name: "instances were abandoned, a purge later", burstd: "instance i-1", env: []string{"BURST_ABANDON=1"}, between: func(string) {}, keeps: "instance i-1"},
	} {
		dir := t.TempDir()
		write(t, "#!/bin/sh\necho '"+tt.burstd+"'\n", 0o755, dir, "bin/burstd")
		write(t, "journal", 0o640, dir, "var/lib/burst/burst.db")
		write(t, "order", 0o640, dir, "var/spool/burst/1")
		do := func(script, step string, env []string) string {
			said, err := scripted(t, dir, "burst/"+script, env, step)
			if err != nil {
				t.Fatalf("%s: %s %s: %v\n%s", tt.name, script, step, err, said)
			}
			return said
		}
		do("preremove.sh", "remove", tt.env)
		os.Remove(filepath.Join(dir, "bin/burstd"))
		do("postremove.sh", "remove", tt.env)
		if !exists(dir, "var/lib/burst/burst.db") {
			t.Errorf("%s: the removal deletes the journal", tt.name)
		}
		if tt.between != nil {
			tt.between(dir)
			if tt.burstd != "" {
				tt.env = nil
			}
		}
		said := do("postremove.sh", "purge", tt.env)
		kept := exists(dir, "var/lib/burst/burst.db") && exists(dir, "var/spool/burst/1")
		if kept != (tt.keeps != "") || kept && !(strings.Contains(said, "NOT DELETED") && strings.Contains(said, tt.keeps)) {
			t.Errorf("%s: kept: %v:\n%s", tt.name, kept, said)
		}
	}
}

// TestPurgeWithoutState: a burstd that has its journal elsewhere keeps its socket and the orders that wait.
func TestPurgeWithoutState(t *testing.T) {
	for _, how := range []string{"installed", "running", "gone"} {
		dir, err := os.MkdirTemp("", "burst") // a socket's path is short
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		write(t, "order", 0o640, dir, "var/spool/burst/1")
		switch how {
		case "installed":
			write(t, "#!/bin/sh\n", 0o755, dir, "bin/burstd")
		case "running":
			if err := os.MkdirAll(filepath.Join(dir, "run/burst"), 0o755); err != nil {
				t.Fatal(err)
			}
			socket, err := net.Listen("unix", filepath.Join(dir, "run/burst/burstd.sock"))
			if err != nil {
				t.Fatal(err)
			}
			defer socket.Close()
		}
		said, err := scripted(t, dir, "burst/postremove.sh", nil, "purge")
		kept := exists(dir, "var/spool/burst/1") && (how != "running" || exists(dir, "run/burst/burstd.sock"))
		if err != nil || kept != (how != "gone") || kept != strings.Contains(said, "another burstd") {
			t.Errorf("%s: kept: %v: %v\n%s", how, kept, err, said)
		}
	}
}

// TestPurgeNote: a removal notes what lives where only it can be read from, writes through nothing that it finds there, and
// without burstd notes that it cannot be told; where it cannot write it comes to its end, or burstd runs again.
func TestPurgeNote(t *testing.T) {
	const burstd = "#!/bin/sh\n"
	begin := func(before func(dir string)) (dir string) {
		dir = t.TempDir()
		write(t, "", 0o644, dir, "active")
		write(t, "journal", 0o640, dir, "var/lib/burst/burst.db")
		before(dir)
		said, err := scripted(t, dir, "burst/preremove.sh", nil, "remove")
		if err != nil {
			t.Fatalf("preremove: %v\n%s", err, said)
		}
		return dir
	}
	purge := func(dir string) string {
		os.Remove(filepath.Join(dir, "bin/burstd"))
		said, err := scripted(t, dir, "burst/postremove.sh", nil, "purge")
		if err != nil {
			t.Fatalf("purge: %v\n%s", err, said)
		}
		return said
	}
	dir := begin(func(string) {})
	if said := purge(dir); !strings.Contains(said, "cannot be told") || !exists(dir, "var/lib/burst/burst.db") {
		t.Errorf("without a burstd:\n%s", said)
	}

	dir = begin(func(dir string) {
		write(t, burstd, 0o755, dir, "bin/burstd")
		write(t, "secret", 0o600, dir, "theirs")
		if err := os.Symlink(filepath.Join(dir, "theirs"), filepath.Join(dir, "var/lib/burst/.removed")); err != nil {
			t.Fatal(err)
		}
	})
	if text, _ := os.ReadFile(filepath.Join(dir, "theirs")); string(text) != "secret" {
		t.Errorf("a removal writes through a link: %q", text)
	}
	note := filepath.Join(dir, "var/lib/burst/.removed")
	os.Remove(note)
	if err := os.Symlink(filepath.Join(dir, "theirs"), note); err != nil {
		t.Fatal(err)
	}
	if said := purge(dir); strings.Contains(said, "secret") || !exists(dir, "var/lib/burst/burst.db") {
		t.Errorf("a purge reads through a link:\n%s", said)
	}

	// A folder of that name cannot be written, nor deleted, by root either.
	blocked := func(dir string) {
		write(t, burstd, 0o755, dir, "bin/burstd")
		write(t, "", 0o644, dir, "var/lib/burst/.removed/it")
	}
	dir = begin(blocked)
	if said := purge(dir); !exists(dir, "var/lib/burst/burst.db") {
		t.Errorf("without a note:\n%s", said)
	}
	for _, step := range []string{"abort-remove", "configure"} {
		dir = begin(blocked)
		write(t, "", 0o644, dir, "usr/lib/tmpfiles.d/burst.conf")
		if said, err := scripted(t, dir, "burst/postinstall.sh", nil, step, "1.0-1"); err != nil || !exists(dir, "active") {
			t.Errorf("%s: burstd is not started again: %v\n%s", step, err, said)
		}
	}
}

// TestSpoolOwner: an installation makes the spool for SlurmUser; one that the site has given to somebody stays.
func TestSpoolOwner(t *testing.T) {
	for _, tt := range []struct {
		name, conf string
		before     string // the version before
		mode       os.FileMode
		owner      int // of the folder before; -1: there is none
		want       int // afterwards
		says       string
	}{
		{name: "new", owner: -1, want: 4242},
		{name: "left by an installation that was killed", owner: 0, want: 4242},
		{name: "left by an upgrade that was killed", before: "1.0-1", owner: 0, want: 4242},
		{name: "new after a removal", before: "1.0-1", owner: -1, want: 4242},
		{name: "the site's, root's", before: "1.0-1", mode: 0o700, owner: 0, want: 0},
		{name: "there before the first installation", mode: 0o755, owner: 0, want: 4242},
		{name: "the site's", mode: 0o700, owner: 4343, want: 4343},
		{name: "new, SlurmUser is another", conf: "ClusterName=x\nslurmuser = hpc # ours\n", owner: -1, want: -1, says: "SlurmUser is hpc"},
		{name: "SlurmUser is that user", conf: "SlurmUser=slurm(64030)\n", owner: -1, want: 4242},
		{name: "SlurmUser is that user's number", conf: "SlurmUser=64030\n", owner: -1, want: 4242},
		{name: "SlurmUser is another's number", conf: "SlurmUser=64031\n", owner: -1, want: -1, says: "SlurmUser is 64031"},
		{name: "no SlurmUser is root", conf: "ClusterName=x\n", owner: -1, want: -1, says: "SlurmUser is root"},
		{name: "SlurmUser may be in what is included", conf: "Include users.conf\n", owner: -1, want: 4242},
	} {
		dir := t.TempDir()
		spool := filepath.Join(dir, "var/spool/burst")
		write(t, "d "+spool+" 0750 slurm slurm -\n", 0o644, dir, "usr/lib/tmpfiles.d/burst.conf")
		write(t, tt.conf, 0o644, dir, "etc/slurm/slurm.conf")
		// chown and stat need root, and a user slurm: the owner is in a file.
		write(t, "#!/bin/sh\n[ \"$1\" = slurm:slurm ] && echo 4242 >"+dir+"/owner\n", 0o755, dir, "bin/chown")
		write(t, "#!/bin/sh\n[ \"$2\" != %a ] || exec /usr/bin/stat \"$@\"\ncat "+dir+"/owner 2>/dev/null || echo 0\n", 0o755, dir, "bin/stat")
		write(t, "#!/bin/sh\ncase $2 in slurm | 64030) echo slurm:x:64030: ;; root) echo root:x:0: ;; *) exit 2 ;; esac\n", 0o755, dir, "bin/getent")
		if tt.owner >= 0 {
			if err := os.MkdirAll(filepath.Dir(spool), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(spool, tt.mode); err != nil {
				t.Fatal(err)
			}
			write(t, strconv.Itoa(tt.owner), 0o644, dir, "owner")
		}
		said, err := scripted(t, dir, "burst/postinstall.sh", nil, "configure", tt.before)
		owner := -1
		if exists(spool) {
			text, _ := os.ReadFile(filepath.Join(dir, "owner"))
			owner, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		if info, err := os.Stat(spool); err == nil && tt.want == 4242 && info.Mode().Perm() != 0o750 {
			t.Errorf("%s: the spool's mode is %v", tt.name, info.Mode())
		}
		if err != nil || owner != tt.want || !strings.Contains(said, tt.says) || tt.says == "" && said != "" {
			t.Errorf("%s: %v, the owner is %d, want %d:\n%s", tt.name, err, owner, tt.want, said)
		}
	}
}

// TestMoved: by the lines of docs/backup.md, a host that burstd has left keeps nothing by which a
// removal or a `burst stop-all` there would know the instances, and nothing is lost.
func TestMoved(t *testing.T) {
	var lines string
	for _, b := range progtest.Blocks(t) {
		if b.File == "docs/backup.md" && strings.HasPrefix(b.Text, "systemctl disable --now burstd") {
			lines = b.Text
		}
	}
	dir := t.TempDir()
	files := []string{"burst.db", "burst.db-wal", "cluster-id"}
	for _, name := range append(files, "words.secret") {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const stub = "systemctl() { echo systemctl \"$@\"; }\n"
	out, err := exec.Command("bash", "-c", stub+strings.ReplaceAll(lines, "/var/lib/burst", dir)).CombinedOutput()
	if err != nil || string(out) != "systemctl disable --now burstd\n" {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range files {
		kept, _ := filepath.Glob(filepath.Join(dir, "moved.*", name))
		if len(kept) != 1 {
			t.Errorf("%s is kept as %v", name, kept)
		}
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(left) != 2 {
		t.Errorf("what is left: %v", left)
	}
}
