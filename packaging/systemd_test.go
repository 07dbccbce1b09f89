package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/packaging/progtest"
)

// What `systemd-analyze security` may say of the units, in tenths. The agent is root.
const (
	maxExposure      = "15"
	maxAgentExposure = "20"
)

// installed puts a program's unit into a folder as it is on a host, but with
// the program of this source.
func installed(t *testing.T, name string) (unit string) {
	t.Helper()
	text, err := os.ReadFile("systemd/" + name + ".service")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(progtest.Build(t, name), name)
	with := strings.Replace(string(text), "ExecStart=/usr/sbin/"+name+"\n", "ExecStart="+program+"\n", 1)
	if with == string(text) {
		t.Fatalf("%s.service does not start /usr/sbin/%s", name, name)
	}
	unit = filepath.Join(t.TempDir(), name+".service")
	if err := os.WriteFile(unit, []byte(with), 0o644); err != nil {
		t.Fatal(err)
	}
	return unit
}

func analyze(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
	if err != nil || strings.Contains(string(out), ".service:") && args[0] == "verify" {
		t.Errorf("systemd-analyze %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestUnit(t *testing.T) {
	if testing.Short() {
		t.Skip("builds burstd: slow end-to-end, run by make test")
	}
	unit := installed(t, "burstd")
	analyze(t, "verify", "--man=no", "--recursive-errors=no", unit)
	analyze(t, "security", "--offline=true", "--no-pager", "--threshold="+maxExposure, unit)

	// The drop-in opens all that the unit closes.
	dropin, err := os.ReadFile("systemd/burstd-local.conf")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(unit+".d", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(unit+".d", "local.conf"), dropin, 0o644); err != nil {
		t.Fatal(err)
	}
	analyze(t, "verify", "--man=no", "--recursive-errors=no", unit)
}

func TestAgentUnit(t *testing.T) {
	if testing.Short() {
		t.Skip("builds burst-agent: slow end-to-end, run by make test")
	}
	unit := installed(t, "burst-agent")
	analyze(t, "verify", "--man=no", "--recursive-errors=no", unit)
	analyze(t, "security", "--offline=true", "--no-pager", "--threshold="+maxAgentExposure, unit)
}

// TestDropInUndoesTheSandbox compares the two: a key that the unit closes and
// the drop-in forgets would break users' jobs on local instances.
func TestDropInUndoesTheSandbox(t *testing.T) {
	unit, dropin := keys(t, "systemd/burstd.service"), keys(t, "systemd/burstd-local.conf")
	for key := range unit {
		hardens := regexp.MustCompile(`^(Protect|Private|Restrict|SystemCall(Filter|Arch)|ReadWrite|NoNew|Lock|Memory|Capability|UMask|User|Group|KillMode)`).MatchString(key)
		if hardens && !dropin[key] {
			t.Errorf("burstd-local.conf does not undo %s", key)
		}
	}
	for key := range dropin {
		if !unit[key] && key != "Delegate" && key != "TasksMax" {
			t.Errorf("burstd-local.conf changes %s, which burstd.service does not set", key)
		}
	}
}

func keys(t *testing.T, path string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(\w+)=`).FindAllStringSubmatch(string(text), -1) {
		all[m[1]] = true
	}
	return all
}

// TestUnitAndDefaults holds unit and tmpfiles to the folders that burst.toml
// has by default.
func TestUnitAndDefaults(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	unit, tmp, sample := read("systemd/burstd.service"), read("tmpfiles/burst.conf"), read("../cmd/burst/burst.toml")
	for _, tt := range []struct{ key, inSample, file, want string }{
		{"socket", `"/run/burst/burstd.sock"`, unit, "\nRuntimeDirectory=burst\n"},
		{"state", `"/var/lib/burst"`, unit, "\nStateDirectory=burst\n"},
		{"spool", `"/var/spool/burst"`, unit, "\nReadWritePaths=-/var/spool/burst\n"},
		{"spool", `"/var/spool/burst"`, tmp, "\nd /var/spool/burst 0750 slurm slurm -\n"},
		{"user", `"slurm"`, unit, "\nUser=slurm\n"},
	} {
		if !strings.Contains(sample, "\n#"+tt.key+" = "+tt.inSample+"\n") {
			t.Errorf("%s is not %s by default any more", tt.key, tt.inSample)
		}
		if !strings.Contains(tt.file, tt.want) {
			t.Errorf("no line %q for the default of %s", strings.TrimSpace(tt.want), tt.key)
		}
	}
	for _, page := range regexp.MustCompile(`man:([\w.-]+)\((\d)\)`).FindAllStringSubmatch(unit, -1) {
		read("man/" + page[1] + "." + page[2])
	}
}

// TestUnitSeesKeys: what the docs and the sample have burstd read over SSH is not
// where the unit closes or hides the host's folders, or removes its own; and the
// unit of an agent is one.
func TestUnitSeesKeys(t *testing.T) {
	unit, err := os.ReadFile("systemd/burstd.service")
	if err != nil {
		t.Fatal(err)
	}
	var closed []string
	for line, folders := range map[string][]string{
		"ProtectHome=yes": {"/home/", "/root/", "/run/user/"}, "PrivateTmp=yes": {"/tmp/", "/var/tmp/"}, "RuntimeDirectory=burst": {"/run/burst/"},
	} {
		if strings.Contains(string(unit), "\n"+line+"\n") {
			closed = append(closed, folders...)
		}
	}
	agents := 0
	named := regexp.MustCompile(`\b(?:key|agent|munge_key) = "(?:ssh:)?(/[^"]+)"`)
	for _, file := range []string{"../docs/ssh-bootstrap.md", "../docs/vultr.md", "../cmd/burst/burst.toml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all := named.FindAllStringSubmatch(string(text), -1)
		if len(all) == 0 {
			t.Errorf("%s names no key", file)
		}
		for _, m := range all {
			for _, folder := range append(closed, "/etc/munge/") { // munged's own alone
				if strings.HasPrefix(m[1], folder) {
					t.Errorf("%s: %s, and burstd has no %s", file, m[0], folder)
				}
			}
		}
		agent := regexp.MustCompile("(?s)```ini\n(# \\S+burst-ssh.service\n.*?)```").FindSubmatch(text)
		if agent == nil {
			continue
		}
		agents++
		path := filepath.Join(t.TempDir(), "burst-ssh.service")
		if err := os.WriteFile(path, agent[1], 0o644); err != nil {
			t.Fatal(err)
		}
		analyze(t, "verify", "--man=no", "--recursive-errors=no", path)
		for _, key := range []string{"\nUser=slurm\n", "\nRuntimeDirectory=burst-ssh\n"} {
			if !strings.Contains(string(agent[1]), key) {
				t.Errorf("%s: its unit of an agent lacks %q", file, key)
			}
		}
	}
	if agents != 1 {
		t.Errorf("%d pages have the unit of an agent, want 1", agents)
	}
}
