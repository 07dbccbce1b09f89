package packaging

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A python that makes virtual environments whose own python notes what it is
// told, and pretends to be apt-get as well.
const (
	fakePython = `#!/bin/sh
echo "python $*" >>"$LOG"
case "$1 $2" in
"-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
"-m pip") [ -z "${PIP_FAILS:-}" ] || { echo no index; exit 1; } ;;
esac
`
	fakeApt = `#!/bin/sh
echo "apt-get $*" >>"$LOG"
`
	fakeID = "#!/bin/sh\necho 0\n"
)

// depsWorld is a clone with nothing but deps.sh, on a machine that has all
// commands but those left out.
type depsWorld struct{ clone, bin, log string }

func newDepsWorld(t *testing.T, without string) depsWorld {
	t.Helper()
	dir := t.TempDir()
	w := depsWorld{filepath.Join(dir, "clone"), filepath.Join(dir, "bin"), filepath.Join(dir, "log")}
	for _, d := range []string{filepath.Join(w.clone, "packaging"), w.bin} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile("deps.sh")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		filepath.Join(w.clone, "packaging", "deps.sh"): string(script), filepath.Join(w.bin, "python3"): fakePython,
		filepath.Join(w.bin, "apt-get"): fakeApt, filepath.Join(w.bin, "id"): fakeID,
	}
	for _, command := range []string{
		"slurmctld", "slurmd", "scontrol", "munged", "mpirun", "mpicc", "gcc", "make", "ip", "systemd-analyze", "mandoc", "curl", "lua5.1", "lua5.4",
		"mpicc.mpich", "mpiexec.hydra", "gfortran", "pkg-config", "sshd", "sudo", "sqlite3", "patch", "zsh", "fish",
	} {
		if command != without {
			files[filepath.Join(w.bin, command)] = "#!/bin/sh\n"
		}
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, tool := range []string{"sh", "cat", "cp", "dirname", "env", "mkdir", "rm"} {
		path, err := exec.LookPath(tool)
		if err == nil {
			err = os.Symlink(path, filepath.Join(w.bin, tool))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// run runs the script, and returns its exit code, what it said, and the
// commands that it gave since the last run.
func (w depsWorld) run(t *testing.T, env []string, args ...string) (code int, said string, gave []string) {
	t.Helper()
	if err := os.WriteFile(w.log, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(w.clone, "packaging", "deps.sh"), args...)
	cmd.Env = append([]string{"PATH=" + w.bin, "LOG=" + w.log, "PYTHON=" + filepath.Join(w.bin, "python3")}, env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	log, err := os.ReadFile(w.log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		gave = append(gave, strings.TrimSpace(line))
	}
	return cmd.ProcessState.ExitCode(), string(out), gave
}

func (w depsWorld) stamp() string {
	text, err := os.ReadFile(filepath.Join(w.clone, "build", "moto", "burst-stamp"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func TestDepsForTheDemoLeaveMotoOut(t *testing.T) {
	w := newDepsWorld(t, "")
	if code, said, gave := w.run(t, nil); code != 0 || said != "" || len(gave) != 0 || w.stamp() != "" {
		t.Errorf("exit code %d, said %q, ran %q", code, said, gave)
	}
}

func TestDepsInstallMotoOnce(t *testing.T) {
	w := newDepsWorld(t, "")
	code, said, gave := w.run(t, nil, "--moto")
	if code != 0 || !strings.Contains(said, "installing moto[server]==") || !strings.Contains(strings.Join(gave, "\n"), " moto[server]==") {
		t.Fatalf("exit code %d, said %q, ran %q", code, said, gave)
	}
	if code, said, gave := w.run(t, nil, "--moto"); code != 0 || said != "" || len(gave) != 1 { // one look at it
		t.Errorf("again: exit code %d, said %q, ran %q", code, said, gave)
	}
	moved := w
	moved.clone += "-moved"
	if err := os.Rename(w.clone, moved.clone); err != nil {
		t.Fatal(err)
	}
	if code, said, _ := moved.run(t, nil, "--moto"); code != 0 || !strings.Contains(said, "installing") || !strings.Contains(moved.stamp(), "-moved/") {
		t.Errorf("in a clone that was moved: exit code %d, said %q, stamp %q", code, said, moved.stamp())
	}
}

// Where one Lua is, the other is installed: plugins of Slurm are built with either.
func TestDepsInstallBothLuas(t *testing.T) {
	w := newDepsWorld(t, "lua5.4")
	if err := os.Symlink(filepath.Join(w.bin, "lua5.1"), filepath.Join(w.bin, "lua")); err != nil {
		t.Fatal(err)
	}
	if _, said, _ := w.run(t, nil, "--moto"); !strings.Contains(said, "deps: installing lua5.4\n") {
		t.Errorf("said %q", said)
	}
	if err := os.Remove(filepath.Join(w.bin, "apt-get")); err != nil {
		t.Fatal(err)
	}
	if code, said, _ := w.run(t, nil, "--moto"); code != 0 || strings.Contains(said, "lua") {
		t.Errorf("where apt-get is not: exit code %d, said %q", code, said)
	}
}

func TestDepsTellWhyMotoIsNotThere(t *testing.T) {
	w := newDepsWorld(t, "")
	code, said, _ := w.run(t, []string{"PIP_FAILS=1"}, "--moto")
	if code != 1 || !strings.Contains(said, "no index\ndeps: error: ") || !strings.Contains(said, "deps: hint: ") || w.stamp() != "" {
		t.Errorf("exit code %d, said %q, stamp %q", code, said, w.stamp())
	}
}

// TestDepsKeepSshdQuiet: what the tests' sshd comes with does not listen on this machine,
// also where the installation fails.
func TestDepsKeepSshdQuiet(t *testing.T) {
	for _, fails := range []bool{false, true} {
		w := newDepsWorld(t, "")
		script, err := os.ReadFile("deps.sh")
		if err != nil {
			t.Fatal(err)
		}
		// This host's sshd is found however the PATH is.
		files := map[string]string{"../clone/packaging/deps.sh": strings.Replace(string(script), "sshd:openssh-server", "no-sshd:openssh-server", 1), "systemctl": "#!/bin/sh\necho \"systemctl $*\" >>\"$LOG\"\n"}
		if fails {
			files["apt-get"] = fakeApt + "exit 1\n"
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(w.bin, name), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		code, said, gave := w.run(t, nil, "--moto")
		all := strings.Join(gave, "\n")
		mask, apt, unmask, disable := strings.Index(all, "systemctl --quiet mask ssh"), strings.Index(all, "apt-get"), strings.Index(all, "systemctl --quiet unmask ssh"), strings.Index(all, "systemctl --quiet disable ssh")
		if (code != 0) != fails || mask < 0 || apt < mask || unmask < apt || disable < unmask {
			t.Errorf("apt-get fails: %v: exit code %d, said %q, ran\n%s", fails, code, said, all)
		}
	}
}

func TestDepsInstallPackages(t *testing.T) {
	w := newDepsWorld(t, "slurmctld")
	if _, err := os.Stat("/usr/sbin/slurmctld"); err == nil {
		w = newDepsWorld(t, "mpicc") // the script looks into the folders of daemons itself
	}
	code, said, gave := w.run(t, nil)
	if code != 0 || !strings.HasPrefix(said, "deps: installing ") || len(gave) != 2 || !strings.Contains(gave[1], " install ") {
		t.Errorf("exit code %d, said %q, ran %q", code, said, gave)
	}
}

func TestDepsForTestsBringMPICH(t *testing.T) {
	w := newDepsWorld(t, "mpicc.mpich")
	if _, err := exec.LookPath("/usr/sbin/mpicc.mpich"); err == nil {
		t.Fatal("the script looks into the folders of daemons itself, and finds it there")
	}
	if code, said, gave := w.run(t, nil); code != 0 || said != "" || len(gave) != 0 {
		t.Errorf("for the demo: exit code %d, said %q, ran %q", code, said, gave)
	}
	code, _, gave := w.run(t, nil, "--moto")
	if code != 0 || !strings.Contains(strings.Join(gave, "\n"), " install -y --no-install-recommends libmpich-dev") {
		t.Errorf("exit code %d, ran %q", code, gave)
	}
}

func TestDepsRefuseUnknownArguments(t *testing.T) {
	w := newDepsWorld(t, "")
	if code, said, gave := w.run(t, nil, "moto"); code != 2 || !strings.Contains(said, "deps: error: ") || len(gave) != 0 {
		t.Errorf("exit code %d, said %q, ran %q", code, said, gave)
	}
}
