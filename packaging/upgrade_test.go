package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestUpgradeStarts: an installation starts a burstd again that runs, and one that has failed, as
// after a downgrade; never one that nobody has started, or that was moved to another host, and none
// in place of one that runs if the new one would not start with the site's configuration.
func TestUpgradeStarts(t *testing.T) {
	text, err := os.ReadFile("nfpm/burst/postinstall.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	here := strings.NewReplacer("/run/systemd/system", dir, "=/usr/share/burst", "="+dir, "burstd=/usr/sbin/burstd", "burstd="+dir+"/sbin/burstd", "/usr/lib/tmpfiles.d", dir, "/etc/tmpfiles.d", dir, "/run/", dir+"/run/", "/etc/", dir+"/etc/", "/var/", dir+"/var/")
	script := here.Replace(string(text))
	for line := range strings.Lines(strings.ReplaceAll(script, dir+"/", "")) {
		if code := strings.TrimSpace(line); !strings.HasPrefix(code, "#") && regexp.MustCompile(`/(etc|run|usr|var)\b`).MatchString(code) {
			t.Errorf("this would be the host's: %s", code)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "burst.conf"), nil, 0o600); err != nil { // no spool is made
		t.Fatal(err)
	}
	write(t, "#!/bin/sh\necho that of PATH >&2; exit 2\n", 0o755, dir, "burstd") // never asked
	runs := exec.Command("sleep", "600")
	runs.Env = []string{"PATH=" + os.Getenv("PATH"), "A=b", "BURST_CONFIG=/elsewhere"}
	if err := runs.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { runs.Process.Kill(); runs.Wait() }()
	if err := os.Mkdir(filepath.Join(dir, "sbin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sbin/burstd"), []byte("#!/bin/sh\n[ \"$*\" = '--check-config --config "+dir+"/etc/burst/burst.toml' ] || exit 9\n[ ! -e "+dir+"/wrong ] || { echo no such key; exit 2; }\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	const restart, start, ask = "try-restart burstd.service", "reset-failed burstd.service,start burstd.service", "systemctl enable --now burstd"
	for _, tt := range []struct {
		name, failed, enabled, fails string
		is, wrong                    string // what is-active says; and whether the new one refuses the configuration
		unit                         string // what systemctl show says
		want, says                   string
		code                         int // of deb's; rpm's is always 0
	}{
		{name: "it runs, or never did", enabled: "0", failed: "1", want: restart},
		{name: "it has failed", enabled: "0", failed: "0", want: start},
		{name: "it has failed, and is not enabled", enabled: "1", failed: "0", want: restart, says: ask},
		{name: "it fails again", enabled: "0", failed: "0", fails: "start", want: start, says: "then systemctl start burstd"},
		{name: "it runs, and the new one takes the configuration", is: "active", enabled: "0", failed: "1", want: restart},
		{name: "it runs, and the new one refuses the configuration", is: "active", wrong: "yes", enabled: "0", failed: "1", says: "no such key", code: 1},
		{name: "it starts", is: "activating", wrong: "yes", enabled: "0", failed: "1", says: "runs on and watches", code: 1},
		{name: "it does not run, and is not configured", is: "inactive", wrong: "yes", enabled: "1", failed: "1", want: restart},
		{name: "the site's own burstd", is: "active", wrong: "yes", unit: "ExecStart={ path=/opt/burstd ; argv[]=/opt/burstd ; }", enabled: "0", failed: "1", want: restart},
		{name: "--config in the unit", is: "active", unit: "ExecStart={ path=" + dir + "/sbin/burstd ; argv[]=" + dir + "/sbin/burstd --config=/elsewhere ; ignore }", enabled: "0", failed: "1", says: "fails", code: 1},
		{name: "BURST_CONFIG of an EnvironmentFile", is: "active", unit: "Environment=\nMainPID=" + strconv.Itoa(runs.Process.Pid) + "\nExecStart={ path=" + dir + "/sbin/burstd ; argv[]=" + dir + "/sbin/burstd ; ignore }", enabled: "0", failed: "1", says: "fails", code: 1},
		{name: "BURST_CONFIG in the unit", is: "active", unit: "Environment=A=b BURST_CONFIG=/elsewhere C=d\nExecStart={ path=" + dir + "/sbin/burstd ; argv[]=" + dir + "/sbin/burstd ; ignore }", enabled: "0", failed: "1", says: "fails", code: 1},
	} {
		if tt.unit == "" {
			tt.unit = "Environment=\nExecStart={ path=" + dir + "/sbin/burstd ; argv[]=" + dir + "/sbin/burstd ; ignore_errors=no ; }"
		}
		os.Remove(filepath.Join(dir, "wrong"))
		if tt.wrong != "" {
			if err := os.WriteFile(filepath.Join(dir, "wrong"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		systemctl := `case $1 in show) printf '%s\n' '` + tt.unit + `';; is-active) echo ` + tt.is + `;; is-failed) exit ` + tt.failed + `;; is-enabled) exit ` + tt.enabled + `;; daemon-reload) ;; *) echo "$*";; esac; [ "$1" != "` + tt.fails + `" ]`
		if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte("#!/bin/sh\n"+systemctl+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, step := range []string{"configure", "1", "2"} { // deb's word, and rpm's
			cmd := exec.Command("sh", "-c", script, "postinstall", step)
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			var said strings.Builder
			cmd.Stderr = &said
			out, err := cmd.Output()
			if done := strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", ","); cmd.ProcessState.ExitCode() != tt.code && step == "configure" || err != nil && (tt.code == 0 || step != "configure") || done != tt.want {
				t.Errorf("%s: %s has done %q, want %q: %v", tt.name, step, done, tt.want, err)
			}
			if !strings.Contains(said.String(), tt.says) || tt.says == "" && said.Len() > 0 {
				t.Errorf("%s: %s says %q, want %q", tt.name, step, said.String(), tt.says)
			}
		}
	}
}
