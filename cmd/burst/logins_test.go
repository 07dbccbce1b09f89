package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/slurm/conf"
)

// Who may open a file is said by its mode and its folders', for the first of owner, group and others that he is.
func TestOpens(t *testing.T) {
	base, err := os.MkdirTemp("/tmp", "burst-opens") // whose folders are open, as the folder of tests may not be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	uid, gid := os.Geteuid(), os.Getegid()
	for name, tt := range map[string]struct {
		folder, file os.FileMode
		who          reader
		ok           bool
	}{
		"the owner":              {0o700, 0o400, reader{uid: uid}, true},
		"the owner, not allowed": {0o755, 0o044, reader{uid: uid}, uid == 0},
		"his group":              {0o750, 0o640, reader{uid: 4242, groups: []int{gid}}, true},
		"his group, not allowed": {0o750, 0o604, reader{uid: 4242, groups: []int{gid}}, false},
		"others":                 {0o711, 0o604, reader{uid: 4242}, true},
		"others, not allowed":    {0o711, 0o640, reader{uid: 4242}, false},
		"a closed folder":        {0o700, 0o644, reader{uid: 4242}, false},
		"root":                   {0o700, 0o000, reader{uid: 0}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(base, filepath.Base(t.Name()))
			path := filepath.Join(dir, "key")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tt.file); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, tt.folder); err != nil {
				t.Fatal(err)
			}
			if err := tt.who.opens(path, 0o4); (err == nil) != tt.ok {
				t.Errorf("opens: %v", err)
			}
		})
	}
}

func TestUnseen(t *testing.T) {
	for path, want := range map[string]string{
		"/etc/burst/id_ed25519":      "",
		"/run/burst-ssh/agent.sock":  "",
		"/homes/slurm/id":            "",
		"/home/slurm/.ssh/id":        "burstd.service has no /home: put it below /etc/burst or /run",
		"/root/id":                   "has no /root:",
		"/run/user/64030/agent.sock": "has no /run/user:",
		"/tmp/ssh-x/agent.1":         "has no /tmp:",
		"/var/tmp/id":                "has no /var/tmp:",
		"/run/burst/agent.sock":      "removes /run/burst when it stops",
	} {
		all := unseen("ssh.agent", path)
		if (want == "") != (len(all) == 0) || want != "" && (all[0].Level != conf.Advice || all[0].Have != path || !strings.Contains(all[0].Why, want)) {
			t.Errorf("%s: %+v, want %q", path, all, want)
		}
	}
}
