package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestUpgradeStarts: an installation starts a burstd again that runs, and one that has failed, as
// after a downgrade; never one that nobody has started, or that was moved to another host.
func TestUpgradeStarts(t *testing.T) {
	text, err := os.ReadFile("nfpm/burst/postinstall.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	here := strings.NewReplacer("/run/systemd/system", dir, "/usr/lib/tmpfiles.d", dir, "/etc/tmpfiles.d", dir, "/run/", dir+"/run/", "/etc/", dir+"/etc/", "/var/", dir+"/var/")
	script := here.Replace(string(text))
	for line := range strings.Lines(strings.ReplaceAll(script, dir+"/", "")) {
		if code := strings.TrimSpace(line); !strings.HasPrefix(code, "#") && regexp.MustCompile(`/(etc|run|usr|var)\b`).MatchString(code) {
			t.Errorf("this would be the host's: %s", code)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "burst.conf"), nil, 0o600); err != nil { // no spool is made
		t.Fatal(err)
	}
	const restart, start, ask = "try-restart burstd.service", "reset-failed burstd.service,start burstd.service", "systemctl enable --now burstd"
	for _, tt := range []struct {
		name, failed, enabled, fails string
		want, says                   string
	}{
		{name: "it runs, or never did", enabled: "0", failed: "1", want: restart},
		{name: "it has failed", enabled: "0", failed: "0", want: start},
		{name: "it has failed, and is not enabled", enabled: "1", failed: "0", want: restart, says: ask},
		{name: "it fails again", enabled: "0", failed: "0", fails: "start", want: start, says: "then systemctl start burstd"},
	} {
		systemctl := `case $1 in is-failed) exit ` + tt.failed + `;; is-enabled) exit ` + tt.enabled + `;; daemon-reload) ;; *) echo "$*";; esac; [ "$1" != "` + tt.fails + `" ]`
		if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte("#!/bin/sh\n"+systemctl+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, step := range []string{"configure", "1", "2"} { // deb's word, and rpm's
			cmd := exec.Command("sh", "-c", script, "postinstall", step)
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			var said strings.Builder
			cmd.Stderr = &said
			out, err := cmd.Output()
			if done := strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", ","); err != nil || done != tt.want {
				t.Errorf("%s: %s has done %q, want %q: %v", tt.name, step, done, tt.want, err)
			}
			if !strings.Contains(said.String(), tt.says) || tt.says == "" && said.Len() > 0 {
				t.Errorf("%s: %s says %q, want %q", tt.name, step, said.String(), tt.says)
			}
		}
	}
}
